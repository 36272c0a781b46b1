"""Files of NumPy, .npy and .npz. Their headers are read first: an array can declare any size."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse

from deepnmf.data.dataset import DataError
from deepnmf.data.limits import check_bytes

PARTS = {"data", "indices", "indptr", "shape"}
"""The arrays of a matrix in CSR or CSC form."""


def load_npy(path: Path, mmap_mode: Any = None) -> np.ndarray:
    """The array of a .npy file, or (with `mmap_mode`) a memmap of it."""
    with path.open("rb") as file:
        _, size = _header(path, file)
        if size > path.stat().st_size:
            raise DataError(f"{path}: is cut off: its header declares {size} bytes.")
    if mmap_mode is None:
        check_bytes(path, size)
    return np.asanyarray(np.load(path, mmap_mode=mmap_mode, allow_pickle=False))


def npz_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the arrays of a .npz file, which together fit into memory."""
    shapes, total = {}, 0
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                with archive.open(member) as file:
                    shape, size = _header(path, file)
                if size > member.file_size:
                    raise DataError(f"{path}: {member.filename} is cut off.")
                shapes[member.filename.removesuffix(".npy")] = shape
                total += size
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as problem:
        raise _no_array(path) from problem
    check_bytes(path, total)
    return shapes


def sparse_from_npz(path: Path, shapes: dict[str, tuple[int, ...]]) -> Any:
    """The sparse matrix of a .npz file, as `scipy.sparse.save_npz` writes it or as the arrays data,
    indices, indptr and shape; None if it holds none. Its indices are still to be checked."""
    if {"format", "shape"} <= set(shapes):
        return scipy.sparse.load_npz(path)
    if not set(shapes) >= PARTS:
        return None
    with np.load(path, allow_pickle=False) as content:
        rows, columns = (int(size) for size in content["shape"])
        by_rows = len(content["indptr"]) == rows + 1
        build = scipy.sparse.csr_matrix if by_rows else scipy.sparse.csc_matrix
        arrays = content["data"], content["indices"], content["indptr"]
        return build(arrays, shape=(rows, columns))


def _header(path: Path, file: IO[bytes]) -> tuple[tuple[int, ...], int]:
    """The shape of an array, and the number of its bytes."""
    try:
        version = np.lib.format.read_magic(file)
        first = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    except (ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise _no_array(path) from problem
    if dtype.hasobject or any(size < 0 for size in shape):
        raise _no_array(path)
    return shape, math.prod(shape) * dtype.itemsize


def _no_array(path: Path) -> DataError:
    return DataError(
        f"{path}: holds no array of numbers, or was not written by numpy.save. Save the samples as "
        "an array of floats."
    )
