"""Scores of a clustering against known classes, all from the confusion matrix N.

N_ij is the number of samples of class i in cluster j; r_i and c_j are its row and column sums.
Chance matters: with many classes and few samples, NMI is high for a random clustering (0.57 to
0.59 with 68 classes of 6 samples). AMI and ARI correct for that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import contingency_matrix


def nmi(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """2 I(C, C*) / (H(C) + H(C*)): mutual information over the arithmetic mean of entropies."""
    labels = _labels(y_true, y_pred)
    return float(normalized_mutual_info_score(*labels, average_method="arithmetic"))


def naive_precision(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """NP = mean_i max_j N_ij / r_i. Merging classes costs nothing: a single cluster scores 1."""
    N = _confusion(y_true, y_pred)
    return float(np.mean(N.max(axis=1) / N.sum(axis=1)))


def error_rate(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """ER = √‖Z*Z*ᵀ − ZZᵀ‖_F with ‖·‖_F² = Σ r_i² + Σ c_j² − 2 Σ N_ij²; lower is better."""
    N = _confusion(y_true, y_pred)
    rows, columns = N.sum(axis=1), N.sum(axis=0)
    square = np.sum(rows**2) + np.sum(columns**2) - 2 * np.sum(N**2)
    return float(max(square, 0.0) ** 0.25)


def accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """The share of samples on the diagonal of N under the best matching of clusters to classes."""
    N = _confusion(y_true, y_pred)
    rows, columns = linear_sum_assignment(N, maximize=True)
    return float(N[rows, columns].sum() / N.sum())


def ami(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mutual information adjusted for chance (arithmetic mean): 0 for a random clustering."""
    return float(adjusted_mutual_info_score(*_labels(y_true, y_pred)))


def ari(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Rand index adjusted for chance: 0 for a random clustering."""
    return float(adjusted_rand_score(*_labels(y_true, y_pred)))


METRICS: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    "nmi": nmi,
    "naive_precision": naive_precision,
    "error_rate": error_rate,
    "ami": ami,
    "ari": ari,
    "accuracy": accuracy,
}
SCORES: dict[str, str] = {
    "nmi": "NMI",
    "naive_precision": "NP",
    "error_rate": "ER",
    "ami": "AMI",
    "ari": "ARI",
    "accuracy": "accuracy",
}
"""The label of every score, for tables and pages, in the order in which they are shown."""
IN_WORDS: dict[str, str] = {
    "nmi": "information that clusters and classes share; 1: they are the same",
    "naive_precision": "share of each class in its main cluster; 1 for a single cluster too",
    "error_rate": "distance between clusters and classes; 0: they are the same",
    "ami": "NMI corrected for chance; 0: no better than chance",
    "ari": "pairs of samples that agree, corrected for chance; 0: no better than chance",
    "accuracy": "share of samples in the cluster that stands for their class",
}
"""What every score is, in words."""


def _labels(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    if true.ndim != 1 or pred.ndim != 1 or len(true) != len(pred) or len(true) == 0:
        raise ValueError(
            "y_true and y_pred must be one-dimensional, of the same length and not empty, got "
            f"shapes {true.shape} and {pred.shape}."
        )
    return true, pred


def _confusion(y_true: ArrayLike, y_pred: ArrayLike) -> np.ndarray:
    return np.asarray(contingency_matrix(*_labels(y_true, y_pred)), dtype=np.float64)
