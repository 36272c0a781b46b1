"""Walks over trees of values, whose nodes are dataclasses, named tuples, tuples and lists."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

Path = tuple[object, ...]
Branches: TypeAlias = dict[Any, Any]
"""The values in a node, by field name or place."""


def branches(node: object, cached: bool = False) -> Branches | None:
    """The values in a node; None for a leaf. `cached` includes values that a dataclass has computed
    and stored besides its fields."""
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        if cached:
            return dict(vars(node))
        return {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return dict(zip(node._fields, node, strict=True))
    return dict(enumerate(node)) if isinstance(node, list | tuple) else None


def fold(
    tree: object,
    leaf: Callable[[Path, Any], object],
    join: Callable[[Any, Branches], object],
    cached: bool = False,
    leaves: tuple[type, ...] = (),
    path: Path = (),
) -> Any:
    """leaf(path, value) for every leaf, and join(node, folded branches) for every other node.
    Nodes of the types in `leaves` count as leaves."""
    values = None if isinstance(tree, leaves) else branches(tree, cached)
    if values is None:
        return leaf(path, tree)
    folded = {
        name: fold(value, leaf, join, cached, leaves, (*path, name))
        for name, value in values.items()
    }
    return join(tree, folded)


def rebuilt(node: Any, values: Branches) -> object:
    """A node of the same class with these values."""
    if dataclasses.is_dataclass(node):
        changed = copy.copy(node)
        vars(changed).update(values)
        return changed
    if hasattr(node, "_fields"):
        return type(node)(*values.values())
    return type(node)(values.values())


def is_named(node: object) -> bool:
    """Whether a node has a class of its own: a dataclass or a named tuple."""
    return dataclasses.is_dataclass(node) or hasattr(node, "_fields")
