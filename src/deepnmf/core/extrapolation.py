"""Sweeps that start beyond the factors, in the direction of their last move.

    Y = P(F_t + β (F_t − F_{t−1})),    F_{t+1} = sweep(Y)

after Ang and Gillis. β grows while sweeps succeed. A sweep from Y that ends above F_t is discarded
and repeated from F_t. Then β shrinks, and its ceiling becomes the last β that succeeded. So the
objective never rises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepnmf.arrays import Array, choose, epsilon, namespace, scalars
from deepnmf.core.linear import Factors, LinearStage

PLAIN = 3
"""Sweeps before the first extrapolation: the first moves from a start say little."""
FIRST, GROWTH, CEILING_GROWTH, SHRINKAGE = 0.3, 1.07, 1.01, 1.5


@dataclass(frozen=True)
class Moving:
    """Factors, those of the sweep before, and how far to look ahead, per run."""

    now: Factors
    before: Factors
    objective: tuple[Array, Array] | None = None
    sweeps: int = 0
    beta: Array | float = FIRST
    ceiling: Array | float = 1.0
    succeeded: Array | float = FIRST

    @property
    def weights(self) -> tuple[Array, ...]:
        return self.now.weights

    @property
    def H(self) -> Array:
        return self.now.H

    @property
    def used(self) -> Array:
        return self.now.used

    @property
    def residual(self) -> Array:
        return self.now.residual

    def kept(self, active: Array, before: Moving) -> Moving:
        """These factors for the runs that continue, `before` for those that have stopped."""
        now = self.now.kept(active, before.now)
        if self.objective is None or before.objective is None:
            return replace(self, now=now)
        pairs = zip(self.objective, before.objective, strict=True)
        f, penalty = (choose(active, new, old) for new, old in pairs)
        return replace(self, now=now, objective=(f, penalty))


@dataclass(frozen=True)
class Extrapolated:
    """A stage whose sweeps look ahead."""

    stage: LinearStage
    recordable = False

    def begin(self, weights: Sequence[Array], H: Array) -> Moving:
        """The factors that the stage starts from."""
        factors = self.stage.begin(weights, H)
        return Moving(factors, factors)

    def sweep(self, moving: Moving) -> Moving:
        """One sweep that does not raise the objective, or two if the first would."""
        stage = self.stage
        ahead = moving.sweeps >= PLAIN and moving.objective is not None
        if not ahead:
            now = stage.sweep(moving.now)
            return replace(
                moving,
                objective=stage.objective(now),
                now=self._slim(now),
                before=moving.now,
                sweeps=moving.sweeps + 1,
            )
        assert moving.objective is not None
        beta = scalars(moving.beta + 0 * moving.objective[0], moving.H)
        tried = stage.sweep(stage.beyond(moving.now, moving.before, beta))
        objective = stage.objective(tried)
        # Values this close differ by rounding only.
        slack = epsilon(moving.H) * stage.half_norm / 4
        good = objective[0] <= moving.objective[0] + slack
        xp = namespace(moving.H)
        if not bool(xp.any(good)):
            del tried  # Free its memory before the next sweep.
            tried = stage.sweep(moving.now)
            objective = stage.objective(tried)
        elif not bool(xp.all(good)):
            tried = tried.kept(good, stage.sweep(moving.now))
            objective = stage.objective(tried)
        ones = xp.ones_like(objective[0])
        ceiling = xp.where(good, xp.minimum(ones, CEILING_GROWTH * moving.ceiling * ones), 0 * ones)
        ceiling = xp.where(good, ceiling, moving.succeeded * ones)
        beta = xp.where(
            good,
            xp.minimum(moving.ceiling * ones, GROWTH * moving.beta * ones),
            moving.beta * ones / SHRINKAGE,
        )
        succeeded = xp.where(good, moving.beta * ones, moving.succeeded * ones)
        now = self._slim(tried)
        return Moving(now, moving.now, objective, moving.sweeps + 1, beta, ceiling, succeeded)

    def _slim(self, factors: Factors) -> Factors:
        """Factors as the next sweep needs them: one that begins with the codes needs no X Hᵀ."""
        return factors.without_products() if self.stage.codes_first else factors

    def objective(self, moving: Moving) -> tuple[Array, Array]:
        """f and its penalties, per run."""
        return self.stage.objective(moving.now) if moving.objective is None else moving.objective

    def dead(self, moving: Moving) -> Array:
        """As in the stage."""
        return self.stage.dead(moving.now)

    def negligible(self, tol: float) -> Array:
        """As in the stage."""
        return self.stage.negligible(tol)
