"""Matrix Market files (.mtx), read without trust in the sizes that they declare.

SciPy's reader crashes on a file that is cut inside a number. Here pandas reads the numbers, in
blocks of lines, so that memory grows with what the file holds.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from deepnmf.data.dataset import DataError
from deepnmf.data.limits import check_bytes, check_sparse_size, check_text

if TYPE_CHECKING:
    from deepnmf.arrays import Data

LINE = 10_000
"""The most bytes in a line above the entries."""
AT_ONCE = 1_000_000
"""How many lines are read at a time."""
FIELDS = {"real": float, "double": float, "integer": np.int64, "unsigned-integer": np.int64}
"""The types of entries. "pattern" has none, "complex" is refused."""
SYMMETRIES = {"general": 0, "symmetric": 1, "hermitian": 1, "skew-symmetric": -1}
"""The sign of the mirrored entries; 0 if all entries are in the file."""


@dataclass(frozen=True)
class Header:
    """What the file declares."""

    sparse: bool
    field: str
    mirror: int
    rows: int
    columns: int
    entries: int
    """How many lines of entries there are."""

    @property
    def names(self) -> int:
        """How many numbers a line of entries has."""
        return (2 if self.sparse else 0) + (self.field != "pattern")


def read_matrix_market(path: Path) -> Data:
    """The matrix in a .mtx or .mtx.gz file: sparse (CSR) or dense, as the file has it."""
    packed = path.suffix.lower() == ".gz"
    with gzip.open(path) if packed else path.open("rb") as file:
        header = _header(path, file)
        # The shortest lines are "1 1" and "0"; the last one may have no end.
        least = header.entries * 2 * max(1, header.names) - 1
        if not packed and path.stat().st_size < least:
            raise _wrong(path, f"it declares {header.entries} entries, more than its size allows")
        if packed:
            check_text(path)
        if header.sparse:
            check_sparse_size(path, header.rows, header.columns, header.entries)
            return _sparse(path, header, file)
        check_bytes(path, 16.0 * header.rows * header.columns)
        return _dense(path, header, file)


def _wrong(path: Path, why: str) -> DataError:
    return DataError(
        f"{path}: could not be read as .mtx: {why}. Is the file complete? Write it again, "
        "such as with scipy.io.mmwrite."
    )


def _header(path: Path, file: IO[bytes] | Any) -> Header:
    """The first line, and the sizes below the comments."""
    banner = file.readline(LINE).decode("ascii", "replace").lower().split()
    if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"]:
        raise _wrong(path, "its first line is not %%MatrixMarket matrix …")
    layout, field, symmetry = banner[2:]
    if field == "complex":
        raise DataError(f"{path}: holds complex numbers. Write abs(X), or its real part.")
    fields = (*FIELDS, "pattern") if layout == "coordinate" else tuple(FIELDS)
    if layout not in ("coordinate", "array") or field not in fields or symmetry not in SYMMETRIES:
        raise _wrong(path, f"{layout} {field} {symmetry} is not a kind of matrix")
    line = b"%"
    while line.startswith(b"%") or (line and not line.strip()):
        line = file.readline(LINE)
    sizes = line.split()
    wanted = 3 if layout == "coordinate" else 2
    if len(sizes) != wanted or not all(size.isdigit() and len(size) < 19 for size in sizes):
        raise _wrong(path, f"the sizes of the matrix are not {wanted} whole numbers")
    rows, columns, *entries = (int(size) for size in sizes)
    mirror = SYMMETRIES[symmetry]
    if mirror and rows != columns:
        raise _wrong(path, f"it is {symmetry}, but {rows} x {columns}")
    stored = {0: rows * columns, 1: rows * (rows + 1) // 2, -1: rows * (rows - 1) // 2}[mirror]
    return Header(bool(entries), field, mirror, rows, columns, entries[0] if entries else stored)


def _lines(path: Path, header: Header, file: IO[bytes] | Any) -> Generator[list[np.ndarray]]:
    """The columns of numbers, some lines at a time. Their number is checked against the header."""
    import pandas as pd

    kinds: list[Any] = [np.int64, np.int64] if header.sparse else []
    if header.field != "pattern":
        kinds.append(FIELDS[header.field])
    read = 0
    try:
        with pd.read_csv(
            file, sep=r"\s+", header=None, dtype=dict(enumerate(kinds)), na_filter=False,
            quoting=csv.QUOTE_NONE, chunksize=AT_ONCE, float_precision="round_trip",
        ) as chunks:  # fmt: skip
            for chunk in chunks:
                if chunk.shape[1] != len(kinds):
                    raise _wrong(path, f"its lines have {chunk.shape[1]} numbers, not {len(kinds)}")
                read += len(chunk)
                if read > header.entries:
                    break
                yield [chunk[name].to_numpy() for name in chunk]
    except pd.errors.EmptyDataError:
        pass
    except (ValueError, OverflowError, EOFError, OSError) as problem:
        if isinstance(problem, DataError):
            raise
        raise _wrong(path, " ".join(str(problem).split())) from problem
    if read != header.entries:
        more = "more" if read > header.entries else f"{read}"
        raise _wrong(path, f"it declares {header.entries} entries and holds {more}")


def _sparse(path: Path, header: Header, file: IO[bytes] | Any) -> Data:
    small = max(header.rows, header.columns) < 2**31
    index = np.dtype(np.int32 if small else np.int64)
    blocks: list[tuple[np.ndarray, ...]] = []
    with contextlib.closing(_lines(path, header, file)) as lines:
        for rows, columns, *values in lines:
            for places, size in ((rows, header.rows), (columns, header.columns)):
                if places.min() < 1 or places.max() > size:
                    raise _wrong(path, f"an index is not between 1 and {size}")
            entries = values[0] if values else np.ones(len(rows))
            blocks.append(((rows - 1).astype(index), (columns - 1).astype(index), entries))
    shape = (header.rows, header.columns)
    if not blocks:
        return scipy.sparse.csr_matrix(shape)
    rows, columns, entries = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    blocks.clear()
    if header.mirror:
        off = rows != columns
        mirrored = columns[off], rows[off]
        rows, columns = np.append(rows, mirrored[0]), np.append(columns, mirrored[1])
        entries = np.append(entries, header.mirror * entries[off])
    return scipy.sparse.coo_matrix((entries, (rows, columns)), shape=shape).tocsr()


def _dense(path: Path, header: Header, file: IO[bytes] | Any) -> Data:
    """Entries column by column; of a matrix with symmetry, the triangle below the diagonal."""
    blocks = [values for [values] in _lines(path, header, file)]
    entries = np.concatenate(blocks) if blocks else np.zeros(0)
    if not header.mirror:
        return np.ascontiguousarray(entries.reshape(header.columns, header.rows).T)
    X = np.zeros((header.rows, header.columns), entries.dtype)
    columns, rows = np.triu_indices(header.rows, k=0 if header.mirror > 0 else 1)
    X[columns, rows] = header.mirror * entries
    X[rows, columns] = entries
    return X
