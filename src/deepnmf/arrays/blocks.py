"""Arrays that are kept, or worked out, by blocks of samples.

A `Blocked` array has a column per sample, like X (m, n) and H (k, n), and more of them than are to
be in memory at once. What is done with it entry by entry or column by column (a product from the
left, a link, a step of the codes) is only written down; what is summed over the samples is one pass
over the blocks, in which each is read, worked on and dropped, and nothing is worked out twice. What
leaves a pass is small, or is stored by blocks again. So the mathematics of the other files is the
same for one block in memory, for many on disk, and for many on other machines.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import array_api_compat.numpy as numpy_space
import numpy as np

from deepnmf.arrays.stores import stored_as

Block = Any
"""What a `Blocked` array is for one block of samples: a NumPy array, or a sparse matrix."""


@dataclass(frozen=True)
class Layout:
    """How the samples are cut into blocks, and where codes are put."""

    widths: tuple[int, ...]
    room: float = float("inf")
    """Bytes that stored codes may take in memory; more of them go to a file."""

    @property
    def samples(self) -> int:
        return sum(self.widths)

    def starts(self) -> list[int]:
        """The first sample of every block."""
        return [0, *np.cumsum(self.widths)[:-1].tolist()]

    def each(self, node: Node) -> Iterator[Any]:
        """What a node is for every block, one after the other."""
        for index in range(len(self.widths)):
            yield node.value(index, {})

    def put(self, blocks: Iterable[Block], rows: int, dtype: Any) -> Blocked:
        """Blocks (rows, width) that come one after the other, put by as an array."""
        place = stored_as(self, rows, dtype)
        for index, block in enumerate(blocks):
            place[index] = block
        return Blocked(Leaf(place), self, rows, dtype)

    def keep(self, values: Iterable[Any]) -> Node:
        """Something small for every block, put by."""
        return Leaf(list(values))

    def mend(self, array: Blocked, recipe: Node) -> None:
        """Say how blocks of an array that was put by are made, should they be lost."""

    def close(self) -> None:
        """Nobody needs any array of this layout again."""

    def sweep(
        self,
        store: Sequence[ToStore] = (),
        sums: Sequence[Node] = (),
        collect: Sequence[Node] = (),
        gather: Sequence[Node] = (),
    ) -> Swept:
        """One pass: arrays to store by blocks, sums over the blocks, small things to collect for
        the next pass over the same block, and to gather as they are."""
        stores = [stored_as(self, one.rows, one.dtype) for one in store]
        added = [Sum() for _ in sums]
        kept: list[list[Any]] = [[] for _ in (*collect, *gather)]
        nodes = [*(one.node for one in store), *sums, *collect, *gather]
        for index in range(len(self.widths)):
            known: dict[Any, Any] = {}
            values = iter([node.value(index, known) for node in nodes])
            for place in stores:
                place[index] = next(values)
            for one in added:
                one.add(next(values))
            for row, value in zip(kept, values, strict=True):
                row.append(value)
        return Swept(
            [
                Blocked(Leaf(place), self, one.rows, one.dtype)
                for place, one in zip(stores, store, strict=True)
            ],
            [one.result() for one in added],
            [Leaf(row) for row in kept[: len(collect)]],
            kept[len(collect) :],
        )


class ToStore(NamedTuple):
    """An array to be stored by blocks; `recipe` makes a block that was lost from what is not."""

    node: Node
    rows: int
    dtype: Any
    recipe: Node | None = None


@dataclass
class Swept:
    """What a pass left."""

    stored: list[Blocked]
    sums: list[Any]
    collected: list[Node]
    gathered: list[list[Any]]


class Node(ABC):
    """How a block comes about."""

    def value(self, index: int, known: dict[Any, Any]) -> Any:
        """The block with that number; `known` has what this pass has worked out of it."""
        key = id(self)
        if key not in known:
            known[key] = self.make(index, known)
        return known[key]

    @abstractmethod
    def make(self, index: int, known: dict[Any, Any]) -> Any:
        """The same, worked out."""


@dataclass(eq=False)
class Leaf(Node):
    """Blocks that are there: anything with `blocks[index]`."""

    blocks: Any

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        del known
        return self.blocks[index]


@dataclass(eq=False)
class Applied(Node):
    """A function of other nodes and of what is the same for every block."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        given = [
            one.value(index, known) if isinstance(one, Node) else one for one in self.arguments
        ]
        return self.function(*given, **self.options)


