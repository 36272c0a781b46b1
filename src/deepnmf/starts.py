"""Where the training of a layer begins: X ≈ W H from an SVD, random, or given."""

from __future__ import annotations

import copy
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from deepnmf.arrays import (
    Array,
    column_dots,
    divisor,
    epsilon,
    gram,
    in_order,
    inner,
    is_numpy,
    mean,
    namespace,
    positive,
    scalars,
    stack_shape,
    taller,
    transposed_product,
    zeros,
)
from deepnmf.arrays.draws import Generators, draw, draw_for_samples
from deepnmf.arrays.svd import truncated_svd
from deepnmf.terminal.text import one_line

Fill = Literal["zero", "mean", "random"] | float


class Start(ABC):
    """Makes the first W (…, m, k) and H (…, k, n) of a layer."""

    @classmethod
    def with_fill(cls, fill: Fill) -> Start:
        """The start for its name, with `fill` if it has a fill."""
        check_fill(fill)
        return cls()

    @abstractmethod
    def factors(self, X: Array, k: int, generators: Generators) -> tuple[Array, Array]:
        """W and H for the input X of a layer; one generator per run of the stack."""


def check_fill(fill: object) -> None:
    """Refuse what is not a fill, also for starts that do not use it."""
    if isinstance(fill, numbers.Real) and not isinstance(fill, bool):
        if math.isfinite(fill) and float(fill) >= 0:
            return
    elif isinstance(fill, str) and fill in ("zero", "mean", "random"):
        return
    raise ValueError(
        f'fill must be "zero", "mean", "random" or a number ≥ 0, got {one_line(repr(fill))}.'
    )


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
    """NNSVD (Boutsidis and Gallopoulos): the larger nonnegative half of each singular pair,

        w_j = √(σ_j ‖u⁺‖‖v⁺‖) u⁺/‖u⁺‖,    h_j = √(σ_j ‖u⁺‖‖v⁺‖) v⁺/‖v⁺‖,

    (u⁺, v⁺) being (P(u_j), P(v_j)) or (P(−u_j), P(−v_j)), whichever has the larger ‖u⁺‖‖v⁺‖.

    `fill` replaces the zeros, which some updates could never change: "zero", "mean" (of X),
    "random" (|N(0, 1)| · mean/100) or a number. Beyond the rank of X there are no singular pairs:
    those columns are random, scaled to the mean of X.

    With `relative`, the fill is relative to the mean of W, and of H, and only that of W is random:
    X → cX, or every sample twice, then changes the start in its scale only.
    """

    fill: Fill = "random"
    relative: bool = False

    @classmethod
    def with_fill(cls, fill: Fill) -> Start:
        return cls(fill)

    def __post_init__(self) -> None:
        check_fill(self.fill)

    def factors(self, X: Array, k: int, generators: Generators) -> tuple[Array, Array]:
        U, sigma, Vt = truncated_svd(X, k)
        self._check_size(U)
        xp = namespace(U)
        s = sigma[..., None, :]
        size_up, size_down = _sizes(U, Vt), _sizes(-U, -Vt)
        up = size_up >= size_down
        size = xp.where(up, size_up, size_down)
        sign = xp.astype(up, U.dtype) * 2 - 1
        u, v = positive(U * sign), positive(Vt * sign.mT)
        del U, Vt
        # √(σ‖u‖‖v‖) u/‖u‖ = u √(σ‖v‖/‖u‖): safe if u or v is all zero.
        W = u * xp.sqrt(s * size) / divisor(xp.sqrt(column_dots(u, u)))
        H = v * (xp.sqrt(s * size) / divisor(xp.sqrt(_row_squares(v)))).mT
        # Always drawn, and for all k: the numbers of a run must not depend on the ranks of others.
        for_W = draw("normal", (X.shape[-2], k), generators, W)
        for_H = draw_for_samples("normal", k, self._for_codes(generators), X)
        average = mean(X)
        rank = sigma.shape[-1]
        if rank < k:
            W = xp.concat([W, zeros((*W.shape[:-1], k - rank), W)], axis=-1)
            H = taller(H, k)
            sigma = xp.concat([sigma, zeros((*sigma.shape[:-1], k - rank), sigma)], axis=-1)
        if self.relative:
            W, H = self._filled(W, mean(W), for_W), self._filled(H, mean(H), 1 + 0 * for_H)
        else:
            W, H = self._filled(W, average, for_W), self._filled(H, average, for_H)
        beyond = (sigma == 0)[..., None, :]
        if bool(xp.any(beyond)):
            size = xp.sqrt(average / k)
            W = xp.where(beyond, xp.abs(for_W) * size, W)
            H = namespace(H).where(beyond.mT, namespace(H).abs(for_H) * size, H)
        # Sample by sample in memory, as CUDA kernels need it.
        return W, H if is_numpy(H) else in_order(H.mT).mT

    def _for_codes(self, generators: Generators) -> Generators:
        """The generators of numbers for H. With `relative` these are copies, so that later numbers
        do not depend on how many samples there are."""
        return copy.deepcopy(list(generators)) if self.relative else generators

    def _check_size(self, like: Array) -> None:
        """Refuse a number whose products overflow. W H has entries of about its square, so that
        its eighth power is what the fourth power of an entry of X is."""
        most = float(namespace(like).finfo(like.dtype).max) ** 0.125
        if not isinstance(self.fill, str) and float(self.fill) > most:
            precision = f"{like.dtype}".removeprefix("torch.")
            raise ValueError(
                f"fill: {self.fill:g} is too large for products in {precision}, where it can be "
                f'{most:.2g} at most. Use "mean", the mean entry of X.'
            )

    def _filled(self, F: Array, average: Array, numbers: Array) -> Array:
        """F with its zeros filled."""
        xp = namespace(F)
        if 0 in F.shape:
            return F
        largest = xp.max(F, axis=(-2, -1), keepdims=True)
        empty = max(100 * epsilon(F), 1e-10) * largest >= F
        return xp.where(empty, self._filling(F, average, numbers), F)

    def _filling(self, F: Array, average: Array, numbers: Array) -> Array:
        """The values for the zeros of F, to be broadcast to its shape."""
        xp = namespace(F)
        if self.fill == "mean":
            return average + 0 * F
        if self.fill == "random":
            return xp.abs(numbers) * average / 100
        number = 0.0 if self.fill == "zero" else float(self.fill)
        return 0 * F + (number * average if self.relative else number)


STARTS: dict[str, type[Start]] = {"nnsvd": Nnsvd, "random": Random}
"""The starts that can be given by name."""


@dataclass(frozen=True)
class Given:
    """Start from factors you have: `weights` as in `weights_`, one matrix (k_{l−1}, k_l) per layer.

    `codes` is H_L as (n_samples, k_L), not g(H_L); None computes it from the weights. There is no
    pre-training. A warm start is `Given(model.weights_)`.
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


def best_scale(fitted: Array, W_gram: Array, S: Array) -> Array:
    """s per run, s² = ⟨X, WH⟩/‖WH‖² from ⟨X, WH⟩, WᵀW and S = HHᵀ: sW and sH fit X best."""
    return namespace(W_gram).sqrt(fitted / divisor(inner(W_gram, S)))


def empty_codes(X: Array, k: int) -> Array:
    """H = 0, the start of encoding: the same for every sample, in any block."""
    return zeros((*stack_shape(X), k, X.shape[-1]), X)
