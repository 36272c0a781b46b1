"""One sweep over the factors of X ≈ W_1 φ(W_2 φ(… φ(W_L H_L))).

H_L first, then W_L … W_2, by projected gradient steps through the layers; then W_1, a quadratic,
by the solver of the linear models. A sweep reads X twice: for W_1ᵀX, and for X H̃_1ᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from deepnmf.arrays import (
    Array,
    Dense,
    Recipe,
    ahead,
    choose,
    choose_each,
    gram,
    inner,
    is_blocked,
    namespace,
    over_samples,
    pass_over,
    transposed_product,
)
from deepnmf.core.chain import Chain
from deepnmf.core.decode import first_codes
from deepnmf.core.graph import Pulled
from deepnmf.core.line_search import Variable, steps
from deepnmf.core.linear import fit_of_sums
from deepnmf.core.passes import add_up
from deepnmf.core.refine import encode_through
from deepnmf.core.revival import count_dead, revive
from deepnmf.core.stage import Stage
from deepnmf.links import Link
from deepnmf.solvers.base import SolverMemory
from deepnmf.solvers.quadratic import weights_problem


@dataclass(frozen=True)
class NonlinearFactors:
    """The factors of all layers between two sweeps of fine-tuning."""

    weights: tuple[Array, ...]
    H: Array
    fit: Array
    """½‖X − X̂‖² per run."""
    memories: tuple[SolverMemory, ...]
    """The solver's memory of W_1, the step sizes of W_2 … W_L and of H_L."""
    residual: Array
    """As in linear models: Σ_F ‖F‖²‖gradient mapping‖² over all factors, each before its update."""

    @cached_property
    def first_gram(self) -> Array:
        """W_1ᵀW_1: for the fit, and again for the next sweep."""
        return gram(self.weights[0])

    @property
    def used(self) -> Array:
        """Which rows of H have an entry > 0."""
        return namespace(self.H).max(self.H, axis=-1) > 0

    def kept(self, active: Array, before: NonlinearFactors) -> NonlinearFactors:
        """These factors for the runs that continue, `before` for those that have stopped."""
        keep = active[..., None, None]
        return replace(
            self,
            weights=choose_each(keep, self.weights, before.weights),
            H=choose(keep, self.H, before.H),
            fit=choose(active, self.fit, before.fit),
        )


