"""Operations on NumPy matrices in one compiled pass over memory, shared among threads. NumPy would
need several passes, or use one thread."""

from __future__ import annotations

import numpy as np
from scipy.sparse import sparray

from deepnmf.arrays.cpu.threads import share

FLOATS = (np.float32, np.float64)
"""The types that kernels are compiled for."""
BLOCK = 32768
"""Entries processed at a time, so that they stay in cache."""


def in_rows(A: np.ndarray) -> np.ndarray:
    """A in row-major order: A itself if it is."""
    turned = A.ndim == 2 and A.flags.f_contiguous and not A.flags.c_contiguous
    if not turned or min(A.shape) < 16 or A.dtype not in FLOATS:
        return np.ascontiguousarray(A)
    from deepnmf.arrays.cpu.kernels import copy_transposed

    out = np.empty(A.shape, A.dtype)
    share(lambda begin, end: copy_transposed(A.T, out, (begin, end)), A.shape[1], 8.0 * A.size)
    return out


def dot(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Σ_ij U_ij V_ij, every product and sum in double precision."""
    flat = _alike(U, V)
    if flat is not None:
        return _dot(*flat)
    # Block by block, so that copies in double precision stay in cache.
    U, V = (U.T, V.T) if U.shape[1] > U.shape[0] else (U, V)
    height = max(1, BLOCK // max(1, U.shape[1]))
    blocks = (slice(low, low + height) for low in range(0, U.shape[0], height))
    return np.asarray(sum(np.sum(U[rows].astype(np.float64) * V[rows]) for rows in blocks))


def _dot(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Σ u_i v_i, added up in the same order by any number of threads."""
    from deepnmf.arrays.cpu.kernels import double_dots

    sums = np.zeros(-(-u.size // BLOCK))
    share(lambda begin, end: double_dots(u, v, BLOCK, sums, (begin, end)), len(sums), 8.0 * u.size)
    return np.asarray(np.sum(sums))


def ahead(F: np.ndarray, before: np.ndarray, beta: float) -> np.ndarray | None:
    """P(F + β (F − F_before)) for a number β; None if the two have different memory order."""
    flat = _alike(F, before)
    if flat is None:
        return None
    from deepnmf.arrays.cpu.kernels import look_ahead

    out, step = np.empty_like(flat[0]), F.dtype.type(beta)
    share(lambda begin, end: look_ahead(*flat, step, out, (begin, end)), out.size, 8.0 * out.size)
    return out.reshape(F.shape) if F.flags.c_contiguous else out.reshape(F.shape[::-1]).T


def sparse_product(X: sparray, D: np.ndarray, *, turned: bool = False) -> np.ndarray:
    """X D, or Xᵀ D if `turned`, for sparse X and dense D, in row-major order."""
    from deepnmf.arrays.cpu.kernels import gather_product

    if X.shape[0 if turned else 1] != D.shape[0]:  # the kernel would read past the end
        turns = "ᵀ" if turned else ""
        raise ValueError(f"X{turns} D with X {X.shape} and D {D.shape}: they do not fit.")
    if X.dtype not in FLOATS or X.format not in ("csr", "csc"):
        return (X.T if turned else X) @ D
    X = _by_columns(X).T if turned else _by_rows(X)
    D = in_rows(np.asarray(D, dtype=X.dtype))
    out = np.empty((X.shape[0], D.shape[1]), X.dtype)

    def work(begin: int, end: int) -> None:
        gather_product(X.indptr, X.indices, X.data, D, out, (begin, end))

    share(work, X.shape[0], 2.0 * X.nnz * D.shape[1])
    return out


def _by_rows(X: sparray) -> sparray:
    """X stored by rows. A copy, if one is needed, is made once and kept with X."""
    if X.format == "csc" and not hasattr(X, "_deepnmf_turned"):
        X._deepnmf_turned = X.tocsr()
    return X if X.format == "csr" else X._deepnmf_turned


def _by_columns(X: sparray) -> sparray:
    """X stored by columns. A copy, if one is needed, is made once and kept with X."""
    if X.format == "csr" and not hasattr(X, "_deepnmf_turned"):
        X._deepnmf_turned = X.tocsc()
    return X if X.format == "csc" else X._deepnmf_turned


def _alike(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The entries of both in memory order, if that is the same for both."""
    if U.dtype != V.dtype or U.shape != V.shape or U.dtype not in FLOATS:
        return None
    for A, B in ((U, V), (U.T, V.T)):
        if A.flags.c_contiguous and B.flags.c_contiguous:
            return A.reshape(-1), B.reshape(-1)
    return None
