"""The methods that deep NMF is compared with and builds on, each a scikit-learn estimator."""

from deepnmf.models.baselines import (
    L0NMF,
    Baseline,
    DeepSemiNMF,
    GraphNMF,
    HoyerNMF,
    IntegrativeNMF,
    JointNMF,
    MultilayerNMF,
    NsNMF,
    SemiNMF,
    SparseNMF,
    UpPropagationNMF,
)

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
