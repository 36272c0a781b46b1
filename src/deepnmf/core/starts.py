"""Where a layer's training begins: X ≈ W H from an SVD, at random, or as given."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from deepnmf.core.arrays import (
    Array,
    column_dots,
    draw,
    gram,
    inner,
    is_sparse,
    mean,
    namespace,
    positive,
    scalars,
    stack_shape,
    transposed_product,
    zeros,
)

Generators = Sequence[np.random.Generator]
Fill = Literal["zero", "mean", "random"] | float


class Start(ABC):
    """Makes the first W (…, m, k) and H (…, k, n) of a layer."""

    @abstractmethod
    def factors(self, X: Array, k: int, generators: Generators) -> tuple[Array, Array]:
        """W and H for the input X of a layer; one generator per run of the stack."""


@dataclass(frozen=True)
class Random(Start):
    """W, H uniform on [0, 1), then both times s with s² = ⟨X, WH⟩/‖WH‖², the best common scale."""

    def factors(self, X: Array, k: int, generators: Generators) -> tuple[Array, Array]:
        W = draw("uniform", (X.shape[-2], k), generators, X)
        H = draw("uniform", (k, X.shape[-1]), generators, X)
        fitted = inner(transposed_product(W, X), H)
        size = inner(gram(W) @ H, H)
        xp = namespace(W)
        s = scalars(xp.sqrt(fitted / xp.where(size > 0, size, xp.ones_like(size))), W)
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

    def __post_init__(self) -> None:
        fill: Any = self.fill
        if isinstance(fill, numbers.Real) and not isinstance(fill, bool):
            if math.isfinite(fill) and float(fill) >= 0:
                return
        elif fill in ("zero", "mean", "random"):
            return
        raise ValueError(f'fill must be "zero", "mean", "random" or a number ≥ 0, got {fill!r}.')

    def factors(self, X: Array, k: int, generators: Generators) -> tuple[Array, Array]:
        U, sigma, Vt = truncated_svd(X, k, generators)
        xp = namespace(U)
        s = sigma[..., None, :]
        u_up, v_up = positive(U), positive(Vt.mT)
        u_down, v_down = positive(-U), positive(-Vt.mT)
        size_up = xp.sqrt(column_dots(u_up, u_up) * column_dots(v_up, v_up))
        size_down = xp.sqrt(column_dots(u_down, u_down) * column_dots(v_down, v_down))
        up = size_up >= size_down
        size = xp.where(up, size_up, size_down)
        u, v = xp.where(up, u_up, u_down), xp.where(up, v_up, v_down)
        # √(σ‖u‖‖v‖) u/‖u‖ = u √(σ‖v‖/‖u‖): safe where a part is all zero.
        W = u * xp.sqrt(s * size) / _nonzero(xp.sqrt(column_dots(u, u)))
        H = v * xp.sqrt(s * size) / _nonzero(xp.sqrt(column_dots(v, v)))
        return self._filled(X, W, k, generators), self._filled(X, H, k, generators).mT

    def _filled(self, X: Array, F: Array, k: int, generators: Generators) -> Array:
        """F (…, rows, j ≤ k) with its zeros filled, and random columns up to k."""
        xp = namespace(F)
        average = mean(X)
        if F.shape[-1]:
            largest = xp.max(F, axis=(-2, -1), keepdims=True)
            empty = 100 * float(xp.finfo(F.dtype).eps) * largest >= F
            F = xp.where(empty, self._filling(F, average, generators), F)
        if F.shape[-1] == k:
            return F
        rest = xp.abs(draw("normal", (F.shape[-2], k - F.shape[-1]), generators, F))
        return xp.concat([F, rest * xp.sqrt(average / k)], axis=-1)

    def _filling(self, F: Array, average: Array, generators: Generators) -> Array:
        """What stands where F is zero, in the shape of F."""
        xp = namespace(F)
        if self.fill == "zero":
            return xp.zeros_like(F)
        if self.fill == "mean":
            return average + xp.zeros_like(F)
        if self.fill == "random":
            return xp.abs(draw("normal", tuple(F.shape[-2:]), generators, F)) * average / 100
        return xp.full_like(F, self.fill)


@dataclass(frozen=True)
class Given:
    """Start from factors you have: `weights` as in `weights_`, one matrix (k_{l−1}, k_l) a layer.

    `codes` is H_L as (n_samples, k_L), not g(H_L), or None to have it computed from the weights.
    A given start has all layers, so there is no pre-training: a warm start is
    `Given(model.weights_)`.
    """

    weights: Sequence[Array]
    codes: Array | None = None


def truncated_svd(X: Array, k: int, generators: Generators) -> tuple[Array, Array, Array]:
    """The k leading singular triplets U, σ, Vᵀ of X, fewer where the rank of X is smaller.

    Exact for dense X. For sparse X by subspace iteration from a random start, which touches X in
    products only. Signs are fixed: the largest entry of every left vector is positive.
    """
    k = min(k, X.shape[-2], X.shape[-1])
    if is_sparse(X):
        U, sigma, Vt = _subspace_svd(X, k, generators[0])
    else:
        U, sigma, Vt = namespace(X).linalg.svd(X, full_matrices=False)
    xp = namespace(U)
    U, sigma, Vt = U[..., :, :k], sigma[..., :k], Vt[..., :k, :]
    floor = max(X.shape[-2:]) * float(xp.finfo(U.dtype).eps) * xp.max(sigma, axis=-1, keepdims=True)
    above = xp.astype(sigma > floor, U.dtype)
    # Runs of one stack may differ in rank: triplets past a run's rank are set to zero there.
    rank = int(xp.max(xp.sum(above, axis=-1))) if k else 0
    U, sigma, Vt = U[..., :, :rank], (sigma * above)[..., :rank], Vt[..., :rank, :]
    if rank == 0:
        return U, sigma, Vt
    largest = xp.argmax(xp.abs(U), axis=-2, keepdims=True)
    sign = xp.sign(xp.take_along_axis(U, largest, axis=-2))
    return U * sign, sigma, Vt * sign.mT


def _subspace_svd(
    X: Array, k: int, generator: np.random.Generator, extra: int = 10, iterations: int = 8
) -> tuple[Array, Array, Array]:
    """Randomized subspace iteration (Halko, Martinsson and Tropp) with QR at every step."""
    size = min(k + extra, *X.shape)
    basis = X @ generator.standard_normal((X.shape[1], size)).astype(X.dtype)
    for _ in range(iterations):
        basis = np.linalg.qr(basis)[0]
        basis = np.linalg.qr(X.T @ basis)[0]
        basis = X @ basis
    basis = np.linalg.qr(basis)[0]
    U, sigma, Vt = np.linalg.svd((X.T @ basis).T, full_matrices=False)
    return basis @ U, sigma, Vt


def _nonzero(norms: Array) -> Array:
    xp = namespace(norms)
    return xp.where(norms > 0, norms, xp.ones_like(norms))


def empty_codes(X: Array, k: int) -> Array:
    """H = 0, the start of encoding: the same for every sample, whatever block it comes in."""
    return zeros((*stack_shape(X), k, X.shape[-1]), X)
