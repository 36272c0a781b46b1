"""The leading singular triplets of X: dense, sparse or in blocks."""

from __future__ import annotations

import numpy as np

from deepnmf.arrays.blocks import total
from deepnmf.arrays.draws import draw_for_samples
from deepnmf.arrays.kinds import Array, is_blocked, is_numpy, is_sparse, namespace
from deepnmf.arrays.operations import (
    divisor,
    gram,
    in_order,
    matmul,
    positive,
    product_transposed,
    repeated,
    repeats,
    to_device,
    to_double,
    transposed_product,
)
from deepnmf.arrays.spectra import eigh, orthonormal


def truncated_svd(X: Array, k: int) -> tuple[Array, Array, Array]:
    """The k leading singular triplets U, σ, Vᵀ of X, fewer where the rank of X is smaller.

    They come from the Gram matrix of the shorter side in double precision, so that X is read twice:
    from its eigenvectors, or from subspace iteration if k is much smaller than that side. If both
    sides are long, subspace iteration works on X itself. Signs are fixed: the largest entry of
    every left vector is positive.
    """
    k = min(k, X.shape[-2], X.shape[-1])
    if repeats(X):
        U, sigma, Vt = truncated_svd(X[..., 0, :, :], k)
        times = X.shape[-3]
        row = repeated(sigma[..., None, :], times)[..., 0, :]
        return repeated(U, times), row, repeated(Vt, times)
    if is_blocked(X):
        U, sigma, Vt = _blocked_svd(X, k)
    elif is_sparse(X) or min(X.shape[-2:]) > LONG:
        U, sigma, Vt = _subspace_svd(X, k)
    elif X.shape[-2] <= X.shape[-1]:
        U, sigma, Vt = _gram_svd(X, k)
    else:
        V, sigma, Ut = _gram_svd(X.mT, k)
        U, Vt = Ut.mT, V.mT
    xp = namespace(U)
    U, sigma, Vt = U[..., :, :k], sigma[..., :k], Vt[..., :k, :]
    # Squared singular values are accurate to the rounding of double precision.
    rounding = max(float(xp.finfo(U.dtype).eps), float(np.sqrt(np.finfo(np.float64).eps)))
    floor = max(X.shape[-2:]) ** 0.5 * rounding * xp.max(sigma, axis=-1, keepdims=True)
    above = xp.astype(sigma > floor, U.dtype)
    # Runs of a stack may differ in rank: triplets beyond the rank of a run are set to zero.
    rank = int(xp.max(xp.sum(above, axis=-1))) if k else 0
    U, sigma, Vt = U[..., :, :rank], (sigma * above)[..., :rank], Vt[..., :rank, :]
    if rank == 0:
        return U, sigma, Vt
    largest = xp.argmax(xp.abs(U), axis=-2, keepdims=True)
    sign = xp.sign(xp.take_along_axis(U, largest, axis=-2))
    return U * sign, sigma, Vt * sign.mT


LONG = 6000
"""The longest shorter side whose Gram matrix is formed."""
EXTRA, ITERATIONS = 10, 8


def _gram_svd(X: Array, k: int) -> tuple[Array, Array, Array]:
    """From X Xᵀ, for X with no more rows than columns."""
    double = to_double(X)
    U, sigma = _left_vectors(gram(double.mT), k, X)
    return U, sigma, _right_vectors(U, sigma, X)


def _left_vectors(G: Array, k: int, X: Array) -> tuple[Array, Array]:
    """The k leading eigenvectors of G = X Xᵀ, and the roots of their eigenvalues."""
    xp = namespace(G)
    size = min(k + EXTRA, X.shape[-2])
    # Tensors: eigenvectors would be computed for one run after the other.
    if (6 if is_numpy(X) else 3) * size <= X.shape[-2]:
        basis = orthonormal(matmul(G, _noise(X.shape[-2], size, G)))
        for _ in range(ITERATIONS):
            basis = orthonormal(matmul(G, basis))
        squares, vectors = eigh(basis.mT @ matmul(G, basis))
        vectors = matmul(basis, vectors)
    else:
        squares, vectors = eigh(G)
    # In row-major order: a product with a flipped view can be a hundred times slower.
    U = in_order(xp.flip(vectors, axis=-1)[..., :k])
    sigma = xp.sqrt(positive(xp.flip(squares, axis=-1)[..., :k]))
    return xp.astype(U, X.dtype, copy=False), xp.astype(sigma, X.dtype, copy=False)


def _right_vectors(U: Array, sigma: Array, X: Array) -> Array:
    """Vᵀ = diag(σ)⁻¹ Uᵀ X."""
    return (U.mT @ X if not is_numpy(X) else transposed_product(U, X)) / divisor(sigma)[..., None]


def _blocked_svd(X: Array, k: int) -> tuple[Array, Array, Array]:
    """From sums over blocks: X Xᵀ, or, if that is too large, subspace iteration on the features."""
    if X.shape[-2] <= LONG:
        G = total(_double_gram, X)
        U, sigma = _left_vectors(G, k, X)
    else:
        size = min(k + EXTRA, *X.shape)
        noise = draw_for_samples("normal", size, [np.random.default_rng(0)], X)
        basis = np.asarray(orthonormal(to_double(product_transposed(X, noise))))
        for _ in range(ITERATIONS + 1):
            image = total(_there_and_back, X, basis.astype(X.dtype))
            basis = np.asarray(orthonormal(image))
        squares, vectors = eigh(basis.T @ total(_there_and_back, X, basis.astype(X.dtype)))
        U = (basis @ vectors[:, ::-1])[:, :k].astype(X.dtype)
        sigma = np.sqrt(np.asarray(positive(squares[::-1][:k]))).astype(X.dtype)
    return U, sigma, _right_vectors(U, sigma, X)


def _double_gram(X: Array) -> Array:
    """X Xᵀ of a block, in double precision."""
    if is_sparse(X):
        return (X.astype(np.float64) @ X.T).toarray()
    double = to_double(X)
    return gram(double.T)


def _there_and_back(X: Array, basis: Array) -> Array:
    """X Xᵀ B."""
    return to_double(product_transposed(X, transposed_product(basis, X)))


def _subspace_svd(X: Array, k: int) -> tuple[Array, Array, Array]:
    """Randomized subspace iteration (Halko, Martinsson and Tropp) on the shorter side, orthonormal
    at every step, so that only one matrix is as long as the longer side."""
    m, n = X.shape[-2:]
    size = min(k + EXTRA, m, n)
    on_samples = n <= m
    basis = orthonormal(_noise(min(m, n), size, X))
    for _ in range(ITERATIONS + 1):
        if on_samples:
            basis = orthonormal(transposed_product(product_transposed(X, basis.mT), X).mT)
        else:
            basis = orthonormal(product_transposed(X, transposed_product(basis, X)))
    image = product_transposed(X, basis.mT) if on_samples else transposed_product(basis, X).mT
    double = to_double(image)
    squares, vectors = eigh(gram(double))
    del double
    xp = namespace(image)
    vectors = xp.astype(in_order(xp.flip(vectors, axis=-1)), image.dtype, copy=False)
    sigma = xp.sqrt(positive(xp.astype(xp.flip(squares, axis=-1), image.dtype, copy=False)))
    long = matmul(image, vectors) / divisor(sigma)[..., None, :]
    short = basis @ vectors
    return (long, sigma, short.mT) if on_samples else (short, sigma, long.mT)


def _noise(rows: int, columns: int, like: Array) -> Array:
    """The start of subspace iteration: always the same, so that an SVD depends on X alone."""
    return to_device(np.random.default_rng(0).standard_normal((rows, columns)), like)
