"""A quick look at some entries of X, for hints to users."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deepnmf.arrays.kinds import is_blocked, is_sparse
from deepnmf.arrays.operations import Array
from deepnmf.arrays.tensors import to_numpy

ENTRIES = 1_000_000
"""About as many are looked at."""


class Glimpse(NamedTuple):
    """Entries that are not zero, and the share of those that are."""

    values: np.ndarray
    zeros: float


def glimpse(X: Array) -> Glimpse | None:
    """Entries of the first samples of X (m, n). None for an X that is not in memory."""
    if is_blocked(X):
        return None
    if is_sparse(X):
        size = max(1, X.shape[0] * X.shape[1])
        return Glimpse(np.asarray(X.data[:ENTRIES]), 1 - X.nnz / size)
    samples = max(1, ENTRIES // max(1, X.shape[-2]))
    entries = np.asarray(to_numpy(X[..., :samples])).ravel()
    values = entries[entries != 0]
    return Glimpse(values, 1 - len(values) / max(1, len(entries)))
