"""Arrays that are stored, or computed, in blocks of samples.

A `Blocked` array has one column per sample, like X (m, n) and H (k, n), and may be larger than
memory. Operations on entries or columns (a product from the left, a link, a step of the codes) are
lazy. A sum over the samples is one pass over the blocks: each block is read, worked on and dropped,
and nothing is computed twice. The result of a pass is small, or is stored in blocks again. So the
rest of the mathematics is the same for one block in memory, many on disk, and many on a cluster.
"""

from __future__ import annotations

import functools
import itertools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import array_api_compat.numpy as numpy_space
import numpy as np
from numpy.typing import DTypeLike

from deepnmf.arrays.array import Array
from deepnmf.arrays.cpu.products import matmul
from deepnmf.arrays.stores import Blocks, store_for

Block: TypeAlias = Array
"""The samples of one block: a NumPy array or a SciPy sparse matrix."""

Value: TypeAlias = Any
"""What a node computes for one block: a block, a small value, or a tuple of these."""
Function: TypeAlias = Callable[..., Value]
Known: TypeAlias = dict[Any, Value]
"""What a pass has computed for a block so far, by node; a worker adds what it holds."""
Axis: TypeAlias = int | tuple[int, ...] | None


@dataclass(frozen=True)
class Layout:
    """How the samples are cut into blocks, and where codes are stored."""

    widths: tuple[int, ...]
    room: float = float("inf")
    """Bytes that stored codes may take in memory; larger arrays go to a file."""

    @property
    def samples(self) -> int:
        return sum(self.widths)

    def starts(self) -> list[int]:
        """The first sample of every block."""
        return [0, *np.cumsum(self.widths)[:-1].tolist()]

    def each(self, node: Source) -> Iterator[Value]:
        """The value of a node for every block, in order."""
        for index in range(len(self.widths)):
            yield node.value(index, {})

    def put(self, blocks: Iterable[Block], rows: int, dtype: DTypeLike) -> Blocked:
        """Store blocks (rows, width) as an array."""
        store = store_for(self, rows, dtype)
        for index, block in enumerate(blocks):
            store[index] = block
        return Blocked(Leaf(store), self, rows, dtype)

    def keep(self, values: Iterable[Value]) -> Source:
        """Store one small value per block."""
        return Leaf(list(values))

    def mend(self, array: Blocked, recipe: Source) -> None:
        """Say how to compute lost blocks of a stored array again."""

    def close(self) -> None:
        """Release the arrays of this layout: none of them is needed any more."""

    def sweep(
        self,
        store: Sequence[ToStore] = (),
        sums: Sequence[Source] = (),
        collect: Sequence[Source] = (),
        gather: Sequence[Source] = (),
    ) -> Swept:
        """One pass over the blocks. It stores arrays, adds up sums, collects small values for the
        next pass over the same block, and gathers small values in lists."""
        stores = [store_for(self, array.rows, array.dtype) for array in store]
        added = [Sum() for _ in sums]
        kept: list[list[Value]] = [[] for _ in (*collect, *gather)]
        nodes = [*(array.node for array in store), *sums, *collect, *gather]
        for index in range(len(self.widths)):
            known: Known = {}
            values = iter([node.value(index, known) for node in nodes])
            for blocks in stores:
                blocks[index] = next(values)
            for total_so_far in added:
                total_so_far.add(next(values))
            for row, value in zip(kept, values, strict=True):
                row.append(value)
        return Swept(
            [
                Blocked(Leaf(blocks), self, array.rows, array.dtype)
                for blocks, array in zip(stores, store, strict=True)
            ],
            [total_so_far.result() for total_so_far in added],
            [Leaf(row) for row in kept[: len(collect)]],
            kept[len(collect) :],
        )


class ToStore(NamedTuple):
    """An array to store in blocks. `recipe` computes a lost block again."""

    node: Source
    rows: int
    dtype: DTypeLike
    recipe: Source | None = None


@dataclass
class Swept:
    """The results of a pass."""

    stored: list[Blocked]
    sums: list[Value]
    collected: list[Source]
    gathered: list[list[Value]]


class Source(ABC):
    """A step of a pass: computes a value for every block."""

    def value(self, index: int, known: Known) -> Value:
        """The value for a block; `known` holds what this pass has computed for it so far."""
        key = id(self)
        if key not in known:
            known[key] = self.make(index, known)
        return known[key]

    @abstractmethod
    def make(self, index: int, known: Known) -> Value:
        """Compute the value for a block."""


