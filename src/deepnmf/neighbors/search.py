"""The nearest samples, by the angle between them.

Small data are searched exactly: by scikit-learn, or for tensors block by block where they live. For
many samples `pynndescent` (pip install 'deepnmf[neighbors]') is much faster, and misses few.
Samples that are 0 have no direction: they are left out before a search.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from deepnmf.arrays import Array, is_sparse, namespace
from deepnmf.arrays.tensors import is_tensor, largest_similarities, to_numpy

EXACT = 20_000
"""Up to so many samples are searched exactly, and more if pynndescent is not installed."""


def nearest(Z: Array, k: int) -> np.ndarray:
    """The k nearest of the other samples, for every sample of Z (n, d): (n, k). None of them is 0,
    and there are more than k."""
    unit = unit_rows(Z)
    if is_tensor(unit):
        return to_numpy(largest_similarities(unit, k))
    if unit.shape[0] > EXACT and _has_descent():
        return _without_self(_descent(unit, k + 1), k)
    return np.asarray(_search(unit, k).kneighbors(return_distance=False))


def nearest_of(Z: Any, queries: Any, k: int, *, angles: bool = True) -> np.ndarray:
    """The k nearest samples of Z (n, d) to every query (q, d), by angle or by distance: (q, k).
    None of them is 0, and Z has at least k."""
    Z, queries = (unit_rows(Z), unit_rows(queries)) if angles else (Z, queries)
    return np.asarray(_search(Z, k).kneighbors(queries, return_distance=False))


def _search(Z: Any, k: int) -> Any:
    """An exact search. The module is large, and imported when a model has a graph."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=k).fit(Z)


def unit_rows(Z: Array) -> Array:
    """Samples of unit norm; those that are 0 stay 0."""
    if not is_tensor(Z):
        return normalize(Z)
    xp = namespace(Z)
    norms = xp.sqrt(xp.sum(Z * Z, axis=-1, keepdims=True))
    return Z / xp.where(norms > 0, norms, xp.ones_like(norms))


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
