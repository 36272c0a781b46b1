"""Products of NumPy matrices on threads of our own, each of which calls BLAS.

A product is split by its shape alone, into tiles of a fixed width. So its rounding does not depend
on the number of threads, or on how busy the machine is.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from deepnmf.arrays.cpu.threads import one_blas_thread, share

LARGE = 2e7
"""Operations from which a product is split."""
TILE = 256
"""Rows or columns of a tile. Narrower tiles would keep BLAS below its full speed."""
STRIPS = 64
"""Strips, at most, of a product that is split along the sum: each needs room for its own sum."""


def matmul(A: Any, B: Any) -> Any:
    """A B, for arrays of any library; large products of NumPy matrices are shared among threads."""
    if not _large(A, B):
        return A @ B
    with one_blas_thread():
        if max(A.shape[0], B.shape[1]) <= TILE:
            return _by_strips(A, B)
        return _gram(A) if _turned(A, B) else _by_tiles(A, B)


def _large(A: Any, B: Any) -> bool:
    """Whether these are matrices that BLAS multiplies, and a product worth splitting."""
    return (
        isinstance(A, np.ndarray)
        and isinstance(B, np.ndarray)
        and A.ndim == B.ndim == 2
        and A.dtype == B.dtype
        and A.dtype in (np.float32, np.float64)
        and A.shape[1] == B.shape[0]
        and _operations(A, B) >= LARGE
    )


def _operations(A: np.ndarray, B: np.ndarray) -> float:
    return 2.0 * A.shape[0] * A.shape[1] * B.shape[1]


def _turned(A: np.ndarray, B: np.ndarray) -> bool:
    """Whether B is a view of A, transposed."""
    same = A.__array_interface__["data"][0] == B.__array_interface__["data"][0]
    return same and A.shape == B.shape[::-1] and A.strides == B.strides[::-1]


def _by_tiles(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Tile by tile along the longer side of the result."""
    out = np.empty((A.shape[0], B.shape[1]), A.dtype)
    by_rows = len(out) >= out.shape[1]
    tiles = _slices(max(out.shape), TILE)

    def work(begin: int, end: int) -> None:
        for tile in tiles[begin:end]:
            if by_rows:
                np.matmul(A[tile], B, out=out[tile])
            else:
                np.matmul(A, B[:, tile], out=out[:, tile])

    share(work, len(tiles), _operations(A, B))
    return out


def _gram(A: np.ndarray) -> np.ndarray:
    """A Aᵀ: tiles on and below the diagonal, and their mirror images above."""
    out = np.empty((len(A), len(A)), A.dtype)
    tiles = list(itertools.combinations_with_replacement(_slices(len(A), TILE), 2))

    def work(begin: int, end: int) -> None:
        for left, low in tiles[begin:end]:
            np.matmul(A[low], A[left].T, out=out[low, left])
            if low != left:
                out[left, low] = out[low, left].T

    share(work, len(tiles), _operations(A, A.T) / 2)
    return out


def _by_strips(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A small result with long sums: strips of the sum, added up in order."""
    length = A.shape[1]
    strips = _slices(length, max(4 * TILE, -(-length // STRIPS)))
    sums = np.empty((len(strips), A.shape[0], B.shape[1]), A.dtype)

    def work(begin: int, end: int) -> None:
        for place in range(begin, end):
            np.matmul(A[:, strips[place]], B[strips[place]], out=sums[place])

    share(work, len(strips), _operations(A, B))
    return np.add.reduce(sums)


def _slices(length: int, width: int) -> list[slice]:
    return [slice(low, min(low + width, length)) for low in range(0, length, width)]
