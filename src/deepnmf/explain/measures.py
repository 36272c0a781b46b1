"""Measures of a fit that need no labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from deepnmf.arrays import Array, inner, namespace, squared_norm
from deepnmf.arrays.tensors import is_tensor
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.baselines.hoyer import sparseness

ENTRIES = 1e7
"""The most entries that are decoded at a time."""


def relative_error(fitted: MatrixFactorization, Z: Array, X: Array) -> float:
    """‖X − X̂‖/‖X‖ for samples X (n, m), dense or sparse, and their codes Z."""
    total, width = 0.0, max(1, int(ENTRIES) // X.shape[1])
    for low in range(0, X.shape[0], width):
        residual = X[low : low + width] - fitted.inverse_transform(Z[low : low + width])
        residual = residual if is_tensor(residual) else np.asarray(residual)
        total += float(inner(residual, residual))
    norm = float(squared_norm(X))
    return (total / norm) ** 0.5 if norm else 0.0


def mean_sparseness(F: Array) -> float:
    """Hoyer's sparseness, mean over the rows of F: 0 for equal entries, 1 for a single one."""
    values = sparseness(F.T)
    return float(namespace(values).mean(values)) if F.shape[1] > 1 else 0.0


def stability(parts: Sequence[Array]) -> list[float]:
    """How similar each of several sets of parts (k, m) is to the others.

    The similarity of two sets is the mean cosine of their parts, matched one to one for the largest
    sum. Each set gets the mean over the others, NaN where there is no other.
    """
    sets = [_unit_rows(rows) for rows in parts]
    similarity = np.eye(len(sets))
    for first in range(len(sets)):
        for second in range(first):
            cosines = sets[first] @ sets[second].T
            similarity[first, second] = similarity[second, first] = cosines[
                linear_sum_assignment(cosines, maximize=True)
            ].mean()
    if len(sets) < 2:
        return [float("nan")] * len(sets)
    return [float((row.sum() - 1) / (len(sets) - 1)) for row in similarity]


def _unit_rows(F: Array) -> np.ndarray:
    rows = np.asarray(F.cpu() if is_tensor(F) else F, dtype=float)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)
