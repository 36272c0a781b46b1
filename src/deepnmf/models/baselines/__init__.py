"""The methods that deep NMF is compared with and builds on: one file and one line here each."""

from deepnmf.models.base import Factorization
from deepnmf.models.baselines.deep_semi import DeepSemiNMF
from deepnmf.models.baselines.graph import GraphNMF
from deepnmf.models.baselines.hoyer import HoyerNMF
from deepnmf.models.baselines.integrative import IntegrativeNMF
from deepnmf.models.baselines.joint import JointNMF
from deepnmf.models.baselines.l0 import L0NMF
from deepnmf.models.baselines.multilayer import MultilayerNMF
from deepnmf.models.baselines.ns import NsNMF
from deepnmf.models.baselines.semi import SemiNMF
from deepnmf.models.baselines.sparse import SparseNMF
from deepnmf.models.baselines.up_propagation import UpPropagationNMF

__all__ = [
    name
    for name, kind in list(globals().items())
    if isinstance(kind, type) and issubclass(kind, Factorization) and kind.name
]
