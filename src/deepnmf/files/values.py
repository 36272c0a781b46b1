"""Trees of values in a file: every array is a tensor, and the rest is JSON in the header.

There is no pickle: a file can only hold classes that its reader knows.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Mapping
from typing import Any

from deepnmf.arrays.trees import fold, is_named
from deepnmf.files.tensors import FileError, Json


def to_json(value: Any, store: Callable[[Any], Json], leaves: tuple[type, ...] = ()) -> Json:
    """A tree of values as JSON. store(leaf) returns what replaces a leaf that JSON cannot hold, and
    NotImplemented for all others. Nodes of the types in `leaves` count as leaves."""

    def leaf(path: tuple[Any, ...], value: Any) -> Json:
        del path
        stored = store(value)
        if stored is not NotImplemented:
            return stored
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real):
            return float(value)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        raise TypeError(f"a {type(value).__name__} cannot be written to a file.")

    def join(node: Any, values: dict[Any, Json]) -> Json:
        if is_named(node):
            return {"part": type(node).__name__, "fields": values}
        return list(values.values())

    return fold(value, leaf, join, leaves=leaves)


def from_json(written: Json, known: Mapping[str, type], load: Callable[[dict], Any]) -> Any:
    """The value that `to_json` was given. load(record) reads what `store` wrote."""
    if isinstance(written, list):
        return tuple(from_json(entry, known, load) for entry in written)
    if not isinstance(written, dict):
        return written
    if "part" not in written:
        return load(written)
    kind = known.get(written["part"])
    if kind is None:
        raise UnknownClassError(written["part"])
    fields = written["fields"].items()
    return kind(**{name: from_json(entry, known, load) for name, entry in fields})


class UnknownClassError(FileError):
    """A file uses a class that its reader does not know."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
