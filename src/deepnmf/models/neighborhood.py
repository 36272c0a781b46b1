"""Neighbours in a model: where the graph of a fit comes from, and what it says of new samples.

In training the codes of the last layer have the additional penalty ½ g tr(H L Hᵀ), L = I − S. At
its end every code is the minimum of its own problem, with those of the neighbours fixed:

    fit(h) + ½ g ‖h‖² − g ⟨h, Σ_j S_ij h_j⟩.

`transform` solves this problem again for samples of training, which it knows by their entries. A
new sample has its nearest samples of training for neighbours, with weights of sum 1.

Samples are compared by their codes of layer 1, without a graph, of parts of unit norm. These say
the most of a sample: higher layers have fewer parts, and codes on a graph would only confirm it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse

from deepnmf.arrays import Array, is_sparse, largest_entry, stack_shape, to_device
from deepnmf.arrays.tensors import to_numpy
from deepnmf.core.graph import RENEWALS, Neighborhood, Pull
from deepnmf.neighbors import empty_rows, linked, nearest_of, neighbor_graph, shares
from deepnmf.samples.graph import checked_graph

ROWS_AT_ONCE = 2**22
"""Entries whose key is computed at a time."""


@dataclass(frozen=True)
class GraphOf:
    """The graph of a fit: of neighbours by their codes or in the data, or a graph that is given."""

    kind: str
    """"codes", "data" or "given"."""
    neighbors: int
    strength: float
    given: Any = None

    @property
    def renewals(self) -> int:
        """How many graphs a fit makes from its codes."""
        return RENEWALS if self.kind == "codes" else 0

    def of(self, X: Array, codes: Array) -> scipy.sparse.csr_array:
        """A for X (…, m, n) and codes of layer 1 without a graph (…, k, n), of parts of unit norm:
        of several runs, the blocks of a diagonal."""
        runs = list(np.ndindex(stack_shape(codes)))
        if self.kind == "given":
            graphs = [checked_graph(self.given, int(codes.shape[-1]), "graph")] * len(runs)
        else:
            seen = [(codes if self.kind == "codes" else X)[run].T for run in runs]
            graphs = [neighbor_graph(Z, self.neighbors) for Z in seen]
        return graphs[0] if len(runs) == 1 else scipy.sparse.csr_array(block_diagonal(graphs))

    def check(self, samples: int) -> None:
        """Refuse a graph that cannot be one of so many samples."""
        if self.kind == "given":
            checked_graph(self.given, samples, "graph")
        elif self.neighbors >= samples:
            raise ValueError(
                f"neighbors: {self.neighbors} of the other samples are asked for, and there are "
                f"{samples} samples in all. Give fewer neighbors, or fit without a graph."
            )


def block_diagonal(graphs: Sequence[scipy.sparse.csr_array]) -> scipy.sparse.csr_array:
    """The graphs of several runs as one."""
    return scipy.sparse.csr_array(scipy.sparse.block_diag(graphs))


Parts = tuple[np.ndarray, ...]
"""A matrix as arrays: one if it is dense; data, indices and indptr of a CSR matrix."""


@dataclass(frozen=True)
class TrainingSamples:
    """The samples of a fit with a graph, as `transform` needs them."""

    codes: np.ndarray
    """H_Lᵀ (n, k), in the scale of the model."""
    keys: np.ndarray
    """(n,) by which samples are known again."""
    parts: Parts
    """The graph: S, or A of GraphNMF."""
    index: Parts
    """(n, d), among which the neighbours of new samples are searched."""
    weight: float
    """What the graph counts: g."""
    neighbors: int
    unit: float
    """The unit of entries in keys: a power of 2."""
    by: str = "codes"
    """How new samples are compared: by their "codes" of layer 1 without a graph, or by the "angles"
    or the "distances" of their entries. With distances, each neighbour has weight 1."""

    @classmethod
    def of_deep(
        cls, X: Array, H: Array, near: Neighborhood, neighbors: int, first: Array | None
    ) -> Self:
        """From X (m, n) and the codes H (k, n) at the end of a fit of `DeepNMF`; those of layer 1
        if samples are compared by them."""
        weight, unit = float(to_numpy(near.weight).ravel()[0]), unit_of(X)
        index = _parts_of(X.T) if first is None else (np.array(to_numpy(first).T, order="C"),)
        return cls(
            np.array(to_numpy(H).T), row_keys(X, unit), _parts_of(near.S), index, weight,
            neighbors, unit, "angles" if first is None else "codes",
        )  # fmt: skip

    @classmethod
    def of_graph_nmf(cls, X: Array, H: Array, near: Neighborhood, neighbors: int) -> Self:
        """From X (m, n) and the codes H (k, n) at the end of a fit of `GraphNMF`."""
        weight, unit = float(to_numpy(near.weight).ravel()[0]), unit_of(X)
        return cls(
            np.array(to_numpy(H).T), row_keys(X, unit), _parts_of(near.S), _parts_of(X.T), weight,
            neighbors, unit, "distances",
        )  # fmt: skip

    @property
    def graph(self) -> scipy.sparse.csr_array:
        """S (n, n), or A of GraphNMF."""
        return self._matrix(self.parts, len(self.codes))

    def beside(self, X: Array, first: Array | None) -> scipy.sparse.csr_array:
        """The weights (q, n) of the samples of training as neighbours of the samples of X (m, q),
        of which `first` (k, q) are the codes of layer 1 without a graph. One that is 0 has none.

        Samples of training that are equal have the neighbours of the first of them, unless all
        samples of training come in their order.
        """
        keys = row_keys(X, self.unit)
        if np.array_equal(keys, self.keys):
            return self.graph
        order = np.argsort(self.keys, kind="stable")
        place = np.minimum(np.searchsorted(self.keys[order], keys), len(order) - 1)
        known = self.keys[order][place] == keys
        new = np.flatnonzero(~known)
        queries = self._queries(X, first, new)
        new, queries = new[~empty_rows(queries)], queries[~empty_rows(queries)]
        chosen = self.graph[order[place[known]]]
        rows = scipy.sparse.vstack([chosen, self._nearest(queries)], format="csr")
        back = np.full(len(keys), -1)
        back[np.concatenate([np.flatnonzero(known), new])] = np.arange(rows.shape[0])
        nothing = scipy.sparse.csr_array((1, rows.shape[1]))
        return scipy.sparse.csr_array(scipy.sparse.vstack([rows, nothing], format="csr")[back])

    def _queries(self, X: Array, first: Array | None, which: np.ndarray) -> Any:
        """What is compared of these samples."""
        if self.by == "codes":
            return to_numpy(first).T[which]
        return scipy.sparse.csr_array(X.T)[which] if is_sparse(X) else to_numpy(X).T[which]

    def _nearest(self, queries: Any) -> scipy.sparse.csr_array:
        """The weights of the nearest samples of training."""
        n = len(self.codes)
        if not queries.shape[0]:
            return scipy.sparse.csr_array((0, n))
        index = self._matrix(self.index, queries.shape[1])
        if is_sparse(index) != is_sparse(queries):
            index, queries = scipy.sparse.csr_array(index), scipy.sparse.csr_array(queries)
        there = np.flatnonzero(~empty_rows(index))
        k = min(self.neighbors, len(there))
        rows = np.arange(queries.shape[0])
        if k == 0:
            return scipy.sparse.csr_array((len(rows), n))
        near = nearest_of(index[there], queries, k, angles=self.by != "distances")
        weights = np.ones(near.places.shape) if self.by == "distances" else shares(near)
        return linked(rows, there[near.places], weights, (len(rows), n))

    def _matrix(self, parts: Parts, columns: int) -> Any:
        shape = (len(self.codes), columns)
        return parts[0] if len(parts) == 1 else scipy.sparse.csr_array(parts, shape=shape)

    def is_sound(self, features: int, first: int, last: int) -> bool:
        """Whether these can be the samples of a model of so many features, and so many parts in the
        first and in the last layer."""
        n = len(self.keys) if isinstance(self.keys, np.ndarray) else 0
        wide = first if self.by == "codes" else features
        numbers = self.weight, self.unit
        return (
            n > 0
            and self.by in ("codes", "angles", "distances")
            and self.keys.shape == (n,)
            and self.keys.dtype == np.int64
            and all(isinstance(number, float) and 0 <= number < np.inf for number in numbers)
            and isinstance(self.neighbors, int)
            and self.neighbors > 0
            and self.unit > 0
            and len(self.parts) == 3
            and (self.by != "codes" or len(self.index) == 1)
            and all(_are_parts(*own) for own in [
                ((self.codes,), n, last), (self.parts, n, n), (self.index, n, wide),
            ])
        )  # fmt: skip


def _parts_of(matrix: Any) -> Parts:
    if not is_sparse(matrix):
        return (np.array(to_numpy(matrix)),)
    rows = scipy.sparse.csr_array(matrix)
    return rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)


def _are_parts(parts: Parts, rows: int, columns: int) -> bool:
    """Whether these are the arrays of a matrix ≥ 0 of this shape."""
    if len(parts) not in (1, 3) or not all(isinstance(array, np.ndarray) for array in parts):
        return False
    values = parts[0]
    if values.dtype not in (np.float32, np.float64):
        return False
    if not bool(((values >= 0) & (values < np.inf)).all()):
        return False
    if len(parts) == 1:
        return values.shape == (rows, columns)
    _, indices, indptr = parts
    return bool(
        indices.dtype == indptr.dtype == np.int64
        and indptr.shape == (rows + 1,)
        and indptr[0] == 0
        and (np.diff(indptr) >= 0).all()
        and indices.shape == values.shape == (indptr[-1],)
        and ((indices >= 0) & (indices < columns)).all()
    )


def pull_of(samples: Sequence[TrainingSamples], X: Array, first: Array | None, like: Array) -> Pull:
    """The pull on codes of X (…, m, n), for every run of a stack of weights `like`."""
    stack = stack_shape(like)
    targets = []
    for own, run in zip(samples, np.ndindex(stack), strict=True):
        X_run, first_run = X[run] if X.ndim > 2 else X, None if first is None else first[run]
        targets.append(own.weight * (own.beside(X_run, first_run) @ own.codes).T)
    weights = np.asarray([own.weight for own in samples]).reshape(*stack, 1, 1)
    target = np.stack(targets).reshape(*stack, *targets[0].shape)
    dtype = to_numpy(like[..., :1, :1]).dtype
    return Pull(to_device(weights.astype(dtype), like), to_device(target.astype(dtype), like))


def unit_of(X: Array) -> float:
    """The power of 2 below the largest entry of X."""
    return 2.0 ** math.floor(math.log2(largest_entry(X) or 1.0))


def row_keys(X: Array, unit: float) -> np.ndarray:
    """A number per sample of X (m, n) that depends on its entries, over the unit and in single
    precision, and on nothing else: they may be dense or sparse."""
    m, n = X.shape
    factors = np.random.default_rng(0).integers(1, 2**63, m, dtype=np.int64).astype(np.uint64) | 1
    if is_sparse(X):
        rows = scipy.sparse.csr_array(X.T)
        products = _bits(rows.data, unit) * factors[rows.indices]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(products, dtype=np.uint64)])
        keys = sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]
    else:
        rows, width = to_numpy(X).T, max(1, ROWS_AT_ONCE // m)
        blocks = [_bits(rows[low : low + width], unit) * factors for low in range(0, n, width)]
        keys = np.concatenate([block.sum(axis=1, dtype=np.uint64) for block in blocks])
    return np.asarray(keys.view(np.int64))


def _bits(values: np.ndarray, unit: float) -> np.ndarray:
    """The bits of entries over the unit in single precision; 0 for 0."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(values, dtype=np.float64) / unit
        single = np.ascontiguousarray(scaled, dtype=np.float32) + np.float32(0)
    return single.view(np.uint32).astype(np.uint64)
