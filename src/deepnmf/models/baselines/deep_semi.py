"""Deep Semi-NMF (Trigeorgis, Bousmalis, Zafeiriou and Schuller 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepnmf.arrays import (
    Array,
    choose,
    epsilon,
    gram,
    inner,
    namespace,
    to_double,
    transposed_product,
)
from deepnmf.core.chain import Chain
from deepnmf.core.decode import product
from deepnmf.core.encoding import encode, layer_input, signed_squared_error
from deepnmf.core.line_search import Variable, steps
from deepnmf.core.loop import descend
from deepnmf.core.passes import Sums
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.links import LINKS, Link
from deepnmf.models.baselines.base import Layered, State, layer_start
from deepnmf.models.baselines.semi import (
    Signed,
    better,
    first_codes_of,
    in_span,
    least_squares_weights,
    lifted,
    precise_sums,
    semi_step,
    solved,
    square_root,
)
from deepnmf.models.settings import MOST, whole_number
from deepnmf.penalties import Zero
from deepnmf.starts import Start


@dataclass(eq=False, repr=False, kw_only=True)
class DeepSemiNMF(Layered):
    """Semi-NMF in layers: X ≈ W_1 φ(W_2 … φ(W_L H_L)) with H_L ≥ 0 and W_l of any sign.

    X may have negative entries. Each layer is first fitted with `SemiNMF`, where the input of layer
    l is g(H_{l−1}). Then all layers are fitted together:

    - with the identity link, W_l = Ψ_{l−1}⁺ X H̃_l⁺ from the bottom up, then the update of
      `SemiNMF` for H_L with Ψ_L;
    - with another link, W_1 by least squares, and W_2 … W_L and H_L by gradient steps.

    No sweep raises ½‖X − X̂‖².

    Parameters
    ----------
    layer_sizes : tuple of int, default=(64, 16)
        The number of parts in each layer, from the data up: (k_1, …, k_L).
    link : "identity", "tanh", "sigmoid", "softplus" or Link, default="identity"
        The function between layers. It must accept negative numbers.
    start, fill : as in `DeepNMF`
        The codes that each layer starts from.
    pretrain_iter : int, default=500
        The most sweeps per layer before all are fitted together.
    max_iter, tol, callback, random_state : as in `DeepNMF`

    References
    ----------
    G. Trigeorgis et al., A deep Semi-NMF model for learning hidden representations,
    ICML 2014.
    """

    name = "deep-semi-nmf"
    purpose = "Semi-NMF in layers, fitted together"
    signed = True
    stacks = True

    start: str | Start = "nnsvd"
    fill: str | float = "random"
    pretrain_iter: int = 500

    def _sizes(self) -> tuple[int, ...]:
        layer_start(self.start, self.fill)
        whole_number("pretrain_iter", self.pretrain_iter, least=0, most=MOST)
        if not self._link().signed:
            signed = ", ".join(f'"{name}"' for name, link in LINKS.items() if link.signed)
            raise ValueError(
                f"link: {type(self._link()).__name__} is for nonnegative weights. For weights of "
                f"any sign use {signed}, or your own link with signed = True."
            )
        return super()._sizes()

    def _train(self, X: Array, watch: Watch) -> Trained:
        link, H = self._link(), X
        Q, R = in_span(X)
        weights: list[Array] = []
        for layer, size in enumerate(self._sizes(), 1):
            data = H
            if layer > 1:
                weights[-1], data = layer_input(link, weights[-1], H)
            codes = first_codes_of(data, size, watch.generators, self.start, self.fill)
            problem = Signed(R if layer == 1 else data)
            state = descend(
                problem, problem.begin(codes), self.tol, self.pretrain_iter, watch,
                stage_name="pretrain", layer=layer,
            ).factors  # fmt: skip
            weights.append(state.weights[0])
            H = state.H
        straight = link.linear or len(weights) == 1
        all_layers = SignedLayers(R) if straight else SignedThrough(R, link)
        return lifted(self._descend(all_layers, all_layers.begin(weights, H), watch), Q)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return encode(X, weights, self._link(), (Zero(),) * len(weights))


@dataclass(frozen=True)
class SignedLayers(Signed):
    """½‖X − W_1 … W_L H_L‖² over W_l of any sign and H_L ≥ 0."""

    def begin(self, weights: Sequence[Array], H: Array) -> State:  # type: ignore[override]
        """The factors that pre-training left."""
        return State(tuple(weights), H, inner(H, 0 * H), precise_sums(self.X, H))

    def sweep(self, state: State) -> State:
        """W_1 … W_L, each the best for the others as they are, then the codes.

        With B_l = W_{l+1} … W_L and S = RRᵀ, the sums of H̃_l follow from those of H_L:
        H̃_lH̃_lᵀ = (B_lR)(B_lR)ᵀ and X H̃_lᵀ = Q B_lᵀ.
        """
        assert state.sums is not None
        weights = list(state.weights)
        by_layer = [state.sums]
        R = square_root(state.sums.S)
        for W in reversed(weights[1:]):
            R = to_double(W) @ R
            by_layer.insert(0, Sums(gram(R.mT), by_layer[0].Q @ W.mT))
        basis = None
        for layer, sums in enumerate(by_layer):
            W = weights[layer]
            if basis is None:
                best = least_squares_weights(sums, W)
            else:  # Ψ⁺ X H̃⁺
                target = basis.mT @ least_squares_weights(sums, basis @ W)
                best = solved(gram(basis), target.mT, W.mT, epsilon(W)).mT
            weights[layer] = better(best, W, sums, basis)
            basis = weights[layer] if basis is None else basis @ weights[layer]
        assert basis is not None
        H, residual = semi_step(state.H, transposed_product(basis, self.X), gram(basis))
        return State(tuple(weights), H, residual, precise_sums(self.X, H))

    def basis(self, state: State) -> Array:
        """Ψ_L."""
        return product(state.weights)


@dataclass(frozen=True)
class SignedThrough(Signed):
    """½‖X − W_1 φ(W_2 … φ(W_L H_L))‖² over W_l of any sign and H_L ≥ 0."""

    link: Link

    def begin(self, weights: Sequence[Array], H: Array) -> State:  # type: ignore[override]
        """The factors that pre-training left, with the best W_1 for them."""
        memories = (None,) * len(weights)
        return self._with_first(State(tuple(weights), H, inner(H, 0 * H), None, memories), None)

    def sweep(self, state: State) -> State:
        """H_L, then W_L … W_2 by gradient steps, then W_1 by least squares."""
        weights, memories = state.weights, list(state.memories)
        chain = self._chain(state)
        residual = inner(state.H, 0 * state.H)
        depth = len(weights)
        for level in (depth, *range(depth, 1, -1)):
            codes = level == depth and chain.codes[-1] is state.H
            variable = Variable(level, codes=codes, penalty=Zero(), signed=not codes)
            place = 0 if codes else level - 1
            chain, memories[place], mapping = steps(chain, variable, memories[place])
            if codes:
                residual = residual + mapping * inner(state.H, state.H)
        moved = replace(
            state,
            weights=chain.weights,
            H=chain.codes[-1],
            residual=residual,
            memories=tuple(memories),
        )
        return self._with_first(moved, chain.codes[0])

    def _chain(self, state: State) -> Chain:
        W = state.weights[0]
        P = transposed_product(W, self.X)
        return Chain.forward(self.link, state.weights, state.H, gram(W), P)

    def _with_first(self, state: State, first: Array | None) -> State:
        """W_1 = X H̃_1⁺, and the sums for H̃_1."""
        first = self._chain(state).codes[0] if first is None else first
        sums = precise_sums(self.X, first)
        before = state.weights[0]
        caution = before.shape[-1]
        best = least_squares_weights(sums, before, caution)
        error = self._error((best,), first)
        W = self._lower(best, error, before, first)
        if bool(namespace(error).any(error > 2 * self.half_norm)):
            # Worse than no weights at all: the ones before are too large to start from.
            fresh = least_squares_weights(sums, None, caution)
            W = self._lower(fresh, self._error((fresh,), first), W, first)
        return replace(state, weights=(W, *state.weights[1:]), sums=sums)

    def _lower(self, new: Array, error: Array, old: Array, first: Array) -> Array:
        """W_1 with the smaller error; `error` is that of the new one."""
        return choose((error <= self._error((old,), first))[..., None, None], new, old)

    def objective(self, state: State) -> tuple[Array, Array]:
        """½‖X − X̂‖². W_1 can be so large that sums would cancel."""
        fit = self._error(state.weights, state.H) / 2
        return fit, 0 * fit

    def _error(self, weights: Sequence[Array], H: Array) -> Array:
        return signed_squared_error(self.X, weights, self.link, H)
