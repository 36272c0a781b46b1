"""`save` and `load`: write fitted models to files, and read them again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from deepnmf.files.model import ModelFileError, damaged, read_model, write_model
from deepnmf.models.base import Factorization, MatrixFactorization
from deepnmf.models.deep import DeepNMF
from deepnmf.models.registry import BASELINES

__all__ = ["ModelFileError", "Stored", "load", "load_stored", "save"]

REQUIRED = ("history_", "reconstruction_err_", "n_iter_", "status_", "n_features_in_")
OPTIONAL = ("code_scale_", "eta_", "reason_")
"""The fitted attributes that are stored besides the weights, the optional ones if they are set."""
ONLY_TRAINING = ("callback", "graph", "checkpoint")
"""Parameters that are not stored."""
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
    model: Factorization, path: str | os.PathLike[str], notes: dict[str, Any] | None = None
) -> None:
    """Write a fitted model. `notes` are stored with it, and may be anything that JSON can hold."""
    if not hasattr(model, "weights_"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit before save.")
    if type(model).__name__ not in ESTIMATORS:
        raise ValueError(
            f"{type(model).__name__} cannot be saved: save its codes_ and components_, which are "
            "arrays, with numpy.savez."
        )
    names = getattr(model, "feature_names_in_", None)
    header = {
        "fitted": {
            name: getattr(model, name) for name in (*REQUIRED, *OPTIONAL) if hasattr(model, name)
        },
        "feature_names_in": None if names is None else [str(name) for name in names],
        "notes": notes or {},
    }
    parameters = {name: _portable(name, value) for name, value in model.get_params(False).items()}
    write_model(path, type(model).__name__, parameters, model.weights_, header)


def _portable(name: str, value: Any) -> Any:
    """A parameter as it is stored. A model fitted on a GPU can be used where there is none."""
    if name in ONLY_TRAINING or isinstance(value, np.random.RandomState):
        return None
    return "auto" if name == "device" and value == "cuda" else value


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> MatrixFactorization:
    """Read a model that `model.save` wrote. `classes` are your own link, penalty, start and solver
    classes that the model uses."""
    return load_stored(path, classes).model


def load_stored(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Stored:
    """Read a model together with its notes."""
    header, weights = read_model(path, classes)
    try:
        model = ESTIMATORS[header.get("estimator", "DeepNMF")](**header["parameters"])
        model.weights_ = list(weights)
        fitted = header["fitted"]
        for name in REQUIRED:
            setattr(model, name, fitted[name])
        for name in OPTIONAL:
            if name in fitted:
                setattr(model, name, fitted[name])
        if "reason_" not in fitted:
            status = fitted["status_"]
            begins = [reason for text, reason in REASONS.items() if status.startswith(text)]
            model.reason_ = [*begins, "limit"][0]
        if header["feature_names_in"] is not None:
            model.feature_names_in_ = np.asarray(header["feature_names_in"], dtype=object)
        model.components_ = model.basis()
        return Stored(model, header["notes"])
    except (KeyError, TypeError, IndexError, AttributeError) as problem:
        raise damaged(path, problem) from problem
