"""Samples that are not in memory: files and sequences of blocks, as the core's blocked arrays."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize as to_unit_norm

from deepnmf.arrays import Array, is_sparse
from deepnmf.arrays.blocks import Blocked, Layout, Leaf
from deepnmf.data.dataset import check_chunks
from deepnmf.samples.budget import memory
from deepnmf.samples.checks import canonical, check_entries, is_tensor

WORK = 12
"""Arrays as large as the widest codes that the work on a block keeps at a time."""


def is_by_blocks(X: Any) -> bool:
    """Whether X is a sequence of blocks of samples: a list or tuple of matrices."""
    return (
        isinstance(X, Sequence)
        and len(X) > 0
        and all(getattr(one, "ndim", 0) == 2 and not is_tensor(one) for one in X)
    )


def is_on_disk(X: Any) -> bool:
    """Whether X is an array that is read by slices: a NumPy memmap, an HDF5 or zarr array."""
    if isinstance(X, np.memmap):
        return True
    return not isinstance(X, np.ndarray) and hasattr(X, "chunks") and hasattr(X, "dtype")


@dataclass(frozen=True)
class Prepared:
    """An array on disk whose samples are brought to a type, and to unit norm, as they are read."""

    X: Any
    dtype: Any
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
            _forget(self.X)
        return to_unit_norm(part, copy=False) if self.unit_norm and len(part) else part


def blocked(
    X: Any, whom: str, widest: int, max_memory: Any, features: int | None
) -> Blocked | None:
    """X (n_samples, n_features) as a blocked array (m, n), checked; None where X is to be worked on
    as a whole.

    `widest` is the size of the widest layer, `features` what a fitted model expects.
    """
    budget = memory(max_memory)
    if is_by_blocks(X):
        return _sequence(list(X), whom, budget, features)
    if not is_on_disk(X) and (budget is None or not (isinstance(X, np.ndarray) or is_sparse(X))):
        return None
    if len(X.shape) != 2:
        raise ValueError(f"Expected 2D input, got an array of shape {tuple(X.shape)}.")
    n, m = (int(size) for size in X.shape)
    if is_on_disk(X) and X.dtype.kind not in "fiub":
        raise ValueError(f"X has entries of type {X.dtype}; {whom} needs numbers.")
    check_chunks(X)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(float)
    if budget is None:
        budget = _physical() / 4
        if n * (m + WORK * widest) * dtype.itemsize <= budget:
            return None
    width = int(budget / 8 / ((2 * m + WORK * widest) * dtype.itemsize))
    width = min(max(width, 64), n)
    widths = [min(width, n - low) for low in range(0, n, width)]
    layout = Layout(tuple(widths), room=budget / 8)
    source = Rows(X.tocsr() if is_sparse(X) else X, layout, dtype)
    return _checked(Blocked(Leaf(source), layout, m, dtype), whom, features)


def _sequence(blocks: list[Any], whom: str, budget: float | None, features: int | None) -> Blocked:
    first = blocks[0]
    for number, block in enumerate(blocks):
        if block.shape[1] != first.shape[1]:
            raise ValueError(
                f"block {number} has {block.shape[1]} features, block 0 has {first.shape[1]}: all "
                "blocks of samples need the same features."
            )
        if block.dtype != first.dtype:
            raise ValueError(
                f"block {number} is {block.dtype}, block 0 is {first.dtype}: convert all blocks to "
                "one type, float32 or float64."
            )
    dtype = first.dtype if first.dtype in (np.float32, np.float64) else np.dtype(float)
    kept = [block for block in blocks if block.shape[0]]
    if not kept:
        raise ValueError(f"the blocks hold 0 samples; {whom} needs at least 2.")
    room = (_physical() / 4 if budget is None else budget) / 8
    layout = Layout(tuple(int(block.shape[0]) for block in kept), room=room)
    array = Blocked(Leaf(Given(kept, dtype)), layout, int(first.shape[1]), dtype)
    return _checked(array, whom, features)


def _checked(X: Blocked, whom: str, features: int | None) -> Blocked:
    """X, all of whose entries are finite and ≥ 0."""
    if features is not None and X.shape[0] != features:
        raise ValueError(
            f"X has {X.shape[0]} features, but {whom} is expecting {features} features as input."
        )
    if features is None and X.shape[1] < 2:
        raise ValueError(f"Found array with {X.shape[1]} sample(s); {whom} needs at least 2.")
    for number, (start, block) in enumerate(zip(X.layout.starts(), X.each(), strict=True)):
        try:
            check_entries(block.T, whom)
        except ValueError as problem:
            end = start + block.shape[-1] - 1
            raise ValueError(
                f"block {number} (samples {start} to {end}; rows count from {start}): {problem}"
            ) from None
    return X


class Rows:
    """Blocks of an array that is read by slices of rows."""

    def __init__(self, X: Any, layout: Layout, dtype: Any) -> None:
        self.X, self.dtype = X, np.dtype(dtype)
        self.edges = [*layout.starts(), layout.samples]

    def __getitem__(self, index: int) -> Array:
        part = self.X[self.edges[index] : self.edges[index + 1]]
        if is_sparse(part):
            return canonical(part.astype(self.dtype, copy=False)).T
        block = np.array(part, dtype=self.dtype, order="C")
        if isinstance(self.X, np.memmap):
            _forget(self.X)
        return block.T


class Given:
    """Blocks that a user gave, one by one."""

    def __init__(self, blocks: list[Any], dtype: Any) -> None:
        self.blocks, self.dtype = blocks, np.dtype(dtype)

    def __getitem__(self, index: int) -> Array:
        block = self.blocks[index]
        if is_sparse(block):
            return canonical(scipy.sparse.csr_array(block).astype(self.dtype, copy=False)).T
        part = np.array(block, dtype=self.dtype, order="C")
        if isinstance(block, np.memmap):
            _forget(block)
        return part.T


def _forget(X: np.memmap) -> None:
    """Let the pages go that reading a file has brought into memory."""
    base = getattr(X, "_mmap", None)
    if base is not None and X.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def to_rows(H: Any) -> np.ndarray:
    """Codes (n, k): in memory, or where they are too large for it, in a file that is mapped."""
    if not isinstance(H, Blocked):
        return H.T
    size = H.shape[0] * H.shape[1] * H.dtype.itemsize
    if size <= 4 * H.layout.room:
        return H.whole().T
    with tempfile.NamedTemporaryFile(prefix="deepnmf-codes-", delete=False) as file:
        out = np.memmap(file.name, dtype=H.dtype, mode="w+", shape=H.shape[::-1])
        if os.name == "posix":  # gone with the last array that uses it
            Path(file.name).unlink()
    for start, block in zip(H.layout.starts(), H.each(), strict=True):
        out[start : start + block.shape[-1]] = block.T
    return out


def _physical() -> float:
    """Bytes of memory that this machine has."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 8e9
