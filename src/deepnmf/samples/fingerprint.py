"""The fingerprint of data: size, type, blocks, and a checksum of the entries."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np

from deepnmf.arrays import Array, is_blocked, is_sparse
from deepnmf.arrays.blocks import Applied
from deepnmf.arrays.tensors import is_tensor, to_numpy

AT_ONCE = 10_000_000
"""How many entries are copied to contiguous memory at a time."""


def fingerprint(X: Array) -> dict[str, str]:
    """The fingerprint of data (m, n). Its keys are the words that messages use."""
    if is_blocked(X):
        sums = X.layout.sweep(gather=[Applied(_checksum, (X.node,))]).gathered[0]
        widths = sorted(set(X.layout.widths), reverse=True)
        blocks = f"{len(X.layout.widths)} of {', '.join(map(str, widths[:3]))} samples"
    else:
        sums, blocks = [_checksum(X)], "1"
    m, n = X.shape
    return {
        "shape": f"{n} x {m}",
        "type": f"{X.dtype}".removeprefix("torch."),
        "kind": "sparse" if is_sparse(X) else "tensor" if is_tensor(X) else "array",
        "number of blocks": blocks,
        "checksum of the entries": f"{crc([np.asarray(sums, np.uint32)]):08x}",
    }


def _checksum(X: Array) -> int:
    """CRC-32 of the entries of a block (m, n), sample by sample."""
    if is_sparse(X):
        columns = X.tocsc()
        columns.sort_indices()
        places = [columns.indptr.astype(np.int64), columns.indices.astype(np.int64)]
        return crc([*places, columns.data])
    rows = to_numpy(X.T)
    width = max(1, AT_ONCE // max(1, rows.shape[1]))
    return crc(rows[low : low + width] for low in range(0, rows.shape[0], width))


def crc(arrays: Iterable[np.ndarray]) -> int:
    """CRC-32 of arrays, one after another."""
    value = 0
    for array in arrays:
        value = zlib.crc32(np.ascontiguousarray(array).data, value)
    return value
