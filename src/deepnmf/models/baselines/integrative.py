"""Integrative NMF (Yang and Michailidis 2016)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepnmf.arrays import (
    Array,
    added,
    gram,
    inner,
    precise_inner,
    product_transposed,
    transposed_product,
)
from deepnmf.models.baselines.base import State, multiply
from deepnmf.models.baselines.several import Several, SeveralSets, SharedCodes
from deepnmf.models.settings import number
from deepnmf.penalties import Zero
from deepnmf.solvers import Coordinate
from deepnmf.solvers.quadratic import codes_problem


@dataclass(eq=False, repr=False, kw_only=True)
class IntegrativeNMF(SeveralSets):
    """NMF of several data sets with shared codes H and a V_i for each set: X_i ≈ W_i (H + V_i).

        ½ Σ_i ‖X_i − W_i (H + V_i)‖² + ½ λ Σ_i ‖W_i V_i‖²,    all factors ≥ 0.

    V_i takes up what only data set i has, such as its noise and its scale, so that H does not have
    to. The larger λ, the more the data sets are taken to agree; λ → ∞ is `JointNMF`. The updates
    are multiplicative, and none raises the objective.

    Parameters
    ----------
    n_components : int, default=16
        The number of parts, k.
    strength : float, default=1
        λ, the price of what is not shared.
    shared : {"samples", "features"}, default="samples"
        What the data sets have in common; H and V_i have one column for each.
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    Attributes
    ----------
    codes_, components_ : as in `JointNMF`
    specific_ : dict
        V_iᵀ by data set.

    References
    ----------
    Z. Yang, G. Michailidis, A non-negative matrix factorization method for detecting
    modules in heterogeneous omics multi-modal data, Bioinformatics 2016.
    """

    name = "integrative-nmf"
    purpose = "joint NMF in which each data set has codes of its own"
    several = True

    strength: float = 1.0

    def check(self) -> None:
        super().check()
        number("strength", self.strength)

    def transform(self, X: Several) -> Array:
        """The shared codes H of new samples (n_samples, k), from all data sets.

        Only with shared="samples": where features are shared, no codes are.
        """
        check_is_fitted(self)
        if self.shared != "samples":
            raise ValueError('transform: with shared="features" there are no shared codes.')
        names, sets = self._opened(X)
        if names != self.names_:
            raise ValueError(f"transform: data sets {names} given, {self.names_} fitted.")
        bases = self._bases(names, sets)
        # One least squares problem for (H, V_1, …), in which the objective is convex.
        grams = [np.asarray(gram(W)) for W in bases]
        crosses = [transposed_product(W, X_i) for W, X_i in zip(bases, sets, strict=True)]
        rows = [[np.sum(grams, axis=0), *grams]]
        for i, G in enumerate(grams):
            diagonal = [
                (1 + float(self.strength)) * G if j == i else 0 * G for j in range(len(sets))
            ]
            rows.append([G, *diagonal])
        problem = codes_problem(np.block(rows), np.concatenate([added(crosses), *crosses]), Zero())
        blocks = Coordinate(max_passes=2000, tol=1e-12).update(problem, 0 * problem.C).F
        return blocks[: self.codes_.shape[1]].T

    def _problem(self, names: list[Hashable], sets: tuple[Array, ...]) -> Integrative:
        del names
        return Integrative(sets[0], sets, float(self.strength))

    def _keep(self, names: list[Hashable], state: State) -> None:
        super()._keep(names, state)
        self.specific_ = {name: V.T for name, V in zip(names, state.memories, strict=True)}


@dataclass(frozen=True)
class Integrative(SharedCodes):
    """The objective of `IntegrativeNMF`. The memories are the V_i."""

    strength: float

    def begin(self, weights: Sequence[Array], H: Array) -> State:
        """Every V_i starts with a tenth of the codes."""
        Vs = tuple(0.1 * H for _ in weights)
        return State(tuple(weights), 0.9 * H, inner(H, 0 * H), None, Vs)

    def sweep(self, state: State) -> State:
        """H, then V_i and W_i of every data set."""
        weights, Vs, H = list(state.weights), list(state.memories), state.H
        grams = [gram(W) for W in weights]
        crosses = [transposed_product(W, X) for W, X in zip(weights, self.sets, strict=True)]
        below = added(G @ (H + V) for G, V in zip(grams, Vs, strict=True))
        H, residual = multiply(H, added(crosses), below)
        for i, X in enumerate(self.sets):
            below = grams[i] @ (H + (1 + self.strength) * Vs[i])
            Vs[i], stationary_V = multiply(Vs[i], crosses[i], below)
            K = H + Vs[i]
            S = gram(K.mT) + self.strength * gram(Vs[i].mT)
            weights[i], stationary_W = multiply(
                weights[i], product_transposed(X, K), weights[i] @ S
            )
            residual = residual + stationary_V + stationary_W
        return State(tuple(weights), H, residual, None, tuple(Vs))

    def objective(self, state: State) -> tuple[Array, Array]:
        """f, and the price of what is not shared."""
        fit, penalty = self.half_norm, 0.0 * self.half_norm
        for W, V, X in zip(state.weights, state.memories, self.sets, strict=True):
            K, G = state.H + V, gram(W)
            fit = fit - precise_inner(product_transposed(X, K), W)
            fit = fit + precise_inner(G, gram(K.mT)) / 2
            penalty = penalty + self.strength * precise_inner(G, gram(V.mT)) / 2
        return fit + penalty, penalty
