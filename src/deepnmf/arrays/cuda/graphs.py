"""Work on a card, recorded once and played again.

A sweep over a small model is hundreds of launches, each of which costs the host more time than the
card. Recorded as a CUDA graph, all of them are one.
"""

from __future__ import annotations

import copy
import importlib
import math
import threading
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from deepnmf.arrays.operations import Array

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
        form, arrays = _parts(factors)
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
        torch = importlib.import_module("torch")
        stream, current = _stream(torch.cuda.current_device()), torch.cuda.current_stream()
        inputs = _copied(factors)
        # Before the work, which may leave more in its factors than came in.
        self._inputs = _parts(inputs)[1]
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
    return importlib.import_module("torch").cuda.Stream(device)


def is_small(factors: Any) -> bool:
    """Whether recording pays: none of the factors of all runs has more than `LARGEST` entries."""
    return all(math.prod(F.shape) <= LARGEST for F in (*factors.weights, factors.H))


def _parts(tree: Any) -> tuple[list[Any], list[Array]]:
    """The arrays in factors, each once, and what tells factors of one form from others."""
    form: list[Any] = []
    arrays: list[Array] = []

    def note(path: tuple[Any, ...], leaf: Any) -> Any:
        if not _is_array(leaf):
            form.append((path, leaf))
            return leaf
        form.append((path, tuple(leaf.shape), tuple(leaf.stride()), leaf.dtype))
        arrays.append(leaf)
        return leaf

    _mapped(note, tree)
    return form, arrays


def _copied(tree: Any) -> Any:
    """The same factors in memory of their own."""
    return _mapped(lambda _, leaf: leaf.clone() if _is_array(leaf) else leaf, tree)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, importlib.import_module("torch").Tensor)


def _mapped(function: Callable[[tuple[Any, ...], Any], Any], tree: Any) -> Any:
    """The factors with `function(path, leaf)` for everything in them, also for what they have
    worked out and kept; an array that is there twice stays one."""
    done: dict[int, Any] = {}

    def walk(path: tuple[Any, ...], node: Any) -> Any:
        if is_dataclass(node):
            changed = copy.copy(node)
            for name, value in vars(node).items():
                vars(changed)[name] = walk((*path, name), value)
            return changed
        if isinstance(node, tuple):
            values = [walk((*path, place), value) for place, value in enumerate(node)]
            return type(node)(*values) if hasattr(node, "_fields") else tuple(values)
        if id(node) not in done:
            done[id(node)] = function(path, node)
        return done[id(node)]

    return walk((), tree)
