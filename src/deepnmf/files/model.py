"""Model files: arrays as safetensors, everything else as JSON in the header. No pickle."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deepnmf.arrays.tensors import to_numpy
from deepnmf.core.history import Record
from deepnmf.files.history import add_history, checked_history, read_history
from deepnmf.files.tensors import BadFileError, FileError, Json, TensorFile, open_tensors
from deepnmf.files.values import UnknownClassError, from_json, to_json
from deepnmf.links import LINKS
from deepnmf.penalties import PENALTIES, TopLayer
from deepnmf.solvers import SOLVERS
from deepnmf.starts import STARTS, Given
from deepnmf.terminal.text import one_line
from deepnmf.version import __version__

FORMAT = 2
"""Since 2, history is stored as tensors and tensors have checksums. Format 1 is still read."""
KEY = "deepnmf"
MOST_TENSORS = 10_000
TABLES: tuple[Mapping[str, type], ...] = (LINKS, PENALTIES, SOLVERS, STARTS)
NAMED = {
    kind.__name__: kind
    for kind in (*(kind for table in TABLES for kind in table.values()), TopLayer, Given)
}
"""The classes whose objects parameters may be."""


class ModelFileError(FileError):
    """A file that is not a model, or not one that this version can read."""


@dataclass(frozen=True)
class Packed:
    """A model as arrays by name, and everything else as JSON."""

    tensors: Mapping[str, np.ndarray]
    header: Json


def packed(
    estimator: str,
    parameters: Mapping[str, Any],
    weights: Iterable[Any],
    history: Sequence[Record],
    results: Mapping[str, Any],
    header: Mapping[str, Any],
) -> Packed:
    """Weights, history, parameters, other results, which are trees of values and arrays, and a
    header of values that JSON can hold."""
    tensors: dict[str, np.ndarray] = {}

    def add(array: Any, name: str) -> str:
        tensors[name] = to_numpy(array)
        return name

    def stored(name: str, value: Any) -> Any:
        if not getattr(value, "shape", None):
            return NotImplemented
        return {"tensor": add(value, f"{name.rstrip('_')}_{len(tensors)}")}

    for layer, W in enumerate(weights, 1):
        add(W, f"W_{layer}")
    described: dict[str, Any] = {}
    for name, value in parameters.items():
        try:
            described[name] = to_json(value, partial(stored, name))
        except TypeError:
            raise ValueError(
                f"{name}={value!r} cannot be saved: make it a frozen dataclass."
            ) from None
    full = {
        "format": FORMAT,
        "version": __version__,
        "estimator": estimator,
        "parameters": described,
        "results": {name: to_json(value, partial(stored, name)) for name, value in results.items()},
        "history": add_history(add, history),
        **header,
    }
    return Packed(tensors, full)


def write_model(path: str | os.PathLike[str], model: Packed) -> None:
    """Write a model to a file."""
    file = TensorFile()
    for name, array in model.tensors.items():
        file.add_array(array, name)
    file.save(Path(path), KEY, model.header)


def read_model(
    path: str | os.PathLike[str], classes: Iterable[type] = ()
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header, with parameters and results as objects and its history, and the weights.
    `classes` are the classes that parameters and results use, besides those of deepnmf's parts of
    a model."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such model file.")
    if path.is_dir():
        raise ModelFileError(f"{path}: is a folder, not a model file.")
    try:
        with open_tensors(path, KEY) as tensors:
            if tensors.header["format"] == FORMAT and not tensors.has_checksums:
                raise BadFileError("the checksums are missing")
            return unpacked(Packed(tensors, tensors.header), path, classes)
    except BadFileError as problem:
        raise damaged(path, problem) from problem


def unpacked(
    model: Packed, where: str | os.PathLike[str], classes: Iterable[type] = ()
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """What `packed` was given: the header, with parameters and results as objects and the history,
    and the weights. `where` names the place of the model in messages."""
    known = NAMED | {kind.__name__: kind for kind in classes}
    try:
        return _unpacked(model.header, model.tensors, where, known)
    except UnknownClassError as problem:
        name = one_line(problem.name)
        raise ModelFileError(
            f"{where}: the model uses {name}, which is not a class of deepnmf: pass it, "
            f"load(path, classes=[{name}])."
        ) from None


def _unpacked(
    header: Json, tensors: Mapping[str, np.ndarray], where: Any, known: Mapping[str, type]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    if header["format"] not in (1, FORMAT):
        raise ModelFileError(
            f"{where}: was written by deepnmf {one_line(header['version'], 20)} in model format "
            f"{one_line(header['format'], 20)}; this is deepnmf {__version__}, which reads formats "
            f"1 and {FORMAT}. Install a version that reads it, or fit again."
        )
    if len(tensors) > MOST_TENSORS:
        raise BadFileError(f"it has {len(tensors)} tensors, and may have {MOST_TENSORS}")
    if header["format"] == 1:
        header["history"] = checked_history(header["fitted"].pop("history_"))
    else:
        header["history"] = read_history(header["history"], tensors.__getitem__)
    for kind in ("parameters", "results"):
        header[kind] = {
            name: from_json(value, known, lambda record: tensors[record["tensor"]])
            for name, value in header.get(kind, {}).items()
        }
    depth = sum(name.startswith("W_") for name in tensors)
    return header, [tensors[f"W_{layer}"] for layer in range(1, depth + 1)]


def damaged(path: str | os.PathLike[str], problem: object) -> ModelFileError:
    """The error for a file whose content is not a valid model."""
    return ModelFileError(
        f"{path}: is not a deepnmf model file, or is cut short or damaged ({one_line(problem)}). "
        "Write one with model.save or `deepnmf fit`."
    )
