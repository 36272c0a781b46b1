"""Graph-regularised NMF (Cai, He, Han and Huang 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import scipy.sparse
from sklearn.neighbors import kneighbors_graph

from deepnmf.arrays import Array, column_dots, graph_like, inner, is_numpy, namespace
from deepnmf.arrays.draws import draw
from deepnmf.arrays.tensors import to_numpy
from deepnmf.core.passes import nonnegative_least_squares
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.models.baselines.base import SingleLayer, State
from deepnmf.models.baselines.ns import Smoothed
from deepnmf.models.settings import number, whole_number
from deepnmf.penalties import Zero


@dataclass(eq=False, repr=False, kw_only=True)
class GraphNMF(SingleLayer):
    """½‖X − WH‖² + ½ λ tr(H L Hᵀ),  W, H ≥ 0,  L = D − A: samples that are neighbours in a graph
    have near codes.

        H ← H ∘ (WᵀX + λ H A) / (WᵀW H + λ H D),    W ← W ∘ X Hᵀ / W H Hᵀ

    Neither raises the objective. A scale is free (H small, W large), so λ and the size of the start
    decide together how much the graph counts: start="random" is that of the authors' code, uniform
    numbers with the norms of W's columns moved to H, far larger than X, and the graph shapes the
    codes first. (At the best scale for X the graph would hardly count at all.) The codes of
    training, which the graph has shaped, are `codes_`; `transform` knows no neighbours and solves
    least squares.

    Parameters
    ----------
    n_components : int
    strength : float, default=100
        λ.
    neighbors : int, default=5
        Of the graph that is built from X: 1 where one of two samples is among the nearest of the
        other, Euclidean.
    graph : None, or array or sparse matrix (n_samples, n_samples)
        A graph of your own instead, symmetric and ≥ 0.
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    References
    ----------
    D. Cai et al., Graph regularized nonnegative matrix factorization for data
    representation, TPAMI 2011.
    """

    name = "graph-nmf"
    purpose = "near samples get near codes, for clustering"

    strength: float = 100.0
    neighbors: int = 5
    graph: Any = None
    start: Any = "random"
    fill: Any = "mean"
    max_iter: int = 100
    tol: float = 0.0

    def _sizes(self) -> tuple[int, ...]:
        number("strength", self.strength)
        whole_number("neighbors", self.neighbors, least=1)
        return super()._sizes()

    def _train(self, X: Array, watch: Watch) -> Trained:
        A = self._graph(X)
        if self.start == "random":
            (k,), (m, n) = self._sizes(), X.shape
            W, H = (draw("uniform", shape, watch.generators, X) for shape in ((m, k), (k, n)))
            norms = namespace(W).sqrt(column_dots(W, W))
            W, H = W / norms, norms.mT * H
        else:
            W, H = self._first(X, watch.generators)
        problem = OnGraph(X, 0.0, A, float(self.strength))
        return self._descend(problem, problem.begin(W, H), watch)

    def _graph(self, X: Array) -> Any:
        """A (n, n), symmetric."""
        n = X.shape[1]
        if self.graph is None:
            samples = X.T if is_numpy(X) else to_numpy(X.T)
            near = kneighbors_graph(samples, min(self.neighbors, n - 1), mode="connectivity")
            A = scipy.sparse.csr_array(near.maximum(near.T))
        else:
            A = scipy.sparse.csr_array(self.graph)
            if A.shape != (n, n):
                raise ValueError(f"graph: of shape {A.shape}, but there are {n} samples.")
            if A.nnz and A.data.min() < 0:
                raise ValueError("graph: has negative entries; weights of neighbours are ≥ 0.")
            if abs(A - A.T).sum() > 1e-6 * abs(A).sum():
                raise ValueError("graph: is not symmetric; use (graph + graph.T) / 2.")
        return graph_like(A, X)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return nonnegative_least_squares(X, weights[0], Zero())


@dataclass(frozen=True)
class OnGraph(Smoothed):
    """½‖X − WH‖² + ½ λ tr(H L Hᵀ) by multiplicative updates."""

    A: Any = None
    strength: float = 0.0

    def objective(self, state: State) -> tuple[Array, Array]:
        """f, and the part of it that is the graph's."""
        fit, _ = super().objective(state)
        H = state.H
        penalty = self.strength * inner(H, H * self._degrees(H) - (self.A @ H.mT).mT) / 2
        return fit + penalty, penalty

    def _codes(self, H: Array, above: Array, below: Array) -> tuple[Array, Array]:
        if self.strength == 0:
            return above, below
        return (
            above + self.strength * (self.A @ H.mT).mT,
            below + self.strength * H * self._degrees(H),
        )

    def _degrees(self, H: Array) -> Array:
        """The diagonal of D."""
        ones = 0 * H[:1].mT + 1
        return (self.A @ ones).mT