@dataclass(frozen=True)
class NonlinearStage(Stage[NonlinearFactors]):
    """X̂ = W_1 φ(W_2 … φ(W_L H)): the fine-tuning of all layers."""

    link: Link

    @property
    def patience(self) -> int:
        return 3

    def begin(self, weights: Sequence[Array], H: Array) -> NonlinearFactors:
        """The factors that fine-tuning starts from."""
        fixed, H, _ = self.scaling.fix_weights(weights, H, None)
        fixed, H = self.scaling.fix_rows(fixed, H)
        memories = (None,) * (len(fixed) + 1)
        nothing = inner(H, 0 * H)
        return NonlinearFactors(fixed, H, nothing, memories, nothing)

    def sweep(self, factors: NonlinearFactors) -> NonlinearFactors:
        """Every factor once; none of the updates raises the objective."""
        depth = len(factors.weights)
        W1, memories = factors.weights[0], list(factors.memories)
        residual = 0 * factors.residual
        P = transposed_product(W1, self.X, by_rows=True)
        chain = Chain.forward(self.link, factors.weights, factors.H, factors.first_gram, P)
        codes = self._codes(chain)
        chain, memories[-1], mapping = _descend_codes(self.X, chain, codes, memories[-1])
        chain = chain.rescaled(*self.scaling.fix_rows(chain.weights, chain.codes[-1]))
        residual = residual + mapping
        for level in range(depth, 1, -1):
            variable = Variable(
                level,
                codes=False,
                penalty=self.penalties_W[level - 1],
                unit_columns=self.scaling.unit_columns[level - 1],
            )
            chain = revive(chain, variable)
            chain, memories[level - 1], mapping = _descend(chain, variable, memories[level - 1])
            residual = residual + mapping
        weights, H = chain.weights, chain.codes[-1]
        del chain
        # Anew: steps add their changes to what was there, which cancels where codes become tiny.
        first = first_codes(weights, self.link, H)
        S, Q = add_up(self.X, first)
        problem = weights_problem(None, S, Q, self.penalties_W[0], self.scaling.unit_columns[0])
        W1, memories[0], mapping = self.solver.update(problem, W1, memories[0])
        residual = residual + mapping * inner(weights[0], weights[0])
        moved = NonlinearFactors((W1, *weights[1:]), H, S, tuple(memories), residual)
        moved = replace(moved, fit=fit_of_sums(self.half_norm, W1, moved.first_gram, S, Q))
        if not any(self.scaling.unit_columns):
            return moved
        fixed, H, _ = self.scaling.fix_weights(moved.weights, H, None)
        return replace(moved, weights=fixed, H=H)

    def objective(self, factors: NonlinearFactors) -> tuple[Array, Array]:
        """f and its penalties, per run."""
        of_codes = over_samples(self.penalty_H.value, factors.H)
        penalty = of_codes + self.weights_penalty(factors.weights)
        if self.graph is not None:
            penalty = penalty + self.graph.value(factors.H)
        return factors.fit + penalty, penalty

    def beyond(
        self, now: NonlinearFactors, before: NonlinearFactors, beta: Dense
    ) -> NonlinearFactors:
        """The factors at F + β (F − F_before), made feasible."""
        weights = self.weights_beyond(now.weights, before.weights, beta)
        return replace(now, weights=weights, H=ahead(now.H, before.H, beta))

    def dead(self, factors: NonlinearFactors) -> Array:
        """Units of all layers that reach nothing, or that nothing reaches, per run."""
        return count_dead(self.link, factors.weights, factors.used)

    def _codes(self, chain: Chain) -> Variable:
        penalty = self.scaling.codes_penalty(
            self.penalty_H, self.penalties_W[-1], chain.weights[-1], self.X.shape[-1]
        )
        if self.graph is not None:
            penalty = Pulled(penalty, self.graph.pull(chain.codes[-1]))
        return Variable(chain.depth, codes=True, penalty=penalty)


def _descend(chain: Chain, variable: Variable, t: Array) -> tuple[Chain, Array, Array]:
    """A few steps of one factor, and ‖F‖² times its gradient mapping before them."""
    F = variable.value(chain)
    size = inner(F, F)
    chain, t, mapping = steps(chain, variable, t)
    return chain, t, mapping * size


def _descend_codes(
    X: Array, chain: Chain, variable: Variable, t: Array
) -> tuple[Chain, Array, Array]:
    """`_descend` for H_L. All steps of blocked codes are one pass."""
    if not is_blocked(X):
        return _descend(chain, variable, t)
    H = chain.codes[-1]
    # A lost block is encoded again.
    again = Recipe(encode_through, (X, chain.weights, chain.link, variable.penalty))
    passed = pass_over(
        _codes_of_block, chain.link, chain.weights, H, chain.M, chain.P, variable, t,
        rows=H.shape[0], sums=2, recipe=again,
    )  # fmt: skip
    mapping, size = passed.sums
    moved = Chain.forward(chain.link, chain.weights, passed.stored, chain.M, chain.P)
    return moved, passed.collected, mapping * size


def _codes_of_block(
    link: Link,
    weights: Sequence[Array],
    H: Array,
    M: Array,
    P: Array,
    variable: Variable,
    t: Array,
) -> tuple[Array, Array, Array, Array]:
    """H_L and step sizes of a block after its steps, its gradient mapping before them, ‖H_L‖²."""
    chain, t, mapping = steps(Chain.forward(link, weights, H, M, P), variable, t)
    return chain.codes[-1], t, mapping, inner(H, H)
