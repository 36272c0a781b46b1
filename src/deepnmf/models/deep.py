"""DeepNMF: all models of the paper as settings of one estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from deepnmf.arrays import (
    Array,
    by_samples,
    column_dots,
    in_order,
    namespace,
    stack_shape,
    to_device,
)
from deepnmf.core.graph import Pull
from deepnmf.core.plan import Plan
from deepnmf.core.training import Run, Trained, train_watched
from deepnmf.core.watch import Keeper, Watch
from deepnmf.files.checkpoint import Checkpoint, CheckpointFile, checkpoint_of
from deepnmf.links import Link
from deepnmf.models.advice import (
    warn,
    warn_of_clipped_codes,
    warn_of_collapse,
    warn_of_counts,
    warn_of_sizes,
)
from deepnmf.models.base import Callback, MatrixFactorization, Seed
from deepnmf.models.neighborhood import GraphOf, TrainingSamples, pull_of
from deepnmf.models.settings import (
    check_given,
    check_penalties,
    chooses,
    link_of,
    plan_of,
)
from deepnmf.models.stream import learn_batch
from deepnmf.models.strengths import STRENGTHS, strengths_of, with_strength
from deepnmf.penalties import Penalty, TopLayer
from deepnmf.samples.base import Needs, Samples
from deepnmf.solvers import Solver
from deepnmf.starts import Given, Start

MANY = 200
"""How wide layers are taken to be, for blocks that fit the memory, before they are chosen."""
Penalties = None | Penalty | TopLayer | Sequence[Penalty | None]


@dataclass(eq=False, repr=False, kw_only=True)
class DeepNMF(MatrixFactorization):
    """Sparse deep nonnegative matrix factorization, X ≈ W_1 φ(W_2 φ(… φ(W_L H_L))).

    Minimises ½‖X − X̂‖² + Σ_l R_l(W_l) + R(H_L) over factors ≥ 0: first layer by layer
    (pre-training), then all layers together (fine-tuning). The models of Guo and Zhang are
    settings of this class; `sdnmf_l` and the other presets make them.

    Parameters
    ----------
    layer_sizes : tuple of int, int, or "auto"
        The number of parts in each layer, from the data up: (k_1, …, k_L). A number is a single
        layer. "auto" chooses how many layers and parts when the model is fitted, as
        `choose_layers` does; that takes some hundred short fits to samples held out.
    link : str or Link, default="identity"
        The function between layers: "identity" (the linear models), "root", "tanh", "sigmoid",
        "softplus", or your own Link.
    project_codes : bool, default=False
        Return g(H_L) instead of H_L, where g is the inverse of the link.
    penalty_W, penalty_H : None, Penalty, TopLayer or one per layer, default=None
        Penalties on the weights and on the codes. Pre-training uses the codes penalty of every
        layer; fine-tuning only that of the last, whose codes are the only ones left.
    scaling : "fixed" or "paper", default="fixed"
        "fixed" fixes the scale of every factor. Strengths of penalties have no units: data in other
        units, or every sample twice, give the same parts. Codes come out with unit RMS over the
        samples of training. "paper" is the objective as printed. Its penalty on one factor fades as
        the other takes over the scale, so that results depend on when training stops.
    objective : None, "layers" or "end_to_end", default=None
        "layers" has a loss on every layer: each explains the codes of the layer below, and its
        parts do not depend on when training stops. "end_to_end" is the paper's: only X − X̂ counts.
        None is "layers" with fixed scales and a link that is a power, as "identity" and "root" are,
        and otherwise "end_to_end".
    layer_weights : float or one per layer above the first, default=0.05
        With a loss on every layer, what the relative error of a layer counts, compared with that
        of layer 1.
    decoding_weight : float, default=1.0
        With a loss on every layer of a linear model, what the relative error of X̂, decoded from the
        last codes, counts. 0: the last layer describes the codes below it, and not the data.
    graph : None, "codes", "data" or matrix (n_samples, n_samples), default=None
        Give neighbouring samples similar codes: ½ λ c tr(H_L L H_Lᵀ) with the normalised Laplacian
        L of a graph, and c such that λ has no unit. "codes" links samples whose codes of layer 1
        point in similar directions, and renews the graph as the codes change; "data" links those
        with similar entries; or give a symmetric matrix ≥ 0, dense or sparse. `transform` looks up
        the neighbours of new samples. With an end-to-end loss, the unit of codes is then a part of
        unit norm.
    neighbors : int, default=10
        The number of nearest samples that each is linked to; the nearest of them count the most.
    graph_strength : float, default=10.0
        λ: what the relative roughness of the codes counts, compared with their relative errors.
    start : "nnsvd", "random", Start or Given, default="nnsvd"
        Where a fit begins. A `Given` holds your own weights, and codes if you have them.
    fill : "zero", "mean", "random" or float, default="random"
        What replaces the zeros of an NNSVD start. With fixed scales it is relative to the other
        entries of the start, and with the paper's to X.
    solver : "auto", "coordinate", "nesterov", "projected_gradient" or Solver, default="auto"
        "coordinate" is the fastest on a CPU. "nesterov" is that of the paper, and works everywhere.
        "auto" takes the first for NumPy arrays and the second for tensors.
    max_iter : int, default=1000
        The most sweeps of fine-tuning or, with one layer, alternations.
    pretrain_iter : int, default=100
        The most alternations per layer in pre-training.
    tol : float, default=1e-6
        Stop when a sweep lowers the objective by less than `tol` times its value, or when the
        relative error ‖X − X̂‖/‖X‖ is below `tol`. 0 never stops early. With a loss on every layer,
        the mean of the last sweeps counts, and pre-training stops at 1e-3.
    device : None, "cpu", "cuda" or "auto", default=None
        None computes where X is. "auto" uses a CUDA device if there is one.
    max_memory : None, str or int, such as "600MB", default=None
        Work on blocks of samples within about this much memory; codes that need more go to a file.
        Without it, arrays on disk (a NumPy memmap, an HDF5 or zarr array) are read in blocks if
        the fit would need more than a quarter of the machine's memory. A list of matrices is always
        worked on block by block.
    checkpoint : None, path or `deepnmf.Checkpoint`, default=None
        Store the fit in this file, once a minute and at its end. A fit with the same settings and
        data continues from the file as if it had never stopped; other settings or data are
        refused.
    callback : callable or None, default=None
        Called with a record (a dict, as in `history_`) after each alternation and sweep. If it
        returns True, the fit stops and keeps what it has. So does Ctrl-C, with a warning.
    verbose : bool, default=False
        Print one line per record.
    random_state : int, RandomState or None, default=None
        Seeds the start. The same seed gives the same model.

    Attributes
    ----------
    weights_ : list of arrays
        W_1 … W_L. W_l has shape (k_{l−1}, k_l), with k_0 = n_features.
    components_ : array (k_L, n_features)
        The parts of the last layer as features: what unit codes decode to.
    code_scale_ : float
        With `project_codes`, the scale R of the last layer: codes are g(H_L/R). 1 for "root".
    history_ : list of dict
        One record per sweep: stage, layer, sweep, objective, penalty, kkt (the distance from a
        stationary point), dead (the number of unused units), seconds. Past 1000 records, every
        second one is dropped and only every second sweep is added, then every fourth, and so on;
        the first and the last record of each stage always stay. `sweep` counts all sweeps.
    reconstruction_err_ : float
        ‖X − X̂‖_F at the end of training.
    loss_weights_ : list of float
        With a loss on every layer, what the loss of each counts: a_1 = 1, …, a_L.
    layer_errors_ : list of float
        With a loss on every layer, the relative error of each: ‖X − W_1H_1‖/‖X‖ first, then how
        well each layer explains the codes of the layer below.
    graph_ : TrainingSamples
        With a graph, what `transform` needs of the samples of training.
    choice_ : Choice
        With layer_sizes="auto", what was chosen and why: `print(model.choice_)`.
    sample_norm_ : float
        With scaling="fixed" and an end-to-end loss, the root mean square norm of the samples of
        training, to which the strengths of penalties are relative.
    n_iter_ : int
        The number of fine-tuning sweeps.
    reason_ : str
        Why training stopped: "converged", "limit", "stalled", "callback" or
        "interrupted".
    status_ : str
        The reason as a sentence, with advice.
    part_names_ : list of lists of str
        Per layer, the names of its parts: "part 0", … until you give others.
    hidden_parts_ : list of lists of int
        Per layer, the parts that tables, trees and the page leave out.
    n_features_in_, feature_names_in_ : as in every scikit-learn estimator

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from deepnmf import DeepNMF
    >>> X = load_digits().data / 16
    >>> model = DeepNMF((32, 10), random_state=0)
    >>> model.fit_transform(X).shape
    (1797, 10)
    """

    stacks = True

    layer_sizes: Sequence[int] | int | str = field(default=(64, 16), kw_only=False)
    link: str | Link = "identity"
    project_codes: bool = False
    penalty_W: Penalties = None
    penalty_H: Penalties = None
    scaling: str = "fixed"
    objective: str | None = None
    layer_weights: float | Sequence[float] = 0.05
    decoding_weight: float = 1.0
    graph: str | Any = None
    neighbors: int = 10
    graph_strength: float = 10.0
    start: str | Start | Given = "nnsvd"
    fill: str | float = "random"
    solver: str | Solver = "auto"
    max_iter: int = 1000
    pretrain_iter: int = 100
    tol: float = 1e-6
    device: str | None = None
    max_memory: str | int | None = None
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None
    callback: Callback | None = None
    verbose: bool = False
    random_state: Seed = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters and, with `deep`, the strengths `mu` and `lam` of the penalties."""
        params: dict[str, Any] = super().get_params(deep)
        return params | strengths_of(self) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Change parameters, also `mu` and `lam` where a model has such penalties."""
        for name, option in STRENGTHS.items():
            if name in params:
                setting = params.get(option, getattr(self, option))
                params[option] = with_strength(name, setting, params.pop(name))
        super().set_params(**params)
        return self

    def _plan(self) -> Plan:
        """The plan that the parameters describe. Refuses settings that cannot work."""
        return plan_of(self)

    def _sizes(self) -> tuple[int, ...]:
        return self._plan().sizes

    @property
    def unit_codes(self) -> bool:
        """Whether codes of training have unit RMS at every layer."""
        return self._plan().layered

    @property
    def footprint(self) -> int:  # type: ignore[override]
        """How many arrays as large as the widest codes a run of a stack has in memory."""
        return 10 if self._plan().link.linear else 20

    def _needs(self, *, fitting: bool) -> Needs:
        needs = super()._needs(fitting=fitting)
        if fitting and self.graph is not None and self.graph_strength > 0:
            if self.max_memory is not None:
                raise ValueError(
                    "max_memory: a graph ties samples of all blocks together. Leave one of them "
                    "out."
                )
            return replace(
                needs,
                why_no_blocks="a graph ties samples of all blocks together. Load X into memory, or "
                "fit without a graph",
            )
        widest = MANY if chooses(self) else max(self._sizes())
        return replace(needs, blocks=True, widest=widest, max_memory=self.max_memory)

    def _fitted_layer(self, layer: int | None) -> int:
        if chooses(self) and hasattr(self, "weights_") and not hasattr(self, "choice_"):
            raise ValueError(
                'layer_sizes="auto": no layers were chosen when this model was fitted. Fit it '
                "again."
            )
        return super()._fitted_layer(layer)

    def _keeper(self, samples: Samples) -> Keeper | None:
        checkpoint = checkpoint_of(self.checkpoint)
        if checkpoint is None:
            return None
        parameters = self.get_params(deep=False)
        if chooses(self):
            parameters["layer_sizes"] = self._sizes()
        return CheckpointFile(checkpoint, parameters, samples.data, samples.fingerprint(), warn)

    def _learn(self, samples: Samples) -> None:
        before = self.__dict__.pop("choice_", None)
        try:
            if chooses(self):
                from deepnmf.models.choice.choose import choose_for

                self.choice_ = choose_for(self, samples)
            super()._learn(samples)
        except BaseException:
            self.__dict__.pop("choice_", None)
            if before is not None:
                self.choice_ = before
            raise

    def _train(self, X: Array, watch: Watch) -> Trained:
        plan = self._plan()
        check_given(plan, X)
        check_penalties(plan, X)
        if isinstance(plan.graph, GraphOf):
            plan.graph.check(int(X.shape[-1]))
        refusal = plan.solver.refusal(X, (*plan.penalties_W, *plan.penalties_H))
        if refusal:
            raise ValueError(refusal)
        warn_of_sizes(plan.sizes, X)
        warn_of_counts(X)
        return train_watched(X, plan, watch)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return self._encode_layer(X, weights, len(weights), [self])

    def _encode_layer(
        self, X: Array, weights: Sequence[Array], layer: int, models: Sequence[Any]
    ) -> Array:
        if all("graph_" in vars(model) for model in models):
            return by_samples(self._encode_beside, X, tuple(weights), layer, tuple(models))
        return self._encode_alone(X, weights, layer, models)

    def _encode_beside(
        self, X: Array, weights: Sequence[Array], layer: int, models: Sequence[Any]
    ) -> Array:
        """The codes of samples in memory that have neighbours."""
        top, samples = len(weights), [model.graph_ for model in models]
        if layer < top and not self._plan().layered:
            return self._encode_alone(X, weights, layer, models)
        by_codes = samples[0].by == "codes"
        first = self._first_codes(X, weights, models) if by_codes else None
        pull = pull_of(samples, X, first, weights[-1])
        return self._encode_alone(X, weights, layer, models, pull)

    def _first_codes(self, X: Array, weights: Sequence[Array], models: Sequence[Any]) -> Array:
        """Codes of layer 1 without a graph, of parts of unit norm."""
        W = in_order(weights[0])
        norms = namespace(W).sqrt(column_dots(W, W))
        return self._encode_alone(X, weights, 1, models) * norms.mT

    def _encode_alone(
        self,
        X: Array,
        weights: Sequence[Array],
        layer: int,
        models: Sequence[Any],
        pull: Pull | None = None,
    ) -> Array:
        """The codes of samples by themselves, or under a pull."""
        plan, stack = self._plan(), stack_shape(weights[0])
        if not plan.layered:
            squares = np.asarray([getattr(model, "sample_norm_", 1.0) ** 2 for model in models])
            return plan.encode(X, weights[:layer], squares.reshape(stack), pull)
        known = plan.layer_weights
        numbers = np.asarray([getattr(model, "loss_weights_", known) for model in models])
        importance = [to_device(column.reshape(*stack, 1, 1), weights[0]) for column in numbers.T]
        return plan.encode_layers(X, weights, importance, layer, pull)

    def _decoder(self, weights: Sequence[Array]) -> tuple[Sequence[Array], Link]:
        return weights, link_of(self.link)

    def _keep(self, samples: Samples, run: Run, error: float, basis: Array) -> None:
        self._stream = None  # a later partial_fit starts from these weights
        super()._keep(samples, run, error, basis)
        extras = {"loss_weights_": run.importance, "layer_errors_": run.errors}
        extras["sample_norm_"] = None if run.square is None else run.square**0.5
        for name, value in extras.items():
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, list(value) if isinstance(value, tuple) else value)
        plan = self._plan()
        if run.near is not None:
            X, by_data = samples.data, isinstance(self.graph, str) and self.graph == "data"
            first = None if by_data else self._first_codes(X, run.weights, [self])
            self.graph_ = TrainingSamples.of_deep(X, run.H, run.near, self.neighbors, first)
        warn_of_collapse(plan, run)
        if self.project_codes:
            warn_of_clipped_codes(plan.link, run.H / self.code_scale_)

    def partial_fit(self, X: Any, y: Any = None, *, forget: float = 0.7) -> DeepNMF:
        """Learn from one more batch of samples; earlier batches are not needed again.

        The first batch is used for pre-training, and should have at least as many samples as the
        widest layer has parts. With every new batch, what was learned from earlier ones counts
        `forget` times as much: use 1 for a data set in batches, and less for a stream that changes.
        After `fit` or `load`, learning starts from the weights, but the samples they were learned
        from have no weight. `history_` has one record per batch, with its objective before the
        model learned from it.
        """
        if chooses(self) and not hasattr(self, "choice_"):
            raise ValueError(
                'partial_fit: layer_sizes="auto" needs many samples at once to choose from. Call '
                "choose_layers with some of them, and give its layer_sizes."
            )
        if self.graph is not None:
            raise ValueError(
                "partial_fit: a graph needs all samples at once. Use fit, or graph=None."
            )
        learn_batch(self, X, forget)
        return self
