"""Where a layer's training begins: X ≈ W H from an SVD, at random, or as given."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from deepnmf.arrays import (
    Array,
    column_dots,
    eigh,
    epsilon,
    gram,
    in_order,
    inner,
    is_blocked,
    is_numpy,
    is_sparse,
    mean,
    namespace,
    orthonormal,
    positive,
    product_transposed,
    repeated,
    repeats,
    scalars,
    stack_shape,
    to_device,
    to_double,
    transposed_product,
    zeros,
)
from deepnmf.arrays.blocks import lazy, total
from deepnmf.arrays.draws import Generators, draw, draw_for_samples

Fill = Literal["zero", "mean", "random"] | float


class Start(ABC):
    """Makes the first W (…, m, k) and H (…, k, n) of a layer."""

    @classmethod
    def with_fill(cls, fill: Fill) -> Start:
        """The start that its name stands for, with the fill where it has one."""
        del fill
        return cls()

    @abstractmethod
    def factors(self, X: Array, k: int, generators: Generators) -> tuple[Array, Array]:
        """W and H for the input X of a layer; one generator per run of the stack."""


@dataclass(frozen=True)
class Random(Start):
    """W, H uniform on [0, 1), at their best common scale."""

    def factors(self, X: Array, k: int, generators: Generators) -> tuple[Array, Array]:
        W = draw("uniform", (X.shape[-2], k), generators, X)
        H = draw_for_samples("uniform", k, generators, X)
        s = scalars(best_scale(inner(transposed_product(W, X), H), gram(W), H @ H.mT), W)
        return s * W, s * H


@dataclass(frozen=True)
class Nnsvd(Start):
    """NNSVD (Boutsidis and Gallopoulos): of each singular pair the larger nonnegative part,

        w_j = √(σ_j ‖u⁺‖‖v⁺‖) u⁺/‖u⁺‖,    h_j = √(σ_j ‖u⁺‖‖v⁺‖) v⁺/‖v⁺‖,

    (u⁺, v⁺) being (P(u_j), P(v_j)) or (P(−u_j), P(−v_j)), whichever has the larger ‖u⁺‖‖v⁺‖.

    `fill` is what the zeros become, since a multiplicative or dead zero may never leave: "zero",
    "mean" (of X), "random" (|N(0, 1)| · mean/100) or a number. Beyond the rank of X there are no
    singular pairs: those columns are random, scaled to the mean of X.
    """

    fill: Fill = "random"

    @classmethod
    def with_fill(cls, fill: Fill) -> Start:
        return cls(fill)

    def __post_init__(self) -> None:
        fill: Any = self.fill
        if isinstance(fill, numbers.Real) and not isinstance(fill, bool):
            if math.isfinite(fill) and float(fill) >= 0:
                return
        elif fill in ("zero", "mean", "random"):
            return
        raise ValueError(f'fill must be "zero", "mean", "random" or a number ≥ 0, got {fill!r}.')

    def factors(self, X: Array, k: int, generators: Generators) -> tuple[Array, Array]:
        U, sigma, Vt = truncated_svd(X, k)
        xp = namespace(U)
        s = sigma[..., None, :]
        size_up, size_down = _sizes(U, Vt), _sizes(-U, -Vt)
        up = size_up >= size_down
        size = xp.where(up, size_up, size_down)
        sign = xp.astype(up, U.dtype) * 2 - 1
        u, v = positive(U * sign), positive(Vt * sign.mT)
        del U, Vt
        # √(σ‖u‖‖v‖) u/‖u‖ = u √(σ‖v‖/‖u‖): safe where a part is all zero.
        W = u * xp.sqrt(s * size) / _nonzero(xp.sqrt(column_dots(u, u)))
        H = v * (xp.sqrt(s * size) / _nonzero(xp.sqrt(_row_squares(v)))).mT
        # Always drawn, and for all k: what a run gets must not hang on the ranks of other runs.
        for_W = draw("normal", (X.shape[-2], k), generators, W)
        for_H = draw_for_samples("normal", k, generators, X)
        average = mean(X)
        rank = sigma.shape[-1]
        if rank < k:
            W = xp.concat([W, zeros((*W.shape[:-1], k - rank), W)], axis=-1)
            H = with_rows(H, k)
            sigma = xp.concat([sigma, zeros((*sigma.shape[:-1], k - rank), sigma)], axis=-1)
        W, H = self._filled(W, average, for_W), self._filled(H, average, for_H)
        beyond = (sigma == 0)[..., None, :]
        if bool(xp.any(beyond)):
            size = xp.sqrt(average / k)
            W = xp.where(beyond, xp.abs(for_W) * size, W)
            H = namespace(H).where(beyond.mT, namespace(H).abs(for_H) * size, H)
        # Sample by sample in memory, as the kernels of a card want it.
        return W, H if is_numpy(H) else in_order(H.mT).mT

    def _filled(self, F: Array, average: Array, numbers: Array) -> Array:
        """F with its zeros filled."""
        xp = namespace(F)
        if 0 in F.shape:
            return F
        largest = xp.max(F, axis=(-2, -1), keepdims=True)
        empty = max(100 * epsilon(F), 1e-10) * largest >= F
        return xp.where(empty, self._filling(F, average, numbers), F)

    def _filling(self, F: Array, average: Array, numbers: Array) -> Array:
        """What stands where F is zero, to be broadcast to the shape of F."""
        xp = namespace(F)
        if self.fill == "mean":
            return average + 0 * F
        if self.fill == "random":
            return xp.abs(numbers) * average / 100
        return 0 * F + (0.0 if self.fill == "zero" else float(self.fill))


STARTS: dict[str, type[Start]] = {"nnsvd": Nnsvd, "random": Random}
"""The starts that have a name."""


@dataclass(frozen=True)
class Given:
    """Start from factors you have: `weights` as in `weights_`, one matrix (k_{l−1}, k_l) a layer.

    `codes` is H_L as (n_samples, k_L), not g(H_L), or None to have it computed from the weights.
    A given start has all layers, so there is no pre-training: a warm start is
    `Given(model.weights_)`.
    """

    weights: Sequence[Array]
    codes: Array | None = None


def _sizes(U: Array, Vt: Array) -> Array:
    """‖P(u_j)‖‖P(v_j)‖ of every pair, as (…, 1, k)."""
    u, v = positive(U), positive(Vt)
    return namespace(U).sqrt(column_dots(u, u) * _row_squares(v))


def _row_squares(V: Array) -> Array:
    """‖v_i‖² of every row, as (…, 1, k)."""
    return namespace(V).sum(V * V, axis=-1, keepdims=True).mT


def with_rows(V: Array, rows: int) -> Array:
    """V with rows of zeros below it, up to that many."""
    if is_blocked(V):
        return lazy(with_rows, V, rows)
    below = zeros((*V.shape[:-2], rows - V.shape[-2], V.shape[-1]), V)
    return namespace(V).concat([V, below], axis=-2)


def best_scale(fitted: Array, W_gram: Array, S: Array) -> Array:
    """s per run, s² = ⟨X, WH⟩/‖WH‖² from ⟨X, WH⟩, WᵀW and S = HHᵀ: sW and sH fit X best."""
    xp, size = namespace(W_gram), inner(W_gram, S)
    return xp.sqrt(fitted / xp.where(size > 0, size, xp.ones_like(size)))


def truncated_svd(X: Array, k: int) -> tuple[Array, Array, Array]:
    """The k leading singular triplets U, σ, Vᵀ of X, fewer where the rank of X is smaller.

    From the Gram matrix of the shorter side in double precision, so that X is touched twice: by its
    eigenvectors, or, where k is small against that side, by subspace iteration from a random start.
    Where both sides are long, by subspace iteration on X itself. Signs are fixed: the largest
    entry of every left vector is positive.
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
    # Squared singular values are known to the rounding of double precision.
    rounding = max(float(xp.finfo(U.dtype).eps), float(np.sqrt(np.finfo(np.float64).eps)))
    floor = max(X.shape[-2:]) ** 0.5 * rounding * xp.max(sigma, axis=-1, keepdims=True)
    above = xp.astype(sigma > floor, U.dtype)
    # Runs of one stack may differ in rank: triplets past a run's rank are set to zero there.
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
    U, sigma = _left_vectors(double @ double.mT, k, X)
    return U, sigma, _right_vectors(U, sigma, X)


