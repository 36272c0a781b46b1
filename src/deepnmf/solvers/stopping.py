"""When the steps of an update end: one rule for all solvers, on arrays and in kernels."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from deepnmf.arrays import Array, epsilon, namespace


def per_run(problem_values: Array) -> Array:
    """Sum over the problems of a run: (…, 1, n) or (…, 1, 1) to (…), in double precision."""
    xp = namespace(problem_values)
    return xp.sum(problem_values, axis=(-2, -1), dtype=xp.float64)


def still_open(size: Array, goal: Array, joint: bool) -> Array:
    """Which problems have not reached their goal: each separately, or (`joint`) all problems of a
    run together, by the sums of sizes and goals."""
    if not joint:
        return size > goal
    return (per_run(size) > per_run(goal))[..., None, None] & (size == size)


class Rule(Protocol):
    """How many steps an update takes; see `Nesterov`."""

    @property
    def max_steps(self) -> int: ...
    @property
    def min_steps(self) -> int: ...
    @property
    def tol(self) -> float: ...
    @property
    def sharpen(self) -> bool: ...
    @property
    def joint(self) -> bool: ...


class Pace(NamedTuple):
    """What the next update of a factor needs to know."""

    goal: Array | None = None
    """The squared gradient mapping to reach, one per problem."""
    vector: Array | None = None
    """The Perron vector of its Gram matrix, on a CUDA device."""


class Stepping:
    """Which problems of a factor still take steps, by the rule of their solver.

    Values per problem are (…, 1, n) or (…, 1, 1), like those of `Quadratic.dots`.
    """

    def __init__(self, rule: Rule, mapping: Array, LC: Array, goal: Array | None) -> None:
        xp = namespace(mapping)
        self.rule, self.square = rule, LC * LC
        self.goal = rule.tol * rule.tol * mapping if goal is None else goal
        self.rounding = (4 * epsilon(mapping)) ** 2 * self.square
        self.running = xp.ones_like(mapping)
        self.steps = xp.ones_like(mapping)

    def note(self, moved: Array, norms: Array) -> None:
        """Decide which problems continue, after a step with these ‖Y − F‖² and ‖F‖²."""
        xp = namespace(moved)
        self.steps = self.steps + self.running
        goal = xp.maximum(self.goal, self.rounding * norms)
        more = still_open(moved * self.square, goal, self.rule.joint)
        self.running = self.running * xp.astype(more, moved.dtype)

    def done(self, taken: int) -> bool:
        """True when none continues."""
        xp = namespace(self.running)
        return taken >= self.rule.min_steps and not bool(xp.any(self.running > 0))

    def next_goal(self) -> Array:
        """The goal of the next update."""
        if not self.rule.sharpen:
            return self.goal
        few = self.steps <= self.rule.min_steps
        return namespace(few).where(few, self.goal / 100, self.goal)
