"""A busy machine: seconds of a fit alone, beside a second fit, and beside a spinning process.

    DEEPNMF_DATA=… python benchmarks/busy.py [--repeats 5] [--cases wide pie reuters]

Threads are as the user has set them: unset OMP_NUM_THREADS for the default. The fits of a case are
timed in turn, each in the same process. `cpu` shows threads that spin: it then is far above the
time of one thread. `others` is how many cores all other processes used meanwhile. Before each fit
the benchmark waits for idle cores, at most `--patience` seconds. To compare with another version,
set PYTHONPATH to its `src`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import joblib
import numpy as np
import problems
import rows

from deepnmf import DeepNMF, sdnmf_l

SPAWN = multiprocessing.get_context("spawn")
ALONE = "alone"


def wide() -> tuple[Any, DeepNMF]:
    """600 x 1077, of the size at which threads just begin to pay."""
    X = np.random.default_rng(0).random((600, 1077))
    return X, DeepNMF((20,), max_iter=60, tol=0, random_state=0)


def pie() -> tuple[Any, DeepNMF]:
    """PIE, two layers: 30 alternations per layer and 100 sweeps."""
    X = problems.PROBLEMS["pie-160"][0]()
    return X, sdnmf_l((200, 68), mu=1e-3, pretrain_iter=30, max_iter=100, tol=0, random_state=0)


def reuters() -> tuple[Any, DeepNMF]:
    """Reuters tf-idf, sparse."""
    return problems.PROBLEMS["reuters"][0](), DeepNMF((50,), max_iter=15, tol=0, random_state=0)


def digits() -> tuple[Any, DeepNMF]:
    """Digits: too small for threads."""
    return problems.PROBLEMS["digits"][0](), DeepNMF((16,), max_iter=60, tol=0, random_state=0)


def pie_160() -> tuple[Any, DeepNMF]:
    """PIE, one layer of 160 parts."""
    return problems.PROBLEMS["pie-160"][0](), DeepNMF((160,), max_iter=20, tol=0, random_state=0)


CASES: dict[str, Callable[[], tuple[Any, DeepNMF]]] = {
    "wide": wide,
    "pie": pie,
    "reuters": reuters,
    "digits": digits,
    "pie-160": pie_160,
}


@dataclass(frozen=True)
class Row:
    """One timed fit."""

    case: str
    beside: str
    seconds: float
    cpu: float
    others: float
    objective: float
    machine: str = field(default_factory=rows.machine)
    date: str = field(default_factory=rows.now)


def fit_when_told(pipe: Connection, case: str) -> None:
    """Fit once to compile, then at every message; answer with seconds, CPU seconds, objective."""
    warnings.simplefilter("ignore")
    X, model = CASES[case]()
    model.fit(X)
    pipe.send(None)
    while pipe.recv():
        began, used = time.perf_counter(), time.process_time()
        model.fit(X)
        taken = time.perf_counter() - began, time.process_time() - used
        pipe.send((*taken, model.history_[-1]["objective"]))


def fit_forever(pipe: Connection, case: str) -> None:
    """The second fit, again and again."""
    warnings.simplefilter("ignore")
    X, model = CASES[case]()
    model.fit(X)
    pipe.send(None)
    while True:
        model.fit(X)


def spin(pipe: Connection, case: str) -> None:
    """One core, always busy."""
    pipe.send(case and None)
    while True:
        pass


NEIGHBOURS = {"a second fit": fit_forever, "a spinning process": spin}


@contextmanager
def started(target: Callable[[Connection, str], None], case: str) -> Iterator[tuple[Any, Any]]:
    """A process that has said that it is ready, and our end of the pipe to it."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=target, args=(theirs, case), daemon=True)
    process.start()
    try:
        ours.recv()
        yield process, ours
    finally:
        process.kill()
        process.join()


def busy_seconds() -> float:
    """CPU seconds that all processes have used since the machine started."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def used_by(pid: int) -> float:
    """CPU seconds that a process has used."""
    numbers = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_idle_cores(patience: float) -> None:
    """Wait until other processes use less than a tenth of a core."""
    ends = time.perf_counter() + patience
    while time.perf_counter() < ends:
        before = busy_seconds()
        time.sleep(0.5)
        if busy_seconds() - before < 0.05:
            return


def compare(case: str, repeats: int, patience: float) -> list[Row]:
    """Fits of one case, alone and beside each neighbour in turn."""
    found = []
    with started(fit_when_told, case) as (fitter, pipe):
        for _ in range(repeats):
            for beside in (ALONE, *NEIGHBOURS):
                found.append(timed(case, beside, fitter, pipe, patience))
                print(f"{case} beside {beside}: {found[-1].seconds:.2f} s", flush=True)
    return found


def timed(case: str, beside: str, fitter: Any, pipe: Connection, patience: float) -> Row:
    """One fit, alone or beside a neighbour that is started for it."""
    if beside == ALONE:
        wait_for_idle_cores(patience)
        return measured(case, beside, [fitter], pipe)
    with started(NEIGHBOURS[beside], case) as (neighbour, _):
        os.kill(neighbour.pid, signal.SIGSTOP)
        wait_for_idle_cores(patience)
        os.kill(neighbour.pid, signal.SIGCONT)
        return measured(case, beside, [fitter, neighbour], pipe)


def measured(case: str, beside: str, ours: list[Any], pipe: Connection) -> Row:
    """One fit, and how many cores other processes than ours used meanwhile."""

    def foreign() -> float:
        return busy_seconds() - sum(used_by(process.pid) for process in ours)

    before = foreign()
    pipe.send(True)
    seconds, cpu, objective = pipe.recv()
    others = max(0.0, foreign() - before) / seconds
    return Row(case, beside, seconds, cpu, others, objective)


def table(found: list[Row]) -> str:
    """Medians, and how many times as long as alone a fit takes beside something."""
    lines = ["| case | beside | seconds | times alone | cpu | others |", "| --- " * 6 + "|"]
    alone = median(row.seconds for row in found if row.beside == ALONE)
    for beside in (ALONE, *NEIGHBOURS):
        group = [row for row in found if row.beside == beside]
        seconds, cpu, others = (
            median(getattr(row, name) for row in group) for name in ("seconds", "cpu", "others")
        )
        numbers = f"{seconds:.3g} | {seconds / alone:.2f} | {cpu:.3g} | {others:.2f}"
        lines.append(f"| {found[0].case} | {beside} | {numbers} |")
    same = len({row.objective for row in found}) == 1
    return "\n".join(lines) + f"\n\nThe objective is the same in all fits: {same}."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["wide", "pie", "reuters"])
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for idle cores")
    options = parser.parse_args()
    print(f"## Fits on a busy machine\n\n{rows.header(joblib.cpu_count())}\n")
    found: list[Row] = []
    for case in options.cases:
        fits = compare(case, options.repeats, options.patience)
        print(f"\n{table(fits)}\n", flush=True)
        found += fits
    print(f"rows: {os.path.relpath(rows.write('busy', found))}")


if __name__ == "__main__":
    main()
