"""Links: the function between two layers.

A link is a pair of increasing functions on the nonnegative numbers: g, through which the codes of
a layer pass before the next layer sees them, and φ = g⁻¹, which decoding applies:

    X ≈ W_1 φ(W_2 φ(… φ(W_L H_L))).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from deepnmf.core.arrays import Array


class Link(ABC):
    """g and φ = g⁻¹."""

    linear: bool = False

    @abstractmethod
    def project(self, H: Array) -> Array:
        """g(H)."""

    @abstractmethod
    def decode(self, A: Array) -> Array:
        """φ(A)."""


@dataclass(frozen=True)
class Identity(Link):
    """g(x) = φ(x) = x: the linear models."""

    linear = True

    def project(self, H: Array) -> Array:
        return H

    def decode(self, A: Array) -> Array:
        return A
