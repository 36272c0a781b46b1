"""Projected gradient steps through the layers, for factors behind a link.

    F ← P(F − t ∇f(F))

H_L has one step size per sample, W_l one per run; both are kept from sweep to sweep. If φ is a
quadratic polynomial and A_2 is linear in the factor, f along the step is a quartic. Its minimum is
computed exactly, and nothing is evaluated twice. Otherwise steps are tried by Armijo's rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deepnmf.arrays import (
    Array,
    column_dots,
    divisor,
    fused_kernels,
    inner,
    inner_products,
    matmul,
    namespace,
    positive,
    scalars,
)
from deepnmf.core.chain import Chain
from deepnmf.core.quartic import minimise_quartic
from deepnmf.penalties import Penalty
from deepnmf.solvers.quadratic import nearest
from deepnmf.solvers.stopping import per_run

STEPS = 3
"""Gradient steps per factor and sweep."""
SIGMA = 0.01
TRIALS = 20
STEP_RANGE = (1e-15, 1e15)


class Stepped(NamedTuple):
    """The pass after a step, the next step size, and the gradient mapping before the step."""

    chain: Chain
    t: Array
    mapping: Array
    """‖(F − P(F − t∇f))/t‖²."""


@dataclass(frozen=True)
class Variable:
    """The factor that moves: H_L (`codes`), or W_level."""

    level: int
    codes: bool
    penalty: Penalty
    unit_columns: bool = False
    signed: bool = False
    """Entries may be negative (Semi-NMF's weights)."""

    def value(self, chain: Chain) -> Array:
        """F."""
        return chain.codes[-1] if self.codes else chain.weights[self.level - 1]

    def gradient(self, chain: Chain) -> Array:
        """∇f(F), penalty included."""
        fit = chain.gradient_codes() if self.codes else chain.gradient_weights(self.level)
        return fit + self.penalty.gradient(self.value(chain)) if self.penalty.active else fit

    def response(self, chain: Chain, D: Array) -> Array:
        """The change of A_level when F changes by D."""
        if self.codes:
            return matmul(chain.weights[-1], D)
        return matmul(D, chain.codes[self.level - 1])

    def moved(self, chain: Chain, F: Array) -> Chain:
        """The pass with F in place."""
        if self.codes:
            return chain.replaced(self.level, matmul(chain.weights[-1], F), H=F)
        return chain.replaced(self.level, matmul(F, chain.codes[self.level - 1]), weights=F)

    def project(self, F: Array) -> Array:
        """The nearest feasible factor."""
        return F if self.signed else nearest(F, self.unit_columns)

    def dots(self, U: Array, V: Array) -> Array:
        """⟨u, v⟩ for every problem: one per sample for H_L, one per run for W_l."""
        return column_dots(U, V) if self.codes else scalars(inner(U, V), U)

    def all_dots(self, pairs: Sequence[tuple[Array, Array]]) -> list[Array]:
        """`dots` of several pairs, in one pass over the samples."""
        if self.codes:
            return [column_dots(U, V) for U, V in pairs]
        like = pairs[0][0]
        return [scalars(value, like) for value in inner_products(pairs)]

    def change(self, chain: Chain, moved: Chain) -> Array:
        """How much f changes from one pass to another that differs in F, for every problem."""
        change = self.dots((chain.G + moved.G) / 2, moved.codes[0] - chain.codes[0])
        if not self.penalty.active:
            return change
        F, F_moved = self.value(chain), self.value(moved)
        return change + self.dots(F_moved - F, self.penalty.gradient((F + F_moved) / 2))

    def first_step(self, F: Array, gradient: Array) -> Array:
        """The first step size, for a step of a tenth of the size of F."""
        xp = namespace(F)
        size, slope = self.dots(F, F), self.dots(gradient, gradient)
        return xp.clip(0.1 * xp.sqrt(divisor(size) / divisor(slope)), *STEP_RANGE)


class Taken(NamedTuple):
    """The pass after several steps, the next step size, and the first gradient mapping."""

    chain: Chain
    t: Array
    mapping: Array
    """Per run."""


def steps(chain: Chain, variable: Variable, t: Array | None) -> Taken:
    """The gradient steps of one factor in a sweep: `STEPS` of them."""
    chain, t, first = step(chain, variable, t)
    for _ in range(STEPS - 1):
        chain, t, _ = step(chain.settled(), variable, t)
    return Taken(chain.settled(), t, per_run(first))


def step(chain: Chain, variable: Variable, t: Array | None) -> Stepped:
    """One step of every problem; none raises f."""
    F, gradient = variable.value(chain), variable.gradient(chain)
    t = variable.first_step(F, gradient) if t is None else t
    D = variable.project(F - t * gradient) - F
    mapping = variable.dots(D, D) / (t * t)
    B = variable.response(chain, D)
    expansion = chain.link.expansion(chain.A[0], B) if variable.level == 2 else None
    if expansion is not None:
        moved, following = _exact(chain, variable, F, D, B, expansion, t)
    else:
        moved, following = _armijo(chain, variable, F, gradient, t)
    # A factor that cannot move says nothing about step sizes.
    xp = namespace(F)
    following = xp.clip(xp.where(mapping > 0, following, t), *STEP_RANGE)
    return Stepped(moved, following, mapping)


def _exact(
    chain: Chain,
    variable: Variable,
    F: Array,
    D: Array,
    B: Array,
    expansion: tuple[Array, Array],
    t: Array,
) -> tuple[Chain, Array]:
    """The lowest point of f along F + sD, 0 ≤ s ≤ 1.

    Not beyond 1, though more may be feasible: how much more would depend on the rounding of entries
    that have just reached 0. Longer steps come from t.
    """
    xp = namespace(F)
    dots = variable.dots
    U1, U2 = expansion
    MU1, MU2 = matmul(chain.M, U1), matmul(chain.M, U2)
    c1, c2, c3, c4 = _coefficients(variable, chain.G, U1, U2, MU1, MU2)
    if variable.penalty.active:
        c1 = c1 + dots(D, variable.penalty.gradient(F))
        c2 = c2 + dots(D, variable.penalty.quadratic.gradient(D)) / 2
    s = minimise_quartic((c1, c2, c3, c4), xp.ones_like(c1))
    fused = fused_kernels(chain.G)
    if fused is not None and F.dtype == xp.float32:
        A, G = fused.along(chain.A[0], B, chain.G, MU1, MU2, s)
    else:
        A, G = positive(chain.A[0] + s * B), chain.G + s * MU1 + s * s * MU2
    F = positive(F + s * D)
    moved = chain.stepped(variable.level, variable.codes, F, A, G)
    # Aim at a step that is taken in full. A step that was not taken was too long.
    factor = xp.where(s > 0, xp.clip(2 * s, 0.25, None), 0.25 * xp.ones_like(s))
    return moved, t * factor


def _coefficients(
    variable: Variable, G: Array, U1: Array, U2: Array, MU1: Array, MU2: Array
) -> tuple[Array, Array, Array, Array]:
    """c_1 … c_4 of the fit along the step, for every problem."""
    fused = fused_kernels(G)
    if fused is not None and G.dtype == namespace(G).float32:
        sums = fused.column_sums(G, U1, U2, MU1, MU2)
        if not variable.codes:
            xp = namespace(G)
            sums = xp.astype(xp.sum(sums, axis=-1, keepdims=True, dtype=xp.float64), G.dtype)
        c1, c2, c3, c4 = (sums[..., [index], :] for index in range(4))
        return c1, c2, c3, c4
    pairs = ((G, U1), (G, U2), (U1, MU1), (U1, MU2), (U2, MU2))
    GU1, GU2, first, mixed, second = variable.all_dots(pairs)
    return GU1, GU2 + first / 2, mixed, second / 2


def _armijo(
    chain: Chain,
    variable: Variable,
    F: Array,
    gradient: Array,
    t: Array,
) -> tuple[Chain, Array]:
    """The first of t, t/2, t/4, … that lowers f by σ⟨∇f, step⟩; the next step uses its pass."""
    xp = namespace(F)
    best, size = chain, t
    waiting = xp.ones_like(t) > 0
    first = None
    for trial in range(TRIALS):
        F_trial = variable.project(F - size * gradient)
        passed = variable.moved(chain, F_trial)
        change = variable.change(chain, passed)
        enough = change <= SIGMA * variable.dots(gradient, F_trial - F)
        take = waiting & enough & (change <= 0)
        best = passed.merged(take, best)
        if trial == 0:
            first = take
        waiting = waiting & ~take
        if not bool(xp.any(waiting)):
            break
        size = xp.where(waiting, size / 2, size)
    # A step that was accepted at once may be longer next time.
    return best, xp.where(first, 2 * size, size)
