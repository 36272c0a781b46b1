"""Links: the function between two layers.

A link is a pair of increasing functions on the nonnegative numbers: g, through which the codes of
a layer pass before the next layer sees them, and φ = g⁻¹, which decoding applies:

    X ≈ W_1 φ(W_2 φ(… φ(W_L H_L))).

A link of your own is one dataclass with `project` (g), `decode` (φ) and `slope` (φ′), and its
`domain`. What g gets is clipped to the domain first: below it g would be negative, at its upper end
infinite.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepnmf.arrays import Array, at_least, fused_kernels, namespace


class Link(ABC):
    """g and φ = g⁻¹."""

    linear: ClassVar[bool] = False
    domain: ClassVar[tuple[float, float]] = (0.0, math.inf)
    """Where g is finite and ≥ 0."""
    rescales: ClassVar[bool] = False
    """Whether codes are divided by R before g, to bring them into a domain that does not reach
    from 0 to ∞; the weights below take R over. R is the largest code, and at least 1 for a domain
    that begins at 0. (Where it begins above 0, small codes must be scaled up as well: they would
    all be clipped to the lower edge, and the layer above would have nothing to learn.)"""
    degree: ClassVar[float | None] = None
    """p where φ(c a) = cᵖ φ(a) for all c > 0, None where there is no such p."""

    @abstractmethod
    def project(self, H: Array) -> Array:
        """g(H), after clipping H to the domain."""

    @abstractmethod
    def decode(self, A: Array) -> Array:
        """φ(A)."""

    @abstractmethod
    def slope(self, A: Array) -> Array:
        """φ′(A)."""

    @property
    def at_zero(self) -> float:
        """φ(0); asked of the CPU, so that a card need not be waited for."""
        return float(self.decode(np.zeros(1))[0])

    def pull(self, G: Array, A: Array) -> Array:
        """G ∘ φ′(A)."""
        return G * self.slope(A)

    def expansion(self, A: Array, B: Array) -> tuple[Array, Array] | None:
        """U_1, U_2 with φ(A + tB) = φ(A) + t U_1 + t² U_2 exactly, or None: only a polynomial of
        degree 2 has them, and with them an exact line search."""
        del A, B
        return None

    def scale(self, H: Array) -> Array | float:
        """R, per run."""
        if not self.rescales:
            return 1.0
        xp = namespace(H)
        largest = xp.max(H, axis=(-2, -1), keepdims=True)
        if self.domain[0] > 0:
            return xp.where(largest > 0, largest, xp.ones_like(largest))
        return at_least(largest, 1)

    def clipped(self, H: Array) -> Array:
        """H brought into the domain."""
        low, high = self.domain
        return namespace(H).clip(H, low, None if math.isinf(high) else high)


@dataclass(frozen=True)
class Identity(Link):
    """g(x) = φ(x) = x: the linear models."""

    linear = True
    degree = 1.0

    def project(self, H: Array) -> Array:
        return H

    def decode(self, A: Array) -> Array:
        return A

    def slope(self, A: Array) -> Array:
        return namespace(A).ones_like(A)


@dataclass(frozen=True)
class Root(Link):
    """g(x) = √x, φ(x) = x² on [0, ∞): the link of Square_1 and Square_2.

    At the edge φ′(0) = 0: a unit whose input is 0 for every sample has no gradient. Training
    counts such dead units and revives those that would lower the objective.
    """

    degree = 2.0

    def project(self, H: Array) -> Array:
        return namespace(H).sqrt(self.clipped(H))

    def decode(self, A: Array) -> Array:
        return A * A

    def slope(self, A: Array) -> Array:
        return 2 * A

    def pull(self, G: Array, A: Array) -> Array:
        fused = fused_kernels(A)
        if fused is not None and fused.single(G, A):
            return fused.doubled_product(G, A)
        return super().pull(G, A)

    def expansion(self, A: Array, B: Array) -> tuple[Array, Array]:
        fused = fused_kernels(A)
        if fused is not None and fused.single(A, B):
            return fused.square_expansion(A, B)
        return 2 * A * B, B * B


@dataclass(frozen=True)
class Tanh(Link):
    """φ(x) = a tanh(b x), g(x) = artanh(x/a)/b on [0, a), with a = 1.7159 and b = 2/3.

    At the edge: codes are scaled to at most 1, well inside; what is still above 0.999 a is taken
    as 0.999 a.
    """

    height: ClassVar[float] = 1.7159
    rate: ClassVar[float] = 2 / 3
    domain = (0.0, 0.999 * 1.7159)
    rescales = True

    def project(self, H: Array) -> Array:
        return namespace(H).atanh(self.clipped(H) / self.height) / self.rate

    def decode(self, A: Array) -> Array:
        return self.height * namespace(A).tanh(self.rate * A)

    def slope(self, A: Array) -> Array:
        t = namespace(A).tanh(self.rate * A)
        return self.height * self.rate * (1 - t * t)


@dataclass(frozen=True)
class Sigmoid(Link):
    """φ(x) = 1/(1 + e⁻ˣ), g(x) = log(x/(1 − x)) on [½, 1).

    At the edges: φ(0) = ½, so a zero in the codes below is out of reach, and codes are scaled to
    at most 1; below ½ they are taken as ½ (g = 0), above 0.999 as 0.999.
    """

    domain = (0.5, 0.999)
    rescales = True

    def project(self, H: Array) -> Array:
        x = self.clipped(H)
        return namespace(x).log(x / (1 - x))

    def decode(self, A: Array) -> Array:
        return 1 / (1 + namespace(A).exp(-A))

    def slope(self, A: Array) -> Array:
        s = self.decode(A)
        return s * (1 - s)


@dataclass(frozen=True)
class Softplus(Link):
    """φ(x) = log(1 + eˣ), g(x) = log(eˣ − 1) on [log 2, ∞).

    At the edge: φ(0) = log 2, so smaller codes below are out of reach; they are taken as log 2
    (g = 0), after scaling to at most 1.
    """

    domain = (math.log(2), math.inf)
    rescales = True

    def project(self, H: Array) -> Array:
        x = self.clipped(H)
        xp = namespace(x)
        # log(eˣ − 1) = x + log(1 − e⁻ˣ), which does not overflow; rounding may leave it below 0.
        return xp.clip(x + xp.log(-xp.expm1(-x)), 0, None)

    def decode(self, A: Array) -> Array:
        # log(1 + eˣ) = x + log(1 + e⁻ˣ) for x ≥ 0.
        xp = namespace(A)
        return xp.clip(A, 0, None) + xp.log1p(xp.exp(-xp.abs(A)))

    def slope(self, A: Array) -> Array:
        return 1 / (1 + namespace(A).exp(-A))
