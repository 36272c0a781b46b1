"""Nonsmooth NMF (Pascual-Montano et al. 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepnmf.arrays import Array, at_least, epsilon, gram, inner, namespace, transposed_product
from deepnmf.core.passes import add_up, nonnegative_least_squares
from deepnmf.core.stage import Descent
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.links import Identity, Link
from deepnmf.models.baselines.base import LeastSquares, SingleLayer, State, multiply
from deepnmf.models.settings import number, one_of
from deepnmf.penalties import Zero

LOSSES = ("frobenius", "kullback-leibler")
CODING = 500
"""Updates of the codes of new samples under the divergence."""


@dataclass(eq=False, repr=False, kw_only=True)
class NsNMF(SingleLayer):
    """NMF with a smoothing matrix: X ≈ W S H,  S = (1 − θ) I + (θ/k) 11ᵀ,  W, H ≥ 0.

    S makes products smooth, so W and H become sparse to make up for it. The updates are

        H ← H ∘ (WS)ᵀX / (WS)ᵀ(WS)H,    W ← W ∘ X(SH)ᵀ / W(SH)(SH)ᵀ

    or, for loss="kullback-leibler" (that of the original method), those of Lee and Seung for the
    divergence. Neither raises its objective.

    Parameters
    ----------
    n_components : int, default=16
        The number of parts, k.
    theta : float in [0, 1], default=0.5
        θ: 0 is plain NMF, and the closer to 1, the sparser are W and H.
    loss : {"frobenius", "kullback-leibler"}, default="frobenius"
        What measures the distance of X and X̂.
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    References
    ----------
    A. Pascual-Montano et al., Nonsmooth nonnegative matrix factorization, TPAMI 2006.
    """

    name = "ns-nmf"
    purpose = "sparse parts and codes through a smoothing matrix"
    stacks = True

    theta: float = 0.5
    loss: str = "frobenius"
    fill: str | float = "mean"

    def _sizes(self) -> tuple[int, ...]:
        smoothness(self.theta)
        one_of("loss", self.loss, LOSSES)
        return super()._sizes()

    @property
    def takes_sparse(self) -> bool:  # type: ignore[override]
        """The divergence needs all entries of X̂, so X cannot be sparse."""
        return bool(self.loss == "frobenius")

    def _train(self, X: Array, watch: Watch) -> Trained:
        W, H = self._first(X, watch.generators)
        kind = Smoothed if self.loss == "frobenius" else SmoothedDivergence
        problem = kind(X, smoothness(self.theta))
        return self._descend(problem, problem.begin(W, H), watch)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        V = smooth(weights[0], self.theta)
        if self.loss == "frobenius":
            return nonnegative_least_squares(X, V, Zero())
        return divergence_codes(X, V)

    def _decoder(self, weights: Sequence[Array]) -> tuple[Sequence[Array], Link]:
        return [smooth(weights[0], self.theta)], Identity()


def smoothness(theta: Any) -> float:
    """θ, checked."""
    value = number("theta", theta)
    if value > 1:
        raise ValueError(f"theta: {theta!r} must be between 0 (plain NMF) and 1.")
    return value


def smooth(W: Array, theta: float) -> Array:
    """W S; of H, (S H)ᵀ = Hᵀ S."""
    if theta == 0:
        return W
    average = namespace(W).mean(W, axis=-1, keepdims=True)
    return (1 - theta) * W + theta * average


def divergence_codes(X: Array, V: Array) -> Array:
    """argmin_{H ≥ 0} D(X ‖ V H) by multiplicative updates, from constant codes."""
    xp = namespace(V)
    tiny = float(xp.finfo(V.dtype).tiny) ** 0.5
    sums = at_least(xp.sum(V, axis=-2, keepdims=True), tiny).mT
    # Constant codes that give every sample the right total.
    H = xp.sum(X, axis=-2, keepdims=True) / xp.sum(sums, axis=-2, keepdims=True) + 0 * sums
    for _ in range(CODING):
        H = H * ((V.mT @ (X / at_least(V @ H, tiny))) / sums)
    return H


@dataclass(frozen=True)
class Smoothed(LeastSquares):
    """½‖X − W S H‖² by multiplicative updates; with θ = 0 those of Lee and Seung."""

    theta: float = 0.0

    def begin(self, W: Array, H: Array) -> State:
        """The factors that training starts from."""
        return State((W,), H, inner(H, 0 * H), add_up(self.X, H))

    def sweep(self, state: State) -> State:
        """The codes, then the weights."""
        (W,) = state.weights
        V = smooth(W, self.theta)
        above, below = self._codes(state.H, transposed_product(V, self.X), gram(V) @ state.H)
        H, residual = multiply(state.H, above, below)
        sums = add_up(self.X, H)
        # X(SH)ᵀ = Q S and (SH)(SH)ᵀ = S (HHᵀ) S, so the sums of H are enough.
        S = smooth(smooth(sums.S, self.theta).mT, self.theta)
        W, residual_W = multiply(W, smooth(sums.Q, self.theta), W @ S)
        return State((W,), H, residual + residual_W, sums)

    def basis(self, state: State) -> Array:
        """W S."""
        return smooth(state.weights[0], self.theta)

    def _codes(self, H: Array, above: Array, below: Array) -> tuple[Array, Array]:
        """The numerator and the denominator of the update of H."""
        del H
        return above, below


@dataclass(frozen=True)
class SmoothedDivergence(Descent):
    """D(X ‖ W S H) = Σ X log(X/X̂) − X + X̂ by multiplicative updates."""

    theta: float = 0.0

    def begin(self, W: Array, H: Array) -> State:
        """The factors that training starts from."""
        return State((W,), H, inner(H, 0 * H))

    def sweep(self, state: State) -> State:
        """The codes, then the weights."""
        (W,), H = state.weights, state.H
        xp = namespace(W)
        V = smooth(W, self.theta)
        below = xp.sum(V, axis=-2, keepdims=True).mT + 0 * H
        H, residual = multiply(H, V.mT @ self._ratio(V @ H), below)
        G = smooth(H.mT, self.theta)
        below = xp.sum(G, axis=-2, keepdims=True) + 0 * W
        W, residual_W = multiply(W, self._ratio(W @ G.mT) @ G, below)
        return State((W,), H, residual + residual_W)

    def objective(self, state: State) -> tuple[Array, Array]:
        """The divergence."""
        xp = namespace(state.H)
        fitted = smooth(state.weights[0], self.theta) @ state.H
        ratio = self._ratio(fitted)
        logs = xp.log(xp.where(ratio > 0, ratio, xp.ones_like(ratio)))
        value = xp.sum(self.X * logs - self.X + fitted, axis=(-2, -1), dtype=xp.float64)
        return value, 0 * value

    def negligible(self, tol: float) -> Array:
        """The divergence grows with X, not with its square."""
        return max(tol * tol, 10 * epsilon(self.X)) * namespace(self.X).sum(self.X, axis=(-2, -1))

    def _ratio(self, fitted: Array) -> Array:
        tiny = float(namespace(fitted).finfo(fitted.dtype).tiny) ** 0.5
        return self.X / at_least(fitted, tiny)
