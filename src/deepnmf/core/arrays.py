"""The few array operations the core needs, on NumPy and torch.

No other file of the core knows array libraries: the arrays decide where the work is done.
SciPy's sparse matrices are understood as X, the data, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import array_api_compat
import numpy as np
import scipy.sparse

Array = Any
"""A NumPy array or a torch tensor; where it says so, a SciPy sparse matrix as well."""


def is_sparse(X: Array) -> bool:
    """Whether X is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(X))


def namespace(*arrays: Array) -> Any:
    """The array library of these arrays: functions of the array API standard."""
    dense = [array for array in arrays if not is_sparse(array)]
    return array_api_compat.array_namespace(*(dense or [np.empty(0)]))


def stack_shape(X: Array) -> tuple[int, ...]:
    """The leading axes of (…, m, n): one entry per run."""
    return tuple(X.shape[:-2])


def to_device(array: Array, like: Array) -> Array:
    """`array` (NumPy or of the same library) in the library, dtype and device of `like`."""
    if is_sparse(like):
        return np.asarray(array, dtype=like.dtype)
    xp = namespace(like)
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.copy()  # torch would warn of sharing it
    return xp.asarray(array, dtype=like.dtype, device=array_api_compat.device(like))


def epsilon(X: Array) -> float:
    """The rounding unit of X, which may be sparse."""
    return float(np.finfo(X.dtype).eps if is_sparse(X) else namespace(X).finfo(X.dtype).eps)


def eye(size: int, like: Array) -> Array:
    """The identity matrix in the library, dtype and device of `like`."""
    return to_device(np.eye(size), like)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """An array of zeros in the library, dtype and device of `like`."""
    if is_sparse(like):
        return np.zeros(shape, dtype=like.dtype)
    xp = namespace(like)
    return xp.zeros(shape, dtype=like.dtype, device=array_api_compat.device(like))


def draw(
    kind: Literal["normal", "uniform"],
    shape: tuple[int, int],
    generators: Sequence[np.random.Generator],
    like: Array,
) -> Array:
    """Seeded random numbers, (…, rows, columns): each run of the stack has its own generator.

    They are drawn with NumPy in double precision whatever the library, so that a seed gives
    the same numbers everywhere and a stack the same numbers as its runs one by one.
    """
    stack = stack_shape(like)
    runs = [
        generator.standard_normal(shape) if kind == "normal" else generator.random(shape)
        for generator in generators
    ]
    if len(runs) != int(np.prod(stack, dtype=int)):
        raise ValueError(f"{len(runs)} generators for a stack of shape {stack}: one per run.")
    return to_device(np.stack(runs).reshape(*stack, *shape), like)


def column_dots(U: Array, V: Array) -> Array:
    """⟨u_j, v_j⟩ for every column j: (…, 1, n)."""
    if isinstance(U, np.ndarray):
        return np.einsum("...ij,...ij->...j", U, V)[..., None, :]
    return namespace(U, V).sum(U * V, axis=-2, keepdims=True)


def inner(U: Array, V: Array) -> Array:
    """⟨U, V⟩ = Σ_ij U_ij V_ij per run, (…), summed over columns in double precision."""
    xp = namespace(U, V)
    return xp.sum(column_dots(U, V)[..., 0, :], axis=-1, dtype=xp.float64)


def to_double(A: Array) -> Array:
    """A in double precision."""
    xp = namespace(A)
    return xp.astype(A, xp.float64, copy=False)


def at_least(F: Array, floor: float) -> Array:
    """max(F, floor), entry by entry."""
    return np.maximum(F, F.dtype.type(floor)) if isinstance(F, np.ndarray) else F.clamp(min=floor)


def positive(F: Array) -> Array:
    """P(F) = max(F, 0)."""
    return at_least(F, 0)


def choose(keep: Array, new: Array, old: Array) -> Array:
    """`new` where `keep`, else `old`; `keep` broadcasts over rows or over rows and columns."""
    xp = namespace(new)
    if bool(xp.all(keep)):
        return new
    return xp.where(keep, new, old)


def scalars(values: Array, like: Array) -> Array:
    """Per-run numbers (…) as (…, 1, 1), in the dtype of `like`."""
    xp = namespace(like)
    return xp.astype(values[..., None, None], like.dtype, copy=False)


def spectral_bound(A: Array, steps: int = 16) -> Array:
    """An upper bound of ‖A‖₂ for symmetric A with entries ≥ 0, per run: (…, 1, 1).

    Collatz and Wielandt: for any x > 0, ‖A‖₂ ≤ max_i (Ax)_i / x_i, with equality at the Perron
    vector, which power iteration approaches. Stopping early costs tightness, never correctness.
    """
    xp = namespace(A)
    info = xp.finfo(A.dtype)
    size = xp.sqrt(xp.sum(A * A, axis=(-2, -1), keepdims=True))
    scaled = A / at_least(size, float(info.tiny))
    x = xp.ones_like(A[..., :1])
    for _ in range(steps):
        x = scaled @ x
    x = at_least(x, float(info.tiny) ** 0.75)
    bound = xp.minimum(xp.max((A @ x) / x, axis=-2, keepdims=True), size)
    return bound * (1 + 8 * A.shape[-1] * float(info.eps))


def transposed_product(A: Array, X: Array) -> Array:
    """Aᵀ X, (…, k, n), for A (…, m, k) and X (…, m, n), which may be sparse."""
    if is_sparse(X):
        return np.ascontiguousarray((X.T @ A).T)
    return A.mT @ X


def product_transposed(X: Array, H: Array) -> Array:
    """X Hᵀ, (…, m, k), for X (…, m, n), which may be sparse, and H (…, k, n)."""
    if is_sparse(X):
        return X @ H.T
    return X @ H.mT


def gram(W: Array) -> Array:
    """Wᵀ W."""
    return W.mT @ W


def squared_norm(X: Array) -> Array:
    """‖X‖_F² per run, in double precision; X may be sparse."""
    if is_sparse(X):
        return np.asarray(np.sum(np.square(X.data, dtype=np.float64)))
    return inner(X, X)


def mean(X: Array) -> Array:
    """The mean entry per run, (…, 1, 1); X may be sparse."""
    if is_sparse(X):
        total = np.sum(X.data, dtype=np.float64)
        return np.full((1, 1), total / max(1, X.shape[0] * X.shape[1]), dtype=X.dtype)
    xp = namespace(X)
    average = xp.mean(xp.mean(X, axis=-1), axis=-1)
    return average[..., None, None]
