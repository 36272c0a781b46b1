"""The nearest samples, by the angle between them.

Small data are searched exactly: by scikit-learn, or for tensors block by block where they live. For
many samples `pynndescent` (pip install 'deepnmf[neighbors]') is much faster, and misses few.
Samples that are 0 have no direction: they are left out before a search.
"""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize

from deepnmf.arrays import Array, is_sparse, namespace
from deepnmf.arrays.tensors import is_tensor, largest_similarities, to_numpy

ENTRIES_AT_ONCE = 2**24
"""How many entries of differences are computed at a time."""
EXACT = 20_000
"""Up to so many samples are searched exactly, and more if pynndescent is not installed."""


class Near(NamedTuple):
    """The nearest samples of every sample, the nearest first."""

    places: np.ndarray
    """(q, k)."""
    distances: np.ndarray
    """(q, k)."""


def nearest(Z: Array, k: int) -> Near:
    """The k nearest of the other samples, for every sample of Z (n, d): (n, k), with the distances
    of samples of unit norm. None of them is 0, and there are more than k."""
    unit = unit_rows(Z)
    if is_tensor(unit):
        places = to_numpy(largest_similarities(unit, k))
        return Near(places, _distances(to_numpy(unit), places))
    if unit.shape[0] > EXACT and _has_descent():
        places = _without_self(_descent(unit, k + 1), k)
        return Near(places, _distances(unit, places))
    distances, places = _search(unit, k).kneighbors()
    return Near(places, distances)


def nearest_of(Z: Any, queries: Any, k: int, *, angles: bool = True) -> Near:
    """The k nearest samples of Z (n, d) to every query (q, d), by angle or by distance: (q, k).
    None of them is 0, and Z has at least k."""
    Z, queries = (unit_rows(Z), unit_rows(queries)) if angles else (Z, queries)
    distances, places = _search(Z, k).kneighbors(queries)
    return Near(places, distances)


def _search(Z: Any, k: int) -> Any:
    """An exact search. The module is large, and imported when a model has a graph."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=k).fit(Z)


def unit_rows(Z: Array) -> Array:
    """Samples of unit norm; those that are 0 stay 0. They are brought to entries of about 1 first:
    `normalize` takes tiny ones for 0."""
    if is_sparse(Z):
        rows = scipy.sparse.csr_array(Z)
        peaks = np.repeat(abs(rows).max(axis=1).toarray().ravel(), np.diff(rows.indptr))
        data = rows.data / np.where(peaks > 0, peaks, 1)
        return normalize(scipy.sparse.csr_array((data, rows.indices, rows.indptr), rows.shape))
    xp = namespace(Z)
    peaks = xp.max(xp.abs(Z), axis=-1, keepdims=True)
    Z = Z / xp.where(peaks > 0, peaks, xp.ones_like(peaks))
    if not is_tensor(Z):
        return normalize(Z)
    norms = xp.sqrt(xp.sum(Z * Z, axis=-1, keepdims=True))
    return Z / xp.where(norms > 0, norms, xp.ones_like(norms))


def _distances(unit: Any, places: np.ndarray) -> np.ndarray:
    """‖z_i − z_j‖ for every sample i and each of its places j."""
    n, k = places.shape
    width = max(1, ENTRIES_AT_ONCE // max(1, k * unit.shape[1]))
    blocks = []
    for low in range(0, n, width):
        near = places[low : low + width]
        own = np.repeat(np.arange(low, low + len(near)), k)
        apart = unit[own] - unit[near.ravel()]
        squares = apart.multiply(apart) if is_sparse(apart) else apart * apart
        blocks.append(np.sqrt(np.asarray(squares.sum(axis=1))).reshape(near.shape))
    return np.concatenate(blocks)


def _has_descent() -> bool:
    return importlib.util.find_spec("pynndescent") is not None


def _descent(unit: Any, k: int) -> np.ndarray:
    """Approximate search. The same samples give the same neighbours."""
    import pynndescent

    data = unit.tocsr() if is_sparse(unit) else np.ascontiguousarray(unit, dtype=np.float32)
    index = pynndescent.NNDescent(data, n_neighbors=k, random_state=0, n_jobs=1)
    return np.asarray(index.neighbor_graph[0])


def _without_self(places: np.ndarray, k: int) -> np.ndarray:
    """The k nearest without the sample itself, which need not come first where others are equal."""
    own = places == np.arange(len(places))[:, None]
    order = np.argsort(own, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(places, order, axis=1)
