"""Arrays on disk: recognise them, read them, and write codes that are too large for memory."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from deepnmf.arrays import Array, is_blocked, is_sparse
from deepnmf.arrays.blocks import Block
from deepnmf.arrays.stores import temporary_file
from deepnmf.data.dataset import stored_rows
from deepnmf.data.stored_sparse import StoredSparse
from deepnmf.samples.admission import admitted
from deepnmf.samples.checks import canonical
from deepnmf.samples.conversion import converted


def is_on_disk(X: Any) -> bool:
    """Whether X is an array on disk, read slice by slice: a NumPy memmap, an HDF5 or zarr array, or
    a sparse matrix in their files."""
    if isinstance(X, np.memmap):
        return True
    return not isinstance(X, np.ndarray) and hasattr(X, "chunks") and hasattr(X, "dtype")


@dataclass(frozen=True)
class Prepared:
    """An array on disk whose samples are converted when they are read and, with `unit_norm`, scaled
    to unit norm."""

    X: Any
    dtype: np.dtype
    unit_norm: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self.X.shape)

    @property
    def chunks(self) -> Any:
        return getattr(self.X, "chunks", None)

    def __getitem__(self, rows: slice) -> np.ndarray:
        samples: np.ndarray = converted(stored_rows(self.X, rows), self.dtype, self.unit_norm)
        if isinstance(self.X, np.memmap):
            forget_pages(self.X)
        return samples


@dataclass(frozen=True)
class SomeColumns:
    """Some columns of an array on disk, whose rows are read in full."""

    X: Any
    columns: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), len(self.columns)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.X.dtype)

    @property
    def chunks(self) -> None:
        return None

    def __getitem__(self, rows: slice) -> Any:
        return stored_rows(self.X, rows)[:, self.columns]


def sample_bytes(X: Any, dtype: np.dtype) -> int:
    """About how much memory one sample of an array on disk takes when it is read."""
    source = X.X if isinstance(X, SomeColumns | Prepared) else X
    if isinstance(source, StoredSparse):
        return source.sample_bytes
    return int(source.shape[1]) * dtype.itemsize


def check_rows(X: Any) -> None:
    """Refuse an array on disk whose rows cannot be read one by one."""
    source = X.X if isinstance(X, SomeColumns | Prepared) else X
    if isinstance(source, StoredSparse):
        source.check_rows()


def forget_pages(X: np.memmap) -> None:
    """Release the memory of the pages that have been read."""
    base = getattr(X, "_mmap", None)
    if base is not None and X.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def as_block(rows: Any, dtype: np.dtype, source: Any = None) -> Block:
    """Samples (width, m) as a block (m, width). `source` is the array that they come from."""
    rows = admitted(rows, "the model")
    if is_sparse(rows):
        return canonical(scipy.sparse.csr_array(rows).astype(dtype, copy=False)).T
    if not isinstance(source, np.memmap):
        return np.ascontiguousarray(rows, dtype=dtype).T
    block = np.array(rows, dtype=dtype, order="C")
    forget_pages(source)
    return block.T


def joined_rows(pieces: Sequence[Array]) -> Array:
    """Matrices of samples, all dense or some sparse, one below the other."""
    if any(is_sparse(piece) for piece in pieces):
        return scipy.sparse.vstack([scipy.sparse.csr_array(piece) for piece in pieces]).tocsr()
    return np.concatenate([np.asarray(piece) for piece in pieces])


def to_rows(H: Array) -> np.ndarray:
    """Codes as (n, k): in memory or, if they are too large, in a memory-mapped file."""
    if not is_blocked(H):
        return H.T
    size = H.shape[0] * H.shape[1] * H.dtype.itemsize
    if size <= 4 * H.layout.room:
        return H.whole().T
    with temporary_file(size) as file:  # it disappears with the last array that uses it
        out: np.ndarray = np.memmap(file, dtype=H.dtype, mode="r+", shape=H.shape[::-1])
    for start, block in zip(H.layout.starts(), H.each(), strict=True):
        out[start : start + block.shape[-1]] = block.T
    return out
