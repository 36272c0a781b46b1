"""Operations on NumPy matrices in one compiled pass over memory, shared among the threads: where
NumPy would make several, or have one thread at work."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepnmf.core.threads import share

Matrix = Any
"""A NumPy matrix; where it says so, a SciPy sparse one."""

BLOCK = 32768
"""Entries that are worked on at a time where that keeps them in cache."""


def in_rows(A: np.ndarray) -> np.ndarray:
    """A row by row in memory: A itself where it is."""
    if A.ndim != 2 or A.flags.c_contiguous or not A.flags.f_contiguous or min(A.shape) < 16:
        return np.ascontiguousarray(A)
    from deepnmf.core.kernels import copy_transposed

    out = np.empty(A.shape, A.dtype)
    share(lambda begin, end: copy_transposed(A.T, out, (begin, end)), A.shape[1], 8.0 * A.size)
    return out


def dot(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Σ_ij U_ij V_ij, every product and sum in double precision."""
    flat = _alike(U, V)
    if flat is not None:
        return _dot(*flat)
    # Block by block, so that what is in double precision stays in cache.
    U, V = (U.T, V.T) if U.shape[1] > U.shape[0] else (U, V)
    rows = max(1, BLOCK // max(1, U.shape[1]))
    blocks = (slice(low, low + rows) for low in range(0, U.shape[0], rows))
    return np.asarray(sum(np.sum(U[part].astype(np.float64) * V[part]) for part in blocks))


def _dot(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Σ u_i v_i, added up the same way by any number of threads."""
    from deepnmf.core.kernels import double_dots

    parts = np.zeros(-(-u.size // BLOCK))
    share(
        lambda begin, end: double_dots(u, v, BLOCK, parts, (begin, end)), len(parts), 8.0 * u.size
    )
    return np.asarray(np.sum(parts))


def ahead(F: np.ndarray, before: np.ndarray, beta: Any) -> np.ndarray | None:
    """P(F + β (F − F_before)) for a number β; None where the two lie differently in memory."""
    flat = _alike(F, before)
    if flat is None:
        return None
    from deepnmf.core.kernels import look_ahead

    out, step = np.empty_like(flat[0]), F.dtype.type(beta)
    share(lambda begin, end: look_ahead(*flat, step, out, (begin, end)), out.size, 8.0 * out.size)
    return out.reshape(F.shape) if F.flags.c_contiguous else out.reshape(F.shape[::-1]).T


def sparse_product(X: Matrix, D: np.ndarray) -> np.ndarray:
    """X D for sparse X and dense D, by the rows of X."""
    from deepnmf.core.kernels import gather_product

    if X.shape[1] != D.shape[0]:  # the kernel would read past the end
        raise ValueError(f"a product of shapes {X.shape} and {D.shape}: they do not fit.")
    if X.dtype not in (np.float32, np.float64) or X.format not in ("csr", "csc"):
        return X @ D
    X = X if X.format == "csr" else _by_rows(X)
    D = in_rows(np.asarray(D, dtype=X.dtype))
    out = np.empty((X.shape[0], D.shape[1]), X.dtype)

    def work(begin: int, end: int) -> None:
        gather_product(X.indptr, X.indices, X.data, D, out, (begin, end))

    share(work, X.shape[0], 2.0 * X.nnz * D.shape[1])
    return out


def _by_rows(X: Matrix) -> Matrix:
    """X, stored by columns, as stored by rows: copied once, and kept with X."""
    if not hasattr(X, "_deepnmf_by_rows"):
        X._deepnmf_by_rows = X.tocsr()
    return X._deepnmf_by_rows


def _alike(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The entries of both in the order in which they lie in memory, where it is the same."""
    if U.dtype != V.dtype or U.shape != V.shape:
        return None
    for one, other in ((U, V), (U.T, V.T)):
        if one.flags.c_contiguous and other.flags.c_contiguous:
            return one.reshape(-1), other.reshape(-1)
    return None
