"""`save` and `load`: write fitted models to files, and read them again."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from deepnmf.data.texts import Vectorizer
from deepnmf.files.model import (
    ModelFileError,
    Packed,
    damaged,
    packed,
    read_model,
    unpacked,
    write_model,
)
from deepnmf.files.tensors import DAMAGE
from deepnmf.models.base import Factorization, MatrixFactorization
from deepnmf.models.baselines.batch import OwnParts
from deepnmf.models.choice.record import Candidate, Choice, LayerChoice, Support
from deepnmf.models.deep import DeepNMF
from deepnmf.models.neighborhood import TrainingSamples
from deepnmf.models.part_names import is_named
from deepnmf.models.registry import BASELINES
from deepnmf.models.settings import AUTO

__all__ = ["ModelFileError", "Stored", "contents", "load", "load_stored", "rebuilt", "save"]

FITTED: dict[str, Callable[[Any], bool]] = {
    "reconstruction_err_": lambda value: value is None or (_is_number(value) and value >= 0),
    "n_iter_": lambda value: _is_count(value),
    "status_": lambda value: isinstance(value, str),
    "n_features_in_": lambda value: _is_count(value) and value > 0,
    "code_scale_": lambda value: _is_number(value) and value > 0,
    "eta_": lambda value: _is_number(value),
    "loss_weights_": lambda value: _are_numbers(value) and min(value) > 0,
    "sample_norm_": lambda value: _is_number(value) and value > 0,
    "layer_errors_": lambda value: _are_numbers(value) and min(value) >= 0,
    "reason_": lambda value: isinstance(value, str),
}
"""The fitted attributes that are stored besides the arrays and the history, and what they are."""
OPTIONAL = ("code_scale_", "eta_", "reason_", "loss_weights_", "layer_errors_", "sample_norm_")
"""Those that are stored if they are set."""
RESULTS = ("support_", "edge_support_", "choice_", "graph_", "own_parts_")
"""The fitted attributes that are trees of values and arrays. They are stored if they are set."""
RESULT_CLASSES = (Choice, LayerChoice, Candidate, Support, TrainingSamples, OwnParts)
ONLY_TRAINING = ("callback", "checkpoint")
"""Parameters that are not stored; nor is a graph that is a matrix."""
KINDS: tuple[type[Factorization], ...] = (DeepNMF, *BASELINES)
ESTIMATORS: dict[str, type[MatrixFactorization]] = {
    kind.__name__: kind for kind in KINDS if issubclass(kind, MatrixFactorization)
}
REASONS = {"converged": "converged", "stopped by": "callback", "interrupted": "interrupted"}
"""How `status_` begins, for files that have no `reason_`."""


class Stored(NamedTuple):
    """A model and the notes that were saved with it."""

    model: MatrixFactorization
    notes: dict[str, Any]


def save(
    model: Factorization,
    path: str | os.PathLike[str],
    notes: dict[str, Any] | None = None,
    *,
    samples: bool = True,
) -> None:
    """Write a fitted model. `notes` are stored with it, and may be anything that JSON can hold.
    Without `samples`, a model with a graph forgets the samples of training."""
    write_model(path, contents(model, notes, samples=samples))


def contents(
    model: Factorization, notes: dict[str, Any] | None = None, *, samples: bool = True
) -> Packed:
    """All of a fitted model, as `save` writes it."""
    if not hasattr(model, "weights_"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit before save.")
    if type(model).__name__ not in ESTIMATORS:
        raise ValueError(
            f"{type(model).__name__} cannot be saved: save its codes_ and components_, which are "
            "arrays, with numpy.savez."
        )
    names = getattr(model, "feature_names_in_", None)
    fitted = {name: getattr(model, name) for name in FITTED if hasattr(model, name)}
    if math.isnan(fitted["reconstruction_err_"]):  # of a consensus without samples
        fitted["reconstruction_err_"] = None
    header = {
        "fitted": fitted,
        "feature_names_in": None if names is None else [str(name) for name in names],
        **_shown_parts(model),
        "notes": notes or {},
    }
    parameters = {name: _portable(name, value) for name, value in model.get_params(False).items()}
    vectorizer = getattr(model, "vectorizer_", None)
    if vectorizer is not None:
        _check_vectorizer(vectorizer, model.n_features_in_)
        header["vectorizer"] = vectorizer.to_dict()
    results = {name: getattr(model, name) for name in RESULTS if hasattr(model, name)}
    if not samples:
        results.pop("graph_", None)
    return packed(type(model).__name__, parameters, model.weights_, model.history_, results, header)


def _portable(name: str, value: Any) -> Any:
    """A parameter as it is stored. A model fitted on a GPU can be used where there is none."""
    matrix = name == "graph" and not isinstance(value, str)
    if matrix or name in ONLY_TRAINING or isinstance(value, np.random.RandomState):
        return None
    return "auto" if name == "device" and value == "cuda" else value


def _shown_parts(model: Any) -> dict[str, Any]:
    """The names of parts and which are hidden; nothing where that is as after a fit."""
    names, hidden = model._checked_names(), model._checked_hidden()
    return {
        "part_names": names if any(map(is_named, names)) else None,
        "hidden_parts": hidden if any(hidden) else None,
    }


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> MatrixFactorization:
    """Read a model that `model.save` wrote. `classes` are your own link, penalty, start and solver
    classes that the model uses."""
    return load_stored(path, classes).model


def load_stored(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Stored:
    """Read a model together with its notes."""
    return _rebuilt(*read_model(path, (*classes, *RESULT_CLASSES)), path)


def rebuilt(model: Packed, where: str, classes: Iterable[type] = ()) -> Stored:
    """A model and its notes from its contents. `where` names their place in messages."""
    try:
        header, weights = unpacked(model, where, (*classes, *RESULT_CLASSES))
    except ModelFileError:
        raise
    except DAMAGE as problem:
        raise damaged(where, problem) from problem
    return _rebuilt(header, weights, where)


def _rebuilt(
    header: dict[str, Any], weights: Sequence[np.ndarray], where: str | os.PathLike[str]
) -> Stored:
    try:
        kind = ESTIMATORS[header.get("estimator", "DeepNMF")]
        model = kind(**_complete(kind, header["parameters"]))
        _set_fitted(model, header["fitted"])
        _set_results(model, header["results"], weights)
        model.history_ = header["history"]
        _check_weights(model, weights)
        model.weights_ = list(weights)
        check_random_state(model.random_state)
        model.check()
        _set_names(model, header["feature_names_in"])
        _set_part_names(model, header.get("part_names"), header.get("hidden_parts"))
        if header.get("vectorizer") is not None:
            model.vectorizer_ = Vectorizer.from_dict(header["vectorizer"])
            _check_vectorizer(model.vectorizer_, model.n_features_in_)
        model.components_ = model.basis()
        return Stored(model, _checked_notes(header["notes"]))
    except DAMAGE as problem:
        reason = problem if type(problem) is ValueError else f"{type(problem).__name__}: {problem}"
        raise damaged(where, reason) from problem


def _complete(kind: type[MatrixFactorization], parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters. Older files have no `objective`: there was only one."""
    return {"objective": "end_to_end"} | parameters if kind is DeepNMF else parameters


