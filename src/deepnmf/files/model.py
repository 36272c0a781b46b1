"""Model files: the weights as safetensors, everything else as JSON in the header. No pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from deepnmf.arrays.tensors import to_numpy
from deepnmf.files.atomic import write_atomically
from deepnmf.files.tensors import TensorFile, UnknownClassError, from_json, to_json
from deepnmf.links import LINKS
from deepnmf.penalties import PENALTIES, TopLayer
from deepnmf.solvers import SOLVERS
from deepnmf.starts import STARTS, Given
from deepnmf.version import __version__

FORMAT = 1
KEY = "deepnmf"
TABLES: tuple[Mapping[str, type], ...] = (LINKS, PENALTIES, SOLVERS, STARTS)
NAMED = {
    kind.__name__: kind
    for kind in (*(kind for table in TABLES for kind in table.values()), TopLayer, Given)
}
"""The classes whose objects parameters may be."""


class ModelFileError(ValueError):
    """A file that is not a model, or not one that this version can read."""


def write_model(
    path: str | os.PathLike[str],
    estimator: str,
    parameters: Mapping[str, Any],
    weights: Iterable[Any],
    header: Mapping[str, Any],
) -> None:
    """Write weights, parameters, and a header of values that JSON can hold."""
    tensors = TensorFile()
    for layer, W in enumerate(weights, 1):
        _add(tensors, W, f"W_{layer}")

    def stored(value: Any) -> Any:
        if not getattr(value, "shape", None):
            return NotImplemented
        return {"tensor": _add(tensors, value, f"parameter_{len(tensors.tensors)}")}

    described: dict[str, Any] = {}
    for name, value in parameters.items():
        try:
            described[name] = to_json(value, stored)
        except TypeError:
            raise ValueError(
                f"{name}={value!r} cannot be saved: make it a frozen dataclass."
            ) from None
    full = {
        "format": FORMAT,
        "version": __version__,
        "estimator": estimator,
        "parameters": described,
        **header,
    }
    metadata = {KEY: json.dumps(full)}
    write_atomically(path, lambda file: tensors.write(file, metadata))


def _add(tensors: TensorFile, array: Any, name: str) -> str:
    values = np.ascontiguousarray(to_numpy(array))
    return tensors.add(values.dtype, values.shape, lambda: values, name)


def read_model(
    path: str | os.PathLike[str], classes: Iterable[type] = ()
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header, with its parameters as objects, and the weights. `classes` are the user's own
    classes that the parameters use."""
    header, tensors = _read(Path(path))
    known = NAMED | {kind.__name__: kind for kind in classes}
    try:
        parameters = header["parameters"].items()
        header["parameters"] = {
            name: from_json(value, known, lambda record: tensors[record["tensor"]])
            for name, value in parameters
        }
        depth = sum(name.startswith("W_") for name in tensors)
        return header, [tensors[f"W_{layer}"] for layer in range(1, depth + 1)]
    except UnknownClassError as problem:
        raise ModelFileError(
            f"The model uses {problem.name}, which is not a class of deepnmf: pass it, "
            f"load(path, classes=[{problem.name}])."
        ) from None
    except (KeyError, TypeError, IndexError, AttributeError) as problem:
        raise damaged(path, problem) from problem


def damaged(path: str | os.PathLike[str], problem: Exception) -> ModelFileError:
    """The error for a file whose content is not a valid model."""
    return ModelFileError(
        f"{path}: the model file is damaged ({type(problem).__name__}: {problem}). Fit and save "
        "the model again."
    )


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
            f"{path}: is a safetensors file, but not a deepnmf model. Write one with model.save or "
            "`deepnmf fit`."
        )
    try:
        header = json.loads(text)
        format_number, version = header["format"], header["version"]
    except (ValueError, KeyError, TypeError) as problem:
        raise ModelFileError(f"{path}: the header of the model file is damaged.") from problem
    if format_number != FORMAT:
        raise ModelFileError(
            f"{path}: was written by deepnmf {version} in model format {format_number}; this is "
            f"deepnmf {__version__}, which reads format {FORMAT}. Install a version that reads it, "
            "or fit again."
        )
    return header, tensors
