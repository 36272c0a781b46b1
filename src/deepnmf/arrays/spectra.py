"""Norms, bases and eigenvectors of small matrices, for all runs of a stack at once."""

from __future__ import annotations

import numpy as np

from deepnmf.arrays.array import Array
from deepnmf.arrays.kinds import namespace
from deepnmf.arrays.operations import at_least, eye


def spectral_bound(A: Array, steps: int = 16) -> Array:
    """An upper bound of ‖A‖₂ for symmetric A with entries ≥ 0, per run: (…, 1, 1)."""
    return perron_bound(A, steps)[0]


def perron_bound(A: Array, steps: int, start: Array | None = None) -> tuple[Array, Array]:
    """The bound, and the vector x > 0 that gives it: a good start for a similar matrix.

    Collatz and Wielandt: for any x > 0, ‖A‖₂ ≤ max_i (|A|x)_i / x_i, for A ≥ 0 with equality at
    the Perron vector, which power iteration approaches. Stopping early makes the bound less tight,
    never wrong.
    """
    xp = namespace(A)
    A = xp.abs(A)
    info = xp.finfo(A.dtype)
    size = _size(A)
    scale = 1 / at_least(size, float(info.tiny))
    x = xp.ones_like(A[..., :1]) if start is None else start
    for _ in range(steps):
        x = (A @ x) * scale
    x = x / at_least(xp.max(x, axis=-2, keepdims=True), float(info.tiny))
    x = at_least(x, float(info.tiny) ** 0.75)
    bound = xp.minimum(xp.max((A @ x) / x, axis=-2, keepdims=True), size)
    return bound * (1 + 8 * A.shape[-1] * float(info.eps)), x


def _size(A: Array) -> Array:
    """‖A‖_F per run for A ≥ 0, (…, 1, 1), or more where squares are lost in underflow."""
    xp = namespace(A)
    largest = xp.max(A, axis=(-2, -1), keepdims=True)
    lost = largest < 1e3 * float(xp.finfo(A.dtype).tiny) ** 0.5
    size = xp.sqrt(xp.sum(A * A, axis=(-2, -1), keepdims=True))
    return xp.where(lost, A.shape[-1] * largest, size)


def orthonormal(A: Array) -> Array:
    """Orthonormal columns with the same span as those of A, a tall matrix.

    For tensors, the Cholesky factor of AᵀA, three times, with a small shift: this handles all runs
    at once, where QR would handle one run after the other.
    """
    if isinstance(A, np.ndarray):
        return np.linalg.qr(A)[0]
    xp = namespace(A)
    small = eye(A.shape[-1], A)
    for shift in (1e-14, 0.0, 0.0):
        G = A.mT @ A
        size = xp.sum(G * small, axis=(-2, -1), keepdims=True)
        factor = xp.linalg.cholesky(G + (shift + float(xp.finfo(A.dtype).eps)) * size * small)
        A = xp.linalg.solve(factor, A.mT).mT
    return A


def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues, in ascending order, and eigenvectors of symmetric A."""
    values, vectors = namespace(A).linalg.eigh(A)
    return values, vectors