def _set_fitted(model: MatrixFactorization, fitted: dict[str, Any]) -> None:
    """Set the fitted attributes that are neither arrays nor the history."""
    for name, is_valid in FITTED.items():
        if name in OPTIONAL and name not in fitted:
            continue
        if not is_valid(fitted[name]):
            raise ValueError(f"{name} is {fitted[name]!r}")
        setattr(model, name, fitted[name])
    if "reason_" not in fitted:
        begins = [reason for text, reason in REASONS.items() if model.status_.startswith(text)]
        model.reason_ = [*begins, "limit"][0]

    if model.reconstruction_err_ is None:
        model.reconstruction_err_ = math.nan


def _set_results(
    model: MatrixFactorization, results: dict[str, Any], weights: Sequence[np.ndarray]
) -> None:
    """Set the fitted attributes that are trees of values and arrays."""
    choice = results.get("choice_")
    if choice is not None:
        if not isinstance(choice, Choice) or not choice.is_sound():
            raise ValueError("the choice of its layers cannot be read")
        model.choice_ = choice
    near = results.get("graph_")
    if near is not None:
        sizes = model.n_features_in_, int(weights[0].shape[-1]), int(weights[-1].shape[-1])
        if not isinstance(near, TrainingSamples) or not near.is_sound(*sizes):
            raise ValueError("its samples of training cannot be read")
        setattr(model, "graph_", near)  # noqa: B010
    own = results.get("own_parts_")
    if own is not None:
        size = int(weights[-1].shape[-1])
        if not isinstance(own, OwnParts) or not own.is_sound(model.n_features_in_, size):
            raise ValueError("the own parts of its batches cannot be read")
        setattr(model, "own_parts_", own)  # noqa: B010
    if ("support_" in results) != ("edge_support_" in results):
        raise ValueError("it has the support of parts or of edges, and not both")
    shapes = {
        "support_": [W.shape[1:] for W in weights],
        "edge_support_": [W.shape for W in weights[1:]],
    }
    for name, expected in shapes.items():
        if name in results:
            arrays = list(results[name])
            if [getattr(array, "shape", None) for array in arrays] != expected:
                raise ValueError(f"{name} does not have the shapes {expected}")
            if not all(bool(((array >= 0) & (array <= 1)).all()) for array in arrays):
                raise ValueError(f"{name} has entries that are not between 0 and 1")
            setattr(model, name, arrays)


