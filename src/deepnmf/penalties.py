"""Penalties on a factor, which make parts sparse, or codes sparse or small.

Every penalty is a sum over the columns of a factor of a quadratic form and a linear term,

    R(F) = ½ Σ_j f_jᵀ K f_j + ℓ ⟨1, F⟩,    K symmetric and positive semidefinite, ℓ ≥ 0.

On F ≥ 0 this covers the L1 norm and the squared L1 norm. A solver needs K F, a Lipschitz constant
‖K‖₂, ℓ and the projection on F ≥ 0, and no other proximal step.

To add a penalty, write one more dataclass. To give it a name, add it to `PENALTIES`.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deepnmf.arrays import (
    Array,
    Dense,
    column_dots,
    eye,
    inner,
    namespace,
    over_samples,
    to_device,
)
from deepnmf.terminal.text import one_line

LARGEST = float(np.finfo(float).max)
Form = Callable[[Array], Array]
"""F ↦ K F."""


class Penalty(ABC):
    """R(F) = ½ Σ_j f_jᵀ K f_j + ℓ ⟨1, F⟩."""

    @abstractmethod
    def gradient(self, F: Array) -> Array:
        """∇R(F) = K F + ℓ, or an array that broadcasts to it."""

    @abstractmethod
    def lipschitz(self, rows: int) -> float | Array:
        """‖K‖₂ for a factor with that many rows."""

    @property
    def active(self) -> bool:
        """Whether the penalty does anything."""
        return True

    @property
    def linear(self) -> float:
        """ℓ."""
        return 0.0

    @property
    def quadratic(self) -> Penalty:
        """The penalty without its linear term: ½ Σ_j f_jᵀ K f_j."""
        return self if self.linear == 0 else _WithoutLinearTerm(self)

    @property
    def uniform(self) -> tuple[float, float] | None:
        """(μ, λ) if K = μ **11**ᵀ + λ I, else None. With these, the minimum over a column has a
        closed form."""
        return None

    def run(self, index: tuple[int, ...]) -> Penalty:
        """The penalty of one run of the stack."""
        del index
        return self

    def value(self, F: Array) -> Dense:
        """R(F) per run, in double precision."""
        form = inner(F, self.quadratic.gradient(F)) / 2
        if self.linear == 0:
            return form
        xp = namespace(F)
        return form + self.linear * xp.sum(F, axis=(-2, -1), dtype=xp.float64)

    def of_codes(self, H: Array, S: Array) -> Dense:
        """R(H) per run; without a linear term ½ tr(K S), from S = H Hᵀ."""
        if self.linear > 0:
            return over_samples(self.value, H)
        return inner(eye(S.shape[-1], S), self.gradient(S)) / 2

    def columns(self, F: Array) -> Array:
        """R of each column, (…, 1, k). Only for penalties without a linear term."""
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
    """A penalty with one strength, a number ≥ 0."""

    strength: float = 1e-3

    def __post_init__(self) -> None:
        number = isinstance(self.strength, numbers.Real) and not isinstance(self.strength, bool)
        if not number or not 0 <= self.strength <= LARGEST:
            raise ValueError(
                f"{type(self).__name__}: the strength (mu or lam) must be a finite number ≥ 0, "
                f"got {one_line(repr(self.strength))}."
            )
        # Tensors cannot be multiplied with large whole numbers.
        object.__setattr__(self, "strength", float(self.strength))

    @property
    def active(self) -> bool:
        return self.strength > 0


@dataclass(frozen=True)
class SquaredL1(_Weighted):
    """R(F) = ½ μ Σ_j (Σ_i F_ij)²,  K = μ **11**ᵀ: few nonzeros per column."""

    def gradient(self, F: Array) -> Array:
        return self.strength * F.sum(axis=-2, keepdims=True)

    def value(self, F: Array) -> Dense:
        xp = namespace(F)
        sums = F.sum(axis=-2)
        return self.strength * xp.sum(sums * sums, axis=-1, dtype=xp.float64) / 2

    def lipschitz(self, rows: int) -> float:
        return self.strength * rows

    @property
    def uniform(self) -> tuple[float, float]:
        return self.strength, 0.0


@dataclass(frozen=True)
class L1(_Weighted):
    """R(F) = λ Σ_ij F_ij,  K = 0 and ℓ = λ: few nonzeros in the factor, in any column."""

    def gradient(self, F: Array) -> Array:
        return self.strength + 0 * F[..., :1, :]

    def lipschitz(self, rows: int) -> float:
        return 0.0

    @property
    def linear(self) -> float:
        return self.strength

    @property
    def quadratic(self) -> Penalty:
        return Zero()

    @property
    def uniform(self) -> tuple[float, float]:
        return 0.0, 0.0


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


PENALTIES: dict[str, type[Penalty]] = {
    "zero": Zero,
    "squared_l1": SquaredL1,
    "l1": L1,
    "ridge": Ridge,
}
"""The penalties that can be given by name."""


@dataclass(frozen=True)
class RowRidge(Penalty):
    """R(F) = ½ Σ_i c_i Σ_j F_ij²,  K = diag(c).

    With scaling="fixed" it is the cost of the scale of the codes for the weights.
    """

    weights: Array

    def run(self, index: tuple[int, ...]) -> RowRidge:
        return RowRidge(self.weights[index])

    def gradient(self, F: Array) -> Array:
        return self.weights * F

    def lipschitz(self, rows: int) -> Array:
        return namespace(self.weights).max(self.weights, axis=-2, keepdims=True)


@dataclass(frozen=True)
class Scaled(Penalty):
    """½ c Σ_j f_jᵀ K f_j + d ℓ ⟨1, F⟩: a penalty whose terms are multiplied by numbers ≥ 0. The
    first may differ from run to run, as (…, 1, 1)."""

    penalty: Penalty
    factor: Array | float
    linear_factor: float = 1.0

    def run(self, index: tuple[int, ...]) -> Scaled:
        factor = self.factor if isinstance(self.factor, float) else self.factor[index].item()
        return Scaled(self.penalty.run(index), factor, self.linear_factor)

    def gradient(self, F: Array) -> Array:
        return self.factor * self.penalty.quadratic.gradient(F) + self.linear

    def lipschitz(self, rows: int) -> float | Array:
        return self.factor * self.penalty.lipschitz(rows)

    @property
    def active(self) -> bool:
        return self.penalty.active

    @property
    def linear(self) -> float:
        return self.linear_factor * self.penalty.linear

    @property
    def uniform(self) -> tuple[float, float] | None:
        uniform = self.penalty.uniform
        if uniform is None or not isinstance(self.factor, float):
            return None
        return self.factor * uniform[0], self.factor * uniform[1]


@dataclass(frozen=True)
class _WithoutLinearTerm(Penalty):
    """½ Σ_j f_jᵀ K f_j of a penalty that also has a linear term."""

    penalty: Penalty

    def run(self, index: tuple[int, ...]) -> Penalty:
        return _WithoutLinearTerm(self.penalty.run(index))

    def gradient(self, F: Array) -> Array:
        return self.penalty.gradient(F) - self.penalty.linear

    def lipschitz(self, rows: int) -> float | Array:
        return self.penalty.lipschitz(rows)

    @property
    def uniform(self) -> tuple[float, float] | None:
        return self.penalty.uniform


@dataclass(frozen=True)
class TopLayer:
    """A penalty for the last layer only, at any depth (R of SDNMF/RL1 and /RL2)."""

    penalty: Penalty


def contradiction(penalty: Penalty, rows: int, like: Array) -> str | None:
    """How a penalty breaks its laws on a factor with that many rows; None if it keeps them.

    The laws: the gradient is K F + ℓ, column by column, with K symmetric and positive
    semidefinite; the value is ½⟨F, K F⟩ + ℓ⟨1, F⟩; the Lipschitz constant is at least ‖K‖₂. They
    are tested on a few random columns, in the library and on the device of `like`.
    """
    rng = np.random.default_rng(0)
    U, V = (to_device(rng.random((rows, 3)), like) for _ in range(2))
    xp = namespace(U)
    name = type(penalty).__name__
    close = 1e-9 if U.dtype == xp.float64 else 1e-3

    def form(F: Array) -> Array:
        return penalty.gradient(F) - penalty.linear + 0 * F

    def differ(a: float, b: float, size: float) -> bool:
        return not abs(a - b) <= close * max(abs(size), 1e-12)

    with np.errstate(over="ignore", invalid="ignore"):
        KU, KV = form(U), form(V)
        size = float(inner(KU, KU) + inner(KV, KV)) ** 0.5
    if not math.isfinite(size):
        precision = f"{U.dtype}".removeprefix("torch.")
        return f"{name} is too strong: its gradient overflows in {precision}. Make it weaker."
    gap = form(U - 2 * V) - (KU - 2 * KV)
    if differ(float(inner(gap, gap)) ** 0.5, 0.0, 10 * size):
        return (
            f"the gradient of {name} is not of the form K F + ℓ: it is not linear in F. Only "
            "quadratic penalties with a linear term can be used; see docs/extending.md."
        )
    gap = form(U[:, :1]) - KU[:, :1]
    if differ(float(inner(gap, gap)) ** 0.5, 0.0, 10 * size):
        return (
            f"the gradient of a column under {name} depends on the other columns. A penalty is a "
            "sum over columns: R(F) = ½ Σ_j f_jᵀ K f_j + ℓ ⟨1, F⟩."
        )
    scale = size * float(inner(U, U)) ** 0.5
    if differ(float(inner(V, KU)), float(inner(U, KV)), scale):
        return f"{name}: K is not symmetric, so K F + ℓ is not the gradient of any penalty."
    if float(inner(U - V, KU - KV)) < -close * scale:
        return f"{name}: K has a negative eigenvalue, so the penalty is not convex."
    expected = float(inner(U, KU)) / 2 + penalty.linear * float(xp.sum(U))
    if differ(float(penalty.value(U)), expected, scale + abs(expected)):
        return f"the value of {name} does not match its gradient: it must be ½⟨F, K F⟩ + ℓ⟨1, F⟩."
    return _too_small(penalty, rows, U, form, close)


def _too_small(penalty: Penalty, rows: int, U: Array, form: Form, close: float) -> str | None:
    """What is wrong if the Lipschitz constant is below ‖K‖₂, which power iteration estimates."""
    x, norm = U[:, :1] - 0.3, 0.0
    for _ in range(20):
        y = form(x)
        norm = float(inner(y, y)) ** 0.5 / max(float(inner(x, x)) ** 0.5, 1e-300)
        if norm == 0:
            break
        x = y / float(inner(y, y)) ** 0.5
    constant = penalty.lipschitz(rows)
    bound = constant if isinstance(constant, float | int) else float(namespace(U).max(constant))
    if norm <= bound * (1 + 100 * close) + 1e-12:
        return None
    return (
        f"{type(penalty).__name__}: lipschitz({rows}) is {bound:.4g}, but ‖K‖₂ is at least "
        f"{norm:.4g}: steps would be too long."
    )