@dataclass(eq=False)
class Leaf(Source):
    """Blocks that exist: anything with `blocks[index]`."""

    blocks: Blocks

    def make(self, index: int, known: Known) -> Value:
        del known
        return self.blocks[index]


@dataclass(eq=False)
class Applied(Source):
    """A function of other nodes, and of arguments that are the same for every block."""

    function: Function
    arguments: tuple[object, ...]
    options: dict[str, object] = field(default_factory=dict)

    def make(self, index: int, known: Known) -> Value:
        values = [
            argument.value(index, known) if isinstance(argument, Source) else argument
            for argument in self.arguments
        ]
        return self.function(*values, **self.options)


@dataclass(eq=False)
class Item(Source):
    """One of the several results of a node."""

    node: Source
    place: int

    def make(self, index: int, known: Known) -> Value:
        return self.node.value(index, known)[self.place]


def _forward(function: Function) -> Callable[[Blocked, Value], Blocked]:
    """The operator A ∘ B for a blocked array A."""
    return lambda self, other: lazy(function, self, other)


def _backward(function: Function) -> Callable[[Blocked, Value], Blocked]:
    """The operator B ∘ A for a blocked array A, where B is not blocked."""
    return lambda self, other: lazy(function, other, self)


class Blocked:
    """An array (rows, samples) in blocks of samples."""

    ndim = 2
    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, node: Source, layout: Layout, rows: int, dtype: DTypeLike) -> None:
        self.node, self.layout = node, layout
        self.shape = (rows, layout.samples)
        self.dtype = np.dtype(dtype)

    def each(self) -> Iterator[Value]:
        """The blocks, in order."""
        return self.layout.each(self.node)

    def stored(self, recipe: Source | None = None) -> Blocked:
        """The same array, computed once and stored."""
        rows, _ = self.shape
        return self.layout.sweep([ToStore(self.node, rows, self.dtype, recipe)]).stored[0]

    def whole(self) -> np.ndarray:
        """All blocks in memory, as one array."""
        return np.concatenate(list(self.each()), axis=-1)

    @property
    def mT(self) -> Turned:
        return Turned(self)

    T = mT

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Value:
        return SPACE.sum(self, axis=axis, keepdims=keepdims)

    def __matmul__(self, other: object) -> Value:
        if not isinstance(other, Turned):
            return NotImplemented
        return total(_product_of_transposed, self, other.array)

    def __getitem__(self, key: Any) -> Blocked:
        if not isinstance(key, tuple) or key[-1] != slice(None):
            raise TypeError("samples of a blocked array cannot be picked.")
        return lazy(operator.getitem, self, key)

    def __neg__(self) -> Blocked:
        return lazy(operator.neg, self)

    def __invert__(self) -> Blocked:
        return lazy(operator.invert, self)

    __rmatmul__ = _backward(matmul)
    __add__, __radd__ = _forward(operator.add), _backward(operator.add)
    __sub__, __rsub__ = _forward(operator.sub), _backward(operator.sub)
    __mul__, __rmul__ = _forward(operator.mul), _backward(operator.mul)
    __truediv__, __rtruediv__ = _forward(operator.truediv), _backward(operator.truediv)
    __pow__, __rpow__ = _forward(operator.pow), _backward(operator.pow)
    __and__, __or__ = _forward(operator.and_), _forward(operator.or_)
    __lt__, __le__ = _forward(operator.lt), _forward(operator.le)
    __gt__, __ge__ = _forward(operator.gt), _forward(operator.ge)


@dataclass(frozen=True)
class Turned:
    """The transpose of a blocked array. A product of a blocked array with it is a sum."""

    array: Blocked


