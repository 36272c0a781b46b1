"""Integrative NMF (Yang and Michailidis 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepnmf.arrays import (
    Array,
    added,
    gram,
    inner,
    precise_inner,
    product_transposed,
    squared_norm,
    transposed_product,
)
from deepnmf.core.stage import Descent
from deepnmf.models.baselines.base import State, multiply
from deepnmf.models.baselines.joint import Several, SeveralSets
from deepnmf.models.settings import number
from deepnmf.penalties import Zero
from deepnmf.solvers import Coordinate
from deepnmf.solvers.quadratic import codes_problem


@dataclass(eq=False, repr=False, kw_only=True)
class IntegrativeNMF(SeveralSets):
    """X_i ≈ W_i (H + V_i): codes H that all data sets share, and V_i of each its own,

        ½ Σ_i ‖X_i − W_i (H + V_i)‖² + ½ λ Σ_i ‖W_i V_i‖²,    all ≥ 0.

    λ sets how homogeneous the data sets are taken to be: with λ → ∞ it is `JointNMF`. What is a
    data set's own (its noise, its scale) goes to V_i instead of bending H. Multiplicative updates;
    none raises the objective.

    Parameters
    ----------
    n_components : int
    strength : float, default=1
        λ.
    shared : {"samples", "features"}
        What the data sets have in common; H and V_i are over that.
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    Attributes
    ----------
    codes_, components_ : as in `JointNMF`
    specific_ : dict
        V_iᵀ, over what is shared.

    References
    ----------
    Z. Yang, G. Michailidis, A non-negative matrix factorization method for detecting
    modules in heterogeneous omics multi-modal data, Bioinformatics 2016.
    """

    name = "integrative-nmf"
    purpose = "the same, with parts of their own"
    several = True

    strength: float = 1.0

    def transform(self, X: Several) -> Array:
        """The shared codes H of new samples (n_samples, k), from all data sets. shared="samples"
        only: where features are shared, codes are each data set's own."""
        check_is_fitted(self)
        if self.shared != "samples":
            raise ValueError('transform: with shared="features" there are no shared codes.')
        names, sets = self._opened(X)
        if names != self.names_:
            raise ValueError(f"transform: data sets {names} given, {self.names_} fitted.")
        bases = [self.components_[name].T for name in names]
        for name, W, one in zip(names, bases, sets, strict=True):
            if W.shape[0] != one.shape[0]:
                raise ValueError(
                    f"transform: data set {name!r} has {one.shape[0]} features, {W.shape[0]} were "
                    "fitted."
                )
        # Convex in (H, V_1, …) together: one least squares problem of their blocks.
        grams = [np.asarray(gram(W)) for W in bases]
        crosses = [transposed_product(W, one) for W, one in zip(bases, sets, strict=True)]
        strength = float(self.strength)
        rows = [[np.sum(grams, axis=0), *grams]]
        for i, G in enumerate(grams):
            own = [(1 + strength) * G if j == i else 0 * G for j in range(len(grams))]
            rows.append([G, *own])
        problem = codes_problem(np.block(rows), np.concatenate([added(crosses), *crosses]), Zero())
        blocks = Coordinate(max_passes=2000, tol=1e-12).update(problem, 0 * problem.C).F
        return blocks[: self.codes_.shape[1]].T

    def _problem(self, names: list[Any], sets: tuple[Array, ...]) -> Integrative:
        del names
        return Integrative(sets[0], sets, number("strength", self.strength))

    def _keep(self, names: list[Any], state: State) -> None:
        super()._keep(names, state)
        self.specific_ = {name: V.T for name, V in zip(self.names_, state.memories, strict=True)}


@dataclass(frozen=True)
class Integrative(Descent):
    """The objective of `IntegrativeNMF`; the V_i are the memories."""

    sets: tuple[Array, ...]
    strength: float

    @property
    def half_norm(self) -> Array:  # type: ignore[override]
        """½ Σ_i ‖X_i‖²."""
        return added(squared_norm(one) for one in self.sets) / 2

    def begin(self, weights: Sequence[Array], H: Array) -> State:
        """The start, a tenth of the codes each data set's own."""
        return State(
            tuple(weights), 0.9 * H, inner(H, 0 * H), None, tuple(0.1 * H for _ in weights)
        )

    def sweep(self, state: State) -> State:
        """H, then V_i and W_i of every data set."""
        weights, Vs, H = list(state.weights), list(state.memories), state.H
        grams = [gram(W) for W in weights]
        crosses = [transposed_product(W, one) for W, one in zip(weights, self.sets, strict=True)]
        below = added(G @ (H + V) for G, V in zip(grams, Vs, strict=True))
        H, residual = multiply(H, added(crosses), below)
        for i, one in enumerate(self.sets):
            below = grams[i] @ (H + (1 + self.strength) * Vs[i])
            Vs[i], found = multiply(Vs[i], crosses[i], below)
            residual = residual + found
            K = H + Vs[i]
            S = gram(K.mT) + self.strength * gram(Vs[i].mT)
            weights[i], found = multiply(weights[i], product_transposed(one, K), weights[i] @ S)
            residual = residual + found
        return State(tuple(weights), H, residual, None, tuple(Vs))

    def objective(self, state: State) -> tuple[Array, Array]:
        """f, and the part of it that is the price of what is not shared."""
        fit, penalty = self.half_norm, 0.0 * self.half_norm
        for W, V, one in zip(state.weights, state.memories, self.sets, strict=True):
            K, G = state.H + V, gram(W)
            fit = fit - precise_inner(product_transposed(one, K), W)
            fit = fit + precise_inner(G, gram(K.mT)) / 2
            penalty = penalty + self.strength * precise_inner(G, gram(V.mT)) / 2
        return fit + penalty, penalty

    def dead(self, state: State) -> Array:
        """Rows of H without an entry > 0."""
        return np.sum(~state.used)
