"""What the compared methods share: scikit-learn's view of them, their state and their steps.

X is (m, n) inside, features by samples, as in the core; W (m, k) are the parts, H (k, n) the codes.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from deepnmf.arrays import (
    Array,
    at_least,
    choose,
    eye,
    gram,
    inner,
    namespace,
    spread,
    to_device,
)
from deepnmf.core.linear import fit_of_sums
from deepnmf.core.passes import Sums
from deepnmf.core.stage import Descent, choose_each
from deepnmf.core.training import Trained, descend
from deepnmf.core.watch import Record, Watch
from deepnmf.links import Identity
from deepnmf.models.advice import status, warn
from deepnmf.models.settings import layer_sizes, number, start_of, whole
from deepnmf.samples.checks import check_codes, check_data, is_tensor
from deepnmf.starts import Generators, Given, Start

Callback = Callable[[Record], bool | None]


@dataclass(frozen=True)
class State:
    """Where a method stands."""

    weights: tuple[Array, ...]
    H: Array
    residual: Array
    """Σ_F ‖F‖²‖projected gradient‖², as in the core."""
    sums: Sums | None = None
    """S = H Hᵀ and Q = X Hᵀ, where the method uses them."""
    memories: tuple[Any, ...] = ()
    """What the steps remember: step sizes, supports."""

    @property
    def used(self) -> Array:
        """Which rows of H have an entry > 0."""
        return namespace(self.H).max(self.H, axis=-1) > 0

    def kept(self, active: Array, before: State) -> State:
        """This state for the runs that go on, `before` for those that have stopped."""
        keep = active[..., None, None]
        sums = self.sums
        if sums is not None and before.sums is not None:
            sums = Sums(*choose_each(keep, sums, before.sums))
        weights = choose_each(keep, self.weights, before.weights)
        return replace(self, weights=weights, H=choose(keep, self.H, before.H), sums=sums)


def multiply(F: Array, above: Array, below: Array) -> tuple[Array, Array]:
    """F ∘ above / below, and the stationarity of F, whose gradient is below − above."""
    tiny = float(namespace(F).finfo(F.dtype).tiny) ** 0.5
    return F * (above / at_least(below, tiny)), stationarity(F, below - above)


def stationarity(F: Array, gradient: Array) -> Array:
    """‖F‖²‖g‖², g the gradient where F ≥ 0 may follow it: 0 exactly at a KKT point."""
    xp = namespace(F)
    g = xp.where(F > 0, gradient, xp.minimum(gradient, 0 * gradient))
    return inner(F, F) * inner(g, g)


@dataclass(frozen=True)
class LeastSquares(Descent):
    """½‖X − Ψ H‖², from the sums of a state."""

    def basis(self, state: State) -> Array:
        """Ψ: what the codes are multiplied with."""
        return state.weights[0]

    def objective(self, state: State) -> tuple[Array, Array]:
        """½‖X − Ψ H‖²."""
        assert state.sums is not None
        S, Q = state.sums
        basis = self.basis(state)
        square = gram(namespace(basis).astype(basis, S.dtype, copy=False))
        fit = fit_of_sums(self.half_norm, basis, square, S, Q)
        return fit, 0 * fit


class Baseline(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A method of one matrix X ≈ X̂(W_1, …, W_L, H_L).

    Attributes
    ----------
    weights_ : list of arrays, W_l of shape (k_{l−1}, k_l), with k_0 = n_features
    components_ : array (k_L, n_features), what a unit code decodes to
    codes_ : array (n_samples, k_L), where training left the codes
    history_ : list of dict, per sweep: stage, layer, sweep, objective, penalty, kkt, dead, seconds
    reconstruction_err_, n_iter_, status_, n_features_in_, feature_names_in_
    """

    signed: ClassVar[bool] = False
    """Whether X may have entries < 0."""
    takes_sparse: ClassVar[bool] = True
    stacks: ClassVar[bool] = False
    """Whether runs can be fitted as one stack."""
    max_iter: int
    tol: float
    callback: Callback | None
    random_state: Any

    @abstractmethod
    def _sizes(self) -> tuple[int, ...]:
        """(k_1, …, k_L), checked; with every other parameter."""

    @abstractmethod
    def _train(self, X: Array, generators: Generators, watch: Watch) -> Trained:
        """Fit X (m, n); a method that `stacks`, X (…, m, n), with a generator per run."""

    @abstractmethod
    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        """The codes of X by the weights of layers 1 … l."""

    @abstractmethod
    def _decode(self, weights: Sequence[Array], H: Array) -> Array:
        """What codes of layer l decode to."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self.signed
        tags.input_tags.sparse = self.takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def check(self) -> tuple[int, ...]:
        """(k_1, …, k_L); what cannot work is refused, with what to do instead."""
        number("tol", self.tol)
        whole("max_iter", self.max_iter, least=0)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(
                f"callback must be a function of one record (a dict), got {self.callback!r}."
            )
        return self._sizes()

    def fit(self, X: Any, y: Any = None) -> Baseline:
        """Learn the weights from X (n_samples, n_features); y is ignored."""
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Learn the weights from X, and return its codes as `transform` does."""
        data = self._learn(X)
        return self._encode(data, self.weights_).T

    def transform(self, X: Any, layer: int | None = None) -> Array:
        """The codes of X (n_samples, k) at the top, or at layer 1 … L; each sample by itself."""
        check_is_fitted(self)
        layer = self._layer(layer)
        data = self._checked(X, fitting=False).T
        return self._encode(data, [to_device(W, data) for W in self.weights_[:layer]]).T

    def inverse_transform(self, Z: Any, layer: int | None = None) -> Array:
        """What codes decode to: (n_samples, n_features)."""
        check_is_fitted(self)
        layer = self._layer(layer)
        weights = self.weights_[:layer]
        return self._decode(weights, check_codes(Z, weights, Identity()).T).T

    def basis(self, layer: int | None = None) -> Array:
        """(k_layer, n_features): what a unit code of that layer decodes to."""
        check_is_fitted(self)
        W = self.weights_[self._layer(layer) - 1]
        return self.inverse_transform(eye(W.shape[-1], W), layer)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean over samples of ‖x − x̂‖²: higher is better."""
        Z = self.transform(X)
        data = self._checked(X, fitting=False)
        difference = data - self.inverse_transform(Z)
        difference = difference if is_tensor(difference) else np.asarray(difference)
        return -float(inner(difference, difference)) / data.shape[0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a safetensors file; `deepnmf.load` reads it."""
        from deepnmf.files.models import save

        save(self, path)

    @property
    def _n_features_out(self) -> int:
        return int(self.weights_[-1].shape[-1])

    def _checked(self, X: Any, *, fitting: bool) -> Array:
        return check_data(
            self, X, fitting=fitting, signed=self.signed, accept_sparse=self.takes_sparse
        )

    def _learn(self, X: Any) -> Array:
        """Train, set the fitted attributes, and return X as the core sees it."""
        self.check()
        X = self._checked(X, fitting=True)
        data = X.T
        callback = self.callback
        report = None if callback is None else lambda record, _: bool(callback(record))
        trained = self._train(data, [self._generator()], Watch(report))
        self._keep(trained, self._squared_error(data, trained))
        return data

    def _generator(self) -> np.random.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def _keep(self, trained: Trained, error: Any) -> None:
        """Set the fitted attributes; `error` is ‖X − X̂‖²."""
        self.weights_ = list(trained.weights)
        self.codes_ = trained.H.T
        self.components_ = self.basis()
        self.history_ = trained.history
        self.reconstruction_err_ = float(error) ** 0.5
        self.n_iter_ = trained.sweeps
        self.status_, warning = status(trained, self.tol, self.max_iter)
        if warning:
            warn(self.status_, ConvergenceWarning)

    def _footprint(self) -> tuple[tuple[int, ...], int]:
        return self._sizes(), 20

    def _fit_stack(
        self,
        data: Array,
        generators: Generators,
        models: Sequence[Sequence[Any]],
        sets: Sequence[Array],
    ) -> None:
        del sets
        data = spread(data)
        trained = self._train(data, generators, Watch(None))
        errors = self._squared_error(data, trained)
        for place, one in zip(np.ndindex(trained.sweeps.shape), trained.runs(), strict=True):
            # A model of its own, not a view of the stack.
            one.weights, one.H = tuple(W.clone() for W in one.weights), one.H.clone()
            models[place[0]][place[1]]._keep(one, errors[place])

    def _encode_stack(
        self, X: Array, weights: Sequence[Array], models: Sequence[Sequence[Any]], layer: int
    ) -> Array:
        del models, layer
        return self._encode(spread(X), weights)

    def _squared_error(self, X: Array, trained: Trained) -> Array:
        """‖X − X̂‖² per run, by blocks of samples."""
        total: Any = 0.0
        width = max(1, int(1e7) // X.shape[-2])
        for low in range(0, X.shape[-1], width):
            fitted = self._fitted(trained.weights, trained.H[..., low : low + width])
            part = X[..., low : low + width] - fitted
            part = part if is_tensor(part) else np.asarray(part)
            total = total + inner(part, part)
        return total

    def _fitted(self, weights: Sequence[Array], H: Array) -> Array:
        """X̂ for codes as training has them."""
        return self._decode(weights, H)

    def _descend(self, problem: Descent, state: State, watch: Watch) -> Trained:
        """The core's loop over the sweeps of a method."""
        state, sweeps, reason = descend(
            problem, state, self.tol, self.max_iter, watch, stage_name="finetune"
        )
        return Trained(state.weights, state.H, watch.history, sweeps, reason)

    def _layer(self, layer: int | None) -> int:
        depth = len(self.weights_)
        value = depth if layer is None else whole("layer", layer, least=1)
        if value > depth:
            raise ValueError(f"layer: {value}, but this model has {depth} layers: 1 to {depth}.")
        return value


class SingleLayer(Baseline):
    """A method X ≈ X̂(W, H) with `n_components`, `start` and `fill` among its parameters."""

    n_components: int
    start: Any
    fill: Any

    def _sizes(self) -> tuple[int, ...]:
        start_of(self.start, self.fill)
        return (whole("n_components", self.n_components, least=1),)

    def _first(self, X: Array, generators: Generators) -> tuple[Array, Array]:
        """The W and H that training begins with."""
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
        expected = (X.shape[0], self._sizes()[0]), (self._sizes()[0], X.shape[1])
        if (tuple(W.shape), tuple(H.shape)) != expected:
            raise ValueError(
                f"start: W {tuple(W.shape)} and codes {tuple(H.T.shape)} given, {expected[0]} and "
                f"{expected[1][::-1]} needed."
            )
        return W, H

    def _decode(self, weights: Sequence[Array], H: Array) -> Array:
        return weights[0] @ H


class Layered(Baseline):
    """A method with `layer_sizes` among its parameters."""

    layer_sizes: Any

    def _sizes(self) -> tuple[int, ...]:
        return layer_sizes(self.layer_sizes)


def layer_start(start: Any, fill: Any) -> Start:
    """A start that can be made for every layer."""
    found = start_of(start, fill)
    if isinstance(found, Given):
        raise ValueError(
            'start must be "nnsvd", "random" or a Start: factors cannot be given here.'
        )
    return found
