"""Processes that run cases, so that a crash or a hang ends one process and is known by its case."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.fuzz.verdict import complaint

HANG = 60.0
"""Seconds after which a case counts as hung."""
ROOM = 4 * 2**30
"""Bytes that the cases of a process may allocate."""
PRELOAD = ("tests.fuzz.warm",)
"""What is imported once, before processes are forked."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Set to 1: threads do not survive a fork, and cases are too small for them."""


@dataclass(frozen=True)
class Batch:
    """Cases `first` … `end` − 1 of a family."""

    family: str
    seed: int
    first: int
    end: int


@dataclass(frozen=True)
class Result:
    """How a case ended: None, or a finding. With the seconds that it took."""

    family: str
    seed: int
    number: int
    finding: str | None
    seconds: float


def family_module(name: str) -> Any:
    return importlib.import_module(f"tests.fuzz.{name}")


def finding_of(module: Any, case: Any) -> str | None:
    """Run one case. An error of the case itself is a finding as well."""
    try:
        finding: str | None = module.run(case)
    except Exception as problem:
        return complaint(problem, polite=())
    return None if finding is None else " ".join(finding.split())


def serve(connection: Connection) -> None:
    """Run batches until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.getrlimit(resource.RLIMIT_AS)[1]))
    sys.stdin.close()
    while (batch := connection.recv()) is not None:
        module = family_module(batch.family)
        cases = itertools.islice(module.cases(batch.seed, batch.end), batch.first, batch.end)
        for number, case in enumerate(cases, batch.first):
            connection.send(number)
            began = time.perf_counter()
            finding = finding_of(module, case)
            seconds = time.perf_counter() - began
            connection.send(Result(batch.family, batch.seed, number, finding, seconds))
        connection.send(None)


class Worker:
    """One process, the batch it works on, and the case it is at."""

    def __init__(self, context: Any) -> None:
        self.connection, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there,))
        self.process.start()
        there.close()
        self.batch: Batch | None = None
        self.number: int | None = None
        self.since = time.monotonic()

    def give(self, batch: Batch) -> None:
        self.batch, self.number, self.since = batch, None, time.monotonic()
        self.connection.send(batch)

    def answers(self) -> Iterator[Result]:
        """What has ended since the last call. Raises EOFError if the process is gone."""
        while self.batch is not None and self.connection.poll():
            answer = self.connection.recv()
            self.since = time.monotonic()
            if answer is None:
                self.batch = None
            elif isinstance(answer, int):
                self.number = answer
            else:
                yield answer

    def hangs(self, limit: float) -> bool:
        """Whether a case takes longer than this. The imports before the first one may take more."""
        limit = limit if self.number is not None else max(limit, HANG)
        return self.batch is not None and time.monotonic() - self.since > limit

    def ended(self, finding: str | None = None) -> tuple[Result, Batch | None]:
        """The result of the case that ended this process, and what is left of its batch."""
        self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        batch, at = self.batch, self.number
        assert batch is not None
        at = batch.first if at is None else at
        seconds = time.monotonic() - self.since
        result = Result(batch.family, batch.seed, at, finding or f"crash: {name} |", seconds)
        left = Batch(batch.family, batch.seed, at + 1, batch.end) if at + 1 < batch.end else None
        return result, left

    def dismiss(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def results(
    batches: Iterable[Batch], count: int = 2, preload: Sequence[str] = PRELOAD, hang: float = HANG
) -> Iterator[Result]:
    """Run batches in `count` processes. Results come as they end."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*preload])
    queue, left = iter(batches), list[Batch]()
    workers = [Worker(context) for _ in range(count)]
    try:
        while True:
            for worker in workers:
                if worker.batch is None:
                    batch = left.pop() if left else next(queue, None)
                    if batch is not None:
                        worker.give(batch)
            busy = [worker for worker in workers if worker.batch is not None]
            if not busy:
                return
            wait([worker.connection for worker in busy], timeout=min(1, hang))
            for place, worker in enumerate(workers):
                lost = None
                try:
                    yield from worker.answers()
                    if worker.hangs(hang):
                        lost = worker.ended(f"hang: no answer in {hang:g} s |")
                except (EOFError, ConnectionError):
                    lost = worker.ended()
                if lost is not None:
                    yield lost[0]
                    left += [lost[1]] if lost[1] is not None else []
                    worker.connection.close()
                    workers[place] = Worker(context)
    finally:
        for worker in workers:
            worker.dismiss()