def _check_weights(model: MatrixFactorization, weights: Sequence[np.ndarray]) -> None:
    """Refuse weights that are not those of the model."""
    sizes = model.get_params(deep=False).get("layer_sizes")
    if sizes == AUTO:
        sizes = model._sizes()
    depth = len(sizes) if isinstance(sizes, tuple) else 1
    if len(weights) != depth:
        raise ValueError(f"it has weights of {len(weights)} layers, not of {depth}")
    rows = model.n_features_in_
    for layer, W in enumerate(weights, 1):
        if W.ndim != 2 or W.shape[0] != rows or not W.shape[1]:
            raise ValueError(f"W_{layer} has the shape {W.shape} and should have {rows} rows")
        if W.dtype not in (np.float32, np.float64):
            raise ValueError(f"W_{layer} is {W.dtype}, not float32 or float64")
        if not np.isfinite(W).all():
            raise ValueError(f"W_{layer} has entries that are not finite numbers")
        if not model.signed and (W < 0).any():
            raise ValueError(f"W_{layer} has negative entries")
        rows = W.shape[1]


def _check_vectorizer(vectorizer: Vectorizer, features: int) -> None:
    if len(vectorizer.words) != features:
        raise ValueError(
            f"vectorizer_ has {len(vectorizer.words)} words, and the model {features} features"
        )


def _set_names(model: MatrixFactorization, names: Any) -> None:
    if names is None:
        return
    if not _are_texts(names) or len(names) != model.n_features_in_:
        raise ValueError(f"the feature names are not {model.n_features_in_} texts")
    model.feature_names_in_ = np.asarray(names, dtype=object)


def _set_part_names(model: MatrixFactorization, names: Any, hidden: Any) -> None:
    """Set the names of parts and which are hidden. Older files have neither."""
    if names is not None:
        if not isinstance(names, list) or not all(map(_are_texts, names)):
            raise ValueError("the names of its parts are not lists of texts")
        model.part_names_ = names
        if model.part_names_ != names:
            raise ValueError("the names of its parts have characters that cannot be shown")
    if hidden is not None:
        if not isinstance(hidden, list) or not all(isinstance(parts, list) for parts in hidden):
            raise ValueError("its hidden parts are not lists of numbers")
        model.hidden_parts_ = hidden


def _checked_notes(notes: Any) -> dict[str, Any]:
    """The notes. Those that the command line writes and uses must be of the type that it wrote."""
    if not isinstance(notes, dict):
        raise ValueError("its notes cannot be read")
    for name in (
        "model", "data", "normalize", "dtype", "layer", "batch", "labels", "text_column",
        "axis_label",
    ):  # fmt: skip
        if not isinstance(notes.get(name), str | None):
            raise ValueError(f"the note {name} is not a text")
    if not (notes.get("feature_names") is None or _are_texts(notes["feature_names"])):
        raise ValueError("the note feature_names is not a list of texts")
    for name in ("image_shape", "grid"):
        shape = notes.get(name)
        if not (shape is None or (isinstance(shape, list) and all(map(_is_count, shape)))):
            raise ValueError(f"the note {name} is not a list of sizes")
    if notes.get("grid") is not None and len(notes["grid"]) != 2:
        raise ValueError("the note grid is not a height and a width")
    return notes


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_number, value))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
