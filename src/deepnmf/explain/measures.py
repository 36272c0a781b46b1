"""Measures of a fit that need no labels."""

from __future__ import annotations

import numpy as np

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
