"""The methods that deep NMF is compared with and builds on, each a scikit-learn estimator."""

from deepnmf.baselines.base import Baseline
from deepnmf.baselines.deep_semi import DeepSemiNMF
from deepnmf.baselines.graph import GraphNMF
from deepnmf.baselines.hoyer import HoyerNMF
from deepnmf.baselines.integrative import IntegrativeNMF
from deepnmf.baselines.joint import JointNMF
from deepnmf.baselines.l0 import L0NMF
from deepnmf.baselines.multilayer import MultilayerNMF
from deepnmf.baselines.ns import NsNMF
from deepnmf.baselines.semi import SemiNMF
from deepnmf.baselines.sparse import SparseNMF
from deepnmf.baselines.up_propagation import UpPropagationNMF

__all__ = [
    "L0NMF",
    "Baseline",
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
