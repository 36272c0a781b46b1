"""Sparse NMF by alternating nonnegative least squares (Kim and Park 2007)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepnmf.arrays import Array, largest_entry
from deepnmf.core.passes import nonnegative_least_squares
from deepnmf.core.plan import Plan
from deepnmf.core.training import Run, Trained, train_watched
from deepnmf.core.watch import Watch
from deepnmf.models.baselines.base import SingleLayer
from deepnmf.models.settings import number, one_of
from deepnmf.penalties import Penalty, Ridge, SquaredL1
from deepnmf.samples.base import Samples
from deepnmf.starts import Given

SIDES = ("right", "left")


@dataclass(eq=False, repr=False, kw_only=True)
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

    name = "sparse-nmf"
    purpose = "SNMF/R and /L of Kim and Park: L1² penalties"

    side: str = "right"
    beta: float = 0.01
    eta: float | None = None
    tol: float = 1e-6

    def _sizes(self) -> tuple[int, ...]:
        one_of("side", self.side, SIDES)
        number("beta", self.beta)
        if self.eta is not None:
            number("eta", self.eta)
        return super()._sizes()

    def _train(self, X: Array, watch: Watch) -> Trained:
        eta = self._eta(X)
        W, H = self._first(X, watch.generators)
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
        trained = train_watched(data, plan, watch)
        if not left:
            return trained
        return replace(trained, weights=(trained.H.T,), H=trained.weights[0].T)

    def _eta(self, X: Array) -> float:
        return largest_entry(X) ** 2 if self.eta is None else float(self.eta)

    def _keep(self, samples: Samples, run: Run, error: float, basis: Array) -> None:
        self.eta_ = self._eta(samples.data)
        super()._keep(samples, run, error, basis)

    def _codes_penalty(self) -> Penalty:
        return Ridge(self.eta_) if self.side == "left" else SquaredL1(float(self.beta))

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return nonnegative_least_squares(X, weights[0], self._codes_penalty())
