"""Multiplicative up-propagation (Ahn, Choi and Oh 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepnmf.arrays import Array, gram, inner, transposed_product
from deepnmf.core.chain import Chain
from deepnmf.core.encoding import encode, layer_input
from deepnmf.core.passes import add_up
from deepnmf.core.revival import count_dead
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.links import Link
from deepnmf.models.baselines.base import Layered, LeastSquares, State, multiply
from deepnmf.penalties import Zero
from deepnmf.starts import Random


@dataclass(eq=False, repr=False, kw_only=True)
class UpPropagationNMF(Layered):
    """NMF in layers, X ≈ W_1 φ(W_2 … φ(W_L H_L)), with all layers fitted together from the start.

    All factors are ≥ 0 and start at random. As φ increases, the gradient of every factor is the
    difference of two nonnegative terms, one from X and one from X̂. They are propagated up,

        N_1 = W_1ᵀX,  M_1 = W_1ᵀX̂,    N_l = W_lᵀ(N_{l−1} ∘ φ′(A_l)),  M_l likewise,

    and give the updates

        W_l ← W_l ∘ (N_{l−1} ∘ φ′(A_l))H̃_lᵀ / (M_{l−1} ∘ φ′(A_l))H̃_lᵀ,    H_L ← H_L ∘ N_L / M_L.

    They never raise the objective of linear models. For other links the authors guarantee nothing:
    a sweep that would raise the objective is not taken, and ends the fit.

    Parameters
    ----------
    layer_sizes : tuple of int, default=(64, 16)
        The number of parts in each layer, from the data up: (k_1, …, k_L).
    link : "identity", "root", "tanh", "sigmoid", "softplus" or Link, default="identity"
        The function between layers.
    max_iter, tol, callback, random_state : as in `DeepNMF`

    References
    ----------
    J.-H. Ahn, S. Choi, J.-H. Oh, A multiplicative up-propagation algorithm, ICML 2004.
    """

    name = "up-propagation-nmf"
    purpose = "all layers at once, from random"

    max_iter: int = 1000

    def _train(self, X: Array, watch: Watch) -> Trained:
        link, data, H = self._link(), X, X
        weights: list[Array] = []
        # Random factors, scaled in each layer to its input.
        for layer, size in enumerate(self._sizes()):
            if layer:
                weights[-1], data = layer_input(link, weights[-1], H)
            W, H = Random().factors(data, size, watch.generators)
            weights.append(W)
        problem = UpPropagation(X, link)
        return self._descend(problem, problem.begin(weights, H), watch)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return encode(X, weights, self._link(), (Zero(),) * len(weights))


@dataclass(frozen=True)
class UpPropagation(LeastSquares):
    """½‖X − X̂‖², every factor by a multiplicative update."""

    link: Link

    def begin(self, weights: Sequence[Array], H: Array) -> State:
        """The factors that training starts from."""
        return State(tuple(weights), H, inner(H, 0 * H))

    def sweep(self, state: State) -> State:
        """H_L, then W_L … W_1. With a link, only if that does not raise the objective."""
        moved = self._moved(state)
        if self.link.linear or state.sums is None:
            return moved
        rose = self.objective(moved)[0] > self.objective(state)[0]
        return replace(state, residual=moved.residual) if bool(rose) else moved

    def _moved(self, state: State) -> State:
        depth, residual = len(state.weights), 0 * state.residual
        W = state.weights[0]
        P = transposed_product(W, self.X)
        chain = Chain.forward(self.link, state.weights, state.H, gram(W), P)
        N, M = self._errors(chain, depth)
        if depth > 1:
            N, M = chain.weights[-1].mT @ N, chain.weights[-1].mT @ M
        H, residual_H = multiply(state.H, N, M)
        residual = residual + residual_H
        chain = chain.replaced(depth, chain.weights[-1] @ H, H=H)
        for level in range(depth, 1, -1):
            N, M = self._errors(chain, level)
            codes = chain.codes[level - 1]
            W, residual_W = multiply(chain.weights[level - 1], N @ codes.mT, M @ codes.mT)
            residual = residual + residual_W
            chain = chain.replaced(level, W @ codes, weights=W)
        sums = add_up(self.X, chain.codes[0])
        W, residual_W = multiply(chain.weights[0], sums.Q, chain.weights[0] @ sums.S)
        return State((W, *chain.weights[1:]), H, residual + residual_W, sums)

    def dead(self, state: State) -> Array:
        """The number of units, in all layers, that have no effect on X̂."""
        return count_dead(self.link, state.weights, state.used)

    @staticmethod
    def _errors(chain: Chain, level: int) -> tuple[Array, Array]:
        """N_{level−1} ∘ φ′(A_level) and M_{level−1} ∘ φ′(A_level); at level 1 N_1 and M_1."""
        N, M = chain.P, chain.P + chain.G
        if level == 1:
            return N, M
        return chain.error(level, N), chain.error(level, M)
