"""Semi-NMF (Ding, Li and Jordan 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepnmf.arrays import (
    Array,
    absolute,
    at_least,
    choose,
    eigh,
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
from deepnmf.core.encoding import signed_squared_error
from deepnmf.core.passes import Sums, nonnegative_least_squares
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.links import Identity
from deepnmf.models.baselines.base import (
    LeastSquares,
    SingleLayer,
    State,
    layer_start,
    stationarity,
)
from deepnmf.penalties import Zero
from deepnmf.starts import Generators, Given, Start


@dataclass(eq=False, repr=False, kw_only=True)
class SemiNMF(SingleLayer):
    """NMF for data of any sign: X ≈ W H with H ≥ 0 and W of any sign.

    Minimises ½‖X − WH‖² by

        W = X Hᵀ(HHᵀ)⁺,    H ← H ∘ √((A⁺ + B⁻H)/(A⁻ + B⁺H)),    A = WᵀX,  B = WᵀW,

    with Z⁺ = max(Z, 0) and Z⁻ = max(−Z, 0), entry by entry. Neither raises the objective. The
    codes start from those of |X|.

    Parameters
    ----------
    n_components : int, default=16
        The number of parts, k.
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
    """Q and R with X = QR and QᵀQ = I if a dense X has many more features than samples, otherwise
    None and X.

    The best weights of any sign, X Hᵀ(HHᵀ)⁻¹, lie in the span of the samples. With W = QV,
    ‖X − WH‖ = ‖R − VH‖: the same problem with only one row per sample.
    """
    if is_sparse(X) or X.shape[-2] < 2 * X.shape[-1]:
        return None, X
    Q, R = namespace(X).linalg.qr(X)
    return Q, R


def lifted(trained: Trained, Q: Array | None) -> Trained:
    """The model of X = QR, from the model of R."""
    if Q is None:
        return trained
    first, *others = trained.weights
    return replace(trained, weights=(Q @ first, *others))


def first_codes_of(
    X: Array, k: int, generators: Generators, start: str | Start | Given, fill: str | float
) -> Array:
    """The codes to start from for an X of any sign: those of |X|. W takes care of the signs."""
    return layer_start(start, fill).factors(absolute(X), k, generators)[1]


def least_squares_weights(sums: Sums, before: Array | None = None, caution: float = 1.0) -> Array:
    """W = X Hᵀ(HHᵀ)⁻¹ or, if HHᵀ has no inverse, a best W near the one before.

    More caution gives a smaller W, for later steps in which a large W would be rounded too much.
    """
    return solved(sums.S, sums.Q, before, caution * epsilon(sums.Q))


def precise_sums(X: Array, H: Array) -> Sums:
    """The sums of H, with HHᵀ in double precision: weights of any sign can be large and cancel, and
    their squares would multiply its rounding error."""
    return Sums(gram(to_double(H).mT), product_transposed(X, H))


REFINEMENTS = 3


def solved(S: Array, Q: Array, before: Array | None, rounding: float) -> Array:
    """W with W S = Q for a positive semidefinite S, in double precision.

    Scale S to a unit diagonal, then take a few steps W ← W + (Q − WS)(S + δI)⁻¹. Each goes to the
    minimum of ½⟨WᵀW, S⟩ − ⟨W, Q⟩ + ½δ‖W − W_before‖², so none raises the objective. δ is the
    rounding error of S; in directions in which S is smaller, W stays as it was.
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


def square_root(S: Array) -> Array:
    """R with S = RRᵀ, in double precision, for a positive semidefinite S.

    W S Wᵀ can lose its sign to rounding where the entries of W cancel; (WR)(WR)ᵀ cannot.
    """
    values, vectors = eigh(to_double(S))
    return vectors * namespace(S).sqrt(positive(values))[..., None, :]


def better(new: Array, old: Array, sums: Sums, basis: Array | None = None) -> Array:
    """The W with the smaller ½‖X − ΨWH‖². The old one if the new one gains less than rounding: it
    can be so large that it loses more when it is used."""
    values = []
    for W in (new, old):
        F = to_double(W if basis is None else basis @ W)
        values.append(precise_inner(gram(F), sums.S) / 2 - precise_inner(to_double(sums.Q), F))
    least = epsilon(old) * namespace(old).abs(values[1])
    return choose((values[0] < values[1] - least)[..., None, None], new, old)


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

    monotone = True

    def begin(self, H: Array) -> State:
        """The codes, and the best weights for them."""
        sums = precise_sums(self.X, H)
        return State((least_squares_weights(sums),), H, inner(H, 0 * H), sums)

    def sweep(self, state: State) -> State:
        """The codes, then the best weights for them."""
        (W,) = state.weights
        H, residual = semi_step(state.H, transposed_product(W, self.X), gram(W))
        sums = precise_sums(self.X, H)
        W = better(least_squares_weights(sums, W), W, sums)
        return State((W,), H, residual, sums)

    def squared_error(self, state: State) -> Array:
        return signed_squared_error(self.X, state.weights, Identity(), state.H)

    def dead(self, state: State) -> Array:
        """The number of rows of H without an entry > 0."""
        xp = namespace(state.H)
        return xp.sum(xp.astype(~state.used, xp.int64), axis=-1)
