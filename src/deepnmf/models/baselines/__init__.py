"""The methods that deep NMF is compared with. A new one is a file, and a name in this list."""

from deepnmf.models.baselines.batch import BatchNMF
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
    "L0NMF",
    "BatchNMF",
    "DeepSemiNMF",
    "GraphNMF",
    "HoyerNMF",
    "IntegrativeNMF",
    "JointNMF",
    "MultilayerNMF",
    "NsNMF",
    "SemiNMF",
    "SparseNMF",
    "UpPropagationNMF",
]
