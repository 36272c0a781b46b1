"""The few array operations that the core needs, on NumPy, SciPy's sparse matrices and torch.

Arrays decide where work is done. Only X, the data, can be a SciPy sparse matrix.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from types import ModuleType

import array_api_compat
import numpy as np
import scipy.sparse

from deepnmf.arrays.array import Array, Dense
from deepnmf.arrays.blocks import Blocked, lazy, total
from deepnmf.arrays.cpu import onepass
from deepnmf.arrays.cpu.products import matmul
from deepnmf.arrays.kinds import is_numpy, is_sparse, namespace
from deepnmf.arrays.tensors import is_tensor, runs_kernels, sparse_like, tensor_like, to_numpy

COUNTED = 2**31
"""CUDA kernels count entries in 32 bits: matrices with this many or more are not given to them."""


def fused_kernels(X: Array) -> ModuleType | None:
    """The kernels for arrays on the current CUDA device.

    None for other arrays, for matrices with too many entries, and where Triton is missing.
    """
    if not runs_kernels(X) or X.shape[-2] * X.shape[-1] >= COUNTED:
        return None
    from deepnmf.arrays.cuda import fused

    return fused


def stack_shape(X: Array) -> tuple[int, ...]:
    """The leading axes of (…, m, n): one entry per run."""
    return tuple(X.shape[:-2])


def repeats(X: Array) -> bool:
    """Whether the last stack axis of X repeats the same data (its stride is 0)."""
    if X.ndim < 3:
        return False
    strides = X.stride() if is_tensor(X) else np.asarray(X).strides
    return bool(strides[-3] == 0)


def in_order(X: Array) -> Array:
    """X in row-major order."""
    if is_tensor(X):
        return X.contiguous()
    return onepass.in_rows(X) if isinstance(X, np.ndarray) else X


def spread(X: Array) -> Array:
    """X with its own copy of the data for every run, for products over the stack."""
    return in_order(X) if repeats(X) else X


def repeated(X: Array, times: int) -> Array:
    """X (…, m, n) as (…, times, m, n), without copying it."""
    return namespace(X).broadcast_to(X[..., None, :, :], (*X.shape[:-2], times, *X.shape[-2:]))


def to_device(array: Array, like: Array) -> Array:
    """`array`, of NumPy or torch, in the library, dtype and device of `like`."""
    if is_tensor(array) and not is_tensor(like):
        array = to_numpy(array)  # NumPy cannot read tensors on a card
    if is_sparse(like) or isinstance(like, Blocked):
        return np.asarray(array, dtype=like.dtype)
    xp = namespace(like)
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.copy()  # torch would warn about sharing it
    return xp.asarray(array, dtype=like.dtype, device=array_api_compat.device(like))


def epsilon(X: Array) -> float:
    """The rounding unit of X, which may be sparse."""
    return float(np.finfo(X.dtype).eps if is_numpy(X) else namespace(X).finfo(X.dtype).eps)


def eye(size: int, like: Array) -> Array:
    """The identity matrix in the library, dtype and device of `like`."""
    if is_numpy(like):
        return np.eye(size, dtype=like.dtype)
    return namespace(like).eye(size, dtype=like.dtype, device=array_api_compat.device(like))


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """An array of zeros in the library, dtype and device of `like`."""
    if is_sparse(like) or isinstance(like, Blocked):
        return np.zeros(shape, dtype=like.dtype)
    xp = namespace(like)
    return xp.zeros(shape, dtype=like.dtype, device=array_api_compat.device(like))


def wider(X: Array, columns: int) -> Array:
    """X with columns of zeros added up to that many; X may be sparse."""
    extra = columns - X.shape[-1]
    if extra == 0:
        return X
    if is_sparse(X):
        empty = scipy.sparse.csc_array((X.shape[0], extra), dtype=X.dtype)
        return scipy.sparse.hstack([X, empty], format="csc")
    return namespace(X).concat([X, zeros((*X.shape[:-1], extra), X)], axis=-1)


def taller(V: Array, rows: int) -> Array:
    """V with rows of zeros added up to that many."""
    if isinstance(V, Blocked):
        return lazy(taller, V, rows)
    below = zeros((*V.shape[:-2], rows - V.shape[-2], V.shape[-1]), V)
    return namespace(V).concat([V, below], axis=-2)


def take_rows(V: Array, low: int, high: int) -> Array:
    """Rows low … high − 1 of V."""
    if isinstance(V, Blocked):
        return lazy(take_rows, V, low, high)
    return V[..., low:high, :]


def absolute(X: Array) -> Array:
    """|X|, entry by entry; X may be sparse."""
    return abs(X) if is_sparse(X) else namespace(X).abs(X)


def stored_entries(X: Array) -> Array:
    """The entries of X that are stored: all of a dense array, the nonzeros of a sparse one."""
    return X.data if is_sparse(X) else X


def largest_entry(X: Array) -> float:
    """The largest absolute entry, without a copy; 0 for an empty X."""
    values = stored_entries(X)
    if 0 in values.shape:
        return 0.0
    xp = namespace(values)
    return max(float(xp.max(values)), -float(xp.min(values)))


def dense(X: Array) -> Array:
    """X, with every entry of a sparse matrix stored."""
    return X.toarray() if is_sparse(X) else X


def graph_like(A: scipy.sparse.sparray, X: Array) -> Array:
    """A sparse matrix A as it can be multiplied with arrays of the library of X."""
    A = scipy.sparse.csr_array(A)
    return sparse_like(A, X) if is_tensor(X) else A.astype(X.dtype)


def kept_as(array: np.ndarray, like: Array) -> Array:
    """A NumPy array in the library and on the device of `like`, in its own type."""
    return tensor_like(array, like) if is_tensor(like) else array


def take_columns(A: Array, places: Array) -> Array:
    """The columns of every run at `places` (…, 1, j)."""
    xp = namespace(A)
    wide = xp.broadcast_to(places, (*A.shape[:-1], places.shape[-1]))
    return xp.take_along_axis(A, wide, axis=-1)


def put_columns(A: Array, places: Array, columns: Array) -> Array:
    """A with these columns at `places` (…, 1, j)."""
    wide = namespace(A).broadcast_to(places, columns.shape)
    if is_tensor(A):
        return A.scatter(-1, wide, columns)
    changed = np.array(A)
    np.put_along_axis(changed, wide, to_numpy(columns), axis=-1)
    return changed


def column_dots(U: Array, V: Array) -> Array:
    """⟨u_j, v_j⟩ for every column j: (…, 1, n)."""
    if isinstance(U, Blocked):
        return lazy(column_dots, U, V)
    if isinstance(U, np.ndarray):
        return np.einsum("...ij,...ij->...j", U, np.asarray(V))[..., None, :]
    fused = fused_kernels(U)
    if fused is not None and fused.single(U, V):
        return fused.column_dot(U, V)
    return namespace(U, V).sum(U * V, axis=-2, keepdims=True)


def squared_columns(X: Array) -> Array:
    """‖x_j‖² for every column j of dense or sparse X: (…, 1, n)."""
    if is_sparse(X):
        return np.asarray(X.multiply(X).sum(axis=0)).reshape(1, -1)
    return column_dots(X, X)


def doubled_product(A: Array, B: Array) -> Array:
    """2AB, entry by entry."""
    fused = fused_kernels(A)
    if fused is not None and fused.single(A, B):
        return fused.doubled_product(A, B)
    return A * (2 * B)


def square_expansion(A: Array, B: Array) -> tuple[Array, Array]:
    """2AB and B²: (A + tB)² = A² + t 2AB + t² B²."""
    fused = fused_kernels(A)
    if fused is not None and fused.single(A, B):
        return fused.square_expansion(A, B)
    return 2 * A * B, B * B


def inner(U: Array, V: Array) -> Dense:
    """⟨U, V⟩ = Σ_ij U_ij V_ij per run, (…), summed over columns in double precision."""
    if isinstance(U, Blocked):
        return total(inner, U, V)
    xp = namespace(U, V)
    return xp.sum(column_dots(U, V)[..., 0, :], axis=-1, dtype=xp.float64)


def trace(A: Array) -> Dense:
    """Σ_i A_ii per run, in double precision."""
    xp = namespace(A)
    return xp.sum(xp.linalg.diagonal(A), axis=-1, dtype=xp.float64)


def precise_inner(U: Array, V: Array) -> Dense:
    """⟨U, V⟩ per run for sums that cancel, in double precision. On a CUDA device the sums over rows
    are in single precision: their rounding is far below that of U and V, which are products."""
    fused = fused_kernels(U)
    if fused is not None and fused.single(U, V):
        return inner(U, V)
    if isinstance(U, np.ndarray) and U.ndim == 2:
        return onepass.dot(U, np.asarray(V))
    return inner(to_double(U), to_double(V))


def over_samples(function: Callable[..., Dense], *arguments: object) -> Dense:
    """function(…), which is a sum over samples; of blocked arrays, the sum over their blocks."""
    if any(isinstance(argument, Blocked) for argument in arguments):
        return total(function, *arguments)
    return function(*arguments)


def to_double(A: Array) -> Array:
    """A in double precision."""
    xp = namespace(A)
    return xp.astype(A, xp.float64, copy=False)


def divisor(sizes: Array) -> Array:
    """Sizes that are safe to divide by: 1 where they are not above 0."""
    xp = namespace(sizes)
    return xp.where(sizes > 0, sizes, xp.ones_like(sizes))


def at_least(F: Array, floor: float) -> Array:
    """max(F, floor), entry by entry."""
    if isinstance(F, Blocked):
        return lazy(at_least, F, floor)
    return F.clamp(min=floor) if is_tensor(F) else np.maximum(np.asarray(F), F.dtype.type(floor))


def positive(F: Array) -> Array:
    """P(F) = max(F, 0)."""
    return at_least(F, 0)


def choose(keep: Array, new: Array, old: Array) -> Array:
    """`new` where `keep`, else `old`; `keep` broadcasts over rows or over rows and columns."""
    xp = namespace(new)
    if bool(xp.all(keep)):
        return new
    return xp.where(keep, new, old)


def choose_each(keep: Array, new: Iterable[Array], old: Iterable[Array]) -> tuple[Array, ...]:
    """`choose` for several arrays; one that did not change stays as it is."""
    return tuple(a if a is b else choose(keep, a, b) for a, b in zip(new, old, strict=True))


def ahead(F: Array, before: Array, beta: Dense) -> Array:
    """P(F + β (F − F_before)), with one β per run, (…, 1, 1)."""
    if isinstance(F, np.ndarray) and F.ndim == 2:
        moved = onepass.ahead(F, np.asarray(before), beta.item())
        if moved is not None:
            return moved
    return positive(F + beta * (F - before))


def scalars(values: Array, like: Array) -> Dense:
    """Per-run numbers (…) as (…, 1, 1), in the dtype of `like`."""
    xp = namespace(like)
    return xp.astype(values[..., None, None], like.dtype, copy=False)


def transposed_product(A: Array, X: Array, *, by_rows: bool = False) -> Array:
    """Aᵀ X, (…, k, n), for A (…, m, k) and X (…, m, n), which may be sparse.

    Sparse X, and X on a CUDA device, give the transpose of Xᵀ A, sample by sample in memory, as the
    kernels need it. The kernels of line searches on a CUDA device need it `by_rows`.
    """
    if isinstance(X, Blocked):
        return lazy(transposed_product, A, X)
    if is_sparse(X):
        return onepass.sparse_product(X, np.asarray(A), turned=True).T
    if fused_kernels(X) is not None and not by_rows:
        return (X.mT @ A).mT
    return matmul(A.mT, X)


def product_transposed(X: Array, H: Array) -> Array:
    """X Hᵀ, (…, m, k), for X (…, m, n), which may be sparse, and H (…, k, n)."""
    if isinstance(X, Blocked):
        return total(product_transposed, X, H)
    if is_sparse(X):
        return onepass.sparse_product(X, np.asarray(H).T)
    return matmul(X, H.mT)


def added(terms: Iterable[Array]) -> Array:
    """The sum of several arrays."""
    return reduce(operator.add, terms)


def gram(W: Array) -> Array:
    """Wᵀ W."""
    return matmul(W.mT, W)


def squared_norm(X: Array) -> Dense:
    """‖X‖_F² per run, in double precision; X may be sparse."""
    if isinstance(X, Blocked):
        return total(squared_norm, X)
    if is_sparse(X):
        return np.asarray(np.sum(np.square(X.data, dtype=np.float64)))
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return onepass.dot(X, X)
    return inner(X, X)


def _entries(X: Array) -> Array:
    """The sum of all entries, (1, 1)."""
    return mean(X) * X.dtype.type(X.shape[0] * X.shape[1])


def mean(X: Array) -> Array:
    """The mean entry per run, (…, 1, 1); X may be sparse."""
    if isinstance(X, Blocked):
        return total(_entries, X) / X.dtype.type(X.shape[0] * X.shape[1])
    if is_sparse(X):
        entries = np.sum(X.data, dtype=np.float64)
        return np.full((1, 1), entries / max(1, X.shape[0] * X.shape[1]), dtype=X.dtype)
    xp = namespace(X)
    average = xp.mean(xp.mean(X, axis=-1), axis=-1)
    return average[..., None, None]
