"""Samples in blocks on this machine: arrays read by slices, and lists of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepnmf.arrays import Array, is_sparse
from deepnmf.arrays.blocks import Block, Blocked, Layout, Leaf
from deepnmf.arrays.tensors import is_tensor
from deepnmf.data.dataset import check_chunks, stored_rows
from deepnmf.data.limits import physical_memory
from deepnmf.samples.admission import float_type
from deepnmf.samples.base import Needs, Samples
from deepnmf.samples.budget import memory, room_for_codes
from deepnmf.samples.checks import check_blocks, check_size
from deepnmf.samples.disk import (
    as_block,
    check_rows,
    is_on_disk,
    joined_rows,
    sample_bytes,
    to_rows,
)
from deepnmf.samples.place import refuse_card

WORK = 12
"""How many arrays as large as the widest codes are in memory while a block is worked on."""


class InBlocks(Samples):
    """X in blocks of samples on this machine, checked."""

    def __init__(self, X: Any, data: Blocked, needs: Needs) -> None:
        refuse_card(needs.device)
        check_size(data.shape[::-1], needs, "array")
        check_blocks(data, needs, "block")
        self.X, self._data = X, data
        self.features = data.shape[0]

    @property
    def data(self) -> Array:
        return self._data

    def home(self, array: Array) -> Array:
        return array

    def rows(self, H: Array) -> Array:
        return to_rows(H)

    def some(self, numbers: np.ndarray) -> Array:
        picked = []
        for start, block in zip(self._data.layout.starts(), self._data.each(), strict=True):
            inside = (start <= numbers) & (numbers < start + block.shape[1])
            picked.append(block.T[numbers[inside] - start])
        return joined_rows(picked)

    def close(self) -> None:
        self._data.layout.close()


def is_sequence(X: Any) -> bool:
    """Whether X is a list or tuple of blocks of samples: matrices, or DataFrames."""
    return (
        isinstance(X, list | tuple)
        and len(X) > 0
        and all(getattr(block, "ndim", 0) == 2 and not is_tensor(block) for block in X)
    )


def opened_sequence(X: Any, needs: Needs) -> Samples | None:
    """A list of blocks of samples."""
    if not is_sequence(X) or not _takes_blocks(needs):
        return None
    matrices = [block if hasattr(block, "dtype") else np.asarray(block) for block in X]
    first = matrices[0]
    for number, block in enumerate(matrices):
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
    dtype = float_type(first.dtype, needs.whom)
    blocks = [block for block in matrices if block.shape[0]]
    if not blocks:
        raise ValueError(f"the blocks hold 0 samples; {needs.whom} needs at least 2.")
    widths = tuple(int(block.shape[0]) for block in blocks)
    layout = Layout(widths, room=room_for_codes(needs.max_memory))
    source = Leaf(BlocksInMemory(blocks, dtype))
    return InBlocks(X, Blocked(source, layout, int(first.shape[1]), dtype), needs)


def opened(X: Any, needs: Needs) -> Samples | None:
    """An array on disk that is large, or any array where `max_memory` is set."""
    budget = memory(needs.max_memory)
    in_memory = isinstance(X, np.ndarray) or is_sparse(X)
    if not is_on_disk(X) and (budget is None or not in_memory):
        return None
    if not needs.blocks and needs.why_no_blocks is None:
        return None
    if len(X.shape) != 2:
        raise ValueError(f"Expected 2D input, got an array of shape {tuple(X.shape)}.")
    n, m = (int(size) for size in X.shape)
    dtype = float_type(X.dtype, needs.whom)
    codes = WORK * needs.widest * dtype.itemsize
    check_chunks(X)
    if budget is None:
        budget = physical_memory() / 4
        if n * (sample_bytes(X, dtype) + codes) <= budget:
            return None
    if not _takes_blocks(needs):
        return None
    check_rows(X)
    width = int(budget / 8 / (2 * sample_bytes(X, dtype) + codes))
    width = min(max(width, 64), n)
    widths = [min(width, n - low) for low in range(0, n, width)]
    layout = Layout(tuple(widths), room=room_for_codes(needs.max_memory))
    source = SlicesOfRows(X.tocsr() if is_sparse(X) else X, layout, dtype)
    return InBlocks(X, Blocked(Leaf(source), layout, m, dtype), needs)


def _takes_blocks(needs: Needs) -> bool:
    """Whether a model works on blocks. If it states why it cannot, blocks are refused."""
    if needs.why_no_blocks is not None:
        raise ValueError(needs.why_no_blocks)
    return needs.blocks


class SlicesOfRows:
    """The blocks of an array, read as slices of its rows."""

    def __init__(self, X: Any, layout: Layout, dtype: np.dtype) -> None:
        self.X, self.dtype = X, dtype
        self.edges = [*layout.starts(), layout.samples]

    def __getitem__(self, index: int) -> Block:
        rows = stored_rows(self.X, slice(self.edges[index], self.edges[index + 1]))
        return as_block(rows, self.dtype, self.X)


class BlocksInMemory:
    """The blocks of a list of matrices."""

    def __init__(self, blocks: list[Any], dtype: np.dtype) -> None:
        self.blocks, self.dtype = blocks, dtype

    def __getitem__(self, index: int) -> Block:
        return as_block(self.blocks[index], self.dtype, self.blocks[index])
