"""How good codes are: scores of a clustering, and the clustering protocol of the paper."""

from deepnmf.evaluation.clustering import cluster_scores
from deepnmf.evaluation.many import cluster_scores_many
from deepnmf.evaluation.metrics import accuracy, ami, ari, error_rate, naive_precision, nmi
from deepnmf.evaluation.unmixing import Unmixing, abundances, unmixing_scores

__all__ = [
    "Unmixing",
    "abundances",
    "accuracy",
    "ami",
    "ari",
    "cluster_scores",
    "cluster_scores_many",
    "error_rate",
    "naive_precision",
    "nmi",
    "unmixing_scores",
]
