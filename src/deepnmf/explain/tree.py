"""What a part, a sample or a class is made of, as a tree: for people and for programs."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepnmf.terminal.text import one_line

WIDTH = 112
"""How many characters a line of features has at most."""
SMALL = 0.0005
"""What has a smaller share of what is above it is counted and not named."""
NAME = 60
"""How many characters of a name are shown."""
STYLE = (
    "<style>.deepnmf-tree{font-size:0.9em}.deepnmf-tree details{margin-left:1.2em}"
    ".deepnmf-tree div{margin-left:2.4em;opacity:0.8}</style>"
)


@dataclass(frozen=True)
class Node:
    """A unit of a layer, or a feature (layer 0), at its place in a tree."""

    layer: int
    unit: int
    name: str
    weight: float
    """W_{l+1}[unit, parent] of the model; without a parent, the code. For a feature straight below
    a part of a higher layer, what reaches it per amount of that part."""
    amount: float
    """What reaches it along this path: weight times the parent's amount times the link's slope."""
    share: float
    """The share of Σ|x̂ − offset| that goes along this path."""
    children: tuple[Node, ...] = ()
    left_out: float = 0.0
    """The share of its children that are not shown."""
    support: float | None = None
    """For a part of a consensus: the share of the fits that have it."""
    others: int = 0
    """How many of its children are not shown."""

    def to_dict(self) -> dict[str, Any]:
        """The node and what is below it, as JSON can hold it."""
        record: dict[str, Any] = {
            "layer": self.layer,
            "unit": self.unit,
            "name": self.name,
            "weight": self.weight,
            "amount": self.amount,
            "share": self.share,
        }
        if self.support is not None:
            record["support"] = self.support
        if self.layer:
            record["children"] = [child.to_dict() for child in self.children]
            record |= {"others": self.others, "left_out": self.left_out}
        return record

    @property
    def label(self) -> str:
        """Its name, and its support if it has one."""
        support = "" if self.support is None else f" [{self.support:.0%} of fits]"
        return f"{one_line(self.name, NAME)}{support}"


@dataclass(frozen=True)
class Distinct:
    """(mean in the class − mean elsewhere) / pooled deviation, for the codes of one unit."""

    unit: int
    inside: float
    outside: float
    difference: float


@dataclass(frozen=True, eq=False)
class Tree:
    """x̂ = offset + Σ over the paths from a code h down to the features of what flows along them.

    Printed, each part has a line with its weight, its name and its share of x̂, and the features of
    a part are listed with theirs. Shares add up: those below a part, with those of the others that
    are not shown, to its own. In a notebook, the tree unfolds.
    """

    subject: str
    layer: int
    """The layer of h, and of the first children."""
    code: np.ndarray
    decoded: np.ndarray
    """x̂."""
    offset: np.ndarray
    """What code 0 decodes to with the slopes at h: 0 unless the link has φ(0) > 0."""
    children: tuple[Node, ...]
    left_out: float = 0.0
    distinct: tuple[Distinct, ...] = ()
    """For a class: the units of its layer, first those that set it apart from other classes."""
    others: int = 0
    """How many of the first children are not shown."""
    of_part: bool = False
    """Whether the subject is a part: the only child."""

    def __str__(self) -> str:
        lines: list[str] = []
        title, nodes, others, left_out = self._top()
        _write(nodes, others, left_out, 1, lines)
        more = _more(nodes, others, self.layer)
        if more:
            lines.append(f"more: explain(…, {', '.join(f'{name}=None' for name in more)})")
        return "\n".join([title, *lines])

    def _repr_html_(self) -> str:
        title, nodes, others, left_out = self._top()
        body = _html(nodes, others, left_out, opened=True)
        return f'{STYLE}<div class="deepnmf-tree"><b>{html.escape(title)}</b>{body}</div>'

    def to_dict(self) -> dict[str, Any]:
        """The tree as JSON can hold it, without the arrays."""
        return {
            "subject": self.subject,
            "layer": self.layer,
            "children": [child.to_dict() for child in self.children],
            "others": self.others,
            "left_out": self.left_out,
            "distinct": [
                {
                    "unit": unit.unit,
                    "inside": unit.inside,
                    "outside": unit.outside,
                    "difference": unit.difference if math.isfinite(unit.difference) else None,
                }
                for unit in self.distinct
            ],
        }

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as text. A difference that is infinite is null."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def _top(self) -> tuple[str, Sequence[Node], int, float]:
        """The title, and what stands below it. A part is not repeated below its own name."""
        if self.of_part and len(self.children) == 1:
            root = self.children[0]
            support = root.label.removeprefix(one_line(root.name, NAME))
            return one_line(self.subject) + support, root.children, root.others, root.left_out
        return one_line(self.subject), self.children, self.others, self.left_out


def _write(
    nodes: Sequence[Node], others: int, left_out: float, depth: int, lines: list[str]
) -> None:
    indent = "  " * depth
    nodes, others, left_out = _visible(nodes, others, left_out)
    if nodes and nodes[0].layer == 0:
        lines += _wrapped(_features(nodes, others, left_out), indent)
        return
    for node in nodes:
        lines.append(f"{indent}{node.weight:.4g} × {node.label}  ({_percent(node.share)})")
        _write(node.children, node.others, node.left_out, depth + 1, lines)
    if others:
        lines.append(f"{indent}… and {_count(others)}  ({_percent(left_out)})")


def _visible(
    nodes: Sequence[Node], others: int, left_out: float
) -> tuple[Sequence[Node], int, float]:
    """The nodes without small ones."""
    least = SMALL * (sum(node.share for node in nodes) + left_out)
    kept = [node for node in nodes if node.share >= least]
    dropped = [node for node in nodes if node not in kept]
    return kept, others + len(dropped), left_out + sum(node.share for node in dropped)


def _wrapped(words: Sequence[str], indent: str) -> list[str]:
    """Words with commas between them, on as many lines as they need."""
    lines = [indent + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 3 > WIDTH:
            lines[-1] += ","
            lines.append(indent + word)
        else:
            lines[-1] += f", {word}"
    return lines


def _features(nodes: Sequence[Node], others: int, left_out: float) -> list[str]:
    """Features with their shares. What a feature takes away has a minus."""
    named = [
        f"{node.label} {'−' if node.amount < 0 else ''}{_percent(node.share)}" for node in nodes
    ]
    return [*named, f"and {_count(others)} {_percent(left_out)}"] if others else named


def _percent(share: float) -> str:
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def _count(others: int) -> str:
    return "1 other" if others == 1 else f"{others:,} others"


def _html(nodes: Sequence[Node], others: int, left_out: float, *, opened: bool) -> str:
    nodes, others, left_out = _visible(nodes, others, left_out)
    if nodes and nodes[0].layer == 0:
        return f"<div>{html.escape(', '.join(_features(nodes, others, left_out)))}</div>"
    pieces = []
    for node in nodes:
        title = html.escape(f"{node.label}  {_percent(node.share)} (weight {node.weight:.4g})")
        below = _html(node.children, node.others, node.left_out, opened=False)
        state = " open" if opened else ""
        pieces.append(f"<details{state}><summary>{title}</summary>{below}</details>")
    if others:
        pieces.append(f"<div>… and {_count(others)} {_percent(left_out)}</div>")
    return "".join(pieces)


def _more(nodes: Sequence[Node], others: int, above: int) -> list[str]:
    """The arguments of `explain` that would show more of what is below a part of layer `above`."""
    if nodes and nodes[0].layer == 0:
        return [*(["features"] if others else []), *(["depth"] if above > 1 else [])]
    found = {"top"} if others else set()
    for node in nodes:
        found |= set(_more(node.children, node.others, node.layer))
    return [name for name in ("top", "features", "depth") if name in found]
