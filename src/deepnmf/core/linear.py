"""One sweep over the factors of a linear model, X ≈ W_1 … W_L H_L, in the efficient order.

S = H_L H_Lᵀ and Q = X H_Lᵀ serve all weights of a sweep: with B_l = W_{l+1} … W_L,

    H̃_l H̃_lᵀ = B_l S B_lᵀ,    X H̃_lᵀ = Q B_lᵀ,

so H̃_l and X − ΨH are never computed, a sweep reads X twice, and the cost of updating the weights
does not grow with the number of samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from deepnmf.arrays import (
    Array,
    Dense,
    ahead,
    choose,
    choose_each,
    gram,
    inner,
    matmul,
    namespace,
    positive,
    precise_inner,
    scalars,
    trace,
)
from deepnmf.core.decode import product
from deepnmf.core.passes import Sums, add_up, update_codes
from deepnmf.core.stage import Stage
from deepnmf.solvers.base import SolverMemory
from deepnmf.solvers.quadratic import weights_problem
from deepnmf.starts import best_scale


@dataclass(frozen=True)
class Factors:
    """Where a stage of training stands."""

    weights: tuple[Array, ...]
    H: Array
    sums: Sums
    memories: tuple[SolverMemory, ...]
    """The solver's memories of each W_l, and last of H."""
    residual: Array
    """Σ_F ‖F‖²‖LC(F − P(F − ∇f/LC))‖² over all factors, each before its update.

    Zero exactly at a KKT point. The factor ‖F‖² makes it independent of the scale (W → W/c, H → cH
    would change the residual without it), and gives it the unit of the objective, squared."""

    @cached_property
    def basis(self) -> Array:
        """Ψ_L."""
        return product(self.weights)

    @cached_property
    def basis_gram(self) -> Array:
        """Ψ_LᵀΨ_L: for the objective, and again for the next codes."""
        return gram(self.basis)

    @property
    def used(self) -> Array:
        """Which rows of H have an entry > 0: S_ii = ‖h_i‖²."""
        return namespace(self.H).linalg.diagonal(self.sums.S) > 0

    def kept(self, active: Array, before: Factors) -> Factors:
        """These factors for the runs that continue, `before` for those that have stopped."""
        keep = active[..., None, None]
        return replace(
            self,
            weights=choose_each(keep, self.weights, before.weights),
            H=choose(keep, self.H, before.H),
            sums=Sums(*choose_each(keep, self.sums, before.sums)),
        )

    def without_products(self) -> Factors:
        """These factors without X Hᵀ, which is as large as W_1."""
        S = self.sums.S
        return replace(self, sums=Sums(S, S[..., :0, :]))