def _product_of_transposed(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return matmul(A, B.T)


def lazy(function: Function, *arguments: object, **options: object) -> Blocked:
    """function(…) block by block; the function keeps the number of columns of a block."""
    # One column of zeros tells shape and type.
    with np.errstate(all="ignore"):
        column = function(*map(_example, arguments), **options)
    node = Applied(function, nodes_of(arguments), options)
    return Blocked(node, layout_of(arguments), column.shape[-2], column.dtype)


def total(function: Function, *arguments: object, **options: object) -> Value:
    """Σ over blocks of function(…), in one pass."""
    return totals([(function, arguments, options)])[0]


def totals(wanted: Sequence[tuple[Function, tuple[object, ...], dict[str, object]]]) -> list[Value]:
    """Several sums over the blocks, in one pass."""
    layout = layout_of([argument for _, arguments, _ in wanted for argument in arguments])
    nodes = [
        Applied(function, nodes_of(arguments), options) for function, arguments, options in wanted
    ]
    return layout.sweep(sums=nodes).sums


class Sum:
    """Adds up arrays in double precision, and returns the sum in their own type."""

    def __init__(self) -> None:
        self.value: np.ndarray | None = None
        self.dtype: DTypeLike | None = None

    def add(self, term: Value) -> None:
        term = np.asarray(term)
        if self.value is None:
            self.dtype = term.dtype
            self.value = term.astype(np.float64) if term.dtype == np.float32 else np.array(term)
        else:
            self.value = self.value + term

    def result(self) -> np.ndarray:
        assert self.value is not None
        return self.value.astype(self.dtype, copy=False)


def layout_of(arguments: Iterable[object]) -> Layout:
    """The layout of the blocked arrays among these."""
    return next(array.layout for array in arguments if isinstance(array, Blocked))


def nodes_of(arguments: Iterable[object]) -> tuple[object, ...]:
    """The arguments, with nodes in place of blocked arrays."""
    return tuple(
        argument.node if isinstance(argument, Blocked) else argument for argument in arguments
    )


def _example(argument: Value) -> Value:
    """One column of zeros for a blocked array; anything else as it is."""
    if not isinstance(argument, Blocked):
        return argument
    return np.zeros((argument.shape[0], 1), argument.dtype)


def split(array: np.ndarray, layout: Layout) -> Blocked:
    """An array (rows, samples) in memory, in blocks."""
    edges = [*layout.starts(), layout.samples]
    blocks = [array[:, low:high] for low, high in itertools.pairwise(edges)]
    return Blocked(Leaf(blocks), layout, array.shape[0], array.dtype)


class _Space:
    """The array library of blocked arrays: NumPy's functions, block by block."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(numpy_space, name)
        if not callable(function) or isinstance(function, type):
            return function

        def lifted(*arguments: object, **options: object) -> Value:
            if not any(isinstance(argument, Blocked) for argument in arguments):
                return function(*arguments, **options)
            return lazy(function, *arguments, **options)

        return lifted

    def sum(
        self, A: Value, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None
    ) -> Value:
        """Over rows: one number per sample. Otherwise a pass."""
        options = {"axis": axis, "keepdims": keepdims, "dtype": dtype}
        if not isinstance(A, Blocked):
            return numpy_space.sum(A, **options)
        if axis == -2 and keepdims:
            return lazy(numpy_space.sum, A, **options)
        if axis == -2:
            raise TypeError("sums over the rows of a blocked array keep their dimension.")
        return total(numpy_space.sum, A, **options)

    def max(self, A: Value, axis: Axis = None, keepdims: bool = False) -> Value:
        """Over rows: one number per sample. Over the samples or all entries: a pass."""
        if not isinstance(A, Blocked):
            return numpy_space.max(A, axis=axis, keepdims=keepdims)
        if axis == -2:
            return lazy(numpy_space.max, A, axis=axis, keepdims=True)
        return self._reduced(numpy_space.max, A, np.maximum, axis=axis, keepdims=keepdims)

    def any(self, A: Value, axis: Axis = None) -> Value:
        """Whether any entry is true."""
        if not isinstance(A, Blocked):
            return numpy_space.any(A, axis=axis)
        return self._reduced(numpy_space.any, A, np.logical_or, axis=axis)

    def mean(self, A: Value, axis: Axis = None) -> Value:
        """Over all entries."""
        if not isinstance(A, Blocked):
            return numpy_space.mean(A, axis=axis)
        return total(numpy_space.sum, A) / (A.shape[0] * A.shape[1])

    @staticmethod
    def _reduced(function: Function, A: Blocked, join: Function, **options: object) -> Value:
        node = Applied(function, (A.node,), options)
        return functools.reduce(join, A.layout.sweep(gather=[node]).gathered[0])


SPACE = _Space()
