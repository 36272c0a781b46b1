"""What a fit reports while it runs, and the points from which it can continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from deepnmf.arrays import Array
from deepnmf.arrays.draws import Generators
from deepnmf.core.history import History, Record
from deepnmf.core.stage import Factorized

Listener = Callable[[Record, Sequence[Array]], bool]
"""Gets a record and the weights of the stage after every sweep. True stops the fit, which keeps
its current factors."""
StageName = Literal["pretrain", "finetune"]
Reason = Literal["converged", "limit", "stalled", "callback", "interrupted"]
"""Why a run stopped."""


@dataclass(frozen=True)
class Point:
    """The state of a fit between two sweeps: all that the rest of it depends on, except X."""

    layer: int | None
    """The layer in pre-training, 1 … L; None in fine-tuning."""
    weights: tuple[Array, ...]
    """In pre-training, of the layers below."""
    data: Array | None
    """In pre-training, the input of the layer; None if that is X."""
    factors: Factorized
    sweep: int
    objective: Array | None
    reason: Reason | None = None
    """Why fine-tuning ended; None if it did not."""


class Keeper(Protocol):
    """Stores points of a fit, so that they outlast it."""

    def begun(self, generators: Generators) -> tuple[Point, History] | None:
        """The stored point and the history up to it, or None. Sets the generators to their state
        at that point."""

    def offer(
        self,
        point: Callable[[], Point],
        history: History,
        generators: Generators,
        *,
        at_once: bool = False,
    ) -> None:
        """A point that may be stored, or (`at_once`) must be."""

    def refusal(self, problem: Exception) -> Exception:
        """The error to raise if a fit cannot continue from the stored point."""


class Watch:
    """Keeps the history of a fit, offers its points to a keeper, and knows if it must stop."""

    def __init__(
        self, listener: Listener | None, keeper: Keeper | None = None, generators: Generators = ()
    ) -> None:
        self.listener, self.keeper, self.generators = listener, keeper, generators
        self.log = History()
        self.began = time.perf_counter()
        self.stopped: Reason | None = None
        self.continues = False
        """Whether the fit continues from a stored point, and has not swept since."""
        self.weights: tuple[Array, ...] = ()
        self.data: Array | None = None

    @property
    def history(self) -> list[Record]:
        """The records so far."""
        return self.log.records

    def resume(self) -> Point | None:
        """The stored point of this fit, if any. Its history and clock continue."""
        stored = None if self.keeper is None else self.keeper.begun(self.generators)
        if stored is None:
            return None
        point, self.log = stored
        if self.history:
            self.began -= self.history[-1]["seconds"]
        self.weights, self.data, self.continues = point.weights, point.data, True
        return point

    def note(self, record: Record, weights: Sequence[Array]) -> None:
        """Add a record to the history, and tell the listener."""
        self.continues = False
        record["seconds"] = time.perf_counter() - self.began
        self.log.add(record)
        if self.listener is not None and self.listener(record, weights):
            self.stopped = "callback"

    def keep(
        self,
        layer: int | None,
        factors: Factorized,
        sweep: int,
        objective: Array | None,
        reason: Reason | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Offer a point of the current stage to the keeper."""
        if self.keeper is None:
            return
        self.keeper.offer(
            lambda: Point(layer, self.weights, self.data, factors, sweep, objective, reason),
            self.log,
            self.generators,
            at_once=at_once,
        )
