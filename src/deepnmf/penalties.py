"""Penalties on a factor: what makes parts sparse, or codes sparse or small.

All of them are sums over the columns of a factor of a quadratic form,

    R(F) = ½ Σ_j f_jᵀ K f_j,    K symmetric, K ≥ 0.

On F ≥ 0 this covers the squared L1 norm: a solver needs the gradient K F, a Lipschitz constant
‖K‖₂ and the projection on F ≥ 0, and no other proximal step. The value follows from the gradient.
To add a penalty, write one more dataclass here (or anywhere) and one line in `tests/tables.py`.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass

from deepnmf.arrays import Array, column_dots, eye, inner, namespace


class Penalty(ABC):
    """R(F) = ½ Σ_j f_jᵀ K f_j."""

    @abstractmethod
    def gradient(self, F: Array) -> Array:
        """K F, or an array that broadcasts to it."""

    @abstractmethod
    def lipschitz(self, rows: int) -> float | Array:
        """‖K‖₂ for a factor with that many rows."""

    @property
    def active(self) -> bool:
        """Whether the penalty does anything."""
        return True

    @property
    def uniform(self) -> tuple[float, float] | None:
        """(μ, λ) where K = μ **11**ᵀ + λ I, None where K is no such matrix: with these, a column
        has its minimum in closed form."""
        return None

    def run(self, index: tuple[int, ...]) -> Penalty:
        """The penalty of one run of the stack."""
        del index
        return self

    def value(self, F: Array) -> Array:
        """R(F) per run, in double precision."""
        return inner(F, self.gradient(F)) / 2

    def of_gram(self, S: Array) -> Array:
        """R(F) from S = F Fᵀ alone: ½ tr(K S)."""
        return inner(eye(S.shape[-1], S), self.gradient(S)) / 2

    def columns(self, F: Array) -> Array:
        """R of each column, (…, 1, k)."""
        return column_dots(F, self.gradient(F)) / 2


@dataclass(frozen=True)
class Zero(Penalty):
    """R(F) = 0."""

    def gradient(self, F: Array) -> Array:
        return 0 * F[..., :1, :]

    def lipschitz(self, rows: int) -> float:
        return 0.0

    @property
    def uniform(self) -> tuple[float, float]:
        return 0.0, 0.0

    @property
    def active(self) -> bool:
        return False


@dataclass(frozen=True)
class _Weighted(Penalty):
    """A penalty with one weight, a number ≥ 0."""

    strength: float = 1e-3

    def __post_init__(self) -> None:
        number = isinstance(self.strength, numbers.Real) and not isinstance(self.strength, bool)
        if not number or not math.isfinite(self.strength) or self.strength < 0:
            raise ValueError(
                f"{type(self).__name__}: the strength (mu or lam) must be a finite number ≥ 0, "
                f"got {self.strength!r}."
            )

    @property
    def active(self) -> bool:
        return self.strength > 0


@dataclass(frozen=True)
class SquaredL1(_Weighted):
    """R(F) = ½ μ Σ_j (Σ_i F_ij)²,  K = μ **11**ᵀ: few nonzeros a column."""

    def gradient(self, F: Array) -> Array:
        return self.strength * F.sum(axis=-2, keepdims=True)

    def value(self, F: Array) -> Array:
        xp = namespace(F)
        sums = F.sum(axis=-2)
        return self.strength * xp.sum(sums * sums, axis=-1, dtype=xp.float64) / 2

    def lipschitz(self, rows: int) -> float:
        return self.strength * rows

    @property
    def uniform(self) -> tuple[float, float]:
        return self.strength, 0.0


@dataclass(frozen=True)
class Ridge(_Weighted):
    """R(F) = ½ λ ‖F‖_F²,  K = λ I: small, smooth columns."""

    def gradient(self, F: Array) -> Array:
        return self.strength * F

    def lipschitz(self, rows: int) -> float:
        return self.strength

    @property
    def uniform(self) -> tuple[float, float]:
        return 0.0, self.strength


@dataclass(frozen=True)
class RowRidge(Penalty):
    """R(F) = ½ Σ_i c_i Σ_j F_ij²,  K = diag(c): how scaling="fixed" tells the codes what their
    scale costs on the side of the weights."""

    weights: Array

    def run(self, index: tuple[int, ...]) -> RowRidge:
        return RowRidge(self.weights[index])

    def gradient(self, F: Array) -> Array:
        return self.weights * F

    def lipschitz(self, rows: int) -> Array:
        return namespace(self.weights).max(self.weights, axis=-2, keepdims=True)


@dataclass(frozen=True)
class TopLayer:
    """A penalty for the last layer alone, whatever the depth (R of SDNMF/RL1 and /RL2)."""

    penalty: Penalty
