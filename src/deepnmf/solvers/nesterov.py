"""Nesterov's accelerated gradient, the paper's solver, with restart and safeguard."""

from __future__ import annotations

from dataclasses import dataclass

from deepnmf.arrays import Array, fused_kernels, in_order, namespace
from deepnmf.solvers.base import Outcome, Solver, SolverMemory, is_between, is_whole, require
from deepnmf.solvers.quadratic import Quadratic
from deepnmf.solvers.stopping import Pace, Stepping, per_run


@dataclass(frozen=True)
class Nesterov(Solver):
    """F_k = P(Y_k − ∇q(Y_k)/LC),  Y_{k+1} = F_k + ((α_k − 1)/α_{k+1})(F_k − F_{k−1}),
    α_{k+1} = (1 + √(4α_k² + 1))/2.

    If the momentum points uphill, ⟨Y_k − F_k, F_k − F_{k−1}⟩ > 0, α restarts from 1 (O'Donoghue and
    Candès). The last step is plain. A problem that still ends above its start falls back to its
    first step, which is plain too: no update raises q.

    With `tol` = 0 every update takes `max_steps` steps. Otherwise a problem stops when its gradient
    mapping LC(Y_k − F_k) is below a goal: `tol` times the first mapping of the factor's first
    update. With `sharpen`, the goal is divided by 10 after an update of at most `min_steps` steps
    (NeNMF's rule). With `joint`, as in NeNMF's code, the problems of a factor stop together, by the
    norm over all of them. This is sooner, but the code of a sample then depends on other samples.

    `tf32` lets the products of training round their input to TF32 on a CUDA device: several times
    as fast, with steps accurate to three digits. The objective in `history_` is rounded too,
    `reconstruction_err_` is not.
    """

    max_steps: int = 10
    min_steps: int = 1
    tol: float = 0.0
    sharpen: bool = False
    joint: bool = False
    tf32: bool = False

    def __post_init__(self) -> None:
        require(self, "max_steps", is_whole(self.max_steps), "a whole number ≥ 1")
        fits = is_whole(self.min_steps, 0) and self.min_steps <= self.max_steps
        require(self, "min_steps", fits, f"a whole number from 0 to max_steps = {self.max_steps}")
        require(self, "tol", is_between(self.tol, 0, 1), "a number ≥ 0 and < 1")

    @property
    def rounds(self) -> bool:
        return self.tf32

    def recordable(self, X: Array) -> bool:
        single = fused_kernels(X) is not None and X.dtype == namespace(X).float32
        return single and self.tol == 0

    def update(self, problem: Quadratic, F: Array, memory: SolverMemory = None) -> Outcome:
        pace: Pace = Pace() if memory is None else memory
        if fused_kernels(F) is not None:
            from deepnmf.solvers import accelerated

            if accelerated.covers(problem, F):
                return Outcome(*accelerated.update(problem, F, self, pace))
        xp = namespace(F)
        problem, F = problem.in_order(), in_order(F)
        LC = problem.lipschitz

        start, start_gradient = F, problem.gradient(F)
        first = problem.project(F - start_gradient / LC)
        step = F - first
        mapping = problem.dots(step, step) * LC * LC
        residual = per_run(mapping)
        if self.max_steps == 1:
            return Outcome(first, pace, residual)
        stepping = Stepping(self, mapping, LC, pace.goal)

        D = -step
        F = first
        alpha = xp.ones_like(mapping)
        taken = 1
        # The first step was plain, so momentum begins with the second. The last is plain too.
        momentum, alpha = _momentum(alpha, xp.zeros_like(alpha))
        while taken < self.max_steps - 1:
            Y = momentum * D
            Y += F
            F_next = problem.gradient(Y)
            F_next /= -LC
            F_next += Y
            F_next = problem.project(F_next)
            step = Y - F_next
            D = F_next - F
            if self.tol > 0:
                D = D * stepping.running
            uphill = problem.dots(step, D) > 0
            F = F + D
            del Y, F_next
            taken += 1
            momentum, alpha = _momentum(alpha, uphill)
            if self.tol > 0:
                stepping.note(problem.dots(step, step), problem.dots(F, F))
                if stepping.done(taken):
                    break
        del D, step

        gradient = problem.gradient(F)
        rose = problem.change(start, start_gradient, F, gradient) > 0
        F = problem.project(F - gradient / LC)
        if bool(xp.any(rose)):
            F = xp.where(rose, first, F)
        return Outcome(F, Pace(stepping.next_goal(), pace.vector), residual)


def _momentum(alpha: Array, restart: Array) -> tuple[Array, Array]:
    """(α_k − 1)/α_{k+1} and α_{k+1}; after a restart 0 and 1."""
    xp = namespace(alpha)
    following = (1 + xp.sqrt(4 * alpha * alpha + 1)) / 2
    go = xp.astype(restart, alpha.dtype)
    momentum = (1 - go) * (alpha - 1) / following
    return momentum, following + go * (1 - following)
