"""Sweeps that start beyond where the factors are, in the direction they last moved.

    Y = P(F_t + β (F_t − F_{t−1})),    F_{t+1} = sweep(Y)

after Ang and Gillis. β grows while sweeps succeed. Where a sweep from Y ends above F_t it is thrown
away and done again from F_t, with β smaller, and β's ceiling set to what had last succeeded: the
objective never rises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deepnmf.arrays import Array, choose, epsilon, namespace, scalars
from deepnmf.core.linear import LinearStage

PLAIN = 3
"""Sweeps before the first extrapolation: the moves away from a start say little."""
FIRST, GROWTH, CEILING_GROWTH, SHRINKAGE = 0.3, 1.07, 1.01, 1.5


@dataclass(frozen=True)
class Moving:
    """Factors, those of the sweep before, and how far to look ahead, per run."""

    now: Any
    before: Any
    objective: tuple[Array, Array] | None = None
    sweeps: int = 0
    beta: Any = FIRST
    ceiling: Any = 1.0
    succeeded: Any = FIRST

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
        """These factors for the runs that go on, `before` for those that have stopped."""
        now = self.now.kept(active, before.now)
        if self.objective is None or before.objective is None:
            return replace(self, now=now)
        pairs = zip(self.objective, before.objective, strict=True)
        f, penalty = (choose(active, new, old) for new, old in pairs)
        return replace(self, now=now, objective=(f, penalty))


@dataclass(frozen=True)
class Extrapolated:
    """A stage whose sweeps look ahead; what `descend` asks of a stage."""

    stage: LinearStage
    recordable = False

    def begin(self, weights: Sequence[Array], H: Array) -> Moving:
        """The factors that the stage starts from."""
        factors = self.stage.begin(weights, H)
        return Moving(factors, factors)

    def sweep(self, moving: Moving) -> Moving:
        """One sweep that does not raise the objective, or two where the first one would."""
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
        found = stage.objective(tried)
        # Values this near to each other differ by rounding alone.
        slack = epsilon(moving.H) * stage.half_norm / 4
        good = found[0] <= moving.objective[0] + slack
        xp = namespace(moving.H)
        if not bool(xp.any(good)):
            del tried  # before there is another
            tried = stage.sweep(moving.now)
            found = stage.objective(tried)
        elif not bool(xp.all(good)):
            tried = tried.kept(good, stage.sweep(moving.now))
            found = stage.objective(tried)
        one = xp.ones_like(found[0])
        ceiling = xp.where(good, xp.minimum(one, CEILING_GROWTH * moving.ceiling * one), 0 * one)
        ceiling = xp.where(good, ceiling, moving.succeeded * one)
        beta = xp.where(
            good,
            xp.minimum(moving.ceiling * one, GROWTH * moving.beta * one),
            moving.beta * one / SHRINKAGE,
        )
        succeeded = xp.where(good, moving.beta * one, moving.succeeded * one)
        now = self._slim(tried)
        return Moving(now, moving.now, found, moving.sweeps + 1, beta, ceiling, succeeded)

    def _slim(self, factors: Any) -> Any:
        """Factors as the next sweep needs them: one that begins with the codes adds up anew."""
        return factors.without_products() if self.stage.codes_first else factors

    def objective(self, moving: Moving) -> tuple[Array, Array]:
        """f and the part of it that is penalties, per run."""
        return self.stage.objective(moving.now) if moving.objective is None else moving.objective

    def dead(self, moving: Moving) -> Array:
        """As of the stage."""
        return self.stage.dead(moving.now)

    def negligible(self, tol: float) -> Array:
        """As of the stage."""
        return self.stage.negligible(tol)
