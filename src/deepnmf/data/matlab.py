"""MATLAB files (.mat): the numeric and sparse matrices of versions 5 to 7.

SciPy's reader of these versions crashes on damaged files. Here every size is checked against the
bytes that are there. Cells, structures and text are passed over.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from deepnmf.data.dataset import DataError
from deepnmf.data.limits import check_bytes, read_limit

if TYPE_CHECKING:
    from deepnmf.arrays import Data

NUMBERS = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
MATRIX, COMPRESSED = 14, 15
SPARSE, NUMERIC = 5, range(6, 16)
COMPLEX = 0x800
Element = tuple[int, bytes]
"""The type of an element, and its bytes."""


def read_matlab(path: Path) -> dict[str, Data]:
    """The matrices of a file by name."""
    check_bytes(path, path.stat().st_size)
    content = path.read_bytes()
    if b"\0" in content[:4]:  # version 4, which SciPy reads with NumPy
        from scipy.io import loadmat

        return {key: value for key, value in loadmat(path).items() if key[:2] != "__"}
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None or content[124:126] in (b"\0\2", b"\2\0"):
        raise DataError(f"{path}: could not be read as .mat. Save it again with -v7.")
    matrices, total = {}, 0
    for kind, data in _elements(content, 128, order):
        if kind == COMPRESSED:
            data = zlib.decompressobj().decompress(data, int(read_limit()) + 1)
            total += len(data)
            check_bytes(path, total)
            kind, data = next(_elements(data, 0, order))
        if kind == MATRIX:
            matrices.update(_matrix(data, order))
    return matrices


def _elements(content: bytes, start: int, order: str) -> Iterator[Element]:
    """The elements that follow each other in these bytes."""
    while start < len(content):
        if start + 8 > len(content):
            raise ValueError("it is cut off")
        kind, size = (int(word) for word in np.frombuffer(content, f"{order}u4", 2, start))
        if kind >> 16:  # a small element has its size, its type and its bytes in one
            kind, size, begin, after = kind & 0xFFFF, kind >> 16, start + 4, start + 8
        else:
            begin = start + 8
            after = begin + (size if kind == COMPRESSED else -(-size // 8) * 8)
        if begin + size > len(content):
            raise ValueError("it is cut off")
        yield kind, content[begin : begin + size]
        start = after


def _matrix(content: bytes, order: str) -> dict[str, Data]:
    """The name and entries of a matrix; nothing for what is not a matrix of real numbers."""
    elements = _elements(content, 0, order)
    flags, sizes = (_numbers(next(elements), order) for _ in range(2))
    name = next(elements)[1].decode("latin-1")
    kind = int(flags[0]) & 0xFF
    shape = tuple(int(size) for size in sizes)
    if int(flags[0]) & COMPLEX or min(shape) < 0 or (kind != SPARSE and kind not in NUMERIC):
        return {}
    if kind == SPARSE:
        rows, starts, entries = (_numbers(next(elements), order) for _ in range(3))
        stored = int(starts[-1])
        arrays = entries[:stored], rows[:stored], starts
        return {name: scipy.sparse.csc_matrix(arrays, shape=shape)}
    entries = _numbers(next(elements), order)
    if len(entries) != math.prod(shape):
        raise ValueError(f"{name!r} has {len(entries)} entries, and its shape is {shape}")
    return {name: entries.reshape(shape, order="F")}


def _numbers(element: Element, order: str) -> np.ndarray:
    kind, content = element
    if kind not in NUMBERS:
        raise ValueError(f"{kind} is not a type of numbers")
    return np.frombuffer(content, f"{order}{NUMBERS[kind]}").astype(f"={NUMBERS[kind]}")