def _left_vectors(G: Array, k: int, X: Array) -> tuple[Array, Array]:
    """The k leading eigenvectors of G = X Xᵀ, and the roots of their eigenvalues."""
    xp = namespace(G)
    size = min(k + EXTRA, X.shape[-2])
    # On a card the eigenvectors of every run would be found one run after the other.
    if (6 if is_numpy(X) else 3) * size <= X.shape[-2]:
        basis = orthonormal(G @ _noise(X.shape[-2], size, G))
        for _ in range(ITERATIONS):
            basis = orthonormal(G @ basis)
        squares, vectors = eigh(basis.mT @ G @ basis)
        vectors = basis @ vectors
    else:
        squares, vectors = eigh(G)
    # In order: a product with a flipped view can be a hundred times slower.
    U = in_order(xp.flip(vectors, axis=-1)[..., :k])
    sigma = xp.sqrt(positive(xp.flip(squares, axis=-1)[..., :k]))
    return xp.astype(U, X.dtype, copy=False), xp.astype(sigma, X.dtype, copy=False)


def _right_vectors(U: Array, sigma: Array, X: Array) -> Array:
    """Vᵀ = diag(σ)⁻¹ Uᵀ X."""
    return (U.mT @ X if not is_numpy(X) else transposed_product(U, X)) / _nonzero(sigma)[..., None]


