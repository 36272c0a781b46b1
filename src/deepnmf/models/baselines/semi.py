"""Semi-NMF (Ding, Li and Jordan 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deepnmf.arrays import (
    Array,
    absolute,
    at_least,
    choose,
    epsilon,
    eye,
    gram,
    inner,
    is_sparse,
    namespace,
    positive,
    precise_inner,
    product_transposed,
    to_double,
    transposed_product,
)
from deepnmf.core.passes import Sums, nonnegative_least_squares
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.models.baselines.base import (
    LeastSquares,
    SingleLayer,
    State,
    layer_start,
    stationarity,
)
from deepnmf.penalties import Zero
from deepnmf.starts import Generators, Given


@dataclass(eq=False, repr=False, kw_only=True)
class SemiNMF(SingleLayer):
    """X ≈ W H with H ≥ 0 and W of any sign: ½‖X − WH‖². X may have negative entries.

        W = X Hᵀ(HHᵀ)⁺,    H ← H ∘ √((A⁺ + B⁻H)/(A⁻ + B⁺H)),    A = WᵀX,  B = WᵀW,

    with Z⁺ = max(Z, 0) and Z⁻ = max(−Z, 0), entry by entry. Neither raises the objective. The
    start is from an SVD.

    Parameters
    ----------
    n_components : int
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    References
    ----------
    C. Ding, T. Li, M. Jordan, Convex and semi-nonnegative matrix factorizations, TPAMI
    2010.
    """

    name = "semi-nmf"
    purpose = "X of any sign: parts of any sign, codes ≥ 0"
    signed = True
    stacks = True

    def _train(self, X: Array, watch: Watch) -> Trained:
        start = self.start
        if isinstance(start, Given):
            _, H = self._first(X, watch.generators)
        else:
            H = first_codes_of(X, self._sizes()[0], watch.generators, start, self.fill)
        Q, R = in_span(X)
        problem = Signed(R)
        return lifted(self._descend(problem, problem.begin(H), watch), Q)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return nonnegative_least_squares(X, weights[0], Zero())


def in_span(X: Array) -> tuple[Array | None, Array]:
    """Q and R with X = QR and QᵀQ = I, where a dense X has many more features than samples; else
    None and X.

    The best weights of any sign, X Hᵀ(HHᵀ)⁻¹, lie in the span of the samples. With W = QV,
    ‖X − WH‖ = ‖R − VH‖: the same problem with as many rows as there are samples.
    """
    if is_sparse(X) or X.shape[-2] < 2 * X.shape[-1]:
        return None, X
    Q, R = namespace(X).linalg.qr(X)
    return Q, R


def lifted(trained: Trained, Q: Array | None) -> Trained:
    """What was trained on R, for X = QR."""
    if Q is None:
        return trained
    first, *others = trained.weights
    return replace(trained, weights=(Q @ first, *others))


def first_codes_of(X: Array, k: int, generators: Generators, start: Any, fill: Any) -> Array:
    """H ≥ 0 for an X of any sign: the codes that a start finds for |X|; the signs are W's."""
    return layer_start(start, fill).factors(absolute(X), k, generators)[1]


def least_squares_weights(sums: Sums, before: Array | None = None, caution: float = 1.0) -> Array:
    """W = X Hᵀ(HHᵀ)⁻¹, or, where HHᵀ has no inverse, a best W near the one before.

    The more caution, the smaller W: for what comes after it and would round too much.
    """
    return solved(sums.S, sums.Q, before, caution * epsilon(sums.Q))


def precise_sums(X: Array, H: Array) -> Sums:
    """The sums for given codes, HHᵀ in double precision: weights of any sign cancel, and its
    rounding would be multiplied by their squares."""
    return Sums(gram(to_double(H).mT), product_transposed(X, H))


REFINEMENTS = 3


def solved(S: Array, Q: Array, before: Array | None, rounding: float) -> Array:
    """W with W S = Q for S positive semidefinite, in double precision.

    With the rows of S at one scale, W ← W + (Q − WS)(S + δI)⁻¹ a few times: a step to the minimum
    of ½⟨WᵀW, S⟩ − ⟨W, Q⟩ + ½δ‖W − W_before‖², so none raises that objective. δ is what rounding
    makes of S; where S is smaller, W stays as it was.
    """
    xp = namespace(Q)
    double = to_double(S)
    norms = xp.sqrt(xp.linalg.diagonal(double))
    norms = xp.where(norms > 0, norms, xp.ones_like(norms))[..., None, :]
    scaled = double / norms / norms.mT
    target = to_double(Q) / norms
    W = 0 * target if before is None else to_double(before) * norms
    size = S.shape[-1]
    inverse = xp.linalg.inv(scaled + 10 * size * rounding * eye(size, scaled))
    for _ in range(REFINEMENTS):
        W = W + (target - W @ scaled) @ inverse
    return xp.astype(W / norms, Q.dtype, copy=False)


def better(new: Array, old: Array, sums: Sums, basis: Array | None = None) -> Array:
    """Of two W the one with the smaller ½‖X − ΨWH‖²: rounding can leave the new one behind."""
    values = []
    for W in (new, old):
        F = to_double(W if basis is None else basis @ W)
        values.append(precise_inner(gram(F), sums.S) / 2 - precise_inner(to_double(sums.Q), F))
    return choose((values[0] <= values[1])[..., None, None], new, old)


def semi_step(H: Array, A: Array, B: Array) -> tuple[Array, Array]:
    """H ∘ √((A⁺ + B⁻H)/(A⁻ + B⁺H)), and how far from stationary H was."""
    xp = namespace(H)
    tiny = float(xp.finfo(H.dtype).tiny) ** 0.5
    up, down = positive(B) @ H, positive(-B) @ H
    ratio = (positive(A) + down) / at_least(positive(-A) + up, tiny)
    return H * xp.sqrt(ratio), stationarity(H, up - down - A)


@dataclass(frozen=True)
class Signed(LeastSquares):
    """½‖X − WH‖² over W of any sign and H ≥ 0."""

    def begin(self, H: Array) -> State:
        """Codes, and the weights that fit them best."""
        sums = precise_sums(self.X, H)
        return State((least_squares_weights(sums),), H, inner(H, 0 * H), sums)

    def sweep(self, state: State) -> State:
        """The codes, then the weights, which so are the best for the codes."""
        (W,) = state.weights
        H, residual = semi_step(state.H, transposed_product(W, self.X), gram(W))
        sums = precise_sums(self.X, H)
        W = better(least_squares_weights(sums, W), W, sums)
        return State((W,), H, residual, sums)

    def dead(self, state: State) -> Array:
        """Rows of H without an entry > 0."""
        xp = namespace(state.H)
        return xp.sum(xp.astype(~state.used, xp.int64), axis=-1)
