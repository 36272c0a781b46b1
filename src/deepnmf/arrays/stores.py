"""Where blocks of codes are stored: in memory, or in a file."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike


class Cut(Protocol):
    """How samples are cut into blocks: a `Layout`."""

    @property
    def widths(self) -> tuple[int, ...]: ...

    @property
    def room(self) -> float: ...

    @property
    def samples(self) -> int: ...

    def starts(self) -> list[int]: ...


class Blocks(Protocol):
    """Values by the number of their block."""

    def __getitem__(self, index: int, /) -> Any: ...


class Store(Blocks, Protocol):
    """Blocks that can be replaced."""

    def __setitem__(self, index: int, block: Any, /) -> None: ...


def store_for(layout: Cut, rows: int, dtype: DTypeLike) -> Store:
    """An empty store for the blocks of an array of that size."""
    if rows * layout.samples * np.dtype(dtype).itemsize <= layout.room:
        return [None] * len(layout.widths)
    return FileBlocks(layout, rows, dtype)


class FileBlocks:
    """Blocks in a file without a name, which disappears with this object. It is read and written,
    not mapped, so that only the current block is in memory."""

    def __init__(self, layout: Cut, rows: int, dtype: DTypeLike) -> None:
        self.layout, self.rows, self.dtype = layout, rows, np.dtype(dtype)
        self.starts = layout.starts()
        self.file = tempfile.TemporaryFile(prefix="deepnmf-codes-")  # noqa: SIM115
        weakref.finalize(self, self.file.close)

    def __setitem__(self, index: int, block: np.ndarray) -> None:
        data = memoryview(np.ascontiguousarray(block, dtype=self.dtype).data).cast("B")
        place = self._place(index)
        while len(data):
            written = os.pwrite(self.file.fileno(), data, place)
            data, place = data[written:], place + written

    def __getitem__(self, index: int) -> np.ndarray:
        width = self.layout.widths[index]
        size = self.rows * width * self.dtype.itemsize
        raw = os.pread(self.file.fileno(), size, self._place(index))
        return np.frombuffer(raw, dtype=self.dtype).reshape(self.rows, width)

    def _place(self, index: int) -> int:
        return self.starts[index] * self.rows * self.dtype.itemsize
