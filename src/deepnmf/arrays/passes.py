"""Functions of samples, applied to all samples: at once, or block by block.

Given the weights, the code of a sample depends on that sample alone, and everything else is a sum
over samples. So each function here takes a function of a block of samples. An array in memory is
one block. A `Blocked` array is processed block by block, and the sums are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from deepnmf.arrays.blocks import (
    Applied,
    Blocked,
    Item,
    Source,
    ToStore,
    Value,
    lazy,
    nodes_of,
    split,
    totals,
)
from deepnmf.arrays.kinds import Array
from deepnmf.arrays.operations import in_order, inner


class Passed(NamedTuple):
    """The results of a pass over the samples."""

    stored: Array
    """An array with a column per sample."""
    collected: Value
    """One small value per block, for the next pass over the same block."""
    sums: list[Array]
    """Sums over all samples."""


class Recipe(NamedTuple):
    """How to compute a lost block of stored columns again."""

    function: Callable[..., Array]
    arguments: tuple[Value, ...]

    @property
    def node(self) -> Source:
        """The recipe as a step of a pass."""
        return Applied(self.function, nodes_of(self.arguments))


def pass_over(
    function: Callable[..., Sequence[Value]],
    *arguments: object,
    rows: int,
    sums: int,
    recipe: Recipe,
) -> Passed:
    """One pass with function(…) → (columns to store, value to collect, sum, sum, …).

    `rows` is how many rows the stored columns have, and `sums` how many sums there are.
    """
    blocked = [argument for argument in arguments if isinstance(argument, Blocked)]
    if not blocked:
        stored, collected, *added = function(*arguments)
        return Passed(stored, collected, added)
    layout, dtype = blocked[0].layout, blocked[0].dtype
    node = Applied(_first_in_order, (function, *nodes_of(arguments)))
    items = [Item(node, place) for place in range(2 + sums)]
    swept = layout.sweep(
        [ToStore(items[0], rows, dtype, recipe.node)], sums=items[2:], collect=items[1:2]
    )
    return Passed(swept.stored[0], swept.collected[0], swept.sums)


def _first_in_order(
    function: Callable[..., Sequence[Value]], *arguments: object
) -> tuple[Value, ...]:
    """The results of a function, the first in row-major order, as in files: products round
    differently for other orders."""
    first, *others = function(*arguments)
    return in_order(first), *others


def sums_over_samples(
    function: Callable[..., Sequence[Array]], count: int, *arguments: object
) -> Sequence[Array]:
    """The `count` sums that function(…) returns, over all samples, in one pass."""
    blocked = [argument for argument in arguments if isinstance(argument, Blocked)]
    if not blocked:
        return function(*arguments)
    node = Applied(function, nodes_of(arguments))
    return blocked[0].layout.sweep(sums=[Item(node, place) for place in range(count)]).sums


def inner_products(pairs: Iterable[tuple[Array, Array]]) -> list[Array]:
    """⟨U, V⟩ per run of every pair, all in one pass over the samples."""
    pairs = list(pairs)
    if any(isinstance(array, Blocked) for pair in pairs for array in pair):
        return totals([(inner, pair, {}) for pair in pairs])
    return [inner(U, V) for U, V in pairs]


def by_samples(function: Callable[..., Array], *arguments: object) -> Array:
    """function(…), which makes one column per sample; for blocks, computed once and stored."""
    if not any(isinstance(argument, Blocked) for argument in arguments):
        return function(*arguments)
    columns = lazy(function, *arguments)
    return columns.stored(columns.node)


def recompute_by(columns: Array, recipe: Recipe) -> None:
    """Say how to compute lost blocks of stored columns again. Arrays in memory are never lost."""
    if isinstance(columns, Blocked):
        columns.layout.mend(columns, recipe.node)


def split_like(H: Array, X: Array) -> Array:
    """H (k, n) in the blocks of X, if X has blocks."""
    if not isinstance(X, Blocked) or isinstance(H, Blocked):
        return H
    return split(np.asarray(H), X.layout)
