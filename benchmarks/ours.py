"""Our own methods: one layer of DeepNMF with each solver, from the common start."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from limit import Counting
from methods import Bound, Factors, Method
from problems import Problem

SOLVERS = ("coordinate", "nesterov")
LARGEST = 100_000


def bind(solver: str, problem: Problem, _: int) -> Bound:
    """The timed call is the public `fit`; the judge sees what `fit` trains.

    "first" asks for the number of sweeps at which the objective is at most the target, read from
    one run; "work" for what the solver does in so many sweeps.
    """
    from deepnmf import DeepNMF
    from deepnmf.core.training import Trained, train
    from deepnmf.core.watch import Record
    from deepnmf.models.settings import plan_of
    from deepnmf.solvers import SOLVERS as KNOWN
    from deepnmf.starts import Given

    if solver not in KNOWN:
        raise ImportError(f"this deepnmf has no solver {solver!r}")

    def model(iterations: int) -> DeepNMF:
        start = Given([problem.H.T], problem.W)
        return DeepNMF(problem.k, solver=solver, start=start, max_iter=iterations, tol=0)

    def trained(iterations: int, report: Any = None, counting: Counting | None = None) -> Trained:
        plan = plan_of(model(iterations))
        if counting is not None:
            plan = replace(plan, solver=counting)
        return train(problem.X.T, plan, [np.random.default_rng(0)], report)

    def call(iterations: int) -> float:
        """The seconds of the sweeps only; the rest of `fit` is checks and the final codes."""
        return model(iterations).fit(problem.X).history_[-1]["seconds"]

    def factors(iterations: int) -> Factors:
        fit = trained(iterations)
        return Factors(fit.H.T, fit.weights[0].T)

    def first(target: float, seconds: float) -> int:
        ends = time.perf_counter() + seconds

        def report(record: Record, _: Any) -> bool:
            return record["objective"] <= target or time.perf_counter() > ends

        return trained(LARGEST, report).sweeps

    def work(iterations: int) -> Counting:
        counting = Counting(plan_of(model(iterations)).solver)
        trained(iterations, counting=counting)
        return counting

    def ask(name: str, argument: Any) -> Any:
        return first(*argument) if name == "first" else work(argument)

    return Bound(call, factors, ask)


OURS = tuple(
    Method(f"deepnmf {solver}", ("deepnmf",), partial(bind, solver), sparse=True, warm_up=8)
    for solver in SOLVERS
)
