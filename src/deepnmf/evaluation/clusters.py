"""Clusters of codes: by K-means, by a graph of neighbours, or as many as a graph has.

Only the direction of a code counts. A sample whose code is 0 has none, and no cluster: −1.
"""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.cluster import KMeans

from deepnmf.core.graph import normalised
from deepnmf.neighbors import nearest_of, neighbor_graph, unit_rows

METHODS = ("graph", "kmeans", "leiden")
RUNS = 10
"""Starts of K-means, of which the best counts."""
RESTARTS = 300
"""Of the Lanczos method, before another is tried."""
NONE = -1
"""The cluster of a sample without one."""


class Grouping(NamedTuple):
    """Clusters of samples, numbered by their size."""

    labels: np.ndarray
    """(n,)."""
    confidence: np.ndarray
    """(n,), from 0 to 1: with K-means how much nearer the own centre is than the next; otherwise
    the share of a sample's neighbours that are in its cluster."""


def grouped(
    unit: np.ndarray, method: str, n_clusters: int | None, neighbors: int, random_state: int
) -> Grouping:
    """Clusters of codes (n, k) of unit norm, or 0. The arguments are checked."""
    reached = np.any(unit != 0, axis=1)
    codes = unit[reached]
    if method == "kmeans":
        assert n_clusters is not None
        found, sure = _by_means(codes, n_clusters, random_state)
    else:
        A = neighbor_graph(codes, neighbors)
        if method == "leiden":
            found = _by_leiden(A, random_state)
        else:
            assert n_clusters is not None
            found = _by_spectrum(joined(A, codes, n_clusters), n_clusters, random_state)
        own = scipy.sparse.csr_array(A).tocoo()
        same = scipy.sparse.csr_array(
            (own.data * (found[own.row] == found[own.col]), (own.row, own.col)), shape=A.shape
        )
        total = np.asarray(A.sum(axis=1)).ravel()
        sure = np.asarray(same.sum(axis=1)).ravel() / np.where(total > 0, total, 1)
    labels, confidence = np.full(len(unit), NONE), np.zeros(len(unit))
    labels[reached], confidence[reached] = _by_size(found), sure
    return Grouping(labels, confidence)


def joined(A: scipy.sparse.csr_array, codes: np.ndarray, most: int) -> scipy.sparse.csr_array:
    """A graph of at most so many pieces: the smallest piece is linked to its nearest sample outside
    until there are no more."""
    count, piece = connected_components(A)
    while count > most:
        inside = np.flatnonzero(piece == np.argmin(np.bincount(piece)))
        outside = np.flatnonzero(piece != piece[inside[0]])
        near = nearest_of(codes[outside], codes[inside], 1).places[:, 0]
        cosines = np.sum(codes[inside] * codes[outside[near]], axis=1)
        best = int(np.argmax(cosines))
        pair = [inside[best], outside[near[best]]]
        edge = scipy.sparse.csr_array((np.ones(2), (pair, pair[::-1])), shape=A.shape)
        A = scipy.sparse.csr_array(A + edge)
        count, piece = connected_components(A)
    return A


def _by_means(codes: np.ndarray, clusters: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    means = KMeans(clusters, n_init=RUNS, random_state=seed).fit(codes)
    if clusters == 1:
        return means.labels_, np.ones(len(codes))
    nearest, second = np.sort(means.transform(codes), axis=1)[:, :2].T
    return means.labels_, 1 - nearest / np.where(second > 0, second, 1)


def _by_spectrum(A: scipy.sparse.csr_array, clusters: int, seed: int) -> np.ndarray:
    """K-means on the rows, of unit norm, of the leading eigenvectors of D^{−½} A D^{−½} (Ng, Jordan
    and Weiss 2001)."""
    n = A.shape[0]
    S = normalised(A) + scipy.sparse.eye_array(n)
    if clusters >= n - 1:
        vectors = np.linalg.eigh(S.toarray())[1][:, -clusters:]
    else:
        start = np.random.default_rng(seed).uniform(-1, 1, n)
        vectors = _leading(S.tocsc(), clusters, start)
    return np.asarray(KMeans(clusters, n_init=RUNS, random_state=seed).fit_predict(
        unit_rows(vectors)
    ))  # fmt: skip


def _leading(S: scipy.sparse.csc_array, count: int, start: np.ndarray) -> np.ndarray:
    """The leading eigenvectors of S + I. Those of long thin groups are so close that they need the
    inverse of a sparse matrix."""
    wide = min(S.shape[0] - 1, max(3 * count, 60))
    try:
        vectors = eigsh(S, count, which="LA", v0=start, ncv=wide, maxiter=RESTARTS)[1]
    except ArpackNoConvergence:
        vectors = eigsh(S, count, sigma=2 + 1e-6, which="LM", v0=start)[1]
    return np.asarray(vectors)


def _by_leiden(A: scipy.sparse.csr_array, seed: int) -> np.ndarray:
    """The clusters of highest modularity that the Leiden algorithm finds."""
    import igraph
    import leidenalg

    upper = scipy.sparse.triu(A, 1).tocoo()
    edges = np.column_stack([upper.row, upper.col]).tolist()
    graph = igraph.Graph(n=A.shape[0], edges=edges)
    found = leidenalg.find_partition(
        graph, leidenalg.ModularityVertexPartition, weights=upper.data.tolist(), seed=seed
    )
    return np.asarray(found.membership)


def has_leiden() -> bool:
    """Whether the packages for method="leiden" are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("igraph", "leidenalg"))


def _by_size(labels: np.ndarray) -> np.ndarray:
    """The same clusters, the largest first."""
    _, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    place = np.empty(len(sizes), dtype=int)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.asarray(place[labels])
