"""Work on a CUDA device, recorded once and replayed.

A sweep over a small model is hundreds of kernel launches, and each costs the host more time than
the device. Recorded as a CUDA graph, they become one launch.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from deepnmf.arrays.array import Array
from deepnmf.arrays.tensors import is_tensor
from deepnmf.arrays.trees import Path, fold, rebuilt

if TYPE_CHECKING:
    import torch

LARGEST = 2**24
"""Factors with more entries keep the device busy for longer than launches take, and a graph would
hold their memory."""

F = TypeVar("F")


class WeightsAndCodes(Protocol):
    """Factors of a model."""

    @property
    def weights(self) -> Sequence[Array]: ...

    @property
    def H(self) -> Array: ...


class Recorded(Generic[F]):
    """F ↦ work(F) for factors F, where the work only launches kernels and never waits for them.

    The first call runs the work as usual. When a call has arrays of the same names and shapes as
    the call before, it is recorded; later calls replay the recording. Each call returns its own
    arrays, which later calls do not overwrite.
    """

    def __init__(self, work: Callable[[F], F]) -> None:
        self._work = work
        self._form: list[object] | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[torch.Tensor] = []
        self._outputs: F | None = None

    def __call__(self, factors: F) -> F:
        form, arrays = _arrays_of(factors)
        if form != self._form:
            self._form, self._graph = form, None
            return self._work(factors)
        if self._graph is None or self._outputs is None:
            return self._record(factors)
        for place, array in zip(self._inputs, arrays, strict=True):
            place.copy_(array)
        self._graph.replay()
        return _copied(self._outputs)

    def _record(self, factors: F) -> F:
        """Run the work on the recording stream, so that everything it needs exists there, and then
        record it."""
        import torch

        stream, current = _stream(torch.cuda.current_device()), torch.cuda.current_stream()
        inputs = _copied(factors)
        # Before the work, which may add cached values to its factors.
        self._inputs = _arrays_of(inputs)[1]
        graph = torch.cuda.CUDAGraph()
        with ONE_AT_A_TIME:
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                result = self._work(_copied(factors))
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                self._outputs = self._work(inputs)
            current.wait_stream(stream)
        self._graph = graph
        return _copied(result)


ONE_AT_A_TIME = threading.Lock()
"""A recording stream must not get other work."""


@cache
def _stream(device: int) -> torch.cuda.Stream:
    """One stream per device for all recordings: libraries keep buffers for each stream."""
    import torch

    return torch.cuda.Stream(device)


def is_small(factors: WeightsAndCodes) -> bool:
    """Whether recording pays: no factor of all runs has more than `LARGEST` entries."""
    return all(math.prod(array.shape) <= LARGEST for array in (*factors.weights, factors.H))


def _arrays_of(tree: object) -> tuple[list[object], list[torch.Tensor]]:
    """The form of factors (names, shapes and other values), and their arrays, each once."""
    form: list[object] = []
    arrays: list[torch.Tensor] = []

    def note(path: Path, leaf: object) -> object:
        if not is_tensor(leaf):
            form.append((path, leaf))
            return leaf
        form.append((path, tuple(leaf.shape), tuple(leaf.stride()), leaf.dtype))
        arrays.append(leaf)
        return leaf

    _mapped(note, tree)
    return form, arrays


def _copied(tree: F) -> F:
    """The same factors in memory of their own."""
    return _mapped(lambda _, leaf: leaf.clone() if is_tensor(leaf) else leaf, tree)


def _mapped(function: Callable[[Path, Any], object], tree: F) -> F:
    """The factors with function(path, leaf) for every value in them, cached values included. An
    array that occurs twice stays one array."""
    done: dict[int, object] = {}

    def once(path: Path, leaf: object) -> object:
        if id(leaf) not in done:
            done[id(leaf)] = function(path, leaf)
        return done[id(leaf)]

    return fold(tree, once, rebuilt, cached=True)
