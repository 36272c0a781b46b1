"""A stage of training: the problem that one run of the loop solves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from deepnmf.arrays import Array, added, choose, epsilon, squared_norm
from deepnmf.core.revival import count_dead
from deepnmf.core.scaling import Scaling
from deepnmf.links import Identity
from deepnmf.penalties import Penalty
from deepnmf.solvers import Solver


class Factorized(Protocol):
    """What the loop asks of factors."""

    @property
    def weights(self) -> tuple[Array, ...]: ...

    @property
    def H(self) -> Array: ...

    @property
    def used(self) -> Array:
        """Which rows of H have an entry > 0."""

    @property
    def residual(self) -> Array:
        """How far from a KKT point the factors are, per run."""

    def kept(self, active: Array, before: Any) -> Any:
        """These factors for the runs that go on, `before` for those that have stopped."""


class Sweeping(Protocol):
    """What the loop asks of a stage."""

    @property
    def recordable(self) -> bool: ...

    def sweep(self, factors: Any) -> Any: ...

    def objective(self, factors: Any) -> tuple[Array, Array]: ...

    def dead(self, factors: Any) -> Array: ...

    def negligible(self, tol: float) -> Array: ...


@dataclass(frozen=True)
class Descent(ABC):
    """What the loop asks of a problem: sweeps over factors, and their objective."""

    X: Array

    @property
    def recordable(self) -> bool:
        """Whether a sweep only launches kernels on a card, so that a CUDA graph can record it."""
        return False

    @abstractmethod
    def sweep(self, factors: Any) -> Any:
        """Every factor once."""

    @abstractmethod
    def objective(self, factors: Any) -> tuple[Array, Array]:
        """f and the part of it that is penalties, per run, in double precision."""

    def dead(self, factors: Any) -> Array:
        """Units of all layers that reach nothing, or that nothing reaches, per run."""
        return count_dead(Identity(), factors.weights, factors.used)

    def negligible(self, tol: float) -> Array:
        """The objective at a relative error of `tol`, or as small as rounding lets one see."""
        return max(tol * tol, 10 * epsilon(self.X)) * self.half_norm

    @cached_property
    def half_norm(self) -> Array:
        """½‖X‖² per run."""
        return squared_norm(self.X) / 2


@dataclass(frozen=True)
class Stage(Descent):
    """min ½‖X − X̂‖² + Σ_l R_l(W_l) + R(H) over the factors of a model. No sweep raises it."""

    penalties_W: tuple[Penalty, ...]
    penalty_H: Penalty
    scaling: Scaling
    solver: Solver

    @abstractmethod
    def begin(self, weights: Sequence[Array], H: Array) -> Any:
        """The factors that the stage starts from."""

    def weights_penalty(self, weights: Sequence[Array]) -> Array:
        """Σ_l R_l(W_l) per run."""
        return added(R.value(W) for R, W in zip(self.penalties_W, weights, strict=True))


def choose_each(keep: Array, new: Sequence[Array], old: Sequence[Array]) -> tuple[Array, ...]:
    """`choose` for several arrays."""
    return tuple(choose(keep, a, b) for a, b in zip(new, old, strict=True))
