"""Links: the function between two layers.

A link is a pair of increasing functions on the nonnegative numbers: g, through which the codes of
a layer pass before the next layer sees them, and φ = g⁻¹, which decoding applies:

    X ≈ W_1 φ(W_2 φ(… φ(W_L H_L))).

Your own link is one dataclass with `project` (g), `decode` (φ), `slope` (φ′) and its `domain`. The
input of g is clipped to the domain first: below it g would be negative, at its upper end infinite.
To give a link a name, add it to `LINKS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepnmf.arrays import Array, at_least, doubled_product, namespace, square_expansion


class Link(ABC):
    """g and φ = g⁻¹."""

    linear: ClassVar[bool] = False
    domain: ClassVar[tuple[float, float]] = (0.0, math.inf)
    """Where g is finite and ≥ 0."""
    rescales: ClassVar[bool] = False
    """Whether codes are divided by R before g, to bring them into a bounded domain. The weights
    below are multiplied by R. R is the largest code, and at least 1 if the domain begins at 0. (If
    it begins above 0, small codes are scaled up too: clipped to the lower edge, they would leave
    the layer above nothing to learn.)"""
    signed: ClassVar[bool] = False
    """Whether φ is defined and increasing for negative arguments too, as `DeepSemiNMF` needs."""
    degree: ClassVar[float | None] = None
    """p if φ(c a) = cᵖ φ(a) for all c > 0; None if there is no such p."""

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
        """φ(0), computed on the CPU so that nothing waits for a CUDA device."""
        return float(self.decode(np.zeros(1))[0])

    def pull(self, G: Array, A: Array) -> Array:
        """G ∘ φ′(A)."""
        return G * self.slope(A)

    def expansion(self, A: Array, B: Array) -> tuple[Array, Array] | None:
        """U_1, U_2 with φ(A + tB) = φ(A) + t U_1 + t² U_2 exactly, which allow an exact line
        search. None unless φ is a polynomial of degree 2."""
        del A, B
        return None

    def scale(self, H: Array) -> Array | float:
        """R, per run."""
        if not self.rescales:
            return 1.0
        largest = self.largest(H)
        return largest if self.domain[0] > 0 else at_least(largest, 1)

    @staticmethod
    def largest(H: Array) -> Array:
        """The largest code, per run; 1 if all are 0."""
        xp = namespace(H)
        largest = xp.max(H, axis=(-2, -1), keepdims=True)
        return xp.where(largest > 0, largest, xp.ones_like(largest))

    def clipped(self, H: Array) -> Array:
        """H brought into the domain."""
        low, high = self.domain
        return namespace(H).clip(H, low, None if math.isinf(high) else high)


@dataclass(frozen=True)
class Identity(Link):
    """g(x) = φ(x) = x: the linear models."""

    linear = True
    signed = True
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
    counts such dead parts, and revives those that can lower the objective.
    """

    degree = 2.0

    def project(self, H: Array) -> Array:
        return namespace(H).sqrt(self.clipped(H))

    def decode(self, A: Array) -> Array:
        return A * A

    def slope(self, A: Array) -> Array:
        return 2 * A

    def pull(self, G: Array, A: Array) -> Array:
        return doubled_product(G, A)

    def expansion(self, A: Array, B: Array) -> tuple[Array, Array]:
        return square_expansion(A, B)


@dataclass(frozen=True)
class Tanh(Link):
    """φ(x) = a tanh(b x), g(x) = artanh(x/a)/b on [0, a), with a = 1.7159 and b = 2/3.

    At the edge: codes are scaled to at most 1, well inside. Values above 0.999 a become 0.999 a.
    """

    height: ClassVar[float] = 1.7159
    rate: ClassVar[float] = 2 / 3
    domain = (0.0, 0.999 * 1.7159)
    rescales = True
    signed = True

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

    At the edges: φ(0) = ½, so the codes below cannot be zero. Codes are scaled to at most 1; below
    ½ they become ½ (g = 0), above 0.999 they become 0.999.
    """

    domain = (0.5, 0.999)
    rescales = True
    signed = True

    def project(self, H: Array) -> Array:
        x = self.clipped(H)
        return namespace(x).log(x / (1 - x))

    def decode(self, A: Array) -> Array:
        # By tanh, as e⁻ˣ would overflow for large negative x.
        return (1 + namespace(A).tanh(A / 2)) / 2

    def slope(self, A: Array) -> Array:
        s = self.decode(A)
        return s * (1 - s)


@dataclass(frozen=True)
class Softplus(Link):
    """φ(x) = log(1 + eˣ), g(x) = log(eˣ − 1) on [log 2, ∞).

    At the edge: φ(0) = log 2, so the codes below cannot be smaller. Codes are scaled to at most 1;
    below log 2 they become log 2 (g = 0).
    """

    domain = (math.log(2), math.inf)
    rescales = True
    signed = True

    def project(self, H: Array) -> Array:
        x = self.clipped(H)
        xp = namespace(x)
        # log(eˣ − 1) = x + log(1 − e⁻ˣ) does not overflow; rounding may make it negative.
        return xp.clip(x + xp.log(-xp.expm1(-x)), 0, None)

    def decode(self, A: Array) -> Array:
        # log(1 + eˣ) = x + log(1 + e⁻ˣ) for x ≥ 0.
        xp = namespace(A)
        return xp.clip(A, 0, None) + xp.log1p(xp.exp(-xp.abs(A)))

    def slope(self, A: Array) -> Array:
        return Sigmoid().decode(A)


LINKS: dict[str, type[Link]] = {
    "identity": Identity,
    "root": Root,
    "tanh": Tanh,
    "sigmoid": Sigmoid,
    "softplus": Softplus,
}
"""The links that can be given by name."""


def contradiction(link: Link) -> str | None:
    """How a link breaks its laws; None if it keeps them.

    The laws, where codes can reach the domain: φ increases and φ(g(x)) = x, φ′ is
    the slope of φ, g ≥ 0 and φ ≥ 0, and φ(c a) = cᵖ φ(a) where the link states a degree p.
    """

    def phi(a: np.ndarray) -> np.ndarray:
        return np.asarray(link.decode(a))

    name = type(link).__name__
    low, high = link.domain
    x = np.linspace(low, min(high, low + 3.0), 61)[None, 1:-1]
    a, step = np.asarray(link.project(x)), 1e-6
    if not (np.all(np.isfinite(a)) and np.all(a >= 0)):
        return f"{name}: g must be finite and ≥ 0 on its domain {link.domain}."
    if not np.allclose(phi(a), x, rtol=1e-6, atol=1e-9):
        return f"{name}: decode must undo project, φ(g(x)) = x, on its domain {link.domain}."
    inside = a[a > 2 * step][None, :]
    slope = (phi(inside + step) - phi(inside - step)) / (2 * step)
    if not np.allclose(np.asarray(link.slope(inside)), slope, rtol=1e-4, atol=1e-6):
        return f"{name}: slope must be the derivative of decode, φ′."
    if np.any(link.slope(inside) < 0):
        return f"{name}: decode must increase, but its slope is negative somewhere."
    if link.degree is not None:
        scaled = 1.5**link.degree * phi(inside)
        if not np.allclose(phi(1.5 * inside), scaled, rtol=1e-6):
            return f"{name}: degree is {link.degree}, but φ(c a) is not c^{link.degree} φ(a)."
    return None
