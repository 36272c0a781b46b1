"""What can be said of a fit without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from deepnmf.arrays import Array, inner, squared_norm
from deepnmf.arrays.tensors import is_tensor
from deepnmf.models.baselines.hoyer import sparseness

BLOCK = 1e7
"""Entries of samples that are decoded at a time."""


def relative_error(fitted: Any, Z: Array, X: Array) -> float:
    """‖X − X̂‖/‖X‖ of samples (n, m), dense or sparse, for their codes."""
    total, width = 0.0, max(1, int(BLOCK) // X.shape[1])
    for low in range(0, X.shape[0], width):
        part = X[low : low + width] - fitted.inverse_transform(Z[low : low + width])
        part = part if is_tensor(part) else np.asarray(part)
        total += float(inner(part, part))
    norm = float(squared_norm(X))
    return (total / norm) ** 0.5 if norm else 0.0


def mean_sparseness(F: Array) -> float:
    """The mean of Hoyer's sparseness over the rows of F: 0, all entries equal; 1, one entry."""
    values = sparseness(F.T)
    return float(values.mean()) if F.shape[1] > 1 else 0.0


def stability(parts: Sequence[Array]) -> list[float]:
    """For each of several sets of parts (k, m), how well the others find the same: the cosine of
    its parts with those of another set, matched one to one for the largest sum, on average."""
    units = [_unit_rows(one) for one in parts]
    alike = np.eye(len(units))
    for one in range(len(units)):
        for other in range(one):
            cosines = units[one] @ units[other].T
            alike[one, other] = alike[other, one] = cosines[
                linear_sum_assignment(cosines, maximize=True)
            ].mean()
    if len(units) < 2:
        return [float("nan")] * len(units)
    return [float((row.sum() - 1) / (len(units) - 1)) for row in alike]


def _unit_rows(F: Array) -> np.ndarray:
    rows = np.asarray(F.cpu() if is_tensor(F) else F, dtype=float)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)
