"""What parts and features are called, and which of them are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deepnmf.explain.decoding import is_whole
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.part_names import default_name
from deepnmf.terminal.text import one_line, printable


def part_name(names: Sequence[Sequence[str]], layer: int, part: int) -> str:
    """What a part is called where parts of all layers meet."""
    name = names[layer - 1][part]
    return f"{name} of layer {layer}" if name == default_name(part) else name


def part_number(names: Sequence[Sequence[str]], layer: int, part: int | str) -> int:
    """The number of a part that is given by its number or its name."""
    of_layer = names[layer - 1]
    if isinstance(part, str):
        if part in of_layer:
            return of_layer.index(part)
        raise ValueError(
            f"part: no part of layer {layer} is named {one_line(repr(part))}. Give a name in "
            f"part_names_[{layer - 1}], or a number."
        )
    if not is_whole(part) or not 0 <= part < len(of_layer):
        raise ValueError(
            f"part: {one_line(repr(part))}, but layer {layer} has {len(of_layer)} parts: 0 to "
            f"{len(of_layer) - 1}."
        )
    return int(part)


def shown_parts(
    model: MatrixFactorization, layer: int, part: int | str | None = None, *, hidden: bool = False
) -> np.ndarray:
    """The number of one part, or those of all parts of a layer that are not hidden."""
    names = model._checked_names()
    if part is not None:
        return np.array([part_number(names, layer, part)])
    left_out = set() if hidden else set(model._checked_hidden()[layer - 1])
    numbers = range(len(names[layer - 1]))
    return np.array([number for number in numbers if number not in left_out], dtype=int)


def known_features(
    model: MatrixFactorization, names: Sequence[str] | None, features: int
) -> Sequence[str] | None:
    """The names of the features: given, or those that the model was fitted with."""
    names = getattr(model, "feature_names_in_", None) if names is None else names
    if names is not None and len(names) != features:
        raise ValueError(f"feature_names: {len(names)} given for {features} features.")
    return names


def feature_labels(
    model: MatrixFactorization, names: Sequence[str] | None, features: int
) -> np.ndarray:
    """What to call each feature, without characters that cannot be shown."""
    known = known_features(model, names, features)
    if known is None:
        known = [f"feature {number}" for number in range(features)]
    return np.asarray([printable(str(name)) for name in known], dtype=object)


def sample_labels(X: Any, names: Sequence[Any] | None, samples: int) -> np.ndarray:
    """What to call each sample: by the names given, by the index of a frame, or by number."""
    if names is None and hasattr(X, "columns") and hasattr(X, "index"):
        names = X.index
    if names is None:
        return np.arange(samples)
    if len(names) != samples:
        raise ValueError(f"sample_names: {len(names)} given for {samples} samples.")
    shown = [printable(name) if isinstance(name, str) else name for name in names]
    return np.asarray(shown, dtype=object)


def check_count(name: str, value: int | None) -> None:
    """Refuse what is not a number of things to show."""
    if value is not None and (not is_whole(value) or value < 1):
        raise ValueError(
            f"{name}: {one_line(repr(value))} must be a whole number ≥ 1, or None for all."
        )
