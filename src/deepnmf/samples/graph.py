"""A graph of the samples that a user gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from deepnmf.arrays import is_sparse
from deepnmf.arrays.sparse import trusted
from deepnmf.samples.admission import admitted

ALMOST = 1e-6
"""The share of a graph by which both of its halves may differ."""


def checked_graph(graph: Any, samples: int, whom: str) -> scipy.sparse.csr_array:
    """A graph of a user, if it is one: square, ≥ 0 and symmetric."""
    A = _as_sparse(graph, whom)
    if A.shape != (samples, samples):
        raise ValueError(
            f"graph: of shape {A.shape}, but there are {samples} samples. Give a matrix "
            "(n_samples, n_samples)."
        )
    if not np.isfinite(A.data).all():
        raise ValueError("graph: has entries that are NaN or infinite. Leave these edges out.")
    if A.nnz and A.data.min() < 0:
        raise ValueError("graph: has negative entries; weights of neighbours are ≥ 0.")
    if abs(A - A.T).sum() > ALMOST * abs(A).sum():
        raise ValueError("graph: is not symmetric; use (graph + graph.T) / 2.")
    return A


def _as_sparse(graph: Any, whom: str) -> scipy.sparse.csr_array:
    if is_sparse(graph):
        trusted(graph)
    try:
        return scipy.sparse.csr_array(admitted(graph, whom), dtype=np.float64)
    except (TypeError, ValueError):
        kind = getattr(graph, "dtype", "")
        raise ValueError(
            "graph: must be a matrix of real numbers (n_samples, n_samples), dense or sparse, "
            f"got a {type(graph).__name__}{kind and f' of {kind}'}."
        ) from None
