"""How much memory a file may take. A file can declare any size: it is asked before it is read."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deepnmf.arrays.sparse import trusted
from deepnmf.data.dataset import DataError, check_chunks
from deepnmf.terminal.text import one_line

if TYPE_CHECKING:
    from deepnmf.arrays import Data

SETTING = "DEEPNMF_READ_LIMIT"
UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
EMPTY = 1000
"""How many rows and columns a large sparse matrix may have per entry."""
LARGE = 10_000_000
"""How many rows and columns any sparse matrix may have."""
UNPACKED = 1 << 24
"""How many bytes are unpacked at a time."""


def amount_of_memory(amount: str | int | float, name: str) -> float:
    """Bytes from "600MB", "2 GB" or a number. `name` is the setting that messages name."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)i?b?\s*", str(amount).lower())
    try:
        value = float(match.group(1)) * UNITS[match.group(2)] if match else float("nan")
    except ValueError:
        value = float("nan")
    if not value > 0 or isinstance(amount, bool):
        raise ValueError(
            f'{name}: {one_line(repr(amount))} is not an amount of memory: write "600MB" or "2GB".'
        )
    return value


def physical_memory() -> float:
    """The memory of this machine, or of the container that this process runs in, in bytes."""
    try:
        machine = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        machine = 8e9
    for file in CGROUPS:
        try:
            machine = min(machine, float(Path(file).read_text()))
        except (OSError, ValueError):
            continue
    return machine


def read_limit() -> float:
    """The most bytes that samples read from a file may take: DEEPNMF_READ_LIMIT, or half of the
    memory."""
    setting = os.environ.get(SETTING)
    return physical_memory() / 2 if not setting else amount_of_memory(setting, SETTING)


def check_bytes(path: Path, size: float) -> None:
    """Refuse to read samples that take this many bytes in memory, if that is too much."""
    limit = read_limit()
    if size > limit:
        raise DataError(
            f"{path}: its data take {size / 1e9:.3g} GB in memory, and the limit is "
            f"{limit / 1e9:.3g} GB. Set {SETTING}={size / 1e9 * 1.1:.2g}GB to read it, or work in "
            "blocks (--max-memory, open_on_disk)."
        )


def check_sparse_size(path: Path, rows: int, columns: int, entries: int) -> None:
    """Refuse a sparse matrix that is too large, or that is empty but for a tiny share: rows and
    columns cost memory, whether they have entries or not."""
    if rows + columns > LARGE + EMPTY * entries:
        raise DataError(
            f"{path}: declares {rows} x {columns} with {entries} entries. Leave out rows and "
            "columns without entries."
        )
    check_bytes(path, 16.0 * entries + 8.0 * (rows + columns))


def checked_sparse(path: Path, X: Data) -> Data:
    """A sparse matrix from a file as CSR, with its size and its indices checked."""
    X = trusted(X) if X.format in ("csr", "csc") else X
    rows, columns = X.shape
    check_sparse_size(path, rows, columns, X.nnz)
    return trusted(X).tocsr()


def all_entries(path: Path, X: Data) -> np.ndarray:
    """All entries of an array in an HDF5 file or a zarr store."""
    check_array(path, X)
    return np.asarray(X[:])


def check_array(path: Path, X: Data) -> None:
    """Refuse an array in a file that is too large for memory, or not completely stored."""
    check_bytes(path, float(X.size) * X.dtype.itemsize)
    check_chunks(X)


def check_text(path: Path, times: float = 1) -> None:
    """Refuse a text file that is too long, unpacked if it is compressed. It takes so many `times`
    its size in memory."""
    size, limit = path.stat().st_size, read_limit()
    if path.suffix.lower() == ".gz":
        size = 0
        with gzip.open(path) as file:
            while size <= limit and (block := file.read(UNPACKED)):
                size += len(block)
    check_bytes(path, times * size)
