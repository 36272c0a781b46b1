"""What the training loop asks of a solver."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from deepnmf.arrays import Array
from deepnmf.penalties import Penalty
from deepnmf.solvers.quadratic import Quadratic

SolverMemory: TypeAlias = Any
"""What a solver remembers of a factor from one update to the next; None before the first."""


def require(solver: Solver, name: str, fits: bool, needed: str) -> None:
    """Refuse a setting of a solver that cannot work."""
    if not fits:
        raise ValueError(
            f"{type(solver).__name__}: {name} must be {needed}, got {getattr(solver, name)!r}."
        )


def is_whole(value: object, least: int = 1) -> bool:
    """Whether a setting is a whole number ≥ `least`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        return False
    return int(value) >= least


def is_between(value: object, low: float, high: float) -> bool:
    """Whether a setting is a number with low ≤ value < high."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    return low <= float(value) < high


class Outcome(NamedTuple):
    """A factor after its update, the solver's memory of it, and how far from a minimum it was."""

    F: Array
    memory: SolverMemory
    """What the solver gets back at the next update of this factor."""
    residual: Array
    """‖LC (F − P(F − ∇q(F)/LC))‖² of the factor before its update, per run: 0 exactly where the
    KKT conditions hold."""


class Solver(ABC):
    """Lowers q(F). Immutable: what it learns about a factor is returned."""

    def refusal(self, X: Array, penalties: Sequence[Penalty]) -> str | None:
        """Why this solver cannot work on the device of X or with one of these penalties, and what
        to use instead; None if it can."""
        del X, penalties
        return None

    def extrapolates(self, X: Array, *, linear: bool) -> bool:
        """Whether sweeps over the factors of a linear model, or of one with a link, start beyond
        the factors, in the direction of their last move."""
        del X, linear
        return False

    def rescales(self, X: Array) -> bool:
        """Whether W and H of a start are scaled to fit X best before the first update."""
        del X
        return False

    def recordable(self, X: Array) -> bool:
        """Whether an update on the device of X only launches kernels, as `graphs.Recorded` needs,
        for penalties that are `uniform` and columns of any norm."""
        del X
        return False

    @property
    def rounds(self) -> bool:
        """Whether products on a CUDA device may be rounded to TF32."""
        return False

    @abstractmethod
    def update(self, problem: Quadratic, F: Array, memory: SolverMemory = None) -> Outcome:
        """A feasible factor whose objective is not above that of F."""
