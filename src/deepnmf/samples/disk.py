"""Arrays on disk: recognise them, read them, and write codes that are too large for memory."""

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
    """Whether X is an array on disk, read slice by slice: a NumPy memmap, an HDF5 or zarr array."""
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

    def __getitem__(self, rows: Any) -> np.ndarray:
        samples = np.array(self.X[rows], dtype=self.dtype, order="C")
        if isinstance(self.X, np.memmap):
            forget_pages(self.X)
        if self.unit_norm and len(samples):
            return to_unit_norm(samples, copy=False)
        return samples


def forget_pages(X: np.memmap) -> None:
    """Release the memory of the pages that have been read."""
    base = getattr(X, "_mmap", None)
    if base is not None and X.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def as_block(rows: Any, dtype: np.dtype, source: Any = None) -> Block:
    """Samples (width, m) as a block (m, width). `source` is the array that they come from."""
    if is_sparse(rows):
        return canonical(scipy.sparse.csr_array(rows).astype(dtype, copy=False)).T
    if not isinstance(source, np.memmap):
        return np.ascontiguousarray(rows, dtype=dtype).T
    block = np.array(rows, dtype=dtype, order="C")
    forget_pages(source)
    return block.T


def to_rows(H: Array) -> np.ndarray:
    """Codes as (n, k): in memory or, if they are too large, in a memory-mapped file."""
    if not is_blocked(H):
        return H.T
    size = H.shape[0] * H.shape[1] * H.dtype.itemsize
    if size <= 4 * H.layout.room:
        return H.whole().T
    with tempfile.NamedTemporaryFile(prefix="deepnmf-codes-", delete=False) as file:
        out = np.memmap(file.name, dtype=H.dtype, mode="w+", shape=H.shape[::-1])
        if os.name == "posix":  # the file is deleted with the last array that uses it
            Path(file.name).unlink()
    for start, block in zip(H.layout.starts(), H.each(), strict=True):
        out[start : start + block.shape[-1]] = block.T
    return out
