"""What a fit tells while it runs, and the points from which it could go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from deepnmf.arrays import Array
from deepnmf.arrays.draws import Generators

Record = dict[str, Any]
Report = Callable[[Record, Sequence[Array]], bool]
"""Gets a record and the weights (of the stage) after every sweep; True stops the fit, which keeps
what it has."""

Reason = Literal["converged", "limit", "callback", "interrupted"]


@dataclass(frozen=True)
class Point:
    """Where a fit stands between two sweeps: all that the rest of it depends on, but for X."""

    layer: int | None
    """The layer that is pre-trained, 1 … L; None: fine-tuning."""
    weights: tuple[Array, ...]
    """In pre-training, of the layers below."""
    data: Array | None
    """In pre-training, the input of the layer; None: X."""
    factors: Any
    sweep: int
    objective: Any
    reason: Reason | None = None
    """Why fine-tuning was over; None: it was not."""


class Keeper(Protocol):
    """Keeps points of a fit where they outlast it."""

    def begun(self, generators: Generators) -> tuple[Point, list[Record]] | None:
        """The point to go on from, and the history up to it; the generators as they were there."""

    def offer(
        self,
        point: Callable[[], Point],
        history: list[Record],
        generators: Generators,
        *,
        at_once: bool = False,
    ) -> None:
        """A point that may be kept, or (`at_once`) must be."""


class Watch:
    """Keeps the history of a fit and its points, and hears whether somebody wants it stopped."""

    def __init__(
        self,
        report: Report | None,
        keeper: Keeper | None = None,
        generators: Generators = (),
    ) -> None:
        self.report, self.keeper, self.generators = report, keeper, generators
        self.history: list[Record] = []
        self.began = time.perf_counter()
        self.stopped: Reason | None = None
        self.weights: tuple[Array, ...] = ()
        self.data: Array | None = None

    def go_on(self) -> Point | None:
        """The point that was kept of this fit; its history and its clock are taken up."""
        found = None if self.keeper is None else self.keeper.begun(self.generators)
        if found is None:
            return None
        point, self.history = found
        if self.history:
            self.began -= self.history[-1]["seconds"]
        self.weights, self.data = point.weights, point.data
        return point

    def note(self, record: Record, weights: Sequence[Array]) -> None:
        record["seconds"] = time.perf_counter() - self.began
        self.history.append(record)
        if self.report is not None and self.report(record, weights):
            self.stopped = "callback"

    def keep(
        self,
        layer: int | None,
        factors: Any,
        sweep: int,
        objective: Any,
        reason: Reason | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Offer a point of the stage that is going on, to be kept."""
        if self.keeper is None:
            return
        self.keeper.offer(
            lambda: Point(layer, self.weights, self.data, factors, sweep, objective, reason),
            self.history,
            self.generators,
            at_once=at_once,
        )
