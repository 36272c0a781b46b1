"""Seeded random numbers: the same for every library, stack and division into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from deepnmf.arrays.blocks import Blocked, Leaf, lazy
from deepnmf.arrays.cpu.onepass import BLOCK
from deepnmf.arrays.cpu.threads import share
from deepnmf.arrays.kinds import Array, namespace
from deepnmf.arrays.operations import epsilon, stack_shape, to_device

Generators = Sequence[np.random.Generator]
Kind = Literal["normal", "uniform"]


def draw(kind: Kind, shape: tuple[int, int], generators: Generators, like: Array) -> Array:
    """Seeded random numbers, (…, rows, columns): each run of the stack has its own generator, and
    runs that share one get the same numbers.

    NumPy draws them in double precision for every library, so that a seed gives the same numbers
    everywhere, and a stack the same numbers as its runs one by one.
    """
    distinct = list(dict.fromkeys(generators))
    numbers = np.empty((len(distinct), *shape), _dtype(like))
    rows = max(1, BLOCK // max(1, shape[1]))

    def work(begin: int, end: int) -> None:
        for run in range(begin, end):
            generator = distinct[run]
            normal = kind == "normal"
            for low in range(0, shape[0], rows):  # at most one block in double precision
                block = numbers[run, low : low + rows]
                size = block.shape
                block[...] = generator.standard_normal(size) if normal else generator.random(size)

    share(work, len(distinct), 10.0 * numbers.size)
    return _by_run(to_device(numbers, like), distinct, generators, like)


PAGE = 4096
"""Samples whose random numbers come from one generator."""


def draw_for_samples(kind: Kind, rows: int, generators: Generators, like: Array) -> Array:
    """Seeded random numbers (…, rows, n) for the samples of `like` (…, m, n), as in `draw`.

    Each page of samples has its own generator, so that the numbers of a sample do not depend on
    how the samples are divided into blocks.
    """
    keys = {generator: int(generator.integers(2**63)) for generator in dict.fromkeys(generators)}
    if isinstance(like, Blocked):
        (key,) = keys.values()
        starts = Blocked(
            Leaf([np.full((1, 1), start) for start in like.layout.starts()]), like.layout, 1, int
        )
        return lazy(_pages_of_block, starts, like, rows, kind, key)
    numbers = np.empty((len(keys), like.shape[-1], rows), _dtype(like))
    _fill_pages(kind, numbers, 0, list(keys.values()))
    return _by_run(to_device(numbers, like).mT, list(keys), generators, like)


def _dtype(like: Array) -> DTypeLike:
    return np.float32 if epsilon(like) > 1e-10 else float


def _by_run(drawn: Array, distinct: Generators, generators: Generators, like: Array) -> Array:
    """The numbers of distinct generators, repeated for the runs that share one."""
    stack = stack_shape(like)
    if len(generators) != int(np.prod(stack, dtype=int)):
        raise ValueError(f"{len(generators)} generators for a stack of shape {stack}: one per run.")
    if len(distinct) < len(generators):
        place = {generator: index for index, generator in enumerate(distinct)}
        drawn = drawn[[place[generator] for generator in generators]]
    return namespace(drawn).reshape(drawn, (*stack, *drawn.shape[-2:]))


def _pages_of_block(start: np.ndarray, like: Array, rows: int, kind: Kind, key: int) -> Array:
    numbers = np.empty((1, like.shape[-1], rows), like.dtype)
    _fill_pages(kind, numbers, int(start.flat[0]), [key])
    return numbers[0].T


def _fill_pages(kind: Kind, numbers: np.ndarray, start: int, keys: Sequence[int]) -> None:
    """Fill `numbers` (keys, samples, rows) for the samples after `start`, pages in parallel."""
    _, samples, rows = numbers.shape
    if not samples:
        return
    first = start // PAGE
    pages = (start + samples - 1) // PAGE + 1 - first

    def work(begin: int, end: int) -> None:
        for place in range(begin, end):
            run, page = place // pages, first + place % pages
            generator = np.random.default_rng([keys[run], page])
            low = max(start, page * PAGE)
            high = min(start + samples, (page + 1) * PAGE)
            shape = (high - page * PAGE, rows)
            normal = kind == "normal"
            drawn = generator.standard_normal(shape) if normal else generator.random(shape)
            numbers[run, low - start : high - start] = drawn[low - page * PAGE :]

    share(work, len(keys) * pages, 10.0 * numbers.size)