@dataclass(eq=False)
class Item(Node):
    """One of several results of a node."""

    node: Node
    place: int

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        return self.node.value(index, known)[self.place]


class Blocked:
    """An array (rows, samples) by blocks of samples."""

    ndim = 2
    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, node: Node, layout: Layout, rows: int, dtype: Any) -> None:
        self.node, self.layout = node, layout
        self.shape = (rows, layout.samples)
        self.dtype = np.dtype(dtype)

    def each(self) -> Iterator[Block]:
        """The blocks, one after the other."""
        return self.layout.each(self.node)

    def stored(self, recipe: Node | None = None) -> Blocked:
        """The same, worked out once and put by."""
        rows, _ = self.shape
        return self.layout.sweep([ToStore(self.node, rows, self.dtype, recipe)]).stored[0]

    def whole(self) -> Block:
        """All of it in memory."""
        return np.concatenate(list(self.each()), axis=-1)

    @property
    def mT(self) -> Turned:
        return Turned(self)

    T = mT

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        return SPACE.sum(self, axis=axis, keepdims=keepdims)

    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, Turned):
            return NotImplemented
        return total(_product_of_transposed, self, other.array)

    def __rmatmul__(self, other: Any) -> Blocked:
        return lazy(operator.matmul, other, self)

    def __getitem__(self, key: Any) -> Blocked:
        if not isinstance(key, tuple) or key[-1] != slice(None):
            raise TypeError("samples of a blocked array cannot be picked.")
        return lazy(operator.getitem, self, key)

    def __neg__(self) -> Blocked:
        return lazy(operator.neg, self)


def _operators() -> None:
    def forward(function: Callable[..., Any]) -> Callable[..., Blocked]:
        return lambda self, other: lazy(function, self, other)

    def backward(function: Callable[..., Any]) -> Callable[..., Blocked]:
        return lambda self, other: lazy(function, other, self)

    for name in ("add", "sub", "mul", "truediv", "pow"):
        setattr(Blocked, f"__{name}__", forward(getattr(operator, name)))
        setattr(Blocked, f"__r{name}__", backward(getattr(operator, name)))
    for name in ("lt", "le", "gt", "ge"):
        setattr(Blocked, f"__{name}__", forward(getattr(operator, name)))
    for name in ("and_", "or_"):
        setattr(Blocked, f"__{name.strip('_')}__", forward(getattr(operator, name)))
    setattr(Blocked, "__invert__", lambda self: lazy(operator.invert, self))  # noqa: B010


_operators()


@dataclass(frozen=True)
class Turned:
    """The transpose of a blocked array: it can only be multiplied from the left, which sums."""

    array: Blocked


def _product_of_transposed(A: Block, B: Block) -> Block:
    return A @ B.T


def lazy(function: Callable[..., Any], *arguments: Any, **options: Any) -> Blocked:
    """function(…) block by block; what it makes of a block has as many columns."""
    given = nodes_of(arguments)
    # One column of zeros tells shape and type.
    with np.errstate(all="ignore"):
        tried = function(*(_example(one) for one in arguments), **options)
    return Blocked(
        Applied(function, given, options), layout_of(arguments), tried.shape[-2], tried.dtype
    )


def parts(function: Callable[..., tuple[Any, ...]], count: int, *arguments: Any) -> list[Node]:
    """The `count` results of function(…), worked out together."""
    node = Applied(function, nodes_of(arguments))
    return [Item(node, place) for place in range(count)]


