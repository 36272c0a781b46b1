"""Graphs of samples, built from their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from deepnmf.arrays import Array, is_sparse
from deepnmf.arrays.tensors import to_numpy
from deepnmf.neighbors.search import nearest


def neighbor_graph(Z: Array, neighbors: int) -> scipy.sparse.csr_array:
    """A (n, n) with A_ij = 1 if i is among the nearest of j, or j of i. A sample that is 0 has no
    neighbours, as it has no direction."""
    n, there = int(Z.shape[0]), np.flatnonzero(~empty_rows(Z))
    k = min(neighbors, len(there) - 1)
    if k < 1:
        return scipy.sparse.csr_array((n, n))
    near = there[nearest(Z if len(there) == n else Z[there], k)]
    A = linked(there, near, (n, n))
    return scipy.sparse.csr_array(A.maximum(A.T))


def linked(samples: np.ndarray, near: np.ndarray, shape: tuple[int, int]) -> scipy.sparse.csr_array:
    """1 for every sample (q,) and each of its nearest (q, k), in a matrix of this shape."""
    rows = np.repeat(samples, near.shape[1])
    return scipy.sparse.csr_array((np.ones(near.size), (rows, near.ravel())), shape=shape)


def empty_rows(Z: Any) -> np.ndarray:
    """Which samples are 0."""
    if is_sparse(Z):
        return np.asarray(abs(Z).sum(axis=1)).ravel() == 0
    return ~np.any(to_numpy(Z) != 0, axis=1)
