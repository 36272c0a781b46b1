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
    """Sparse NMF: SNMF/R, with sparse codes, and SNMF/L, with sparse parts.

    SNMF/R (side="right") minimises

        ½‖X − WH‖² + ½ η‖W‖² + ½ β Σ_j ‖H(:, j)‖₁²,    W, H ≥ 0.

    SNMF/L (side="left") is the same for Xᵀ, with ½ η‖H‖² + ½ β Σ_i ‖W(i, :)‖₁². Both factors have
    a penalty, so neither can shrink at the cost of the other. The factors are updated in turn by
    coordinate descent, and no update raises the objective. SDNMF/L and SDNMF/R are other models.

    Parameters
    ----------
    n_components : int, default=16
        The number of parts, k.
    side : {"right", "left"}, default="right"
        Which factor is sparse: "right" is H, the codes, and "left" is W, the parts.
    beta : float, default=0.01
        β, the strength of the penalty that makes a factor sparse.
    eta : float or None, default=None
        η, the strength of the penalty on the other factor. None is max(X)².
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
