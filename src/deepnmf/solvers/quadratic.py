"""The objective as a function of one factor.

Every factor of a linear model sees the same function, a quadratic with at most two Gram matrices:

    q(F) = ½⟨F, A F B⟩ − ⟨C, F⟩ + ½ Σ_j f_jᵀ K f_j,    F ≥ 0

    codes H_l:         A = Ψ_lᵀΨ_l,            B = I,              C = Ψ_lᵀ X
    weights W_l:       A = Ψ_{l-1}ᵀΨ_{l-1},    B = H̃_l H̃_lᵀ,      C = Ψ_{l-1}ᵀ X H̃_lᵀ

(A = I for W_1.) The linear term ℓ of a penalty is subtracted from C, so no solver needs it.

The code of a sample depends on that sample alone. So restarts, step sizes and stopping are decided
per column for codes, and per run for weights. The shapes that `dots` returns say which.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from deepnmf.arrays import (
    Array,
    Dense,
    at_least,
    column_dots,
    in_order,
    inner,
    matmul,
    namespace,
    positive,
    scalars,
    spectral_bound,
)
from deepnmf.penalties import Penalty, Zero


@dataclass(frozen=True)
class Quadratic:
    """q(F) = ½⟨F, A F B⟩ − ⟨C, F⟩ + ½ Σ_j f_jᵀ K f_j over F ≥ 0.

    `unit_columns` adds the constraint ‖f_j‖ ≤ 1 (weights without a penalty of their own, under
    scaling="fixed"). `by_column` says that each column of F is a separate problem.
    """

    C: Array
    A: Array | None = None
    B: Array | None = None
    penalty: Penalty = Zero()
    by_column: bool = False
    unit_columns: bool = False

    def run(self, index: tuple[int, ...]) -> Quadratic:
        """The problem of one run of the stack."""
        return replace(
            self,
            C=self.C[index],
            A=None if self.A is None else self.A[index],
            B=None if self.B is None else self.B[index],
            penalty=self.penalty.run(index),
        )

    def in_order(self) -> Quadratic:
        """The problem with C in row-major order, like products with F."""
        C = in_order(self.C)
        return self if C is self.C else replace(self, C=C)

    def gradient(self, F: Array) -> Array:
        """∇q(F) = A F B − C + K F."""
        product = F if self.A is None else matmul(self.A, F)
        if self.B is not None:
            product = matmul(product, self.B)
        if product is F:
            gradient = product - self.C
        else:
            gradient = product
            gradient -= self.C
        if self.penalty.active:
            gradient += self.penalty.gradient(F)
        return gradient

    def value(self, F: Array) -> Dense:
        """q(F) per run, in double precision."""
        product = F if self.A is None else matmul(self.A, F)
        if self.B is not None:
            product = matmul(product, self.B)
        return inner(F, product) / 2 - inner(F, self.C) + self.penalty.value(F)

    @cached_property
    def lipschitz(self) -> Array:
        """LC ≥ ‖A‖₂ ‖B‖₂ + ‖K‖₂, (…, 1, 1), computed once per subproblem."""
        xp = namespace(self.C)
        bounds = [spectral_bound(G) for G in (self.A, self.B) if G is not None]
        bounds = bounds or [xp.ones_like(self.C[..., :1, :1])]
        tiny = float(xp.finfo(self.C.dtype).tiny) ** 0.5
        constant = reduce(operator.mul, bounds) + self.penalty.lipschitz(self.C.shape[-2])
        return at_least(constant, tiny)

    def project(self, F: Array) -> Array:
        """The nearest feasible point."""
        return nearest(F, self.unit_columns)

    def dots(self, U: Array, V: Array) -> Array:
        """⟨u, v⟩ for every problem: (…, 1, n) by column, else (…, 1, 1)."""
        return column_dots(U, V) if self.by_column else scalars(inner(U, V), U)

    def change(self, F: Array, gradient: Array, F_new: Array, gradient_new: Array) -> Array:
        """q(F_new) − q(F) for every problem, without the cancellation of subtracting values.

        For a quadratic it is exactly ⟨½(∇q(F) + ∇q(F_new)), F_new − F⟩.
        """
        return self.dots((gradient + gradient_new) / 2, F_new - F)


def nearest(F: Array, unit_columns: bool) -> Array:
    """The nearest factor ≥ 0, with columns in the unit ball if `unit_columns`."""
    F = positive(F)
    if unit_columns:
        F = F / at_least(namespace(F).sqrt(column_dots(F, F)), 1)
    return F


def codes_problem(gram: Array, C: Array, penalty: Penalty) -> Quadratic:
    """H as a variable: ½‖X − ΨH‖² + R(H), from ΨᵀΨ and ΨᵀX; one problem per sample."""
    return Quadratic(C=_lowered(C, penalty), A=gram, penalty=penalty.quadratic, by_column=True)


def weights_problem(
    left: Array | None, right: Array, C: Array, penalty: Penalty, unit_columns: bool = False
) -> Quadratic:
    """W as a variable: ½‖X − Ψ W H̃‖² + R(W), from ΨᵀΨ (None: Ψ = I), H̃H̃ᵀ and ΨᵀXH̃ᵀ."""
    C = _lowered(C, penalty)
    return Quadratic(C=C, A=left, B=right, penalty=penalty.quadratic, unit_columns=unit_columns)


def _lowered(C: Array, penalty: Penalty) -> Array:
    """C − ℓ: the linear term of a penalty is moved into ⟨C, F⟩."""
    return C if penalty.linear == 0 else C - penalty.linear
