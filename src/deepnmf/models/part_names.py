"""Names of parts, and which parts are not shown: checked once, and safe to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from deepnmf.terminal.text import one_line

MOST = 200
"""The most characters of a name."""


class NamedParts(ClassNamePrefixFeaturesOutMixin):
    """A fitted model whose parts have names."""

    weights_: list[Any]

    @property
    def part_names_(self) -> list[list[str]]:
        """Per layer, the names of its parts: "part 0", … until others are given.

        Tables, trees, the page and `get_feature_names_out` use them, and `save` keeps them. A new
        fit has new parts, and forgets them. None stands for a default name, or for a whole layer
        of them: `model.part_names_ = [None, ["oil", "harvest", None]]`.
        """
        sizes = self._fitted_sizes()
        return self.__dict__.setdefault("_part_names", default_names(sizes))

    @part_names_.setter
    def part_names_(self, names: Any) -> None:
        self._part_names = checked_names(names, self._fitted_sizes())

    @property
    def hidden_parts_(self) -> list[list[int]]:
        """Per layer, the numbers of the parts that tables, trees and the page leave out. Codes and
        what they decode to stay as they are."""
        sizes = self._fitted_sizes()
        return self.__dict__.setdefault("_hidden_parts", [[] for _ in sizes])

    @hidden_parts_.setter
    def hidden_parts_(self, parts: Any) -> None:
        self._hidden_parts = checked_hidden(parts, self._fitted_sizes())

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the columns of `transform`: those in `part_names_` if parts of the last
        layer have names of their own, else the name of the class and a number."""
        names = self._checked_names()[-1]
        if is_named(names):
            return np.asarray(names, dtype=object)
        return super().get_feature_names_out(input_features)

    def _fitted_sizes(self) -> list[int]:
        check_is_fitted(self)
        return [int(W.shape[-1]) for W in self.weights_]

    def _checked_names(self) -> list[list[str]]:
        """`part_names_`, checked again: its lists may have been changed in place."""
        sizes = self._fitted_sizes()
        names = self.__dict__.get("_part_names")
        return default_names(sizes) if names is None else checked_names(names, sizes)

    def _checked_hidden(self) -> list[list[int]]:
        """`hidden_parts_`, checked again."""
        sizes = self._fitted_sizes()
        return checked_hidden(self.__dict__.get("_hidden_parts", [None] * len(sizes)), sizes)

    def _forget_names(self) -> None:
        """A new fit has new parts."""
        for name in ("_part_names", "_hidden_parts"):
            self.__dict__.pop(name, None)


def default_name(part: int) -> str:
    """The name of a part that nobody has named."""
    return f"part {part}"


def default_names(sizes: Sequence[int]) -> list[list[str]]:
    """Per layer, the names of parts that nobody has named."""
    return [[default_name(part) for part in range(size)] for size in sizes]


def is_named(names: Sequence[str]) -> bool:
    """Whether any part of a layer has a name of its own."""
    return any(name != default_name(part) for part, name in enumerate(names))


def given_names(names: Sequence[str]) -> list[str | None] | None:
    """The names of a layer, None for parts that have none of their own, or if no part has."""
    if not is_named(names):
        return None
    return [None if name == default_name(part) else name for part, name in enumerate(names)]


def checked_names(given: Any, sizes: Sequence[int]) -> list[list[str]]:
    """The names of the parts of every layer, without characters that cannot be shown.

    None stands for the default name of a part, or for those of a whole layer.
    """
    layers = _per_layer("part_names_", given, len(sizes), "names")
    return [
        default_names([size])[0] if names is None else _checked_layer(names, size, layer)
        for layer, (names, size) in enumerate(zip(layers, sizes, strict=True), 1)
    ]


def checked_hidden(given: Any, sizes: Sequence[int]) -> list[list[int]]:
    """Per layer, the numbers of the parts that are not shown, in order."""
    layers = _per_layer("hidden_parts_", given, len(sizes), "numbers of parts")
    hidden = []
    for layer, (parts, size) in enumerate(zip(layers, sizes, strict=True), 1):
        for part in parts or ():
            whole = isinstance(part, int | np.integer) and not isinstance(part, bool)
            if not whole or not 0 <= part < size:
                raise ValueError(
                    f"hidden_parts_: layer {layer} has no part {one_line(repr(part))}. It has "
                    f"parts 0 to {size - 1}."
                )
        hidden.append(sorted({int(part) for part in parts or ()}))
    return hidden


def _per_layer(attribute: str, given: Any, depth: int, what: str) -> list[list[Any] | None]:
    """One list per layer."""
    if not _is_list(given) or not all(entry is None or _is_list(entry) for entry in given):
        raise ValueError(
            f"{attribute}: give one list of {what} per layer, got {one_line(repr(given), 60)}."
        )
    if len(given) != depth:
        raise ValueError(
            f"{attribute}: {len(given)} lists for {depth} layers. Give one list of {what} per "
            "layer, from layer 1 up."
        )
    return [None if entry is None else list(entry) for entry in given]


def _checked_layer(names: Sequence[Any], size: int, layer: int) -> list[str]:
    if len(names) != size:
        raise ValueError(
            f"part_names_: {len(names)} names for the {size} parts of layer {layer}. Give one "
            "name per part, or None for a part that keeps its number."
        )
    clean = [_checked_name(name, part, layer) for part, name in enumerate(names)]
    seen: dict[str, int] = {}
    for part, name in enumerate(clean):
        if name in seen:
            raise ValueError(
                f"part_names_: parts {seen[name]} and {part} of layer {layer} are both named "
                f"{name!r}. Give each part of a layer a name of its own."
            )
        seen[name] = part
    return clean


def _checked_name(name: Any, part: int, layer: int) -> str:
    if name is None:
        return default_name(part)
    where = f"part_names_: the name of part {part} of layer {layer}"
    if not isinstance(name, str):
        raise ValueError(f"{where} is {one_line(repr(name), 60)}, which is not text.")
    clean = one_line(name, len(name) + 1)
    if not clean:
        raise ValueError(f"{where} is empty. Give None to keep its number.")
    if len(clean) > MOST:
        raise ValueError(f"{where} has {len(clean)} characters. Give at most {MOST}.")
    return clean


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)
