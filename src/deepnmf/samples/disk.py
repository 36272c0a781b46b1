"""Arrays on disk: how they are recognised and read, and where large codes are written."""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize as to_unit_norm

from deepnmf.arrays import Array, is_blocked, is_sparse
from deepnmf.arrays.blocks import Block
from deepnmf.samples.checks import canonical


def is_on_disk(X: Any) -> bool:
    """Whether X is an array that is read by slices: a NumPy memmap, an HDF5 or zarr array."""
    if isinstance(X, np.memmap):
        return True
    return not isinstance(X, np.ndarray) and hasattr(X, "chunks") and hasattr(X, "dtype")


@dataclass(frozen=True)
class Prepared:
    """An array on disk whose samples are converted, and scaled to unit norm, as they are read."""

    X: Any
    dtype: np.dtype
    unit_norm: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self.X.shape)

    @property
    def chunks(self) -> Any:
        return getattr(self.X, "chunks", None)

    def __getitem__(self, rows: Any) -> np.ndarray:
        part = np.array(self.X[rows], dtype=self.dtype, order="C")
        if isinstance(self.X, np.memmap):
            forget_pages(self.X)
        return to_unit_norm(part, copy=False) if self.unit_norm and len(part) else part


def forget_pages(X: np.memmap) -> None:
    """Release the pages of a file that reading has brought into memory."""
    base = getattr(X, "_mmap", None)
    if base is not None and X.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def as_block(rows: Any, dtype: np.dtype, source: Any = None) -> Block:
    """Samples (width, m) as a block (m, width). `source` is the array they were read from."""
    if is_sparse(rows):
        return canonical(scipy.sparse.csr_array(rows).astype(dtype, copy=False)).T
    if not isinstance(source, np.memmap):
        return np.ascontiguousarray(rows, dtype=dtype).T
    block = np.array(rows, dtype=dtype, order="C")
    forget_pages(source)
    return block.T


def to_rows(H: Array) -> np.ndarray:
    """Codes as (n, k): in memory or, if they are too large for it, in a file that is mapped."""
    if not is_blocked(H):
        return H.T
    size = H.shape[0] * H.shape[1] * H.dtype.itemsize
    if size <= 4 * H.layout.room:
        return H.whole().T
    with tempfile.NamedTemporaryFile(prefix="deepnmf-codes-", delete=False) as file:
        out = np.memmap(file.name, dtype=H.dtype, mode="w+", shape=H.shape[::-1])
        if os.name == "posix":  # the file goes with the last array that uses it
            Path(file.name).unlink()
    for start, block in zip(H.layout.starts(), H.each(), strict=True):
        out[start : start + block.shape[-1]] = block.T
    return out
