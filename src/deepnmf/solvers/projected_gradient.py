"""Lin's projected gradient with its step rule, the solver of PgNMF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from deepnmf.arrays import Array, choose, in_order, namespace
from deepnmf.solvers.base import Outcome, Solver, SolverMemory, is_between, is_whole, require
from deepnmf.solvers.quadratic import Quadratic
from deepnmf.solvers.stopping import per_run, still_open


class Memory(NamedTuple):
    """Step sizes and squared goals, one of each per problem."""

    step: Array
    goal: Array


@dataclass(frozen=True)
class ProjectedGradient(Solver):
    """F_{k+1} = P(F_k − t ∇q(F_k)), t the largest of …, β², β, 1, β⁻¹, … (times the last t)
    with q(F_{k+1}) − q(F_k) ≤ σ⟨∇q(F_k), F_{k+1} − F_k⟩.

    A problem stops when its gradient mapping LC(F − P(F − ∇q/LC)) is below a goal: `tol` times the
    first mapping of the factor's first update, divided by 10 after every update of at most one step
    (Lin's rule). With `joint`, as in Lin's code, the problems of a factor stop together, by the
    norm over all of them. This is sooner, but the code of a sample then depends on other samples.
    Step sizes are kept from one update of a factor to the next.
    """

    max_steps: int = 20
    tol: float = 1e-3
    sigma: float = 0.01
    beta: float = 0.1
    max_trials: int = 20
    joint: bool = False

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_trials"):
            require(self, name, is_whole(getattr(self, name)), "a whole number ≥ 1")
        require(self, "tol", is_between(self.tol, 0, 1), "a number ≥ 0 and < 1")
        for name in ("sigma", "beta"):
            inside = is_between(getattr(self, name), 0, 1) and getattr(self, name) > 0
            require(self, name, inside, "a number between 0 and 1")

    def update(self, problem: Quadratic, F: Array, memory: SolverMemory = None) -> Outcome:
        xp = namespace(F)
        problem, F = problem.in_order(), in_order(F)
        LC = problem.lipschitz
        gradient = problem.gradient(F)
        size = _mapping(problem, F, gradient)
        residual = per_run(size)
        if memory is None:
            memory = Memory(xp.ones_like(size) / LC, self.tol * self.tol * size)
        t, goal = memory
        taken = 0 * size
        for _ in range(self.max_steps):
            running = still_open(size, goal, self.joint)
            if not bool(xp.any(running)):
                break
            F, gradient, t = self._step(problem, F, gradient, t, running)
            size = _mapping(problem, F, gradient)
            taken = taken + xp.astype(running, size.dtype)
        goal = xp.where(taken <= 1, goal / 100, goal)
        return Outcome(F, Memory(t, goal), residual)

    def _step(
        self, problem: Quadratic, F: Array, gradient: Array, t: Array, running: Array
    ) -> tuple[Array, Array, Array]:
        """One step of every running problem: shrink t until the step is good enough, or grow it
        as long as it is.

        The gradient at the accepted trial is that of the next step, so nothing is computed twice.
        """
        xp = namespace(F)
        best, best_gradient, best_t = F, gradient, t
        accepted = xp.zeros_like(running)
        searching = running
        growing: Array | None = None
        for _ in range(self.max_trials):
            F_trial = problem.project(F - t * gradient)
            gradient_trial = problem.gradient(F_trial)
            decrease = problem.change(F, gradient, F_trial, gradient_trial)
            enough = decrease <= self.sigma * problem.dots(gradient, F_trial - F)
            growing = enough if growing is None else growing
            take = searching & enough
            moved = problem.dots(F_trial - best, F_trial - best) > 0
            best = choose(take, F_trial, best)
            best_gradient = choose(take, gradient_trial, best_gradient)
            best_t = xp.where(take, t, best_t)
            accepted = accepted | take
            # A growing search continues while it succeeds and still moves; a shrinking one ends
            # with its first success.
            searching = searching & xp.where(growing, enough & moved, ~enough)
            if not bool(xp.any(searching)):
                break
            t = xp.where(searching, xp.where(growing, t / self.beta, t * self.beta), t)
        # If no step is good enough the factor stays, and the next search starts from a short one.
        return best, best_gradient, xp.where(accepted | ~running, best_t, t)


def _mapping(problem: Quadratic, F: Array, gradient: Array) -> Array:
    """‖LC (F − P(F − ∇q(F)/LC))‖² for every problem."""
    LC = problem.lipschitz
    step = F - problem.project(F - gradient / LC)
    return problem.dots(step, step) * LC * LC
