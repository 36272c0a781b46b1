"""Multiplicative up-propagation (Ahn, Choi and Oh 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deepnmf.arrays import Array, gram, inner, namespace, transposed_product
from deepnmf.core.chain import Chain
from deepnmf.core.encoding import encode, layer_input, squared_error
from deepnmf.core.line_search import TRIALS, Variable
from deepnmf.core.passes import add_up
from deepnmf.core.revival import count_dead
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.links import Link
from deepnmf.models.baselines.base import (
    Layered,
    LeastSquares,
    State,
    multiply,
    ratio,
    stationarity,
)
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

    They never raise the objective of linear models. For other links the authors guarantee nothing,
    and the ratios are raised to a power where they overshoot,

        F ← F ∘ (N / M)^t,    t the first of 1, ½, ¼, … that does not raise the objective,

    for H_L in each sample and for W_2 … W_L. Such a t exists: log(N / M) points downhill.

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
        """H_L, then W_L … W_1."""
        depth, W = len(state.weights), state.weights[0]
        P = transposed_product(W, self.X)
        chain = Chain.forward(self.link, state.weights, state.H, gram(W), P)
        N, M = self._errors(chain, depth)
        if depth > 1:
            N, M = chain.weights[-1].mT @ N, chain.weights[-1].mT @ M
        chain, residual = _multiplied(chain, Variable(depth, codes=True, penalty=Zero()), N, M)
        for level in range(depth, 1, -1):
            N, M = self._errors(chain, level)
            codes = chain.codes[level - 1]
            variable = Variable(level, codes=False, penalty=Zero())
            chain, residual_W = _multiplied(chain, variable, N @ codes.mT, M @ codes.mT)
            residual = residual + residual_W
        sums = add_up(self.X, chain.codes[0])
        W, residual_W = multiply(chain.weights[0], sums.Q, chain.weights[0] @ sums.S)
        return State((W, *chain.weights[1:]), chain.codes[-1], residual + residual_W, sums)

    def squared_error(self, state: State) -> Array:
        """‖X − X̂‖²."""
        return squared_error(self.X, state.weights, self.link, state.H)

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


def _multiplied(chain: Chain, variable: Variable, N: Array, M: Array) -> tuple[Chain, Array]:
    """The pass with F ∘ (N / M)^t in place of F, and the stationarity of F before that."""
    F, factor = variable.value(chain), ratio(N, M)
    xp, residual = namespace(F), stationarity(F, M - N)
    passed = variable.moved(chain, F * factor)
    if chain.link.linear:
        return passed, residual
    falls = _falls(chain, passed, variable)
    best = passed.merged(falls, chain)
    for _ in range(TRIALS):
        if bool(xp.all(falls)):
            break
        factor = xp.sqrt(factor)
        passed = variable.moved(chain, F * factor)
        now = _falls(chain, passed, variable) & ~falls
        best, falls = passed.merged(now, best), falls | now
    return best, residual


def _falls(chain: Chain, passed: Chain, variable: Variable) -> Array:
    """Which problems fit no worse in `passed` than in `chain`."""
    return variable.dots((chain.G + passed.G) / 2, passed.codes[0] - chain.codes[0]) <= 0
