"""Threads of our own for compiled kernels and matrix products, with BLAS on one thread.

Threads of BLAS wait for each other by spinning. On cores that other processes use as well, they
spin while the thread that they wait for has no core, and a fit becomes many times slower. The
threads here sleep when they wait, none waits for a thread that has not yet begun, and there are
only as many as there are free cores. Results do not depend on their number.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Condition, Lock
from typing import Generic, TypeVar

import numpy as np
from joblib import cpu_count
from threadpoolctl import LibController, ThreadpoolController

R = TypeVar("R")

SMALL = 4e6
"""Operations below which a second thread costs more than it saves."""
CHUNKS = 8
"""Chunks per thread that large work is split into."""
LOOK = 0.01
"""Seconds between two looks at the load."""
LOADAVG = Path("/proc/loadavg")
"""Its fourth field is running/all threads of the machine."""


def usable() -> int:
    """The number of threads that work is shared among now: as many as are allowed and find a free
    core."""
    return min(allowed(), _LOAD.free_cores())


def allowed() -> int:
    """As many threads as BLAS may use, but no more than there are cores for this process. So every
    usual limit applies: OMP_NUM_THREADS, threadpoolctl, those that joblib and Dask set for their
    workers, CPU affinity and the quota of a container."""
    return min(_LIMIT.allowed or _blas_threads(), _cores())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS on one thread, since the threads here call it; then as the user had set it."""
    ours = [(library, library.num_threads) for library in _libraries() if _by_thread(library)]
    _LIMIT.begin()
    _limit_this_thread()
    try:
        yield
    finally:
        for library, number in ours:
            _set(library, number)
        _LIMIT.end()


def share(work: Callable[[int, int], R], pieces: int, operations: float) -> list[R]:
    """work(from, to) over 0 … pieces, split among the threads; its results in order.

    There are more chunks than threads, and a free thread takes the next one: pieces differ in size,
    and cores in load.
    """
    number = 1 if operations < SMALL else min(usable(), pieces)
    if number <= 1:
        return [work(0, pieces)]
    each = min(CHUNKS, 1 + int(operations / (SMALL + 1)))
    chunks = min(pieces, number * each)
    edges = [pieces * chunk // chunks for chunk in range(chunks + 1)]
    return _Chunks(work, edges).done_by(number)


class _Chunks(Generic[R]):
    """Chunks of work that several threads take one by one."""

    def __init__(self, work: Callable[[int, int], R], edges: list[int]) -> None:
        self.work = work
        self.waiting: Iterator[tuple[int, tuple[int, int]]]
        self.waiting = iter(enumerate(itertools.pairwise(edges)))
        self.results: dict[int, R] = {}
        self.errors: list[Exception] = []
        self.helping = 0
        """Chunks that other threads are working on."""
        self.changed = Condition(Lock())

    def done_by(self, number: int) -> list[R]:
        """The results in order, worked out by this thread and at most `number` − 1 others."""
        for _ in range(number - 1):
            _pool(os.getpid()).submit(self._help)
        try:
            while (chunk := self._next()) is not None:
                self._do(*chunk)
        finally:  # After Ctrl-C, no thread takes another chunk.
            with self.changed:
                self.waiting = iter(())
                self.changed.wait_for(lambda: self.helping == 0)
        if self.errors:
            raise self.errors[0]
        return [self.results[chunk] for chunk in range(len(self.results))]

    def _help(self) -> None:
        """Take chunks until none is left. A thread that starts too late has nothing to do."""
        while (chunk := self._next(helping=1)) is not None:
            self._do(*chunk)
            with self.changed:
                self.helping -= 1
                self.changed.notify()

    def _next(self, helping: int = 0) -> tuple[int, tuple[int, int]] | None:
        with self.changed:
            chunk = None if self.errors else next(self.waiting, None)
            self.helping += 0 if chunk is None else helping
            return chunk

    def _do(self, chunk: int, edge: tuple[int, int]) -> None:
        try:
            self.results[chunk] = self.work(*edge)
        except Exception as error:
            self.errors.append(error)


class _Load:
    """The number of threads of other processes that run or wait for a core: an average over about
    a tenth of a second. Only Linux tells; elsewhere the cores count as free."""

    def __init__(self) -> None:
        self.others = 0.0
        self.looked = -math.inf

    def free_cores(self) -> int:
        """Cores of the machine that others leave free: at least one, for the thread that asks."""
        now = time.monotonic()
        since = now - self.looked
        if since > LOOK:
            self.looked = now
            self.others += min(1.0, since / (10 * LOOK)) * (_running() - 1 - self.others)
        return max(1, round((os.cpu_count() or 1) - self.others))


def _running() -> int:
    """How many threads of the machine run or wait for a core now, at least this one."""
    try:
        return max(1, int(LOADAVG.read_text().split()[3].split("/")[0]))
    except (OSError, ValueError, IndexError):
        return 1


class _Limit:
    """The limit of BLAS to one thread, which all fits of a process share: the first one sets it,
    and the last one to end restores what the user had set."""

    def __init__(self) -> None:
        self.allowed = 0
        """The threads that the user allows, while the limit is set; else 0."""
        self.fits = 0
        self.before: list[tuple[LibController, int]] = []
        self.lock = Lock()

    def begin(self) -> None:
        with self.lock:
            if self.fits == 0:
                self.allowed = _blas_threads()
                shared = [library for library in _libraries() if not _by_thread(library)]
                self.before = [(library, library.num_threads) for library in shared]
                for library in shared:
                    _set(library, 1)
            self.fits += 1

    def end(self) -> None:
        with self.lock:
            self.fits -= 1
            if self.fits == 0:
                self.allowed = 0
                for library, number in self.before:
                    _set(library, number)


_LIMIT, _LOAD = _Limit(), _Load()


def _blas_threads() -> int:
    return max((library.num_threads for library in _libraries()), default=0) or _cores()


def _by_thread(library: LibController) -> bool:
    """Whether each thread has its own limit, as with OpenMP."""
    return getattr(library, "threading_layer", "") == "openmp"


def _limit_this_thread() -> None:
    for library in _libraries():
        if _by_thread(library):
            _set(library, 1)


def _set(library: LibController, number: int) -> None:
    """Set the threads of BLAS. Newer versions of threadpoolctl ignore all threads but the first one
    that asks. Here fits in several threads share one limit, and the last one must restore it."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)


@cache
def _cores() -> int:
    return int(cpu_count())


@cache
def _libraries() -> list[LibController]:
    """The BLAS libraries of this process."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool per process: a forked child has none of its parent's threads."""
    del process
    return ThreadPoolExecutor(_cores(), thread_name_prefix="deepnmf", initializer=_begin_thread)


def _begin_thread() -> None:
    _limit_this_thread()
    np.seterr(over="ignore", invalid="ignore")  # the results are checked where they are used
