"""Graph-regularised NMF (Cai, He, Han and Huang 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.neighbors import kneighbors_graph

from deepnmf.arrays import Array, column_dots, graph_like, inner, is_numpy, is_sparse, namespace
from deepnmf.arrays.draws import draw
from deepnmf.arrays.sparse import trusted
from deepnmf.arrays.tensors import to_numpy
from deepnmf.core.passes import nonnegative_least_squares
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.models.baselines.base import SingleLayer, State
from deepnmf.models.baselines.ns import Smoothed
from deepnmf.models.settings import number, whole_number
from deepnmf.penalties import Zero
from deepnmf.samples.admission import admitted
from deepnmf.starts import Given, Start


@dataclass(eq=False, repr=False, kw_only=True)
class GraphNMF(SingleLayer):
    """NMF in which neighbouring samples have similar codes.

    Minimises ½‖X − WH‖² + ½ λ tr(H L Hᵀ) over W, H ≥ 0, with the Laplacian L = D − A of a graph of
    the samples, by the updates

        H ← H ∘ (WᵀX + λ H A) / (WᵀW H + λ H D),    W ← W ∘ X Hᵀ / W H Hᵀ,

    which never raise the objective.

    The objective leaves one scale free (H small and W large), so λ and the scale of the start
    decide together how much the graph counts. start="random" is that of the authors' code: uniform
    numbers, with the norms of the columns of W moved to H. It is far larger than X, so the graph
    shapes the codes first; at the best scale for X it would hardly count at all.

    `codes_` are the codes of training, which the graph has shaped. `transform` knows no neighbours,
    and solves nonnegative least squares.

    Parameters
    ----------
    n_components : int, default=16
        The number of parts, k.
    strength : float, default=100
        λ, the strength of the graph.
    neighbors : int, default=5
        The number of nearest neighbours (Euclidean) in the graph that is built from X. Two samples
        are linked if one is among the nearest of the other.
    graph : None, or array or sparse matrix (n_samples, n_samples), default=None
        Your own graph instead, symmetric and ≥ 0.
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
    start: str | Start | Given = "random"
    fill: str | float = "mean"
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
            A = self._given_graph()
            if A.shape != (n, n):
                raise ValueError(f"graph: of shape {A.shape}, but there are {n} samples.")
            if not np.isfinite(A.data).all():
                raise ValueError("graph: has entries that are NaN or infinite.")
            if A.nnz and A.data.min() < 0:
                raise ValueError("graph: has negative entries; weights of neighbours are ≥ 0.")
            if abs(A - A.T).sum() > 1e-6 * abs(A).sum():
                raise ValueError("graph: is not symmetric; use (graph + graph.T) / 2.")
        return graph_like(A, X)

    def _given_graph(self) -> Any:
        if is_sparse(self.graph):
            trusted(self.graph)
        try:
            return scipy.sparse.csr_array(admitted(self.graph, "GraphNMF"))
        except (TypeError, ValueError):
            kind = getattr(self.graph, "dtype", "")
            raise ValueError(
                "graph: must be a matrix of real numbers (n_samples, n_samples), dense or sparse, "
                f"got a {type(self.graph).__name__}{kind and f' of {kind}'}."
            ) from None

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return nonnegative_least_squares(X, weights[0], Zero())


@dataclass(frozen=True)
class OnGraph(Smoothed):
    """½‖X − WH‖² + ½ λ tr(H L Hᵀ) by multiplicative updates."""

    A: Any = None
    strength: float = 0.0

    def objective(self, state: State) -> tuple[Array, Array]:
        """f, and what the graph adds to it."""
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
