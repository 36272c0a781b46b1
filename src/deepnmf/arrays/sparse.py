"""Sparse matrices from outside. SciPy's compiled code trusts their indices: a wrong one reads or
writes foreign memory. So they are checked in full before anything else touches them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse


def trusted(X: Any) -> Any:
    """X as a CSR or CSC matrix whose indices are checked, in time linear in its entries.

    It shares the memory of X. What X says of itself (`has_canonical_format`) is not believed.
    """
    if X.ndim != 2:
        raise ValueError(f"Expected 2D input, got a sparse array of shape {tuple(X.shape)}.")
    if X.format in ("coo", "dia", "dok", "lil", "bsr"):
        X = _CONVERTED[X.format](X)
    elif X.format not in ("csr", "csc"):
        raise _damaged(f"its format is {X.format!r}")
    lines, size = X.shape if X.format == "csr" else X.shape[::-1]
    stored = _check_compressed(X, lines, size)
    arrays = X.data[:stored], X.indices[:stored], X.indptr
    return _like(X, X.format)(arrays, shape=X.shape)


def _damaged(why: str) -> ValueError:
    return ValueError(f"the sparse matrix is damaged: {why}. Build it again from its entries.")


def _like(X: Any, form: str) -> Any:
    """The class of this format: of matrices if X is one, else of arrays."""
    kind = "matrix" if isinstance(X, scipy.sparse.spmatrix) else "array"
    return getattr(scipy.sparse, f"{form}_{kind}")


def _check_indices(indices: Any, size: int, what: str) -> None:
    """Refuse indices that are not whole numbers from 0 to size − 1."""
    if not isinstance(indices, np.ndarray) or indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise _damaged(f"its {what} are not a list of whole numbers")
    for index in (indices.min(), indices.max()) if len(indices) else ():
        if not 0 <= index < size:
            raise _damaged(f"{index} among its {what}, which are 0 to {size - 1}")


def _check_compressed(X: Any, lines: int, size: int) -> int:
    """Check data, indices and indptr of `lines` rows (or columns) of that size. Returns the number
    of entries."""
    data, indices, indptr = X.data, X.indices, X.indptr
    if not isinstance(indptr, np.ndarray) or not isinstance(data, np.ndarray):
        raise _damaged("its data or indptr is not an array")
    if indptr.ndim != 1 or len(indptr) != lines + 1 or indptr.dtype.kind not in "iu":
        raise _damaged(f"its indptr is not a list of {lines + 1} whole numbers")
    stored = int(indptr[-1])
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise _damaged("its indptr does not rise from 0")
    if stored > len(indices) or len(indices) != len(data):
        raise _damaged(
            f"{len(data)} entries and {len(indices)} indices, where indptr ends at {stored}"
        )
    if data.ndim != (3 if X.format == "bsr" else 1):
        raise _damaged(f"its data have {data.ndim} dimensions")
    _check_indices(indices[:stored], size, "indices")
    return stored


def _from_coo(X: Any) -> Any:
    if len(X.coords) != 2 or any(len(places) != len(X.data) for places in X.coords):
        raise _damaged("its coordinates and entries differ in number")
    for places, size, what in zip(X.coords, X.shape, ("rows", "columns"), strict=True):
        _check_indices(places, size, what)
    return _like(X, "coo")((X.data, X.coords), shape=X.shape).tocsr()


def _from_dia(X: Any) -> Any:
    if X.data.ndim != 2 or X.offsets.ndim != 1 or len(X.data) != len(X.offsets):
        raise _damaged("its diagonals and offsets differ in number")
    return _like(X, "dia")((X.data, X.offsets), shape=X.shape).tocsr()


def _from_dok(X: Any) -> Any:
    return _from_coo(X.tocoo())


def _from_lil(X: Any) -> Any:
    lengths = [(len(places), len(values)) for places, values in zip(X.rows, X.data, strict=True)]
    if len(lengths) != X.shape[0] or any(places != values for places, values in lengths):
        raise _damaged("its rows and entries differ in number")
    return X.tocsr()


def _from_bsr(X: Any) -> Any:
    (height, width), (rows, columns) = X.blocksize, X.shape
    if not height or not width or rows % height or columns % width:
        raise _damaged(f"blocks of {height} x {width} do not fill {rows} x {columns}")
    _check_compressed(X, rows // height, columns // width)
    return X.tocsr()


_CONVERTED = {
    "coo": _from_coo, "dia": _from_dia, "dok": _from_dok, "lil": _from_lil, "bsr": _from_bsr,
}  # fmt: skip
