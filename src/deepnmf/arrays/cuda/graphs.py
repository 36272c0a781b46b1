"""Work on a card, recorded once and played again.

A sweep over a small model is hundreds of launches, each of which costs the host more time than the
card. Recorded as a CUDA graph, all of them are one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from deepnmf.arrays.kinds import Array
from deepnmf.arrays.tensors import is_tensor
from deepnmf.arrays.trees import Path, fold, rebuilt

LARGEST = 2**24
"""Factors with more entries keep the card busy for longer than launches take, and what a graph
works with is memory that it keeps."""


class Recorded:
    """F ↦ work(F) for factors F, where the work is launches alone and never waits for the card.

    The first calls work as usual. As soon as one is asked for arrays of the same names and shapes
    as the one before, it is recorded; the calls after it are played. What comes back is the
    caller's own: a later call does not write over it.
    """

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work
        self._form: Any = None
        self._graph: Any = None
        self._inputs: list[Array] = []
        self._outputs: Any = None

    def __call__(self, factors: Any) -> Any:
        form, arrays = _arrays_of(factors)
        if form != self._form:
            self._form, self._graph = form, None
            return self._work(factors)
        if self._graph is None:
            return self._record(factors)
        for place, array in zip(self._inputs, arrays, strict=True):
            place.copy_(array)
        self._graph.replay()
        return _copied(self._outputs)

    def _record(self, factors: Any) -> Any:
        """Do the work on the stream of recordings, so that all it needs to begin with is there;
        then record it there."""
        import torch

        stream, current = _stream(torch.cuda.current_device()), torch.cuda.current_stream()
        inputs = _copied(factors)
        # Before the work, which may leave more in its factors than came in.
        self._inputs = _arrays_of(inputs)[1]
        graph = torch.cuda.CUDAGraph()
        with ONE_AT_A_TIME:
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                found = self._work(_copied(factors))
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                self._outputs = self._work(inputs)
            current.wait_stream(stream)
        self._graph = graph
        return _copied(found)


ONE_AT_A_TIME = threading.Lock()
"""A stream that records must not be given anything else to do."""


@cache
def _stream(device: int) -> Any:
    """One stream a device for all recordings: what libraries keep for a stream is there once."""
    import torch

    return torch.cuda.Stream(device)


def is_small(factors: Any) -> bool:
    """Whether recording pays: none of the factors of all runs has more than `LARGEST` entries."""
    return all(math.prod(F.shape) <= LARGEST for F in (*factors.weights, factors.H))


def _arrays_of(tree: Any) -> tuple[list[Any], list[Array]]:
    """The arrays in factors, each once, and what tells factors of one form from others."""
    form: list[Any] = []
    arrays: list[Array] = []

    def note(path: Path, leaf: Any) -> Any:
        if not is_tensor(leaf):
            form.append((path, leaf))
            return leaf
        form.append((path, tuple(leaf.shape), tuple(leaf.stride()), leaf.dtype))
        arrays.append(leaf)
        return leaf

    _mapped(note, tree)
    return form, arrays


def _copied(tree: Any) -> Any:
    """The same factors in memory of their own."""
    return _mapped(lambda _, leaf: leaf.clone() if is_tensor(leaf) else leaf, tree)


def _mapped(function: Callable[[Path, Any], Any], tree: Any) -> Any:
    """The factors with function(path, leaf) for everything in them, including what they have
    computed and kept. An array that is there twice stays one."""
    done: dict[int, Any] = {}

    def once(path: Path, leaf: Any) -> Any:
        if id(leaf) not in done:
            done[id(leaf)] = function(path, leaf)
        return done[id(leaf)]

    return fold(tree, once, rebuilt, cached=True)
