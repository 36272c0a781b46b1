"""Graphs of samples, built from their neighbours.

    A_ij = ½ (a_ij + a_ji),
    a_ij = max(exp(−d_ij²/(s_i s_j)), 0.01) if j is among the nearest of i, otherwise 0,

with s_i about the distance to the second nearest (the self-tuning scale of Zelnik-Manor and Perona
2004). The few nearest decide where samples are many; the further ones hold a group together.
Without a least weight, two samples that are far from all others and near to each other would be a
group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from deepnmf.arrays import Array, is_sparse
from deepnmf.arrays.tensors import to_numpy
from deepnmf.neighbors.search import Near, nearest

LEAST = 0.01
"""The weight of the furthest neighbours."""
SECOND = 2
"""Which of the nearest sets the scale of a sample."""


def neighbor_graph(Z: Array, neighbors: int) -> scipy.sparse.csr_array:
    """A (n, n). A sample that is 0 has no neighbours, as it has no direction."""
    n, there = int(Z.shape[0]), np.flatnonzero(~empty_rows(Z))
    k = min(neighbors, len(there) - 1)
    if k < 1:
        return scipy.sparse.csr_array((n, n))
    near = nearest(Z if len(there) == n else Z[there], k)
    A = linked(there, there[near.places], affinities(near), (n, n))
    return scipy.sparse.csr_array((A + A.T) / 2)


def affinities(near: Near) -> np.ndarray:
    """a_ij for all samples and the nearest of each: (n, k)."""
    s = scales(near)
    a = np.exp(-(near.distances**2) / (s[:, None] * s[near.places]))
    return np.asarray(np.maximum(a, LEAST))


def shares(near: Near) -> np.ndarray:
    """Weights of the nearest samples of queries, exp(−d²/s²), with the sum 1: (q, k)."""
    weights = np.exp(-((near.distances / scales(near)[:, None]) ** 2))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def scales(near: Near) -> np.ndarray:
    """s (q,): the distance to the second nearest, or a quarter of the mean distance if that is
    larger. For a sample whose nearest all equal it, the mean of the others."""
    distances = np.asarray(near.distances, dtype=float)
    second = distances[:, min(SECOND, distances.shape[1]) - 1]
    s = np.maximum(second, distances.mean(axis=1) / 4)
    apart = s > 0
    return np.where(apart, s, s[apart].mean() if apart.any() else 1.0)


def linked(
    samples: np.ndarray, near: np.ndarray, weights: np.ndarray, shape: tuple[int, int]
) -> scipy.sparse.csr_array:
    """The weights (q, k) of every sample (q,) and each of its nearest (q, k), in a matrix."""
    rows = np.repeat(samples, near.shape[1])
    return scipy.sparse.csr_array((weights.ravel(), (rows, near.ravel())), shape=shape)


def empty_rows(Z: Any) -> np.ndarray:
    """Which samples are 0."""
    if is_sparse(Z):
        return np.asarray(abs(Z).sum(axis=1)).ravel() == 0
    return ~np.any(to_numpy(Z) != 0, axis=1)