def total(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Σ over blocks of function(…): one pass."""
    return totals([(function, arguments, options)])[0]


def totals(wanted: Sequence[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]) -> list:
    """Several sums over the blocks in one pass."""
    layout = layout_of([one for _, arguments, _ in wanted for one in arguments])
    nodes = [Applied(function, nodes_of(given), options) for function, given, options in wanted]
    return layout.sweep(sums=nodes).sums


class Sum:
    """Adds up arrays in double precision, and gives them back in their own."""

    def __init__(self) -> None:
        self.value: Any = None
        self.dtype: Any = None

    def add(self, part: Any) -> None:
        part = np.asarray(part)
        if self.value is None:
            self.dtype = part.dtype
            self.value = part.astype(np.float64) if part.dtype == np.float32 else np.array(part)
        else:
            self.value = self.value + part

    def result(self) -> Any:
        return self.value.astype(self.dtype, copy=False)


@contextlib.contextmanager
def closing(data: Any) -> Iterator[None]:
    """Work on data after which nothing of its blocks is needed again."""
    try:
        yield
    finally:
        if isinstance(data, Blocked):
            data.layout.close()


def layout_of(arguments: Iterable[Any]) -> Layout:
    """The layout of the blocked arrays among these."""
    return next(one.layout for one in arguments if isinstance(one, Blocked))


def nodes_of(arguments: Iterable[Any]) -> tuple[Any, ...]:
    """The arguments of a function of blocks, blocked arrays as the nodes that make them."""
    return tuple(one.node if isinstance(one, Blocked) else one for one in arguments)


def _example(one: Any) -> Any:
    return np.zeros((one.shape[0], 1), one.dtype) if isinstance(one, Blocked) else one


def split(array: np.ndarray, layout: Layout) -> Blocked:
    """An array (rows, samples) in memory, by blocks."""
    edges = [*layout.starts(), layout.samples]
    blocks = [array[:, low:high] for low, high in itertools.pairwise(edges)]
    return Blocked(Leaf(blocks), layout, array.shape[0], array.dtype)


class _Space:
    """The array library of blocked arrays: NumPy's functions, lifted."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(numpy_space, name)
        if not callable(function) or isinstance(function, type):
            return function

        def lifted(*arguments: Any, **options: Any) -> Any:
            if not any(isinstance(one, Blocked) for one in arguments):
                return function(*arguments, **options)
            return lazy(function, *arguments, **options)

        return lifted

    def sum(self, A: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        """Over rows: per sample. Otherwise a pass."""
        options = {"axis": axis, "keepdims": keepdims, "dtype": dtype}
        if not isinstance(A, Blocked):
            return numpy_space.sum(A, **options)
        if axis == -2 and keepdims:
            return lazy(numpy_space.sum, A, **options)
        if axis == -2:
            raise TypeError("sums over the rows of a blocked array keep their dimension.")
        return total(numpy_space.sum, A, **options)

    def max(self, A: Any, axis: Any = None, keepdims: bool = False) -> Any:
        """Over the samples, or all entries: a pass."""
        if not isinstance(A, Blocked):
            return numpy_space.max(A, axis=axis, keepdims=keepdims)
        if axis == -2:
            return lazy(numpy_space.max, A, axis=axis, keepdims=True)
        return self._each(numpy_space.max, A, np.maximum, axis=axis, keepdims=keepdims)

    def any(self, A: Any, axis: Any = None) -> Any:
        """Whether any entry is true."""
        if not isinstance(A, Blocked):
            return numpy_space.any(A, axis=axis)
        return self._each(numpy_space.any, A, np.logical_or, axis=axis)

    def mean(self, A: Any, axis: Any = None) -> Any:
        """Over all entries."""
        if not isinstance(A, Blocked):
            return numpy_space.mean(A, axis=axis)
        return total(numpy_space.sum, A) / (A.shape[0] * A.shape[1])

    @staticmethod
    def _each(
        function: Callable[..., Any], A: Blocked, join: Callable[..., Any], **options: Any
    ) -> Any:
        node = Applied(function, (A.node,), options)
        return functools.reduce(join, A.layout.sweep(gather=[node]).gathered[0])


SPACE = _Space()
