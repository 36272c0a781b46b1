"""What methods with a constraint on every column of W or H share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepnmf.arrays import Array, column_dots, gram, inner, transposed_product
from deepnmf.core.passes import add_up, nonnegative_least_squares
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.models.baselines.base import LeastSquares, SingleLayer, State
from deepnmf.penalties import Zero
from deepnmf.solvers import Auto, Outcome, per_run
from deepnmf.solvers.quadratic import Quadratic, codes_problem, weights_problem


class Constraint(ABC):
    """A set in which every column of a factor F ≥ 0 must lie."""

    @abstractmethod
    def nearest(self, F: Array) -> Array:
        """Π(F), the nearest factor with columns in the set."""

    @abstractmethod
    def update(self, problem: Quadratic, F: Array) -> tuple[Array, Array]:
        """A factor whose objective is not above that of F, and the residual of F."""

    @abstractmethod
    def encode(self, problem: Quadratic, H: Array) -> Array:
        """Codes in the set, from the codes H that only have to be ≥ 0."""

    def step(self, problem: Quadratic, F: Array) -> Array:
        """A projected gradient step, Π(F − ∇/LC)."""
        return self.nearest(F - problem.gradient(F) / problem.lipschitz)


def residual(problem: Quadratic, F: Array, stepped: Array) -> Array:
    """‖LC (F − Π(F − ∇/LC))‖² per run, from F and the step from it."""
    gap = (F - stepped) * problem.lipschitz
    return per_run(column_dots(gap, gap))


class ConstrainedNMF(SingleLayer):
    """½‖X − WH‖² over W, H ≥ 0, with a constraint on the columns of W, of H, or of both."""

    @abstractmethod
    def _constraints(self) -> tuple[Constraint | None, Constraint | None]:
        """The constraints on W and on H."""

    def _train(self, X: Array, watch: Watch) -> Trained:
        problem = Constrained(X, *self._constraints())
        return self._descend(problem, problem.begin(*self._first(X, watch.generators)), watch)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        (W,) = weights
        H = nonnegative_least_squares(X, W, Zero())
        _, on_H = self._constraints()
        if on_H is None:
            return H
        return on_H.encode(codes_problem(gram(W), transposed_product(W, X), Zero()), H)


@dataclass(frozen=True)
class Constrained(LeastSquares):
    """½‖X − WH‖² over factors under constraints; a factor without one is updated as in DeepNMF."""

    on_W: Constraint | None
    on_H: Constraint | None

    def begin(self, W: Array, H: Array) -> State:
        """The start, moved to the nearest feasible factors."""
        W = W if self.on_W is None else self.on_W.nearest(W)
        H = H if self.on_H is None else self.on_H.nearest(H)
        return State((W,), H, inner(H, 0 * H), add_up(self.X, H), (None, None))

    def sweep(self, state: State) -> State:
        """The codes, then the weights."""
        (W,), (memory_H, memory_W) = state.weights, state.memories
        problem = codes_problem(gram(W), transposed_product(W, self.X), Zero())
        codes = _updated(self.on_H, problem, state.H, memory_H)
        sums = add_up(self.X, codes.F)
        problem = weights_problem(None, sums.S, sums.Q, Zero())
        weights = _updated(self.on_W, problem, W, memory_W)
        total = codes.residual * inner(state.H, state.H) + weights.residual * inner(W, W)
        return State((weights.F,), codes.F, total, sums, (codes.memory, weights.memory))


def _updated(constraint: Constraint | None, problem: Quadratic, F: Array, memory: Any) -> Outcome:
    if constraint is None:
        return Auto().update(problem, F, memory)
    moved, distance = constraint.update(problem, F)
    return Outcome(moved, None, distance)
