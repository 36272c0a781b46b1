"""Model files: the weights as safetensors, everything else as JSON in its header. No pickle.

A file is written beside its place and then renamed, so a crash leaves the old file whole.
"""

from __future__ import annotations

import dataclasses
import json
import numbers
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from deepnmf import links, penalties, solvers, starts
from deepnmf.models import baselines
from deepnmf.models.deep import DeepNMF
from deepnmf.version import __version__

FORMAT = 1
KEY = "deepnmf"
PARTS: tuple[type, ...] = (
    links.Identity,
    links.Root,
    links.Tanh,
    links.Sigmoid,
    links.Softplus,
    penalties.Zero,
    penalties.SquaredL1,
    penalties.Ridge,
    penalties.TopLayer,
    solvers.Auto,
    solvers.Coordinate,
    solvers.Nesterov,
    solvers.ProjectedGradient,
    starts.Nnsvd,
    starts.Random,
    starts.Given,
)
FITTED = (
    "history_",
    "reconstruction_err_",
    "n_iter_",
    "status_",
    "n_features_in_",
    "code_scale_",
    "eta_",
)
"""Of these, those that a model has."""
ESTIMATORS: dict[str, Any] = {
    DeepNMF.__name__: DeepNMF,
    **{
        name: getattr(baselines, name)
        for name in baselines.__all__
        if issubclass(getattr(baselines, name), baselines.Baseline)
    },
}


class ModelFileError(ValueError):
    """A file that is no model, or none that this version can read."""


class Stored(NamedTuple):
    """A model and the notes that were saved with it."""

    model: Any
    notes: dict[str, Any]


def save(model: Any, path: str | os.PathLike[str], notes: dict[str, Any] | None = None) -> None:
    """Write a fitted model. `notes` is anything JSON can hold that should travel with it."""
    if not hasattr(model, "weights_"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit before save.")
    if type(model).__name__ not in ESTIMATORS:
        raise ValueError(
            f"{type(model).__name__} cannot be saved: keep its codes_ and components_, which are "
            "arrays, with numpy.savez."
        )
    tensors = {f"W_{layer}": _numpy(W) for layer, W in enumerate(model.weights_, 1)}
    parameters = {
        name: _encode(name, value, tensors) for name, value in model.get_params(False).items()
    }
    header = {
        "format": FORMAT,
        "version": __version__,
        "estimator": type(model).__name__,
        "parameters": parameters,
        "fitted": {name: getattr(model, name) for name in FITTED if hasattr(model, name)},
        "feature_names_in": _names(model),
        "notes": notes or {},
    }
    write_atomically(path, to_bytes(tensors, metadata={KEY: json.dumps(header)}))


def load(path: str | os.PathLike[str], parts: Iterable[type] = ()) -> Any:
    """Read a model that its `save` wrote. `parts`: classes of your own that it uses."""
    return load_stored(path, parts).model


def load_stored(path: str | os.PathLike[str], parts: Iterable[type] = ()) -> Stored:
    """Read a model together with its notes."""
    header, tensors = _read(Path(path))
    known = {part.__name__: part for part in (*PARTS, *parts)}
    try:
        parameters = {
            name: _decode(value, tensors, known) for name, value in header["parameters"].items()
        }
        model = ESTIMATORS[header.get("estimator", "DeepNMF")](**parameters)
        depth = sum(name.startswith("W_") for name in tensors)
        model.weights_ = [tensors[f"W_{layer}"] for layer in range(1, depth + 1)]
        for name in FITTED[:5]:
            setattr(model, name, header["fitted"][name])
        for name in FITTED[5:]:
            if name in header["fitted"]:
                setattr(model, name, header["fitted"][name])
        if header["feature_names_in"] is not None:
            model.feature_names_in_ = np.asarray(header["feature_names_in"], dtype=object)
        model.components_ = model.basis()
        return Stored(model, header["notes"])
    except (KeyError, TypeError, IndexError) as problem:
        raise ModelFileError(
            f"{path}: the model file is damaged ({type(problem).__name__}: {problem}). Fit and "
            "save the model again."
        ) from problem


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """The old file or the new one, never half of either."""
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".deepnmf-", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such model file.")
    if path.is_dir():
        raise ModelFileError(f"{path}: is a folder, not a model file.")
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as problem:
        raise ModelFileError(
            f"{path}: is not a deepnmf model file, or is cut short ({problem}). Write one with "
            "model.save or `deepnmf fit`."
        ) from problem
    if text is None:
        raise ModelFileError(
            f"{path}: is a safetensors file, but no deepnmf model. Write one with model.save or "
            "`deepnmf fit`."
        )
    try:
        header = json.loads(text)
        found, version = header["format"], header["version"]
    except (ValueError, KeyError, TypeError) as problem:
        raise ModelFileError(f"{path}: the header of the model file is damaged.") from problem
    if found != FORMAT:
        raise ModelFileError(
            f"{path}: was written by deepnmf {version} in model format {found}; this is deepnmf "
            f"{__version__}, which reads format {FORMAT}. Install a version that reads it, or fit "
            "again."
        )
    return header, tensors


def _names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _numpy(array: Any) -> np.ndarray:
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    return np.ascontiguousarray(array)


def _encode(name: str, value: Any, tensors: dict[str, np.ndarray]) -> Any:
    """A parameter as JSON; arrays go to the tensors. What cannot travel becomes None."""
    # Callbacks and graphs are for training alone.
    if name in ("callback", "graph", "checkpoint") or isinstance(value, np.random.RandomState):
        return None
    if name == "device":
        # A model fitted on a card can be used where there is none.
        return "auto" if value == "cuda" else value
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _encode(name, getattr(value, field.name), tensors)
            for field in dataclasses.fields(value)
        }
        return {"part": type(value).__name__, "fields": fields}
    if hasattr(value, "shape") and value.shape:
        key = f"parameter_{len(tensors)}"
        tensors[key] = _numpy(value)
        return {"tensor": key}
    if isinstance(value, Iterable):
        return [_encode(name, entry, tensors) for entry in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise ValueError(f"{name}={value!r} cannot be saved: make it a frozen dataclass.")


def _decode(value: Any, tensors: dict[str, np.ndarray], known: dict[str, type]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(entry, tensors, known) for entry in value)
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    part = known.get(value["part"])
    if part is None:
        raise ModelFileError(
            f"The model uses a part of its author's own, {value['part']}: pass the class, "
            f"load(path, parts=[{value['part']}])."
        )
    return part(**{name: _decode(entry, tensors, known) for name, entry in value["fields"].items()})
