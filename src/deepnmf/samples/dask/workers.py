"""What the workers of a cluster do: passes over blocks, whose codes they keep under a name."""

from __future__ import annotations

import pickle
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepnmf.arrays.blocks import Node
from deepnmf.samples.disk import as_block

HELD: dict[str, dict[int, Any]] = {}
"""On a worker: blocks by the name of their array and their number."""
PROCESS = uuid.uuid4().hex
"""Tells a worker from one that comes back at its address after it has died."""


@dataclass(eq=False)
class Data(Node):
    """The block of X that a task was given."""

    dtype: Any

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        del index
        return as_block(known["data"], self.dtype)


@dataclass(eq=False)
class Value(Node):
    """What a task was given besides."""

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        del index
        return known["value"]


@dataclass(eq=False)
class Held(Node):
    """Blocks that workers keep, and how a worker that has none makes it."""

    name: str
    recipe: Node | None

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        found = known["held"].get(self.name)
        if found is None and self.recipe is not None:
            return self.recipe.value(index, known)
        return found


@dataclass(frozen=True)
class Pass:
    """What workers need to know of a pass."""

    store: list[tuple[str, Node]]
    sums: list[Node]
    gather: list[Node]
    drop: list[str]


@dataclass
class Found:
    """What tasks of a pass have found: sums, their types, and by block what is gathered and which
    process holds it."""

    sums: list[Any]
    dtypes: list[Any]
    gathered: dict[int, list[Any]]
    processes: dict[int, str]


def work(task: Pass, index: int, data: Any, value: Any) -> Found:
    """One block of a pass."""
    forget(task.drop)
    known: dict[Any, Any] = {"data": data, "value": value, "held": holding(index)}
    values = [(name, node.value(index, known)) for name, node in task.store]
    sums = [np.asarray(node.value(index, known)) for node in task.sums]
    gathered = [node.value(index, known) for node in task.gather]
    hold(index, dict(values))
    return Found(sums, [part.dtype for part in sums], {index: gathered}, {index: PROCESS})


def holding(index: int) -> dict[str, Any]:
    """What this worker holds of a block, by name."""
    return {name: blocks[index] for name, blocks in list(HELD.items()) if index in blocks}


def hold(index: int, values: dict[str, Any]) -> None:
    """Keep this of a block."""
    for name, value in values.items():
        HELD.setdefault(name, {})[index] = value


def copied(index: int, names: set[str]) -> dict[str, Any]:
    """What this worker holds of a block under these names."""
    return {name: value for name, value in holding(index).items() if name in names}


def received(copy: dict[str, Any]) -> dict[str, Any]:
    """The same on another worker."""
    return copy


def restored(
    index: int,
    data: Any,
    copy: dict[str, Any] | None,
    passes: list[tuple[bytes, list[str]]],
    names: set[str],
) -> str:
    """Hold a lost block as it was: its copy, and what passes since then have left. Returns which
    process does."""
    held = dict(copy or {})
    for written, gone in passes:
        for name in gone:
            held.pop(name, None)
        known = {"data": data, "value": None, "held": held}
        task: Pass = pickle.loads(written)
        held |= {name: node.value(index, known) for name, node in task.store}
    hold(index, {name: value for name, value in held.items() if name in names})
    return PROCESS


def forget(names: list[str]) -> None:
    """Hold nothing under these names any more."""
    for name in names:
        HELD.pop(name, None)


def together(parts: list[Found]) -> Found:
    """Several as one: sums added up in double precision."""
    sums = [
        sum(np.asarray(one, np.float64 if one.dtype == np.float32 else one.dtype) for one in each)
        for each in zip(*(part.sums for part in parts), strict=True)
    ]
    gathered = {index: row for part in parts for index, row in part.gathered.items()}
    processes = {index: one for part in parts for index, one in part.processes.items()}
    return Found(sums, parts[0].dtypes, gathered, processes)
