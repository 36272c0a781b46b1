"""What the training loop asks of a solver."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from deepnmf.arrays import Array
from deepnmf.penalties import Penalty
from deepnmf.solvers.quadratic import Quadratic


def require(solver: Solver, name: str, fits: bool, needed: str) -> None:
    """Refuse a setting of a solver that cannot work."""
    if not fits:
        raise ValueError(
            f"{type(solver).__name__}: {name} must be {needed}, got {getattr(solver, name)!r}."
        )


def is_whole(value: Any, least: int = 1) -> bool:
    """Whether a setting is a whole number of at least that."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and int(value) >= least


def is_between(value: Any, low: float, high: float) -> bool:
    """Whether a setting is a number with low ≤ value < high."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and low <= value < high


class Outcome(NamedTuple):
    """A factor after its update, what the solver remembers of it, and how far from done it was."""

    F: Array
    memory: Any
    """Whatever the solver wants back at this factor's next update."""
    residual: Array
    """‖LC (F − P(F − ∇q(F)/LC))‖² of the factor as it came in, per run: 0 exactly where the
    KKT conditions hold."""


class Solver(ABC):
    """Lowers q(F). Immutable: what it learns about a factor is returned, not kept."""

    def refusal(self, X: Array, penalties: Sequence[Penalty]) -> str | None:
        """Why this solver cannot work where X lives, or with one of these penalties, and what to
        use instead; None if it can."""
        del X, penalties
        return None

    def extrapolates(self, X: Array) -> bool:
        """Whether sweeps are to start beyond the factors, in the direction they moved."""
        del X
        return False

    def rescales(self, X: Array) -> bool:
        """Whether a start wants its best common scale before the first update."""
        del X
        return False

    def recordable(self, X: Array) -> bool:
        """Whether updates where X lives are launches alone, as `graphs.Recorded` needs them, for
        penalties that are `uniform` and columns of any norm."""
        del X
        return False

    @property
    def rounds(self) -> bool:
        """Whether products on a card may be rounded to TF32."""
        return False

    @abstractmethod
    def update(self, problem: Quadratic, F: Array, memory: Any = None) -> Outcome:
        """A feasible factor whose objective is not above that of F."""
