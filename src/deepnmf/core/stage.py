"""A stage of training: the problem that one run of the loop solves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import scipy.sparse

from deepnmf.arrays import (
    Array,
    Dense,
    added,
    ahead,
    column_dots,
    divisor,
    epsilon,
    namespace,
    scalars,
    squared_norm,
)
from deepnmf.core.graph import Graph
from deepnmf.core.passes import nonnegative_least_squares
from deepnmf.core.revival import count_dead
from deepnmf.core.scaling import Scaling
from deepnmf.core.strengths import mean_square
from deepnmf.links import Identity
from deepnmf.penalties import Penalty, Zero
from deepnmf.solvers import Solver
from deepnmf.solvers.quadratic import nearest


class Factorized(Protocol):
    """What the loop needs from factors."""

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

    def kept(self, active: Array, before: Self) -> Self:
        """These factors for the runs that continue, `before` for those that have stopped."""


F = TypeVar("F", bound=Factorized)


class Result(NamedTuple):
    """What a stage hands to users."""

    weights: tuple[Array, ...]
    H: Array
    importance: Array | None = None
    """With a loss on every layer, what each counts: a_1 … a_L per run."""
    errors: Array | None = None
    """With a loss on every layer, the relative error of each, per run."""
    square: Array | None = None
    """With fixed scales, the mean square norm of the samples, per run."""


class Sweeping(Protocol[F]):
    """What the loop needs from a stage."""

    @property
    def recordable(self) -> bool: ...

    @property
    def monotone(self) -> bool: ...

    def sweep(self, factors: F) -> F: ...

    def objective(self, factors: F) -> tuple[Array, Array]: ...

    def fall(self, factors: F, last: Array) -> Array: ...

    def dead(self, factors: F) -> Array: ...

    def negligible(self, tol: float) -> Array: ...


@dataclass(frozen=True)
class Descent(ABC, Generic[F]):
    """A problem: sweeps over factors, and their objective."""

    X: Array
    monotone: ClassVar[bool] = False
    """Whether no sweep raises the objective, except by rounding."""

    @property
    def recordable(self) -> bool:
        """Whether a sweep only launches CUDA kernels, so that a CUDA graph can record it."""
        return False

    @abstractmethod
    def sweep(self, factors: F) -> F:
        """Every factor once."""

    @abstractmethod
    def objective(self, factors: F) -> tuple[Array, Array]:
        """f and its penalties, per run, in double precision."""

    def fall(self, factors: F, last: Array) -> Array:
        """The fall of the objective by which the loop judges whether to go on; `last` is that of
        the last sweep."""
        del factors
        return last

    def dead(self, factors: F) -> Array:
        """Units of all layers that reach nothing, or that nothing reaches, per run."""
        return count_dead(Identity(), factors.weights, factors.used)

    def negligible(self, tol: float) -> Array:
        """The objective at a relative error of `tol`, or where rounding hides any progress."""
        return max(tol * tol, 10 * epsilon(self.X)) * self.half_norm

    @cached_property
    def half_norm(self) -> Array:
        """½‖X‖² per run."""
        return squared_norm(self.X) / 2


@dataclass(frozen=True)
class Stage(Descent[F]):
    """min ½‖X − X̂‖² + Σ_l R_l(W_l) + R(H) over the factors of a model. No sweep raises it."""

    penalties_W: tuple[Penalty, ...]
    penalty_H: Penalty
    scaling: Scaling
    solver: Solver
    canonical: bool
    """Whether the codes come out in one scale, whatever the solver."""
    graph: Graph | None = field(default=None, kw_only=True)
    """Which samples are to have similar codes in the last layer."""
    monotone = True

    @abstractmethod
    def begin(self, weights: Sequence[Array], H: Array) -> F:
        """The factors that the stage starts from."""

    @abstractmethod
    def beyond(self, now: F, before: F, beta: Dense) -> F:
        """The factors at F + β (F − F_before), made feasible."""

    @property
    def patience(self) -> int:
        """How many of the last sweeps say whether an extrapolated stage has converged."""
        return 1

    def judged(self, falls: Sequence[Array]) -> Array:
        """The fall per sweep, from those of the last sweeps: the best of them."""
        return reduce(namespace(falls[0]).maximum, falls)

    def result(self, factors: F) -> Result:
        """The factors for users. Codes without a penalty have rows of unit RMS, if scales are
        fixed."""
        weights, H = factors.weights, factors.H
        if self.canonical and not self.penalty_H.active and self.graph is None:
            weights, H = Scaling((False,) * len(weights), unit_rows=True).fix_rows(weights, H)
        return Result(weights, H, square=mean_square(self.X) if self.canonical else None)

    def first_codes(self, factors: F) -> Array:
        """The codes of layer 1 without a graph, for these weights, of parts of unit norm: for
        neighbours, not for users, so they need not be solved to the end."""
        W = factors.weights[0]
        unit = W / divisor(namespace(W).sqrt(column_dots(W, W)))
        return nonnegative_least_squares(self.X, unit, Zero())

    def on_graph(self, S: scipy.sparse.csr_array, factors: F, strength: float) -> tuple[Self, F]:
        """This stage with a graph of the samples, and the factors to continue from. The penalty
        counts `strength` times the relative roughness of codes, where the losses of these codes
        count relative errors: of the codes of before the first graph, since a graph makes codes
        smaller."""
        H = factors.H
        if self.graph is not None:
            return replace(self, graph=Graph.of(S, H, self.graph.weight)), factors
        size = scalars(2 * self.half_norm, H) * (strength * self.counted)
        energy = scalars(squared_norm(H), H)
        return replace(self, graph=Graph.of(S, H, size / divisor(energy))), factors

    @property
    def graph_weight(self) -> Array:
        """What the graph counts, per run."""
        assert self.graph is not None
        return self.graph.weight

    @property
    def counted(self) -> float:
        """What the relative errors of codes of the last layer count, all together."""
        return 1.0

    def slim(self, factors: F) -> F:
        """Factors without what the next sweep does not need."""
        return factors

    def weights_beyond(
        self, now: Sequence[Array], before: Sequence[Array], beta: Dense
    ) -> tuple[Array, ...]:
        """Every W + β (W − W_before), made feasible."""
        triples = zip(now, before, self.scaling.unit_columns, strict=True)
        moved = ((ahead(W, W_before, beta), unit) for W, W_before, unit in triples)
        return tuple(nearest(W, unit) if unit else W for W, unit in moved)

    def weights_penalty(self, weights: Sequence[Array]) -> Array:
        """Σ_l R_l(W_l) per run."""
        return added(R.value(W) for R, W in zip(self.penalties_W, weights, strict=True))
