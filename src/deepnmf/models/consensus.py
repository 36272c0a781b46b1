"""`consensus`: one model from several fits, with the parts that they agree on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from deepnmf.arrays import Array, to_device
from deepnmf.arrays.tensors import to_numpy
from deepnmf.core.scaling import Scaling
from deepnmf.evaluation.matching import grouped, matched
from deepnmf.links import Link
from deepnmf.models.advice import Advice, warn
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.settings import AUTO
from deepnmf.samples.open import open_samples
from deepnmf.terminal.text import one_line

Model = TypeVar("Model", bound=MatrixFactorization)
EDGE = 0.05
"""An edge is there if at least this share of the upper part goes through it."""
SAME = 1 - 1e-6
"""Fits whose parts have at least this cosine throughout began at the same place."""
DIFFER = ("random_state", "callback", "checkpoint", "verbose", "layer_sizes")
"""The parameters in which the models may differ. Sizes are compared by the weights."""


def consensus(models: Sequence[Model], X: Any = None) -> Model:
    """One model from fits that began at different starts, or learned from different samples.

    At every layer, parts of the models are matched one to one by the cosine of what they decode to.
    Parts that match form a group: the median of its members is a part of the consensus, and the
    share of the models that have a member is its support. Parts that match no group are left out.

    Parameters
    ----------
    models : sequence of fitted models
        Of one class, with the same settings and layer sizes, as from `fit_many`. Their starts
        should differ (`start="random"`), and their samples may (`share=0.8`): fits that begin at
        the same place agree whatever they find. If they have a graph, the consensus has none.
    X : as in `fit`, default=None
        The samples. With them, codes are computed again: those of training are in their usual
        scale, and `reconstruction_err_` is that of the consensus. Without, it is NaN.

    Returns
    -------
    model : a fitted model of the same class, with the additional attributes

        support_ : list of arrays, per layer the share of the models that have each part. Parts with
        the most support come first.
        edge_support_ : list of arrays (k_{l−1}, k_l), per layer above the first the share of the
        models in which both parts are there, and at least 5% of the upper goes through the lower.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from deepnmf import consensus, fit_many, sdnmf_l
    >>> X = load_digits().data[:500] / 16
    >>> models = fit_many(X, sdnmf_l((12, 6), start="random", max_iter=100), seeds=5)
    >>> model = consensus(models, X)
    >>> [support.shape for support in model.support_]
    [(12,), (6,)]
    """
    models = _checked(models)
    first = models[0]
    layers = range(1, len(first.weights_) + 1)
    parts = [[_decoded(model, layer) for model in models] for layer in layers]
    _warn_of_one_start(first, parts)
    members = [grouped(of_layer) for of_layer in parts]
    weights = [_comparable(model) for model in models]
    made = clone(first)
    if hasattr(made, "graph_strength"):
        made.set_params(graph=None)  # the graphs of the models are of their own codes
    if first.get_params(deep=False).get("layer_sizes") == AUTO:
        made.set_params(layer_sizes=tuple(len(groups) for groups in members))
    _set_story(made, models)
    made.weights_ = [
        to_device(_median_weights(weights, members, layer), first.weights_[0]) for layer in layers
    ]
    made.components_ = made.basis()
    made.support_ = [(groups >= 0).mean(axis=1) for groups in members]
    made.edge_support_ = [_edge_support(weights, parts, members, layer) for layer in layers[1:]]
    if X is not None:
        _refit_codes(made, X, first)
    return made


def _checked(models: Any) -> list[Any]:
    """The models, if they can be compared part by part."""
    if isinstance(models, MatrixFactorization) or not isinstance(models, Iterable):
        models = [models]
    models = list(models)
    for model in models:
        if not isinstance(model, MatrixFactorization):
            raise ValueError(
                f"consensus: {one_line(repr(model))} is not a model of one matrix. Give fitted "
                "models, as fit_many returns them."
            )
        check_is_fitted(model)
    if len(models) < 2:
        raise ValueError(
            f"consensus: several fitted models are needed to agree, got {len(models)}. Use "
            "fit_many(X, model, seeds=10)."
        )
    first = models[0]
    for model in models[1:]:
        shapes = [[tuple(W.shape) for W in one.weights_] for one in (first, model)]
        if type(model) is not type(first) or shapes[0] != shapes[1]:
            raise ValueError(
                "consensus: the models are of different kinds or sizes, "
                f"{type(first).__name__} {shapes[0]} and {type(model).__name__} {shapes[1]}. Give "
                "models of one kind with the same features and layer sizes."
            )
        ours, theirs = first.get_params(deep=False), model.get_params(deep=False)
        for name in sorted(ours.keys() - set(DIFFER)):
            if repr(ours[name]) != repr(theirs[name]):
                raise ValueError(
                    f"consensus: the models differ in {name}, {one_line(repr(ours[name]))} and "
                    f"{one_line(repr(theirs[name]))}. Fit them with the same settings."
                )
        if not np.array_equal(_names(first), _names(model)):
            raise ValueError(
                "consensus: the models have other names of features. Fit them to the same columns."
            )
    return models


def _names(model: MatrixFactorization) -> Any:
    return getattr(model, "feature_names_in_", None)


def _decoded(model: MatrixFactorization, layer: int) -> np.ndarray:
    """What a part of a layer adds to what code 0 decodes to, one row per part."""
    basis = to_numpy(model.basis(layer)).astype(np.float64)
    if layer == 1 or _link(model).at_zero == 0:
        return basis
    nothing = model.inverse_transform(0 * model.weights_[layer - 1][:1], layer)
    return np.asarray(basis - to_numpy(nothing).astype(np.float64))


def _warn_of_one_start(first: MatrixFactorization, parts: Sequence[Sequence[np.ndarray]]) -> None:
    """Fits that began at the same place agree, and that tells nothing."""
    if all(
        (matched(of_layer[0], other)[1] >= SAME).all() for of_layer in parts for other in of_layer
    ):
        warn(
            "consensus: all models have the same parts, so support says nothing. "
            'Let the starts differ (start="random"), or the samples (fit_many(…, share=0.8)).'
            if "start" in first.get_params(deep=False)
            else "consensus: all models have the same parts, so support says nothing. Let the "
            "samples differ: fit_many(…, share=0.8).",
            Advice,
        )


def _comparable(model: MatrixFactorization) -> list[np.ndarray]:
    """The weights in a scale that is the same for all models, in double precision."""
    weights = [to_numpy(W).astype(np.float64) for W in model.weights_]
    used, link = model._decoder(weights)
    if model.unit_codes or link.degree is None or used is not weights:
        return weights
    below = (True,) * (len(weights) - 1)
    nothing = np.zeros((weights[-1].shape[1], 1))
    unit = Scaling((*below, False), unit_rows=False, degree=link.degree)
    return [np.asarray(W) for W in unit.fix_weights(weights, nothing, None)[0]]


def _median_weights(
    weights: Sequence[Sequence[np.ndarray]], members: Sequence[np.ndarray], layer: int
) -> np.ndarray:
    """W_layer of the consensus: the median direction of each group, and its median norm."""
    groups, below = members[layer - 1], members[layer - 2] if layer > 1 else None
    columns = []
    for group in groups:
        own = [
            _column(of[layer - 1][:, part], None if below is None else below[:, model])
            for model, (of, part) in enumerate(zip(weights, group, strict=True))
            if part >= 0
        ]
        norms = [math.sqrt(np.nansum(column**2)) for column in own]
        units = [column / (norm or 1) for column, norm in zip(own, norms, strict=True)]
        columns.append(_direction(np.stack(units)) * np.median(norms))
    return np.stack(columns, axis=1)


def _column(column: np.ndarray, below: np.ndarray | None) -> np.ndarray:
    """A column of weights in the order of the consensus; NaN for parts that the model lacks."""
    return column if below is None else np.where(below >= 0, column[below], np.nan)


def _direction(units: np.ndarray) -> np.ndarray:
    """The median of each entry over the models that have it, with norm 1."""
    missing = np.isnan(units).all(axis=0)
    median = np.where(missing, 0, np.nanmedian(np.where(missing, 0, units), axis=0))
    return np.asarray(median / (np.linalg.norm(median) or 1))


def _edge_support(
    weights: Sequence[Sequence[np.ndarray]],
    parts: Sequence[Sequence[np.ndarray]],
    members: Sequence[np.ndarray],
    layer: int,
) -> np.ndarray:
    """The share of the models that have each edge from layer − 1 to this layer."""
    below, above = members[layer - 2], members[layer - 1]
    found = np.zeros((len(below), len(above)))
    for model, of in enumerate(weights):
        flow = np.abs(of[layer - 1]) * np.abs(parts[layer - 2][model]).sum(axis=1, keepdims=True)
        edges = flow >= EDGE * flow.sum(axis=0)
        both = (below[:, model, None] >= 0) & (above[:, model] >= 0)
        found += both & edges[np.ix_(below[:, model], above[:, model])]
    return found / len(weights)


def _set_story(made: MatrixFactorization, models: Sequence[MatrixFactorization]) -> None:
    """The fitted attributes besides the weights: medians of those of the models."""
    first = models[0]
    made.n_features_in_ = first.n_features_in_
    if hasattr(first, "feature_names_in_"):
        made.feature_names_in_ = first.feature_names_in_
    for name in ("code_scale_", "loss_weights_", "sample_norm_", "eta_"):
        if hasattr(first, name):
            median = np.median([getattr(model, name) for model in models], axis=0)
            setattr(made, name, median.tolist())
    made.history_, made.n_iter_, made.reconstruction_err_ = [], 0, math.nan
    made.reason_, made.status_ = "consensus", f"consensus of {len(models)} models."


def _refit_codes(made: MatrixFactorization, X: Any, first: MatrixFactorization) -> None:
    """Compute the codes of X: their scale, and what they leave of X."""
    degree = _link(made).degree
    with open_samples(X, made._needs(fitting=False)) as samples:
        n = samples.data.shape[-1]
        codes = [made._codes_of(samples, layer) for layer in range(1, len(made.weights_) + 1)]
        if made.unit_codes and degree is not None:
            made.weights_ = _rescaled(made.weights_, codes, degree)
    made.components_ = made.basis()
    if hasattr(first, "codes_"):
        made.codes_ = made.transform(X)
    made.reconstruction_err_ = math.sqrt(max(0.0, -made.score(X) * n))


def _rescaled(weights: Sequence[Array], codes: Sequence[Array], degree: float) -> list[Array]:
    """The weights for codes with unit RMS at every layer; what they decode to stays the same."""
    scaled, below = [], None
    for W, H in zip(weights, codes, strict=True):
        rms = np.sqrt(np.mean(np.square(to_numpy(H), dtype=np.float64), axis=0))
        scale = to_device(np.where(rms > 0, rms, 1), W)
        scaled.append(W * scale if below is None else W * scale / below[:, None] ** (1 / degree))
        below = scale
    return scaled


def _link(model: MatrixFactorization) -> Link:
    """The link between the layers of a model."""
    return model._decoder(model.weights_)[1]
