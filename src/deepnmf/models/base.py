"""The one contract of all models.

A model brings its sizes, its training, its encoding and its decoder. Everything else, from `fit` to
`save`, is written here once. Users see samples as rows; inside, they are columns.
"""

from __future__ import annotations

import copy
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from deepnmf.arrays import Array, eye, to_device
from deepnmf.arrays.cpu.threads import one_blas_thread
from deepnmf.arrays.draws import Generators
from deepnmf.arrays.tensors import copied
from deepnmf.core.decode import basis_of, decode
from deepnmf.core.encoding import signed_squared_error, squared_error
from deepnmf.core.finite import NotFiniteError, checked_later, finite
from deepnmf.core.online import Stream
from deepnmf.core.training import Run, Trained
from deepnmf.core.watch import Keeper, Reason, Record, Watch
from deepnmf.links import Identity, Link
from deepnmf.models.advice import status, warn
from deepnmf.models.callbacks import CallbackSupport, FitListener, with_callbacks
from deepnmf.models.part_names import NamedParts
from deepnmf.models.settings import MOST, number, whole_number
from deepnmf.samples.base import Needs, Samples
from deepnmf.samples.checks import check_codes, check_decoded
from deepnmf.samples.memory import InMemory
from deepnmf.samples.open import open_samples
from deepnmf.terminal.text import one_line

if TYPE_CHECKING:
    from deepnmf.data.texts import Vectorizer

Callback = Callable[[Record], bool | None]
Seed = int | np.random.RandomState | None


class Factorization(BaseEstimator, ABC):
    """What every model shares: checked settings, seeds, and attributes that tell how a fit went."""

    name: ClassVar[str] = ""
    """The name of the model on the command line."""
    purpose: ClassVar[str] = ""
    """One line that says what the model is for."""
    several: ClassVar[bool] = False
    """Whether it takes several data sets."""

    max_iter: int
    tol: float
    callback: Callback | None
    random_state: Seed
    verbose = False

    codes_: Any
    components_: Any
    history_: list[Record]
    n_iter_: int
    status_: str
    reason_: Reason | str
    vectorizer_: Vectorizer
    """What makes samples of texts. Whoever fits a model to texts sets it, and it is saved."""

    def check(self) -> None:
        """Refuse settings that cannot work; the message says what to do instead."""
        number("tol", self.tol)
        whole_number("max_iter", self.max_iter, least=0, most=MOST)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(
                "callback must be a function of one record (a dict), got "
                f"{one_line(repr(self.callback))}."
            )

    def _generator(self) -> np.random.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def _keep_story(self, run: Run) -> None:
        """Set the attributes that tell how the fit went."""
        self.history_ = run.history
        self.n_iter_ = run.sweeps
        self.reason_ = run.reason
        self.status_, warning = status(run, self.tol, self.max_iter)
        if warning:
            warn(self.status_, ConvergenceWarning)