@dataclass(frozen=True)
class LinearStage(Stage[Factors]):
    """X̂ = W_1 … W_L H: one layer of pre-training (L = 1, X the codes of the layer below) or the
    fine-tuning of all."""

    codes_first: bool
    """Pre-training updates the codes first, fine-tuning last, as in the paper."""
    rescaled: bool = False
    """Begin with W and H scaled to fit X best."""

    @property
    def recordable(self) -> bool:
        uniform = all(R.uniform is not None for R in (*self.penalties_W, self.penalty_H))
        free = not any(self.scaling.unit_columns) and self.graph is None
        return uniform and free and self.solver.recordable(self.X)

    def begin(self, weights: Sequence[Array], H: Array) -> Factors:
        """The factors that the stage starts from."""
        sums = add_up(self.X, H)
        if self.rescaled:
            (W,) = weights
            s = scalars(best_scale(inner(sums.Q, W), gram(W), sums.S), W)
            weights, H, sums = (s * W,), s * H, sums.rescaled(s)
        fixed, H, fixed_sums = self.scaling.fix_weights(weights, H, sums)
        fixed, H, sums = self.scaling.fix_codes(fixed, H, fixed_sums or sums)
        return Factors(
            fixed, H, sums, memories=(None,) * (len(fixed) + 1), residual=inner(H, 0 * H)
        )

    def sweep(self, factors: Factors) -> Factors:
        """Every factor once; none of the updates raises the objective."""
        nothing = 0 * factors.residual
        if self.codes_first:
            coded = self._update_codes(factors, nothing)
            return self.update_weights(coded, coded.residual)
        moved = self.update_weights(factors, nothing)
        return self._update_codes(moved, moved.residual)

    def objective(self, factors: Factors) -> tuple[Array, Array]:
        """f and its penalties per run, from the sums in double precision."""
        S, Q = factors.sums
        fit = fit_of_sums(self.half_norm, factors.basis, factors.basis_gram, S, Q)
        penalty = self.penalty_H.of_codes(factors.H, S) + self.weights_penalty(factors.weights)
        if self.graph is not None:
            penalty = penalty + self.graph.value(factors.H)
        return fit + penalty, penalty

    def beyond(self, now: Factors, before: Factors, beta: Dense) -> Factors:
        """The factors at F + β (F − F_before), made feasible.

        The sums are those of the codes before negative entries are set to 0: Q is linear in H, so
        that X is not needed.
        """
        weights = self.weights_beyond(now.weights, before.weights, beta)
        if self.codes_first:
            return replace(now, weights=weights, H=ahead(now.H, before.H, beta))
        H = now.H + beta * (now.H - before.H)
        Q = now.sums.Q + beta * (now.sums.Q - before.sums.Q)
        return replace(now, weights=weights, H=positive(H), sums=Sums(matmul(H, H.mT), Q))

    def slim(self, factors: Factors) -> Factors:
        """A sweep that begins with the codes needs no X Hᵀ."""
        return factors.without_products() if self.codes_first else factors

    def _update_codes(self, factors: Factors, residual: Array) -> Factors:
        penalty = self.scaling.codes_penalty(
            self.penalty_H, self.penalties_W[-1], factors.weights[-1], self.X.shape[-1]
        )
        H, sums, memory, mapping = update_codes(
            self.X, factors.H, factors.basis, factors.basis_gram, penalty, self.solver,
            factors.memories[-1], None if self.graph is None else self.graph.pull(factors.H),
        )  # fmt: skip
        weights, H, sums = self.scaling.fix_codes(factors.weights, H, sums)
        residual = residual + mapping * trace(factors.sums.S)
        return Factors(weights, H, sums, (*factors.memories[:-1], memory), residual)

    def update_weights(self, factors: Factors, residual: Array) -> Factors:
        """Every W once, from the sums only."""
        weights, memories = list(factors.weights), list(factors.memories)
        # Top down, from the weights as they were: S_l = H̃_l H̃_lᵀ and Q_l = X H̃_lᵀ.
        sums = [factors.sums]
        for W in reversed(weights[1:]):
            S, Q = sums[0]
            sums.insert(0, Sums(W @ S @ W.mT, matmul(Q, W.mT)))
        # Bottom up, each with the new weights below it: Ψ_{l-1} and its Gram matrix.
        basis = left = None
        for layer, ((S, Q), R) in enumerate(zip(sums, self.penalties_W, strict=True)):
            C = Q if basis is None else matmul(basis.mT, Q)
            problem = weights_problem(left, S, C, R, self.scaling.unit_columns[layer])
            size = inner(weights[layer], weights[layer])
            weights[layer], memories[layer], mapping = self.solver.update(
                problem, weights[layer], memories[layer]
            )
            residual = residual + mapping * size
            if layer + 1 < len(weights):
                basis = weights[layer] if basis is None else matmul(basis, weights[layer])
                left = gram(basis)
        fixed, H, rescaled = self.scaling.fix_weights(weights, factors.H, factors.sums)
        return Factors(fixed, H, rescaled or factors.sums, tuple(memories), residual)


def fit_of_sums(half_norm: Array, basis: Array, basis_gram: Array, S: Array, Q: Array) -> Array:
    """½‖X − ΨH‖² = ½‖X‖² − ⟨XHᵀ, Ψ⟩ + ½⟨ΨᵀΨ, HHᵀ⟩ per run, in double precision: it cancels."""
    fit = half_norm - precise_inner(Q, basis) + precise_inner(basis_gram, S) / 2
    # Rounding can make the fit of an exact factorization slightly negative.
    return namespace(fit).maximum(fit, 0 * fit)
