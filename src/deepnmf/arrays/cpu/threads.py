"""Threads for the compiled kernels, as many as the matrix products use."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TypeVar

from threadpoolctl import LibController, ThreadpoolController

R = TypeVar("R")

SMALL = 4e6
"""Operations below which a second thread costs more than it saves."""
CHUNKS = 8
"""Chunks per thread that large work is split into."""


def threads() -> int:
    """The current number of BLAS threads. So every usual limit applies: OMP_NUM_THREADS,
    threadpoolctl, and those that joblib and Dask set for their workers."""
    return max((library.num_threads for library in _blas()), default=0) or os.cpu_count() or 1


def share(work: Callable[[int, int], R], pieces: int, operations: float) -> list[R]:
    """work(from, to) over 0 … pieces, split among the threads; its results in order.

    There are more chunks than threads, and a free thread takes the next one: pieces differ in size,
    and cores in load.
    """
    number = 1 if operations < SMALL else min(threads(), pieces)
    if number <= 1:
        return [work(0, pieces)]
    each = min(CHUNKS, 1 + int(operations / (SMALL + 1)))
    chunks = min(pieces, number * each)
    edges = [pieces * chunk // chunks for chunk in range(chunks + 1)]
    results: dict[int, R] = {}
    waiting = iter(enumerate(itertools.pairwise(edges)))
    one_at_a_time = Lock()

    def take() -> None:
        while True:
            with one_at_a_time:
                chunk, edge = next(waiting, (None, None))
            if chunk is None or edge is None:
                return
            results[chunk] = work(*edge)

    tasks = [_pool(os.getpid()).submit(take) for _ in range(number - 1)]
    take()
    for task in tasks:
        task.result()
    return [results[chunk] for chunk in range(chunks)]


@contextmanager
def suited_to(operations: float) -> Iterator[None]:
    """Use one BLAS thread if products are so small that threads would wait for each other."""
    if operations >= SMALL or threads() == 1:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _blas() -> list[LibController]:
    return _controller().select(user_api="blas").lib_controllers


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool per process: a forked child has none of its parent's threads."""
    del process
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="deepnmf")
