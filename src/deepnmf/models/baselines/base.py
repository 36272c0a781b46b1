"""What the baselines share: their state, their steps, and how they are fitted.

As in the core, X is (m, n), features by samples; W (m, k) holds the parts, H (k, n) the codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deepnmf.arrays import (
    Array,
    at_least,
    choose,
    choose_each,
    epsilon,
    gram,
    inner,
    namespace,
    spread,
    to_device,
)
from deepnmf.arrays.draws import Generators
from deepnmf.core.encoding import squared_error
from deepnmf.core.linear import fit_of_sums
from deepnmf.core.loop import descend
from deepnmf.core.passes import Sums
from deepnmf.core.stage import Descent
from deepnmf.core.training import Run, Trained
from deepnmf.core.watch import Watch
from deepnmf.links import Identity, Link
from deepnmf.models.base import Callback, MatrixFactorization, Seed
from deepnmf.models.settings import MOST, layer_sizes, link_of, start_of, whole_number
from deepnmf.samples.base import Samples
from deepnmf.starts import Given, Start

CLOSE = 4e4
"""Sums over samples are too coarse for a fit below this many times their rounding error."""


@dataclass(frozen=True)
class State:
    """The factors of a method between two sweeps."""

    weights: tuple[Array, ...]
    H: Array
    residual: Array
    """Σ_F ‖F‖²‖projected gradient‖², as in the core."""
    sums: Sums | None = None
    """S = H Hᵀ and Q = X Hᵀ, if the method uses them."""
    memories: tuple[Any, ...] = ()
    """What the method remembers between sweeps, such as step sizes."""

    @property
    def used(self) -> Array:
        """Which rows of H have an entry > 0."""
        return namespace(self.H).max(self.H, axis=-1) > 0

    def kept(self, active: Array, before: State) -> State:
        """This state for the runs that continue, `before` for those that have stopped."""
        keep = active[..., None, None]
        sums = self.sums
        if sums is not None and before.sums is not None:
            sums = Sums(*choose_each(keep, sums, before.sums))
        weights = choose_each(keep, self.weights, before.weights)
        return replace(self, weights=weights, H=choose(keep, self.H, before.H), sums=sums)


def multiply(F: Array, above: Array, below: Array) -> tuple[Array, Array]:
    """F ∘ above / below, and the stationarity of F, whose gradient is below − above."""
    return F * ratio(above, below), stationarity(F, below - above)


def ratio(above: Array, below: Array) -> Array:
    """above / below, and 0 where both are 0."""
    tiny = float(namespace(below).finfo(below.dtype).tiny) ** 0.5
    return above / at_least(below, tiny)


def stationarity(F: Array, gradient: Array) -> Array:
    """‖F‖²‖g‖², g the gradient where F ≥ 0 may follow it: 0 exactly at a KKT point."""
    xp = namespace(F)
    g = xp.where(F > 0, gradient, xp.minimum(gradient, 0 * gradient))
    return inner(F, F) * inner(g, g)


@dataclass(frozen=True)
class LeastSquares(Descent):
    """½‖X − Ψ H‖², computed from the sums of a state."""

    def basis(self, state: State) -> Array:
        """Ψ, the matrix that decodes the codes."""
        return state.weights[0]

    def objective(self, state: State) -> tuple[Array, Array]:
        """½‖X − X̂‖², from the sums of the sweep if they are precise enough."""
        assert state.sums is not None
        S, Q = state.sums
        basis = self.basis(state)
        xp = namespace(basis)
        square = gram(xp.astype(basis, S.dtype, copy=False))
        fit = fit_of_sums(self.half_norm, basis, square, S, Q)
        # Weights of any sign can be large and cancel, and so do their sums.
        rounding = epsilon(S) * inner(xp.abs(square), xp.abs(S))
        if bool(xp.any(fit < CLOSE * rounding)):
            fit = self.squared_error(state) / 2
        return fit, 0 * fit

    def squared_error(self, state: State) -> Array:
        """‖X − X̂‖²."""
        return squared_error(self.X, (self.basis(state),), Identity(), state.H)


class Baseline(MatrixFactorization):
    """A method that deep NMF is compared with. Besides the attributes of all models it has

    codes_ : array (n_samples, k_L), the codes at the end of training
    """

    def _keep(self, samples: Samples, run: Run, error: float, basis: Array) -> None:
        self.codes_ = samples.rows(run.H)
        super()._keep(samples, run, error, basis)

    def _fit_stack(self, data: Array, *arguments: Any) -> None:
        super()._fit_stack(spread(data), *arguments)

    def _encode_stack(self, X: Array, *arguments: Any) -> Array:
        return super()._encode_stack(spread(X), *arguments)

    def _descend(self, problem: Descent, state: State, watch: Watch) -> Trained:
        """Train a method with the loop of the core."""
        ended = descend(problem, state, self.tol, self.max_iter, watch, stage_name="finetune")
        state = ended.factors
        return Trained(state.weights, state.H, watch.history, ended.sweeps, ended.reasons)


@dataclass(eq=False, repr=False, kw_only=True)
class SingleLayer(Baseline):
    """A method with one layer, X ≈ X̂(W, H)."""

    n_components: int = field(default=16, kw_only=False)
    start: str | Start | Given = "nnsvd"
    fill: str | float = "random"
    max_iter: int = 500
    tol: float = 1e-5
    callback: Callback | None = None
    random_state: Seed = None

    def _sizes(self) -> tuple[int, ...]:
        start_of(self.start, self.fill)
        return (whole_number("n_components", self.n_components, least=1, most=MOST),)

    def _first(self, X: Array, generators: Generators) -> tuple[Array, Array]:
        """The W and H that training starts from."""
        start = start_of(self.start, self.fill)
        if not isinstance(start, Given):
            return start.factors(X, self._sizes()[0], generators)
        if start.codes is None or len(start.weights) != 1:
            raise ValueError("start: give one W and the codes, Given([W], codes).")
        W, H = to_device(start.weights[0], X), to_device(start.codes, X).T
        for name, factor in (("W", W), ("codes", H)):
            low = -float("inf") if name == "W" and self.signed else 0
            if not bool(((factor >= low) & (factor < float("inf"))).all()):
                raise ValueError(f"start: {name} has entries that are negative, NaN or infinite.")
        (k,) = self._sizes()
        expected = (X.shape[0], k), (k, X.shape[1])
        if (tuple(W.shape), tuple(H.shape)) != expected:
            raise ValueError(
                f"start: W {tuple(W.shape)} and codes {tuple(H.T.shape)} given, {expected[0]} and "
                f"{expected[1][::-1]} needed."
            )
        return W, H


@dataclass(eq=False, repr=False, kw_only=True)
class Layered(Baseline):
    """A method with several layers, X ≈ W_1 φ(W_2 … φ(W_L H_L))."""

    layer_sizes: Sequence[int] | int = field(default=(64, 16), kw_only=False)
    link: str | Link = "identity"
    max_iter: int = 500
    tol: float = 1e-5
    callback: Callback | None = None
    random_state: Seed = None

    def _sizes(self) -> tuple[int, ...]:
        self._link()
        return layer_sizes(self.layer_sizes)

    def _link(self) -> Link:
        return link_of(self.link)

    def _decoder(self, weights: Sequence[Array]) -> tuple[Sequence[Array], Link]:
        return weights, self._link()


def layer_start(start: str | Start | Given, fill: str | float) -> Start:
    """The start of every layer. `Given` factors are refused."""
    resolved = start_of(start, fill)
    if isinstance(resolved, Given):
        raise ValueError(
            'start must be "nnsvd", "random" or a Start: factors cannot be given here.'
        )
    return resolved
