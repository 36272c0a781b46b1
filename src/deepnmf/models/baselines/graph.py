"""Graph-regularised NMF (Cai, He, Han and Huang 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.neighbors import kneighbors_graph

from deepnmf.arrays import (
    Array,
    column_dots,
    graph_like,
    inner,
    is_numpy,
    namespace,
    to_device,
)
from deepnmf.arrays.draws import draw
from deepnmf.arrays.tensors import to_numpy
from deepnmf.core.graph import Neighborhood, Pull
from deepnmf.core.passes import nonnegative_least_squares
from deepnmf.core.training import Run, Trained
from deepnmf.core.watch import Watch
from deepnmf.models.baselines.base import SingleLayer, State
from deepnmf.models.baselines.ns import Smoothed
from deepnmf.models.neighborhood import TrainingSamples
from deepnmf.models.settings import number, whole_number
from deepnmf.penalties import Zero
from deepnmf.samples.base import Samples
from deepnmf.samples.graph import checked_graph
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

    `transform` gives new samples codes beside their nearest samples of training,

        argmin_{h ≥ 0} ½‖x − Wh‖² + ½ λ Σ_j A_j ‖h − h_j‖²,

    with the codes h_j of training, and samples of training their own neighbours. These codes are
    `codes_` where training has converged.

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
        problem = OnGraph(X, 0.0, graph_like(A, X), float(self.strength))
        trained = self._descend(problem, problem.begin(W, H), watch)
        weight = 0 * trained.weights[0][:1, :1] + float(self.strength)
        return replace(trained, near=Neighborhood(A, weight))

    def _graph(self, X: Array) -> scipy.sparse.csr_array:
        """A (n, n), symmetric."""
        n = X.shape[1]
        if self.graph is None:
            samples = X.T if is_numpy(X) else to_numpy(X.T)
            near = kneighbors_graph(samples, min(self.neighbors, n - 1), mode="connectivity")
            A = scipy.sparse.csr_array(near.maximum(near.T))
        else:
            A = checked_graph(self.graph, n, "GraphNMF")
        return A

    def _keep(self, samples: Samples, run: Run, error: float, basis: Array) -> None:
        super()._keep(samples, run, error, basis)
        assert run.near is not None
        self.graph_ = TrainingSamples.of_graph_nmf(samples.data, run.H, run.near, self.neighbors)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        if "graph_" not in vars(self):
            return nonnegative_least_squares(X, weights[0], Zero())
        beside = self.graph_.beside(X, None)
        degrees = self.graph_.weight * np.asarray(beside.sum(axis=1)).ravel()
        targets = self.graph_.weight * (beside @ self.graph_.codes).T
        H = np.zeros((weights[0].shape[1], X.shape[1]), to_numpy(weights[0]).dtype)
        for degree in np.unique(degrees):  # samples with as many neighbours are one problem
            own = np.flatnonzero(degrees == degree)
            target = to_device(targets[:, own].astype(H.dtype), weights[0])
            pull = Pull(0 * weights[0][:1, :1] + float(degree), target)
            codes = nonnegative_least_squares(X[:, own], weights[0], Zero(), pull)
            H[:, own] = to_numpy(codes)
        return to_device(H, weights[0])


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
