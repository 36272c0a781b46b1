"""What runs on the workers of a cluster: passes over blocks, whose codes workers keep by name."""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepnmf.arrays.blocks import Source
from deepnmf.core.finite import checked_later
from deepnmf.samples.disk import as_block

HELD: dict[str, dict[int, Any]] = {}
"""On a worker: blocks by the name of their array and their number."""
START = uuid.uuid4().hex


def process() -> str:
    """What tells this worker from one that starts at its address after it has died. Workers that
    were forked share `START`, but not their number."""
    return f"{START}-{os.getpid()}"


@dataclass(eq=False)
class Data(Source):
    """The block of X that a task receives."""

    dtype: np.dtype

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        del index
        return as_block(known["data"], self.dtype)


@dataclass(eq=False)
class Value(Source):
    """The value that a task receives besides its block of X."""

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        del index
        return known["value"]


@dataclass(eq=False)
class Held(Source):
    """Blocks that workers keep by name. A worker that does not have one uses the recipe."""

    name: str
    recipe: Source | None

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        block = known["held"].get(self.name)
        if block is None and self.recipe is not None:
            return self.recipe.value(index, known)
        return block


@dataclass(frozen=True)
class Pass:
    """What workers do in one pass: arrays to store by name, values to sum over the blocks, values
    to send back for every block, and names to drop first."""

    store: Sequence[tuple[str, Source]] = ()
    sums: Sequence[Source] = ()
    gather: Sequence[Source] = ()
    drop: Sequence[str] = ()


@dataclass
class Results:
    """What the tasks of a pass return: sums and their types and, by block, the gathered values and
    the process that holds the block."""

    sums: list[Any]
    dtypes: list[np.dtype]
    gathered: dict[int, list[Any]]
    processes: dict[int, str]


def work(task: Pass, index: int, data: Any, value: Any = None) -> Results:
    """Do a pass for one block."""
    forget(task.drop)
    known: dict[Any, Any] = {"data": data, "value": value, "held": holding(index)}
    with checked_later():
        stored = {name: node.value(index, known) for name, node in task.store}
        sums = [np.asarray(node.value(index, known)) for node in task.sums]
        gathered = [node.value(index, known) for node in task.gather]
    hold(index, stored)
    return Results(sums, [array.dtype for array in sums], {index: gathered}, {index: process()})


def holding(index: int) -> dict[str, Any]:
    """What this worker holds for a block, by name."""
    return {name: blocks[index] for name, blocks in list(HELD.items()) if index in blocks}


def hold(index: int, values: dict[str, Any]) -> None:
    """Keep these values for a block."""
    for name, value in values.items():
        HELD.setdefault(name, {})[index] = value


def forget(names: Iterable[str]) -> None:
    """Drop what is held under these names."""
    for name in names:
        HELD.pop(name, None)


def copied(index: int, names: set[str]) -> dict[str, Any]:
    """What this worker holds for a block under these names."""
    return {name: value for name, value in holding(index).items() if name in names}


def received(copy: dict[str, Any]) -> dict[str, Any]:
    """The copy, as the result of a task on the second worker."""
    return copy


def restored(
    index: int,
    data: Any,
    copy: dict[str, Any] | None,
    passes: list[tuple[bytes, list[str]]],
    names: set[str],
) -> str:
    """Hold a lost block again: start from its copy, and repeat the passes since then. Returns the
    process that now holds it."""
    held = dict(copy or {})
    for written, dropped in passes:
        for name in dropped:
            held.pop(name, None)
        known = {"data": data, "value": None, "held": held}
        task: Pass = pickle.loads(written)
        held |= {name: node.value(index, known) for name, node in task.store}
    hold(index, {name: value for name, value in held.items() if name in names})
    return process()


def merged(results: list[Results]) -> Results:
    """Several results as one, with sums in double precision."""
    sums = [
        sum(np.asarray(term, np.float64 if term.dtype == np.float32 else None) for term in terms)
        for terms in zip(*(result.sums for result in results), strict=True)
    ]
    gathered = {index: values for result in results for index, values in result.gathered.items()}
    processes = {index: name for result in results for index, name in result.processes.items()}
    return Results(sums, results[0].dtypes, gathered, processes)