def _blocked_svd(X: Array, k: int) -> tuple[Array, Array, Array]:
    """By sums over blocks: X Xᵀ, or where it is too large, subspace iteration on the side of the
    features."""
    if X.shape[-2] <= LONG:
        G = total(_double_gram, X)
        U, sigma = _left_vectors(G, k, X)
    else:
        size = min(k + EXTRA, *X.shape)
        noise = draw_for_samples("normal", size, [np.random.default_rng(0)], X)
        basis = orthonormal(to_double(product_transposed(X, noise)))
        for _ in range(ITERATIONS + 1):
            basis = orthonormal(total(_there_and_back, X, basis.astype(X.dtype)))
        squares, vectors = eigh(basis.T @ total(_there_and_back, X, basis.astype(X.dtype)))
        U = (basis @ vectors[:, ::-1])[:, :k].astype(X.dtype)
        sigma = np.sqrt(positive(squares[::-1][:k])).astype(X.dtype)
    return U, sigma, _right_vectors(U, sigma, X)


def _double_gram(X: Array) -> Array:
    """X Xᵀ of a block, in double precision."""
    if is_sparse(X):
        return (X.astype(np.float64) @ X.T).toarray()
    double = to_double(X)
    return double @ double.T


def _there_and_back(X: Array, basis: Array) -> Array:
    """X Xᵀ B."""
    return to_double(product_transposed(X, transposed_product(basis, X)))


def _subspace_svd(X: Array, k: int) -> tuple[Array, Array, Array]:
    """Randomized subspace iteration (Halko, Martinsson and Tropp) on the shorter side, orthonormal
    at every step: what is as long as the longer side is there once."""
    m, n = X.shape[-2:]
    size = min(k + EXTRA, m, n)
    on_samples = n <= m
    basis = orthonormal(_noise(min(m, n), size, X))
    for _ in range(ITERATIONS + 1):
        if on_samples:
            basis = orthonormal(transposed_product(product_transposed(X, basis.mT), X).mT)
        else:
            basis = orthonormal(product_transposed(X, transposed_product(basis, X)))
    found = product_transposed(X, basis.mT) if on_samples else transposed_product(basis, X).mT
    double = to_double(found)
    squares, vectors = eigh(double.mT @ double)
    del double
    xp = namespace(found)
    vectors = xp.astype(in_order(xp.flip(vectors, axis=-1)), found.dtype, copy=False)
    sigma = xp.sqrt(positive(xp.astype(xp.flip(squares, axis=-1), found.dtype, copy=False)))
    long = (found @ vectors) / _nonzero(sigma)[..., None, :]
    short = basis @ vectors
    return (long, sigma, short.mT) if on_samples else (short, sigma, long.mT)


def _noise(rows: int, columns: int, like: Array) -> Array:
    """Where subspace iteration begins: always the same, so that an SVD depends on X alone."""
    return to_device(np.random.default_rng(0).standard_normal((rows, columns)), like)


def _nonzero(norms: Array) -> Array:
    """Norms that one may divide by."""
    xp = namespace(norms)
    return xp.where(norms > 0, norms, xp.ones_like(norms))


def empty_codes(X: Array, k: int) -> Array:
    """H = 0, the start of encoding: the same for every sample, whatever block it comes in."""
    return zeros((*stack_shape(X), k, X.shape[-1]), X)
