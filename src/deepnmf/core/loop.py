"""The loop of training: sweep until convergence, the limit, or a stop from outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

import numpy as np

from deepnmf.arrays import Array, namespace, stack_shape, to_device
from deepnmf.arrays.cuda.graphs import Recorded, is_small
from deepnmf.arrays.tensors import to_numpy
from deepnmf.core.finite import NotFiniteError
from deepnmf.core.stage import F, Sweeping
from deepnmf.core.watch import Point, Reason, Record, StageName, Watch
from deepnmf.terminal import interrupts


@dataclass(frozen=True)
class Descended(Generic[F]):
    """The end of a stage. `sweeps` and `reasons` have one entry per run of a stack; without a stack
    they have no axes."""

    factors: F
    sweeps: np.ndarray
    reasons: np.ndarray
    """Why each run stopped: a `Reason`."""


def descend(
    stage: Sweeping[F],
    factors: F,
    tol: float,
    max_iter: int,
    watch: Watch,
    stage_name: StageName,
    layer: int | None = None,
    begun: Point | None = None,
    done: int = 0,
) -> Descended[F]:
    """Sweep until a sweep lowers the objective by less than `tol` times its value, or the relative
    error is below `tol` (the objective of an exact factorization would fall forever).

    A sweep that raises the objective where theory allows no rise, by more than `tol` and rounding
    explain, is discarded and ends the run: numbers of very different size meet in its sums.

    Each run of a stack stops separately, and then keeps its factors. Ctrl-C ends the stage with the
    factors of its last complete sweep. A stopped fit continues from the point `begun`; `factors`
    are then those of the point. `done` counts sweeps over these factors on another problem.
    """
    loop = _Loop(stage, factors, tol, watch, stage_name, layer)
    loop.done = done
    loop.runs.sweeps += done
    del factors  # the start would stay in memory until the end of the stage
    if watch.stopped is not None:
        return loop.ended(watch.stopped)
    if begun is not None:
        loop.resume(begun)
        if begun.reason is not None:
            return loop.ended(begun.reason)
    try:
        with interrupts.remembered():
            for sweep in range(loop.done + 1, max_iter + 1):
                loop.sweep(sweep)
                interrupts.check()  # Python may have dropped the KeyboardInterrupt
                if watch.stopped is not None or loop.converged():
                    break
                watch.keep(layer, loop.factors, sweep, loop.objective)
    except KeyboardInterrupt:
        interrupts.take()
        watch.stopped = "interrupted"
    if watch.stopped is not None:
        loop.runs.reasons[...] = watch.stopped
    loop.keep_last()
    return Descended(loop.factors, loop.runs.sweeps, loop.runs.reasons)


@dataclass
class _Runs:
    """Which runs of a stack still sweep, how many sweeps each had, and why each stopped."""

    stack: tuple[int, ...]
    going: np.ndarray = field(init=False)
    sweeps: np.ndarray = field(init=False)
    reasons: np.ndarray = field(init=False)
    active: Array | None = None
    """`going` on the device of the factors; None while all runs sweep."""

    def __post_init__(self) -> None:
        self.going = np.ones(self.stack, bool)
        self.sweeps = np.zeros(self.stack, int)
        self.reasons = np.full(self.stack, "limit", object)

    def still_going(self, falling: Array) -> bool:
        """Stop the runs whose objective no longer falls. False when all have stopped."""
        self.stop(~np.asarray(to_numpy(falling)), "converged", falling)
        return bool(self.going.any())

    def stop(self, which: np.ndarray, reason: Reason, like: Array) -> None:
        """Stop these runs, if they still sweep."""
        self.reasons = np.where(self.going & which, reason, self.reasons)
        self.going = self.going & ~which
        self.active = to_device(self.going, like) if self.stack else None


class _Loop(Generic[F]):
    """The state of a stage between two sweeps."""

    def __init__(
        self,
        stage: Sweeping[F],
        factors: F,
        tol: float,
        watch: Watch,
        name: StageName,
        layer: int | None,
    ) -> None:
        self.stage, self.factors, self.tol, self.watch = stage, factors, float(tol), watch
        self.name, self.layer = name, layer
        self.runs = _Runs(stack_shape(factors.H))
        self.done = 0
        self.objective: Array | None = None
        self.before: Array | None = None
        self.rounding = 10 * np.asarray(to_numpy(stage.negligible(0)))
        recorded = stage.recordable and is_small(factors)
        self.sweep_once = Recorded(stage.sweep) if recorded else stage.sweep

    def ended(self, reason: Reason) -> Descended[F]:
        """The stage as it stands, without a sweep."""
        reasons = np.full(self.runs.stack, reason, object)
        return Descended(self.factors, self.runs.sweeps, reasons)

    def resume(self, point: Point) -> None:
        """Continue after the sweeps of a point."""
        self.done, self.objective = point.sweep, point.objective
        self.runs.sweeps[...] = point.sweep

    def sweep(self, number: int) -> None:
        """One sweep of the runs that continue, and its record."""
        swept = self.sweep_once(self.factors)
        if self.runs.active is not None:
            swept = swept.kept(self.runs.active, self.factors)
        objective, record = self._measured(swept, number)
        for name, words in (("objective", "objective"), ("kkt", "KKT residual")):
            if not np.isfinite(record[name]).all():
                what = f"the {words} is not a finite number after sweep {number}"
                raise NotFiniteError(what, swept.H.dtype)
        rose = self._rose(objective)
        if rose.any():
            self.runs.stop(rose, "stalled", objective)
            if not self.runs.going.any():
                return
            swept = swept.kept(to_device(~rose, objective), self.factors)
            objective, record = self._measured(swept, number)
        self.factors, self.before, self.objective = swept, self.objective, objective
        self.runs.sweeps, self.done = np.where(self.runs.going, number, self.runs.sweeps), number
        self.watch.note(record, swept.weights)

    def _rose(self, objective: Array) -> np.ndarray:
        """Which runs had their objective raised by more than rounding explains."""
        if self.objective is None or not self.stage.monotone:
            return np.zeros(self.runs.stack, bool)
        before, now = (np.asarray(to_numpy(value)) for value in (self.objective, objective))
        return self.runs.going & (now - before > self.tol * before + self.rounding)

    def _measured(self, factors: F, number: int) -> tuple[Array, Record]:
        """The objective on the device of the factors, and the record of a sweep."""
        xp = namespace(factors.H)
        objective, penalty = self.stage.objective(factors)
        dead = xp.astype(self.stage.dead(factors), xp.float64)
        numbers = (objective, penalty, xp.sqrt(factors.residual), dead)
        # Copy all numbers from a CUDA device together, to wait for it once.
        values = xp.stack([xp.asarray(number) for number in numbers]).tolist()
        record: Record = {"stage": self.name, "layer": self.layer, "sweep": number}
        record |= dict(zip(("objective", "penalty", "kkt", "dead"), values, strict=True))
        record["dead"] = np.asarray(record["dead"], int).tolist()
        if self.runs.stack:
            record["active"] = self.runs.going
        return objective, record

    def converged(self) -> bool:
        """Whether every run has converged."""
        objective = self.objective
        if not self.runs.going.any():
            return True
        if self.tol <= 0 or self.before is None or objective is None:
            return False
        falling = self.stage.fall(self.factors, self.before - objective) >= self.tol * objective
        return not self.runs.still_going(falling & (objective > self.stage.negligible(self.tol)))

    def keep_last(self) -> None:
        """Store the end of the fit, or the point where it was stopped."""
        stopped = self.watch.stopped is not None
        if stopped and self.done:
            self.watch.keep(self.layer, self.factors, self.done, self.objective, at_once=True)
        elif not stopped and self.name == "finetune" and not self.runs.stack:
            reason = self.runs.reasons.item()
            self.watch.keep(
                self.layer, self.factors, self.done, self.objective, reason, at_once=True
            )
