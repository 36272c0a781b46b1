"""Semi-NMF (Ding, Li and Jordan 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepnmf.baselines.base import (
    Callback,
    LeastSquares,
    SingleLayer,
    State,
    layer_start,
    stationarity,
)
from deepnmf.core.arrays import (
    Array,
    at_least,
    choose,
    epsilon,
    gram,
    inner,
    is_sparse,
    namespace,
    positive,
    precise_inner,
    to_double,
    transposed_product,
)
from deepnmf.core.penalties import Zero
from deepnmf.core.samples import Sums, add_up
from deepnmf.core.starts import Given
from deepnmf.core.training import Trained, Watch, nonnegative_least_squares


class SemiNMF(SingleLayer):
    """X ≈ W H with H ≥ 0 and W of any sign: ½‖X − WH‖². X may have negative entries.

        W = X Hᵀ(HHᵀ)⁺,    H ← H ∘ √((A⁺ + B⁻H)/(A⁻ + B⁺H)),    A = WᵀX,  B = WᵀW,

    with Z⁺ = max(Z, 0) and Z⁻ = max(−Z, 0), entry by entry. Neither raises the objective. The
    start is from an SVD.

    Parameters
    ----------
    n_components : int
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    Reference: C. Ding, T. Li, M. Jordan, Convex and semi-nonnegative matrix factorizations, TPAMI
    2010.
    """

    signed = True

    def __init__(
        self,
        n_components: int = 16,
        *,
        start: Any = "nnsvd",
        fill: Any = "random",
        max_iter: int = 500,
        tol: float = 1e-5,
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.start = start
        self.fill = fill
        self.max_iter = max_iter
        self.tol = tol
        self.callback = callback
        self.random_state = random_state

    def _train(self, X: Array, generator: np.random.Generator, watch: Watch) -> Trained:
        start = self.start
        if isinstance(start, Given):
            _, H = self._first(X, generator)
        else:
            H = first_codes_of(X, self._sizes()[0], generator, start, self.fill)
        problem = Signed(X)
        return self._descend(problem, problem.begin(H), watch)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return nonnegative_least_squares(X, weights[0], Zero())


def first_codes_of(
    X: Array, k: int, generator: np.random.Generator, start: Any, fill: Any
) -> Array:
    """H ≥ 0 for an X of any sign: the codes that a start finds for |X|; the signs are W's."""
    size = abs(X) if is_sparse(X) else namespace(X).abs(X)
    return layer_start(start, fill).factors(size, k, [generator])[1]


def least_squares_weights(sums: Sums) -> Array:
    """W = X Hᵀ(HHᵀ)⁺, solved in double precision, with the rows of H at one scale. Directions of
    HHᵀ that are lost in the rounding of H count as zero."""
    xp = namespace(sums.Q)
    S = to_double(sums.S)
    norms = xp.sqrt(xp.linalg.diagonal(S))
    scale = 1 / xp.where(norms > 0, norms, xp.ones_like(norms))[..., None, :]
    rtol = 10 * S.shape[-1] * epsilon(sums.S)
    W = (to_double(sums.Q) * scale) @ xp.linalg.pinv(scale * S * scale.mT, rtol=rtol) * scale
    return xp.astype(W, sums.Q.dtype, copy=False)


def better(new: Array, old: Array, sums: Sums, basis: Array | None = None) -> Array:
    """Of two W the one with the smaller ½‖X − ΨWH‖²: rounding can leave the new one behind."""
    values = []
    for W in (new, old):
        F = W if basis is None else basis @ W
        values.append(precise_inner(gram(F), sums.S) / 2 - precise_inner(sums.Q, F))
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
        sums = add_up(self.X, H)
        return State((least_squares_weights(sums),), H, inner(H, 0 * H), sums)

    def sweep(self, state: State) -> State:
        """The codes, then the weights, which so are the best for the codes."""
        (W,) = state.weights
        H, residual = semi_step(state.H, transposed_product(W, self.X), gram(W))
        sums = add_up(self.X, H)
        W = better(least_squares_weights(sums), W, sums)
        return State((W,), H, residual, sums)

    def dead(self, state: State) -> Array:
        """Rows of H without an entry > 0."""
        xp = namespace(state.H)
        return xp.sum(xp.astype(~state.used, xp.int64))
