"""NMF on the CPU: seconds until a method is as good as scikit-learn after 200 iterations.

    python benchmarks/cpu.py [--datasets digits pie-40 …] [--repeats 3] [--quick]

All methods get the same X and the same read-only start, scikit-learn's NNDSVDa. The target is the
objective ½‖X − WH‖² that scikit-learn reaches from there in 200 iterations. First the smallest
number of iterations that reaches the target is found for every method. Then complete calls with
that number are timed, all methods in turn. The objective is computed in double precision from the
factors. This, imports and compilation are not timed. A method that needs more time than
scikit-learn (or 5 s) is stopped: it has not reached the target.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median

import joblib
import judge
import limit
import problems
import rows
from limit import Update
from methods import Failure, Method, Worker
from ours import OURS
from peers import PEERS, REFERENCE
from problems import Problem
from rows import LimitRow, Row
from search import Found, smallest
from threadpoolctl import threadpool_limits

from deepnmf.data.dataset import DataError

METHODS = (*PEERS, *OURS)
ITERATIONS = 200
ROUNDING = 1e-6
SHARE, LEAST = 1.0, 5.0
"""A call may take SHARE times as long as scikit-learn, and at least LEAST seconds."""
PATIENCE = 60.0
"""No call is ended before this many seconds: a busy machine can stall small products."""
VARIABLES = ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = list(problems.PROBLEMS)
    parser.add_argument("--datasets", nargs="+", choices=known, default=known, metavar="NAME")
    parser.add_argument("--repeats", type=int, default=3, help="timed calls of every method")
    parser.add_argument("--quick", action="store_true", help="digits only")
    parser.add_argument("--threads", type=int, default=joblib.cpu_count())
    options = parser.parse_args()
    for library in VARIABLES:
        os.environ[f"{library}_NUM_THREADS"] = str(options.threads)

    calls: list[Row] = []
    limits: list[LimitRow] = []
    print(f"{rows.header(options.threads)}\n")
    with threadpool_limits(options.threads):
        for name in ["digits"] if options.quick else options.datasets:
            try:
                problem = problems.load(name)
            except DataError as missing:
                print(f"## {name}\n\nskipped: {missing}\n", flush=True)
                continue
            found, near = compare(problem, options.repeats, options.threads)
            calls += found
            limits += near
            paths = [rows.write("cpu", calls)]
            if limits:
                paths.append(rows.write("cpu_limits", limits))
            show(problem, found, near)
    if calls:
        print("rows: " + ", ".join(os.path.relpath(path) for path in paths))


def compare(problem: Problem, repeats: int, threads: int) -> tuple[list[Row], list[LimitRow]]:
    """Rows of all methods on one problem, and the limits of ours."""
    found: dict[str, list[Row]] = {}
    details: dict[str, list[float]] = {}
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for method in METHODS:
            if problem.sparse and not method.sparse:
                found[method.name] = [row(problem, method, threads, note="does not take sparse X")]
                continue
            workers[method.name] = Worker(method, problem, threads)
            stack.callback(workers[method.name].close)
        for name, worker in list(workers.items()):
            try:
                print(f"{name}: {worker.method.versions()}; {worker.ready()}", flush=True)
            except Failure as failure:
                found[name] = [row(problem, worker.method, threads, note=str(failure))]
                del workers[name]
        target, longest = reference(problem, workers[REFERENCE.name])
        searched: dict[str, Found] = {}
        for name, worker in workers.items():
            method = worker.method
            try:
                count = search(problem, worker, target, longest)
            except Failure as failure:
                found[name] = [row(problem, method, threads, None, target, str(failure))]
                continue
            if count.reached:
                searched[name] = count
                found[name], details[name] = [], []
            else:
                found[name] = [row(problem, method, threads, count, target, count.ended)]
        patience = max(10 * longest, PATIENCE)
        for _ in range(repeats):
            for name, count in list(searched.items()):
                method = workers[name].method
                try:
                    seconds, detail = workers[name].seconds(count.iterations, patience)
                except Failure as failure:
                    del searched[name]
                    found[name] = [row(problem, method, threads, None, target, str(failure))]
                    continue
                timed = count._replace(seconds=seconds)
                found[name].append(row(problem, method, threads, timed, target))
                details[name].append(detail)
        near = [
            limit_row(problem, workers[name], searched[name], found[name], details[name], threads)
            for name in (method.name for method in OURS)
            if name in searched
        ]
    return [row for method in METHODS for row in found[method.name]], near


def reference(problem: Problem, worker: Worker) -> tuple[float, float]:
    """The target, and the seconds that one call may take."""
    seconds, factors = worker.factors(ITERATIONS, limit=3600)
    target = judge.objective(problem.X, factors.W, factors.H) * (1 + ROUNDING)
    return target, max(SHARE * seconds, LEAST)


def search(problem: Problem, worker: Worker, target: float, longest: float) -> Found:
    """The smallest number of iterations that reaches the target, or the last one tried."""
    patience = max(10 * longest, PATIENCE)
    tried: list[Found] = []

    def run(iterations: int) -> Found:
        seconds, factors = worker.factors(iterations, patience)
        try:
            objective = judge.objective(problem.X, factors.W, factors.H)
        except ValueError as wrong:
            raise Failure(f"after {iterations} iterations {wrong}") from None
        done = iterations if factors.iterations is None else factors.iterations
        ended = "stopped by itself" if done < iterations else ""
        tried.append(Found(done, objective, seconds, objective <= target, ended))
        return tried[-1]

    try:
        if worker.method is REFERENCE:
            return run(ITERATIONS)
        if worker.method not in OURS:
            return smallest(run, longest)
        # One run tells the count. Rounding can make it slightly wrong, so the judge checks it.
        iterations = worker.ask("first", (target, longest), patience)
        while not run(iterations).reached and tried[-1].seconds < longest:
            iterations += max(1, iterations // 50)
    except Failure as failure:
        if not tried:
            raise
        return tried[-1]._replace(reached=False, ended=str(failure))
    return tried[-1]


def limit_row(
    problem: Problem,
    worker: Worker,
    count: Found,
    found: Sequence[Row],
    training: Sequence[float],
    threads: int,
) -> LimitRow:
    """The work of these sweeps, and the time it takes at the full rate of the machine."""
    n, m = problem.X.shape
    did = worker.ask("work", count.iterations, limit=3600)
    # A failed extrapolated sweep is repeated, so there can be more sweeps than iterations.
    sweeps = did.updates[Update(problem.k, n, left=True, right=False)]
    work = limit.begin(m, n, problem.k) + limit.times(limit.sweep(m, n, [problem.k]), sweeps)
    bound = limit.limit(work + did.products, sum(did.loops), problem.X.dtype.name, problem.X)
    return LimitRow(
        problem.name,
        worker.method.name,
        str(count.iterations),
        bound.gflop,
        bound.rate,
        bound.seconds,
        bound.own_seconds,
        bound.product_seconds,
        median(row.seconds for row in found if row.seconds is not None),
        median(training),
        threads,
    )


def row(
    problem: Problem,
    method: Method,
    threads: int,
    count: Found | None = None,
    target: float | None = None,
    note: str = "",
) -> Row:
    """A row about a method, with what is known so far."""
    return Row(
        problem.name,
        method.name,
        method.dtype,
        str(problem.k),
        f"nndsvda, {method.start}",
        "" if count is None else str(count.iterations),
        None if count is None else count.seconds,
        None if count is None else count.objective,
        target,
        count is not None and count.reached,
        method.versions(),
        threads,
        "; ".join(text for text in (note, method.note if count else "") if text),
    )


def show(problem: Problem, found: Sequence[Row], near: Sequence[LimitRow]) -> None:
    """The tables of one problem."""
    n, m = problem.X.shape
    kind = f"sparse, {problem.X.nnz} entries" if problem.sparse else "dense"
    print(f"\n## {problem.name}: {n} x {m}, {kind}, {problem.X.dtype}, k = {problem.k}\n")
    print(rows.comparison(found, REFERENCE.name, "scikit-learn"))
    if near:
        print(f"\n{rows.limits(near)}")
    print(flush=True)


if __name__ == "__main__":
    main()
