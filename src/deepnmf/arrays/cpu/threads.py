"""Threads for the compiled kernels, as many as the matrix products use."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL = 4e6
"""Operations below which a second thread costs more than it saves."""
PARTS = 8
"""Parts that large work is split into, for every thread."""


def threads() -> int:
    """The number of threads that BLAS is set to now, and so every limit that users know:
    OMP_NUM_THREADS, threadpoolctl, what joblib and Dask set for their workers."""
    return max((library.num_threads for library in _blas()), default=0) or os.cpu_count() or 1


def share(work: Callable[[int, int], Any], pieces: int, operations: float) -> list[Any]:
    """work(from, to) over 0 … pieces, split among the threads; its results in order.

    There are more parts than threads, and who is done takes the next: pieces differ in size, and
    cores in what else they have to do.
    """
    number = 1 if operations < SMALL else min(threads(), pieces)
    if number <= 1:
        return [work(0, pieces)]
    each = min(PARTS, 1 + int(operations / (SMALL + 1)))
    parts = min(pieces, number * each)
    edges = [pieces * part // parts for part in range(parts + 1)]
    results: list[Any] = [None] * parts
    waiting = iter(enumerate(itertools.pairwise(edges)))
    one_by_one = Lock()

    def take() -> None:
        while True:
            with one_by_one:
                part, edge = next(waiting, (None, None))
            if part is None or edge is None:
                return
            results[part] = work(*edge)

    tasks = [_pool(os.getpid()).submit(take) for _ in range(number - 1)]
    take()
    for task in tasks:
        task.result()
    return results


@contextmanager
def suited_to(operations: float) -> Iterator[None]:
    """One BLAS thread where a product is so small that threads would wait for each other."""
    if operations >= SMALL or threads() == 1:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _blas() -> list[Any]:
    return _controller().select(user_api="blas").lib_controllers


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool a process: a child made by fork has none of its parent's threads."""
    del process
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="deepnmf")
