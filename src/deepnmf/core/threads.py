"""Threads for the compiled kernels, as many as the matrix products use."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL = 4e6
"""Operations below which a second thread costs more than it saves."""


def threads() -> int:
    """The number of threads that BLAS is set to now, and so every limit that users know:
    OMP_NUM_THREADS, threadpoolctl, what joblib and Dask set for their workers."""
    return max((library.num_threads for library in _blas()), default=os.cpu_count() or 1)


def share(work: Callable[[int, int], Any], pieces: int, operations: float) -> list[Any]:
    """work(from, to) over 0 … pieces, split among the threads; its results in order."""
    number = 1 if operations < SMALL else min(threads(), pieces)
    if number <= 1:
        return [work(0, pieces)]
    edges = [pieces * piece // number for piece in range(number + 1)]
    mine, *others = itertools.pairwise(edges)
    tasks = [_pool(os.getpid()).submit(work, *edge) for edge in others]
    return [work(*mine), *(task.result() for task in tasks)]


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
