"""Values in a safetensors file: every array is a tensor, and the rest is JSON in the header.

There is no pickle: a file can only hold classes that its reader knows. Codes in blocks of samples
are written and read block by block, so that only one block is in memory.
"""

from __future__ import annotations

import json
import numbers
import os
import struct
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from deepnmf.arrays.trees import fold, is_named

TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16",
    "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
Json = Any
"""What JSON can hold."""


class TensorFile:
    """The tensors of a file to write. Each is computed when it is written."""

    def __init__(self) -> None:
        self.tensors: dict[str, tuple[np.dtype, tuple[int, ...], Callable[[], np.ndarray]]] = {}

    def add(
        self,
        dtype: np.dtype,
        shape: tuple[int, ...],
        make: Callable[[], np.ndarray],
        name: str | None = None,
    ) -> str:
        """Add a tensor, and return its name."""
        name = str(len(self.tensors)) if name is None else name
        self.tensors[name] = (np.dtype(dtype), tuple(int(size) for size in shape), make)
        return name

    def write(self, file: BinaryIO, metadata: dict[str, str]) -> None:
        """Write the header, then the tensors one after another."""
        header: dict[str, Any] = {"__metadata__": metadata}
        offset = 0
        for name, (dtype, shape, _) in self.tensors.items():
            end = offset + int(np.prod(shape)) * dtype.itemsize
            header[name] = {
                "dtype": TYPES[dtype.name], "shape": list(shape), "data_offsets": [offset, end],
            }  # fmt: skip
            offset = end
        raw = json.dumps(header).encode()
        raw += b" " * (-len(raw) % 8)
        file.write(struct.pack("<Q", len(raw)))
        file.write(raw)
        for dtype, _, make in self.tensors.values():
            file.write(np.ascontiguousarray(make(), dtype=dtype).data)


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


class UnknownClassError(ValueError):
    """A file uses a class that its reader does not know."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
