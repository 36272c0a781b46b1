"""Sparse NMF by alternating nonnegative least squares (Kim and Park 2007)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepnmf.arrays import Array, is_sparse, namespace
from deepnmf.core.training import Plan, Trained, nonnegative_least_squares, train
from deepnmf.core.watch import Watch
from deepnmf.models.baselines.base import Callback, SingleLayer
from deepnmf.models.settings import number, one_of
from deepnmf.penalties import Penalty, Ridge, SquaredL1
from deepnmf.starts import Generators, Given

SIDES = ("right", "left")


class SparseNMF(SingleLayer):
    """SNMF/R, side="right": sparse codes,

        ½‖X − WH‖² + ½ η‖W‖² + ½ β Σ_j ‖H(:, j)‖₁²,    W, H ≥ 0;

    SNMF/L, side="left", is the same on Xᵀ: ½ η‖H‖² + ½ β Σ_i ‖W(i, :)‖₁², sparse parts. Both
    factors have a penalty, so that the scale cannot escape. Each factor in turn by coordinate
    descent; no update raises the objective. Not the same model as SDNMF/L or /R.

    Parameters
    ----------
    n_components : int
    side : {"right", "left"}
    beta : float, default=0.01
    eta : float or None
        None: max(X)².
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    References
    ----------
    H. Kim, H. Park, Sparse non-negative matrix factorizations via alternating
    non-negativity-constrained least squares, Bioinformatics 2007.
    """

    def __init__(
        self,
        n_components: int = 16,
        *,
        side: str = "right",
        beta: float = 0.01,
        eta: float | None = None,
        start: Any = "nnsvd",
        fill: Any = "random",
        max_iter: int = 500,
        tol: float = 1e-6,
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.side = side
        self.beta = beta
        self.eta = eta
        self.start = start
        self.fill = fill
        self.max_iter = max_iter
        self.tol = tol
        self.callback = callback
        self.random_state = random_state

    def _sizes(self) -> tuple[int, ...]:
        one_of("side", self.side, SIDES)
        number("beta", self.beta)
        if self.eta is not None:
            number("eta", self.eta)
        return super()._sizes()

    def _train(self, X: Array, generators: Generators, watch: Watch) -> Trained:
        values = X.data if is_sparse(X) else X
        largest = float(namespace(values).max(values)) if values.shape[0] else 0.0
        eta = largest**2 if self.eta is None else float(self.eta)
        self.eta_ = eta
        W, H = self._first(X, generators)
        left = self.side == "left"
        data, start = (X.T, Given([H.T], W)) if left else (X, Given([W], H.T))
        plan = Plan(
            sizes=self._sizes(),
            penalties_W=(Ridge(eta),),
            penalties_H=(SquaredL1(float(self.beta)),),
            start=start,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        trained = train(data, plan, generators, watch.report)
        if left:
            trained.weights, trained.H = (trained.H.T,), trained.weights[0].T
        return trained

    def _codes_penalty(self) -> Penalty:
        return Ridge(self.eta_) if self.side == "left" else SquaredL1(float(self.beta))

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return nonnegative_least_squares(X, weights[0], self._codes_penalty())
