"""Safetensors files with a JSON header, and checksums of both.

Codes in blocks of samples are written and read block by block, so that only one block is in memory.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open

from deepnmf.files.atomic import write_atomically

TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16",
    "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
Json = Any
"""What JSON can hold."""
DAMAGE = (
    SafetensorError, KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError,
    RecursionError,
)  # fmt: skip
"""What reading a damaged file raises, here or where its values are used."""


class FileError(ValueError):
    """A file that cannot be used."""


class BadFileError(FileError):
    """A file that is damaged, or not of this kind. Its reader adds the path and what to do."""


class TensorFile:
    """The tensors of a file to write. Each is computed when it is written.

    The last tensor of the file holds the checksums of the others, and of the header.
    """

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
        native = np.dtype(dtype).newbyteorder("=")
        self.tensors[name] = (native, tuple(int(size) for size in shape), make)
        return name

    def add_array(self, array: np.ndarray, name: str | None = None) -> str:
        """Add an array that is in memory, and return its name."""
        return self.add(array.dtype, array.shape, lambda: array, name)

    def save(self, path: Path, key: str, header: Json) -> None:
        """Write a file with these tensors and this header, and read it back before it replaces
        the one that was there."""
        text = json.dumps(header)
        write_atomically(path, lambda file: self._write(file, key, text), partial(_verify, key))

    def _write(self, file: BinaryIO, key: str, text: str) -> None:
        sums: dict[str, int] = {}
        file.write(self._layout({key: text}))
        for name, (dtype, shape, make) in self.tensors.items():
            data = np.ascontiguousarray(make(), dtype=dtype).data
            file.write(data)
            sums[name] = checksum(TYPES[dtype.name], shape, data)
        file.write(_joined(sums, text).data)

    def _layout(self, metadata: dict[str, str]) -> bytes:
        """The beginning of the file: where every tensor is."""
        layout: dict[str, Any] = {"__metadata__": metadata}
        offset = 0
        kinds = {name: (dtype, shape) for name, (dtype, shape, _) in self.tensors.items()}
        kinds[CHECKSUMS] = (np.dtype(np.uint32), (len(kinds) + 1,))
        for name, (dtype, shape) in kinds.items():
            end = offset + math.prod(shape) * dtype.itemsize
            layout[name] = {
                "dtype": TYPES[dtype.name], "shape": list(shape), "data_offsets": [offset, end],
            }  # fmt: skip
            offset = end
        raw = json.dumps(layout).encode()
        raw += b" " * (-len(raw) % 8)
        return struct.pack("<Q", len(raw)) + raw


CHECKSUMS = "checksums"


def checksum(kind: str, shape: Iterable[int], data: Any) -> int:
    """CRC-32 of a tensor: its type, its shape and its bytes."""
    return zlib.crc32(data, zlib.crc32(f"{kind} {[*shape]}".encode()))


def _joined(sums: Mapping[str, int], text: str) -> np.ndarray:
    """The checksums in the order of their names, and last that of the header."""
    ordered = [sums[name] for name in sorted(sums)]
    return np.array([*ordered, zlib.crc32(text.encode())], np.uint32)


class Tensors(Mapping[str, np.ndarray]):
    """The header and the tensors of a file, each checked when it is read."""

    def __init__(self, file: Any, key: str) -> None:
        text = (file.metadata() or {}).get(key)
        if text is None:
            raise BadFileError("there is no header of deepnmf")
        self.file = file
        self.names = sorted(file.keys())
        self.has_checksums = CHECKSUMS in self.names
        self.sums: dict[str, int] = {}
        if self.has_checksums:
            self.names.remove(CHECKSUMS)
            *sums, last = file.get_tensor(CHECKSUMS).tolist()
            if len(sums) != len(self.names) or last != zlib.crc32(text.encode()):
                raise BadFileError("the checksum of the header is wrong")
            self.sums = dict(zip(self.names, sums, strict=True))
        try:
            self.header: Any = json.loads(text)
        except (ValueError, RecursionError):
            raise BadFileError("the header cannot be read") from None
        if not isinstance(self.header, dict):
            raise BadFileError("the header cannot be read")

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.names:
            raise KeyError(name)
        described = self.file.get_slice(name)
        kind, shape = described.get_dtype(), described.get_shape()
        if kind not in TYPES.values():
            raise BadFileError(f"{name} has the type {kind}, which deepnmf does not use")
        array = self.file.get_tensor(name)
        if self.has_checksums:
            data = np.ascontiguousarray(array).data
            if checksum(kind, shape, data) != self.sums[name]:
                raise BadFileError(f"the checksum of {name} is wrong")
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@contextlib.contextmanager
def open_tensors(path: Path, key: str) -> Iterator[Tensors]:
    """The tensors of a file, while it is open. Whatever is wrong with the file is a
    `BadFileError`."""
    if path.exists() and not path.is_file():
        raise BadFileError("it is not a file")
    try:
        with safe_open(path, "numpy") as file:
            yield Tensors(file, key)
    except FileError:
        raise
    except DAMAGE as problem:
        raise BadFileError(f"{type(problem).__name__}: {problem}") from problem


def _verify(key: str, path: Path) -> None:
    """Read a file that was just written."""
    try:
        with open_tensors(path, key) as tensors:
            for name in tensors:
                _ = tensors[name]
    except BadFileError as problem:
        raise OSError(errno.EIO, f"it cannot be read back: {problem}") from problem