class MatrixFactorization(NamedParts, CallbackSupport, TransformerMixin, Factorization):
    """A model of one matrix, X ≈ W_1 φ(W_2 … φ(W_L H_L)).

    Attributes
    ----------
    weights_ : list of arrays, W_l of shape (k_{l−1}, k_l), with k_0 = n_features
    components_ : array (k_L, n_features), what a unit code decodes to
    code_scale_ : float, with `project_codes` R of the link for the last layer, else 1
    history_ : list of dict, per sweep: stage, layer, sweep, objective, penalty, kkt, dead, seconds;
        past 1000 records thinned, as in `DeepNMF`
    reason_ : str, why training stopped: "converged", "limit", "stalled", "callback",
        "interrupted"
    part_names_ : list of lists of str, per layer the names of its parts, which you can change
    hidden_parts_ : list of lists of int, per layer the parts that tables and trees leave out
    reconstruction_err_, n_iter_, status_, n_features_in_, feature_names_in_
    """

    signed: ClassVar[bool] = False
    """Whether X and the weights may have negative entries."""
    takes_sparse: ClassVar[bool] = True
    stacks: ClassVar[bool] = False
    """Whether several runs can be fitted as one stack on a GPU."""
    footprint: ClassVar[int] = 20
    """How many arrays as large as the widest codes a run of a stack has in memory."""

    project_codes = False
    device: str | None = None

    n_features_in_: int
    _stream: Stream | None = None
    _stride = 1
    """How many batches of `partial_fit` one record of `history_` stands for."""
    weights_: list[Array]
    code_scale_: float
    reconstruction_err_: float

    @abstractmethod
    def _sizes(self) -> tuple[int, ...]:
        """(k_1, …, k_L). Refuses all settings of the model that cannot work."""

    @property
    def unit_codes(self) -> bool:
        """Whether codes of training have unit RMS at every layer."""
        return False

    @abstractmethod
    def _train(self, X: Array, watch: Watch) -> Trained:
        """Fit X (m, n). A model that `stacks` also fits X (…, m, n), with one generator per run."""

    @abstractmethod
    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        """The codes H_l of X (m, n), given the weights of layers 1 … l."""

    def _encode_layer(
        self, X: Array, weights: Sequence[Array], layer: int, models: Sequence[Any]
    ) -> Array:
        """The codes H_layer of X, given all weights: those of a model, or of a stack of models."""
        del models
        return self._encode(X, weights[:layer])

    def _decoder(self, weights: Sequence[Array]) -> tuple[Sequence[Array], Link]:
        """The matrices that decode layers 1 … l, and the link between them."""
        return weights, Identity()

    def _needs(self, *, fitting: bool) -> Needs:
        """What the model asks of its samples."""
        return Needs(
            whom=type(self).__name__,
            fitting=fitting,
            estimator=self,
            signed=self.signed,
            sparse=self.takes_sparse,
            device=self.device,
        )

    def _keeper(self, samples: Samples) -> Keeper | None:
        """The checkpoint from which a stopped fit continues, if the model has one."""
        del samples
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self.signed
        tags.input_tags.sparse = self.takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def check(self) -> None:
        super().check()
        self._sizes()

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the weights from X (n_samples, n_features), dense, sparse or an AnnData; y is
        ignored."""
        self.check()
        with open_samples(X, self._needs(fitting=True)) as samples:
            self._learn(samples)
        return self

    @with_callbacks
    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Learn the weights from X, and return its codes (n_samples, k_L), as `transform` does."""
        self.check()
        with open_samples(X, self._needs(fitting=True)) as samples:
            self._learn(samples)
            return self._codes_of(samples, len(self.weights_))

    def transform(self, X: Any, layer: int | None = None) -> Array:
        """The codes of X (n_samples, k) at the top, or at layer 1 … L.

        Each sample's code is the solution of its own problem, with the weights frozen and the
        penalty of training: it does not depend on the other samples. Codes of the samples of
        training are those that training ended with, up to its tolerance.

        What 1 means depends on the model. In `DeepNMF` with fixed scales (the default) 1 is the
        root mean square over the samples of training, at every layer, so that parts can be
        compared; with an end-to-end loss and a penalty on the codes, 1 is a part of unit norm.
        With scaling="paper" and in the other models the unit of each part is arbitrary: divide
        codes by their root mean square before parts are compared.
        """
        layer = self._fitted_layer(layer)
        if layer < len(self.weights_) and self._names_output():
            raise ValueError(
                f"transform(layer={layer}) has no column names: call "
                'set_output(transform="default") for the codes of an inner layer.'
            )
        with open_samples(X, self._needs(fitting=False)) as samples:
            return self._codes_of(samples, layer)

    def inverse_transform(self, Z: Any, layer: int | None = None) -> Array:
        """Decode codes to (n_samples, n_features). `layer` as in `transform`."""
        layer = self._fitted_layer(layer)
        weights, link = self._decoder(self.weights_[:layer])
        H = check_codes(Z, list(weights), link).T
        with checked_later():
            if self.project_codes and layer == len(self.weights_):
                H = link.decode(H) * self.code_scale_
            return check_decoded(decode(weights, link, H).T)

    def basis(self, layer: int | None = None) -> Array:
        """What unit codes of a layer decode to: (k_layer, n_features), one row per part."""
        W = self.weights_[self._fitted_layer(layer) - 1]
        return self.inverse_transform(eye(W.shape[-1], W), layer)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean of ‖x − x̂‖² over the samples. Higher is better."""
        self._fitted_layer(None)
        with open_samples(X, self._needs(fitting=False)) as samples, one_blas_thread():
            with checked_later():
                weights = [to_device(W, samples.data) for W in self.weights_]
                H = self._encode(samples.data, weights)
                error = self._squared_error(samples.data, weights, H)
            return -float(_finite_error(error, weights[0])) / samples.data.shape[-1]

    def save(self, path: str | os.PathLike[str], *, samples: bool = True) -> None:
        """Write the fitted model to a safetensors file; `deepnmf.load` reads it.

        Set `vectorizer_` first if the samples are texts (`deepnmf.data.read_texts`): it is saved
        too, so that the file is all that further texts need.

        A model with a graph keeps what `transform` needs of the samples of training. Without
        `samples` it does not, and encodes every sample by itself when it is loaded.
        """
        from deepnmf.models.storage import save

        save(self, path, samples=samples)

    @property
    def _n_features_out(self) -> int:
        return int(self.weights_[-1].shape[-1])

    def _learn(self, samples: Samples) -> None:
        """Train, then set the fitted attributes: a fit that fails leaves the model as it was."""
        listener = FitListener(self, samples)
        keeper = self._keeper(samples)
        listener.begin()
        watch = Watch(listener, keeper, [self._generator()])
        with one_blas_thread(), checked_later():
            trained = self._train(samples.data, watch)
            error = self._squared_error(samples.data, trained.weights, trained.H)
            basis = basis_of(*self._decoder(trained.weights))
        for W in trained.weights:
            finite(W, "the weights")
        finite(basis, "the components, which unit codes decode to,")
        self._keep(samples, trained.only(), _finite_error(error, basis), basis)
        listener.end()

    def _keep(self, samples: Samples, run: Run, error: float, basis: Array) -> None:
        """Set the fitted attributes. `error` is ‖X − X̂‖², `basis` what unit codes decode to."""
        self.n_features_in_ = samples.features
        self._forget_names()
        for name in ("feature_names_in_", "support_", "edge_support_", "graph_"):  # of before
            self.__dict__.pop(name, None)
        if samples.feature_names is not None:
            self.feature_names_in_ = samples.feature_names
        self.weights_ = [samples.home(W) for W in run.weights]
        R = self._decoder(run.weights)[1].scale(run.H) if self.project_codes else 1.0
        self.code_scale_ = R if isinstance(R, float) else float(R[0, 0])
        self.components_ = self.basis() if self.project_codes else samples.home(basis).T
        self.reconstruction_err_ = error**0.5
        self._keep_story(run)

    def _squared_error(self, X: Array, weights: Sequence[Array], H: Array) -> Any:
        """‖X − X̂‖² per run."""
        used, link = self._decoder(weights)
        return (signed_squared_error if self.signed else squared_error)(X, used, link, H)

    def _codes_of(self, samples: Samples, layer: int) -> Array:
        """The codes (n, k_layer) that `transform` returns."""
        size = int(self.weights_[layer - 1].shape[-1])
        # Dask computes the codes later. A copy keeps these weights if the model is fitted again.
        with checked_later():
            return samples.encoded(partial(copy.copy(self)._coded, layer=layer), size)

    def _coded(self, X: Array, layer: int) -> Array:
        with one_blas_thread(), checked_later():
            weights = [to_device(W, X) for W in self.weights_]
            H = self._encode_layer(X, weights, layer, [self])
            if self.project_codes and layer == len(self.weights_):
                H = self._decoder(self.weights_)[1].project(H / self.code_scale_)
            return finite(H, "the codes")

    def _fitted_layer(self, layer: int | None) -> int:
        """The number of a layer. The settings must still match the fitted weights."""
        check_is_fitted(self)
        fitted = tuple(int(W.shape[-1]) for W in self.weights_)
        if self._sizes() != fitted:
            raise ValueError(
                f"layer_sizes is {self._sizes()}, but the fitted model has {fitted}: fit it again."
            )
        depth = len(fitted)
        value = depth if layer is None else whole_number("layer", layer, least=1)
        if value > depth:
            raise ValueError(f"layer: {value}, but this model has {depth} layers: 1 to {depth}.")
        return value

    def _names_output(self) -> bool:
        """Whether scikit-learn gives the output of `transform` column names."""
        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        return (own or get_config()["transform_output"]) != "default"

    def _fit_stack(
        self,
        data: Array,
        generators: Generators,
        models: Sequence[Sequence[MatrixFactorization]],
        sets: Sequence[InMemory],
    ) -> None:
        """Train on `data`, a stack of these sets, and store every run in its model."""
        trained = self._train(data, Watch(None, None, generators))
        errors = self._squared_error(data, trained.weights, trained.H).tolist()
        bases = basis_of(*self._decoder(trained.weights))
        for place, run in zip(np.ndindex(trained.sweeps.shape), trained.runs(), strict=True):
            row, column = place
            # Clones, because a view would keep the whole stack in memory.
            weights = tuple(copied(W) for W in run.weights)
            run = replace(run, weights=weights, H=copied(run.H))
            models[row][column]._keep(sets[row], run, errors[row][column], copied(bases[place]))

    def _encode_stack(
        self,
        X: Array,
        weights: Sequence[Array],
        models: Sequence[Sequence[MatrixFactorization]],
        layer: int,
    ) -> Array:
        """Codes (sets, models, k, n) at a layer, by a stack of weights."""
        H = self._encode_layer(X, weights, layer, [model for row in models for model in row])
        if not self.project_codes or layer < len(self._sizes()):
            return H
        scales = np.asarray([[model.code_scale_ for model in row] for row in models])
        return self._decoder(weights)[1].project(H / to_device(scales[..., None, None], H))


def _finite_error(error: Any, like: Array) -> float:
    """‖X − X̂‖² of one run as a number. Refuses what is not finite."""
    value = float(error)
    if not math.isfinite(value):
        raise NotFiniteError("the reconstruction error is not a finite number", like.dtype)
    return value
