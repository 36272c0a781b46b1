"""DeepNMF: scikit-learn's view of the core.

This is the one place that knows both orientations: outside, samples are rows; inside, columns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from deepnmf.arrays import Array, eye, is_blocked, to_device
from deepnmf.arrays.blocks import closing
from deepnmf.core.online import Stream
from deepnmf.core.training import Plan, Trained, basis_of, decode, encode, squared_error, train
from deepnmf.core.watch import Record
from deepnmf.files.checkpoint import Checkpoint, Kept, checkpoint_of
from deepnmf.links import Link
from deepnmf.models.advice import status, warn, warn_of_clipped_codes, warn_of_dead_units
from deepnmf.models.callbacks import CallbackSupport, FitWatch, with_callbacks
from deepnmf.models.settings import check_given, plan_of, whole
from deepnmf.models.stream import learn_batch
from deepnmf.penalties import Penalty, TopLayer
from deepnmf.samples.checks import check_codes, check_data, is_tensor, to_compute, to_home
from deepnmf.samples.dask.chunks import is_dask, on_cluster, transformed
from deepnmf.samples.disk import blocked, is_on_disk, to_rows
from deepnmf.solvers import Solver
from deepnmf.starts import Generators, Given, Start

Penalties = None | Penalty | TopLayer | Sequence[Penalty | None]


class DeepNMF(ClassNamePrefixFeaturesOutMixin, CallbackSupport, TransformerMixin, BaseEstimator):
    """Sparse deep nonnegative matrix factorization, X ≈ W_1 φ(W_2 φ(… φ(W_L H_L))).

    Minimises ½‖X − X̂‖² + Σ_l R_l(W_l) + R(H_L) over factors ≥ 0, layer by layer first
    (pre-training), then all layers together (fine-tuning). The models of Guo and Zhang are
    settings of this class: see `deepnmf.models.presets`.

    Parameters
    ----------
    layer_sizes : tuple of int, or int
        Parts per layer, from the data up: (k_1, …, k_L).
    link : str or Link, default="identity"
        The function between layers: "identity" (the linear models), "root", "tanh", "sigmoid",
        "softplus", or a Link of your own.
    project_codes : bool, default=False
        Return g(H_L) instead of H_L.
    penalty_W, penalty_H : None, Penalty, TopLayer or one per layer
        Penalties on the weights and on the codes. In fine-tuning only the codes of the last layer
        exist, and its penalty is used.
    scaling : "paper" or "fixed", default="paper"
        "paper" is the objective as printed, in which the penalty of one factor fades as the other
        takes over its scale. "fixed" keeps the scale of every factor without penalty, so that
        sparsity does not depend on when one stops.
    start : "nnsvd", "random", Start or Given, default="nnsvd"
        Where a fit begins. A `Given` holds weights, and codes if you have them.
    fill : "zero", "mean", "random" or float, default="random"
        What NNSVD's zeros become.
    solver : "auto", "coordinate", "nesterov", "projected_gradient" or Solver, default="auto"
        "coordinate" is the fast one on a CPU; "nesterov" is the paper's, and works everywhere;
        "auto" takes the first for NumPy arrays and the second for tensors.
    max_iter : int, default=200
        Fine-tuning sweeps; with one layer, alternations.
    pretrain_iter : int, default=100
        Alternations per layer in pre-training.
    tol : float, default=1e-4
        Stop a stage when a sweep lowers the objective by less than `tol` times its value, or when
        the relative error ‖X − X̂‖/‖X‖ is below `tol`. 0: never.
    device : None, "cpu", "cuda" or "auto", default=None
        None computes where X lives. "auto" takes a CUDA device if there is one.
    max_memory : None, str or int, such as "600MB", default=None
        Work on blocks of samples that, with what the work needs, take about so much memory; codes
        that would take more go to a file. Without it, arrays on disk (a NumPy memmap, an HDF5 or
        zarr array) are worked on so where they would take more than a quarter of the machine's
        memory. A list of matrices is always worked on block by block.
    checkpoint : None, path or `deepnmf.files.checkpoint.Checkpoint`, default=None
        Keep the fit in this file, once a minute and at its end. A fit with the same settings and
        data goes on from the file as if it had never stopped; one with others is refused.
    callback : callable or None
        Called with a record (a dict, as in `history_`) after each alternation and sweep. Returning
        True stops the fit, which keeps what it has. So does Ctrl-C, with a warning.
    verbose : bool, default=False
        Print a line per record.
    random_state : int, RandomState or None
        Seeds the start. The same seed gives the same model.

    Attributes
    ----------
    weights_ : list of arrays, W_l of shape (k_{l−1}, k_l), with k_0 = n_features
    components_ : array (k_L, n_features)
        What a unit code decodes to.
    code_scale_ : float
        With `project_codes`, R of the link for the last layer: codes are g(H_L/R). 1 for "root".
    history_ : list of dict
        Per sweep: stage, layer, sweep, objective, penalty, kkt, dead (units), seconds.
    reconstruction_err_ : float
        ‖X − X̂‖_F at the end of training.
    n_iter_ : int
        Fine-tuning sweeps done.
    status_ : str
        Why training stopped, and what to do about it.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from deepnmf import DeepNMF
    >>> X = load_digits().data / 16
    >>> model = DeepNMF((32, 10), random_state=0)
    >>> model.fit_transform(X).shape
    (1797, 10)
    """

    n_features_in_: int
    _stream: Stream | None

    def __init__(
        self,
        layer_sizes: Sequence[int] | int = (64, 16),
        *,
        link: str | Link = "identity",
        project_codes: bool = False,
        penalty_W: Penalties = None,
        penalty_H: Penalties = None,
        scaling: str = "paper",
        start: str | Start | Given = "nnsvd",
        fill: str | float = "random",
        solver: str | Solver = "auto",
        max_iter: int = 200,
        pretrain_iter: int = 100,
        tol: float = 1e-4,
        device: str | None = None,
        max_memory: str | int | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        callback: Callable[[Record], bool | None] | None = None,
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.layer_sizes = layer_sizes
        self.link = link
        self.project_codes = project_codes
        self.penalty_W = penalty_W
        self.penalty_H = penalty_H
        self.scaling = scaling
        self.start = start
        self.fill = fill
        self.solver = solver
        self.max_iter = max_iter
        self.pretrain_iter = pretrain_iter
        self.tol = tol
        self.device = device
        self.max_memory = max_memory
        self.checkpoint = checkpoint
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> DeepNMF:
        """Learn the weights from X (n_samples, n_features), dense or sparse; y is ignored."""
        self._learn(X)
        return self

    @with_callbacks
    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Learn the weights from X, and return its codes (n_samples, k_L), as `transform` does."""
        checked, data, plan, trained = self._learn(X)
        if is_dask(X):
            return self.transform(X)
        return self._out(self._projected(plan, encode(data, trained.weights, plan)), checked)

    def partial_fit(self, X: Any, y: Any = None, *, forget: float = 0.7) -> DeepNMF:
        """Learn from another batch of samples, which need not be seen again.

        The first batch is pre-trained on, and should have at least as many samples as the widest
        layer has parts. What was learned of earlier batches counts `forget` times as much with
        every new one: 1 for data that come in finitely many batches, less for a stream that
        changes. After `fit` or `load` the weights are where learning begins, but what they were
        learned from has no weight. `history_` has a record per batch: its objective before it was
        learned from.
        """
        learn_batch(self, X, forget)
        return self

    def _learn(self, X: Any) -> tuple[Array, Array, Plan, Trained]:
        """Train, set the fitted attributes, and return what X has become on the way."""
        plan = plan_of(self)
        X, data = self._data(X, plan, fitting=True)
        with closing(data):
            check_given(plan, data)
            refusal = plan.solver.refusal(data)
            if refusal:
                raise ValueError(refusal)
            where = checkpoint_of(self.checkpoint)
            keeper = None if where is None else Kept(where, self, data)
            watch = FitWatch(self, X, plan)
            watch.begin()
            trained = train(data, plan, [self._generator()], watch.report, keeper)
            error = squared_error(data, trained.weights, plan.link, trained.H)
            self._keep(X, plan, trained, error, basis_of(trained.weights, plan.link))
            watch.end()
        return X, data, plan, trained

    def _data(self, X: Any, plan: Plan, *, fitting: bool) -> tuple[Any, Array]:
        """X, checked, as it came and as the core sees it, (m, n)."""
        features = None if fitting else self.n_features_in_
        found: Any
        if is_dask(X):
            found = on_cluster(X, type(self).__name__, features)
        else:
            widest = max(plan.sizes)
            found = blocked(X, type(self).__name__, widest, self.max_memory, features)
        if found is None:
            X = np.asarray(X[:]) if is_on_disk(X) else X
            X = check_data(self, X, fitting=fitting)
            return X, to_compute(X, self.device).T
        if self.device == "cuda":
            raise ValueError(
                'device="cuda": data by blocks is fitted on the CPU. Use device="cpu", or give X '
                "as one array without max_memory."
            )
        if fitting:
            self.n_features_in_ = found.shape[0]
            self.__dict__.pop("feature_names_in_", None)
        return found, found

    @staticmethod
    def _out(H: Array, X: Any) -> Array:
        """Codes as (n, k), where X came from."""
        return to_rows(H) if is_blocked(H) else to_home(H, X).T

    def _generator(self) -> np.random.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def _keep(self, X: Array, plan: Plan, trained: Trained, error: Any, basis: Array) -> None:
        """Set the fitted attributes; `error` is ‖X − X̂‖², `basis` what a unit of H decodes to."""
        H = trained.H
        self._stream = None
        self.weights_ = [to_home(W, X) for W in trained.weights]
        R = plan.link.scale(H) if self.project_codes else 1.0
        self.code_scale_ = R if isinstance(R, float) else float(R[0, 0])
        self.components_ = self.basis() if self.project_codes else to_home(basis, X).T
        self.history_ = trained.history
        self.reconstruction_err_ = float(error) ** 0.5
        self.n_iter_ = trained.sweeps
        self.status_, warning = status(trained, plan.tol, plan.max_iter)
        if warning:
            warn(self.status_, ConvergenceWarning)
        warn_of_dead_units(plan, trained)
        if self.project_codes:
            warn_of_clipped_codes(plan, H / self.code_scale_)

    def check(self) -> Plan:
        """The plan of a fit; what cannot work is refused, with what to do instead."""
        return plan_of(self)

    def _checked(self, X: Any, *, fitting: bool) -> Array:
        return check_data(self, X, fitting=fitting)

    def _footprint(self) -> tuple[tuple[int, ...], int]:
        plan = plan_of(self)
        return plan.sizes, 10 if plan.link.linear else 20

    def _fit_stack(
        self,
        data: Array,
        generators: Generators,
        models: Sequence[Sequence[Any]],
        sets: Sequence[Array],
    ) -> None:
        plan = plan_of(self)
        refusal = plan.solver.refusal(data)
        if refusal:
            raise ValueError(refusal)
        trained = train(data, plan, generators)
        errors = squared_error(data, trained.weights, plan.link, trained.H).tolist()
        bases = basis_of(trained.weights, plan.link)
        for place, one in zip(np.ndindex(trained.sweeps.shape), trained.runs(), strict=True):
            row, column = place
            basis = bases[place]
            if is_tensor(sets[row]):  # a model of its own, not a view of the stack
                one.weights, basis = tuple(W.clone() for W in one.weights), basis.clone()
            models[row][column]._keep(sets[row], plan, one, errors[row][column], basis)

    def _encode_stack(
        self, X: Array, weights: Sequence[Array], models: Sequence[Sequence[Any]], layer: int
    ) -> Array:
        plan = self._fitted_plan()
        H = encode(X, weights, plan, layer)
        if self.project_codes and layer == len(plan.sizes):
            scales = np.asarray([[one.code_scale_ for one in row] for row in models])
            H = plan.link.project(H / to_device(scales[..., None, None], H))
        return H

    def transform(self, X: Any, layer: int | None = None) -> Array:
        """The codes of X at the top, or at layer 1 … L.

        Each sample's code is the solution of its own nonnegative least squares problem against
        the layer's basis, with the penalty of training: it does not depend on the other samples.
        """
        check_is_fitted(self)
        layer = self._layer(layer)
        if layer < len(self.weights_) and self._wraps_output():
            raise ValueError(
                f"transform(layer={layer}) has no column names: call "
                'set_output(transform="default") for the codes of an inner layer.'
            )
        plan = self._fitted_plan()
        if is_dask(X):  # a Dask array again: nothing is worked out yet
            return transformed(self, X, layer)
        X, data = self._data(X, plan, fitting=False)
        weights = [to_device(W, data) for W in self.weights_]
        H = encode(data, weights, plan, layer)
        if layer == len(self.weights_):
            H = self._projected(plan, H)
        return self._out(H, X)

    def inverse_transform(self, Z: Any, layer: int | None = None) -> Array:
        """What codes decode to: (n_samples, n_features). `layer` as in `transform`."""
        check_is_fitted(self)
        layer = self._layer(layer)
        link = self._fitted_plan().link
        weights = self.weights_[:layer]
        H = check_codes(Z, weights, link).T
        if self.project_codes and layer == len(self.weights_):
            H = link.decode(H) * self.code_scale_
        return decode(weights, link, H).T

    def basis(self, layer: int | None = None) -> Array:
        """(k_layer, n_features): what a unit code of that layer decodes to."""
        check_is_fitted(self)
        layer = self._layer(layer)
        weights = self.weights_[:layer]
        return self.inverse_transform(eye(weights[-1].shape[-1], weights[-1]), layer)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean over samples of ‖x − x̂‖²: higher is better."""
        check_is_fitted(self)
        plan = self._fitted_plan()
        X, data = self._data(X, plan, fitting=False)
        weights = [to_device(W, data) for W in self.weights_]
        with closing(data):
            H = encode(data, weights, plan)
            return -float(squared_error(data, weights, plan.link, H)) / data.shape[-1]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a safetensors file; `deepnmf.load` reads it."""
        from deepnmf.files.models import save

        save(self, path)

    @property
    def _n_features_out(self) -> int:
        return int(self.weights_[-1].shape[-1])

    def _layer(self, layer: int | None) -> int:
        depth = len(self.weights_)
        if layer is None:
            return depth
        value = whole("layer", layer, least=1)
        if value > depth:
            raise ValueError(f"layer: {value}, but this model has {depth} layers: 1 to {depth}.")
        return value

    def _wraps_output(self) -> bool:
        from sklearn import get_config

        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        return (own or get_config()["transform_output"]) != "default"

    def _projected(self, plan: Plan, H: Array) -> Array:
        return plan.link.project(H / self.code_scale_) if self.project_codes else H

    def _fitted_plan(self) -> Plan:
        """The plan, which must still be that of the weights."""
        plan = plan_of(self)
        fitted = tuple(int(W.shape[-1]) for W in self.weights_)
        if plan.sizes != fitted:
            raise ValueError(
                f"layer_sizes is {plan.sizes}, but the fitted model has {fitted}: fit it again."
            )
        return plan
