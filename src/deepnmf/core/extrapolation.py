"""Sweeps that start beyond the factors, in the direction of their last move.

    Y = P(F_t + β (F_t − F_{t−1})),    F_{t+1} = sweep(Y)

after Ang and Gillis. β grows while sweeps succeed. A sweep from Y that ends above F_t is discarded
and repeated from F_t. Then β shrinks, and its ceiling becomes the last β that succeeded. So the
objective never rises.

Through a link, sweeps that look ahead gain in bursts: a slow one is often followed by a fast one.
So the loop judges such a stage by the best of its last sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic

import scipy.sparse

from deepnmf.arrays import Array, choose, epsilon, namespace, scalars
from deepnmf.core.stage import F, Result, Stage

PLAIN = 3
"""Sweeps before the first extrapolation: the first moves from a start say little."""
FIRST, GROWTH, CEILING_GROWTH, SHRINKAGE = 0.3, 1.07, 1.01, 1.5


@dataclass(frozen=True)
class Moving(Generic[F]):
    """Factors, those of the sweep before, and how far to look ahead, per run."""

    now: F
    before: F
    objective: tuple[Array, Array] | None = None
    sweeps: int = 0
    beta: Array | float = FIRST
    ceiling: Array | float = 1.0
    succeeded: Array | float = FIRST
    falls: tuple[Array, ...] = ()
    """By how much the last sweeps lowered the objective, as many as the stage asks for."""

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

    def kept(self, active: Array, before: Moving[F]) -> Moving[F]:
        """These factors for the runs that continue, `before` for those that have stopped."""
        now = self.now.kept(active, before.now)
        if self.objective is None or before.objective is None:
            return replace(self, now=now)
        pairs = zip(self.objective, before.objective, strict=True)
        f, penalty = (choose(active, new, old) for new, old in pairs)
        return replace(self, now=now, objective=(f, penalty))


@dataclass(frozen=True)
class Extrapolated(Generic[F]):
    """A stage whose sweeps look ahead."""

    stage: Stage[F]
    recordable = False
    monotone = True

    def begin(self, weights: Sequence[Array], H: Array) -> Moving[F]:
        """The factors that the stage starts from."""
        factors = self.stage.begin(weights, H)
        return Moving(factors, factors)

    def on_graph(
        self, S: scipy.sparse.csr_array, moving: Moving[F], strength: float
    ) -> tuple[Extrapolated[F], Moving[F]]:
        """As in the stage. What was learned about steps belongs to the objective of before."""
        stage, factors = self.stage.on_graph(S, moving.now, strength)
        return Extrapolated(stage), Moving(factors, factors)

    def first_codes(self, moving: Moving[F]) -> Array:
        """As in the stage."""
        return self.stage.first_codes(moving.now)

    @property
    def graph_weight(self) -> Array:
        """As in the stage."""
        return self.stage.graph_weight

    def sweep(self, moving: Moving[F]) -> Moving[F]:
        """One sweep that does not raise the objective, or two if the first would."""
        stage, last = self.stage, moving.objective
        if last is None or moving.sweeps < PLAIN:
            now = stage.sweep(moving.now)
            objective = stage.objective(now)
            return replace(
                moving,
                objective=objective,
                now=stage.slim(now),
                before=moving.now,
                sweeps=moving.sweeps + 1,
                falls=self._falls(moving, objective),
            )
        beta = scalars(moving.beta + 0 * last[0], moving.H)
        tried = stage.sweep(stage.beyond(moving.now, moving.before, beta))
        objective = stage.objective(tried)
        # Values this close differ by rounding only.
        slack = epsilon(moving.H) * stage.half_norm / 4
        good = objective[0] <= last[0] + slack
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
        falls = self._falls(moving, objective)
        return Moving(
            stage.slim(tried), moving.now, objective, moving.sweeps + 1, beta, ceiling, succeeded,
            falls,
        )  # fmt: skip

    def _falls(self, moving: Moving[F], objective: tuple[Array, Array]) -> tuple[Array, ...]:
        if moving.objective is None:
            return ()
        return (*moving.falls, moving.objective[0] - objective[0])[-self.stage.patience :]

    def result(self, moving: Moving[F]) -> Result:
        """As in the stage."""
        return self.stage.result(moving.now)

    def objective(self, moving: Moving[F]) -> tuple[Array, Array]:
        """f and its penalties, per run."""
        return self.stage.objective(moving.now) if moving.objective is None else moving.objective

    def fall(self, moving: Moving[F], last: Array) -> Array:
        """The last falls as the stage judges them; infinite while there are too few."""
        if len(moving.falls) < self.stage.patience:
            return last + math.inf
        return self.stage.judged(moving.falls)

    def dead(self, moving: Moving[F]) -> Array:
        """As in the stage."""
        return self.stage.dead(moving.now)

    def negligible(self, tol: float) -> Array:
        """As in the stage."""
        return self.stage.negligible(tol)
