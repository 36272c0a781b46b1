"""Nesterov's steps on a CUDA device, by the kernels of `arrays.cuda.steps`."""

from __future__ import annotations

from deepnmf.arrays import Array, at_least, eye, namespace, perron_bound
from deepnmf.arrays.cuda.fused import flat
from deepnmf.arrays.cuda.steps import Steps
from deepnmf.solvers.quadratic import Quadratic
from deepnmf.solvers.stopping import Pace, Rule, Stepping


def covers(problem: Quadratic, F: Array) -> bool:
    """Whether the kernels cover a problem: single precision, no constraint but F ≥ 0, and a penalty
    that they know."""
    known = problem.by_column or problem.penalty.uniform is not None
    plain = type(problem) is Quadratic and not problem.unit_columns
    return known and plain and F.dtype == namespace(F).float32


def update(problem: Quadratic, F: Array, rule: Rule, pace: Pace) -> tuple[Array, Pace, Array]:
    """F after the rule's accelerated steps (the first and last are plain), the pace for the next
    update, and ‖LC (F − P(F − ∇q(F)/LC))‖² per run for the F before the update."""
    steps, vector = _steps(problem, F, pace)
    stack = F.shape[:-2]

    def outcome(result: Array, goal: Array | None) -> tuple[Array, Pace, Array]:
        xp = namespace(F)
        if goal is not None:
            goal = xp.reshape(goal, (*stack, *goal.shape[-2:]))
        return result, Pace(goal, vector), xp.reshape(steps.residual, stack)

    mapping = steps.first()
    if rule.max_steps == 1:
        return outcome(steps.shaped(steps.now), pace.goal)
    stepping: Stepping | None = None
    if rule.tol > 0:
        goal = None if pace.goal is None else flat(pace.goal)
        stepping = Stepping(rule, mapping, steps.LC[:, None, None], goal)
    steps.begin_momentum(stops=stepping is not None)
    for taken in range(2, rule.max_steps):
        steps.accelerated(None if stepping is None else stepping.running)
        if stepping is not None:
            stepping.note(*steps.went())
            if stepping.done(taken):
                break
    return outcome(steps.last(), None if stepping is None else stepping.next_goal())


def _steps(problem: Quadratic, F: Array, pace: Pace) -> tuple[Steps, Array | None]:
    """The steps for a problem, and the Perron vector of its Gram matrix if there is only one."""
    rows = F.shape[-2]
    A, B = flat(problem.A), flat(problem.B)
    mu, lam = problem.penalty.uniform or (0.0, 0.0)
    if problem.by_column:
        B, A, mu, lam = A, None, 0.0, 0.0
        if problem.penalty.active:
            B = B + flat(problem.penalty.gradient(eye(rows, B)))
    vector = None
    if A is None:
        # The matrix resembles that of the last update, so two steps from its vector are enough.
        bound, vector = perron_bound(B, 16 if pace.vector is None else 2, pace.vector)
        tiny = float(namespace(F).finfo(F.dtype).tiny) ** 0.5
        LC = at_least(bound[:, 0, 0] + (mu * rows + lam), tiny)
    else:
        LC = namespace(F).reshape(problem.lipschitz, (-1,))
    return Steps(F, problem.C, A, B, LC, (mu, lam), problem.by_column), vector
