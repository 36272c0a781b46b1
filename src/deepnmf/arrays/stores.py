"""Where blocks of codes are stored: in memory, or in a file."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from typing import Any, BinaryIO, Protocol

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
        self.file = temporary_file(rows * layout.samples * self.dtype.itemsize)
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


def temporary_file(size: int) -> BinaryIO:
    """A file without a name, for so many bytes of codes, which disappears when it is closed.

    The space is reserved first: a full disk is an error here, and not a crash of the process when
    a mapped page cannot be written.
    """
    folder = tempfile.gettempdir()
    file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
    try:
        _reserve(file, size)
    except OSError as problem:
        file.close()
        raise OSError(
            problem.errno,
            f"no room for {size / 1e6:.0f} MB of codes ({problem.strerror}): set TMPDIR to a "
            "folder with more room, or raise max_memory",
            folder,
        ) from problem
    return file  # type: ignore[no-any-return]


def _reserve(file: BinaryIO, size: int) -> None:
    """Make sure that the disk has room for a file of this size."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as problem:
            if problem.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
    zeros = bytes(min(size, 1 << 20))
    for start in range(0, size, 1 << 20):
        file.write(zeros[: size - start])
    file.flush()
