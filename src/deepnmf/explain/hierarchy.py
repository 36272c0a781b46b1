"""What a part, a sample or a class is made of, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from deepnmf.arrays import Array, is_sparse
from deepnmf.explain.decoding import (
    Decoding,
    codes_of,
    decoder,
    decodings,
    is_whole,
    layer_of,
    parts_of,
)
from deepnmf.links import Link
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.settings import one_of

Label = str | int | float | np.generic
"""The name of a class."""
ORDERS = ("share", "weight")
NEAR = 0.95
"""Parts whose cosine is at least this are near-equal."""


@dataclass(frozen=True)
class Node:
    """A unit of a layer, or a feature (layer 0), at its place in a tree."""

    layer: int
    unit: int
    name: str
    weight: float
    """W_{l+1}[unit, parent] of the model; without a parent, the code."""
    amount: float
    """What reaches it along this path: weight times the parent's amount times the link's slope."""
    share: float
    """The share of Σ|x̂ − offset| that goes along this path."""
    children: tuple[Node, ...] = ()
    left_out: float = 0.0
    """The share of its children that are not shown."""
    support: float | None = None
    """For a part of a consensus: the share of the fits that have it."""


@dataclass(frozen=True)
class Distinct:
    """(mean in the class − mean elsewhere) / pooled deviation, for the codes of one unit."""

    unit: int
    inside: float
    outside: float
    difference: float


@dataclass(frozen=True, eq=False)
class Tree:
    """x̂ = offset + Σ over the paths from a code h down to the features of what flows along them."""

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

    def __str__(self) -> str:
        lines = [self.subject]
        _write(self.children, self.left_out, 1, lines)
        return "\n".join(lines)


@dataclass(frozen=True)
class LayerSummary:
    """A summary of the parts of one layer."""

    layer: int
    parts: int
    zeros: float
    """The share of entries of W_l that are 0."""
    sparseness: float
    """Hoyer's, mean over the columns of W_l: 0 if all entries are equal, 1 if one is not 0."""
    dead: tuple[int, ...]
    """Units without weights, units that the layer above does not use and, where samples are given,
    units that no sample uses."""
    redundant: tuple[tuple[int, int, float], ...]
    """Pairs of near-equal parts with their cosine, the largest cosine first."""


def explain(
    model: MatrixFactorization,
    X: Array | None = None,
    *,
    unit: int | None = None,
    sample: int | None = None,
    label: Label | None = None,
    labels: ArrayLike | None = None,
    layer: int | None = None,
    feature_names: Sequence[str] | None = None,
    top: int | None = 5,
    features: int | None = 10,
    order: str = "share",
) -> Tree:
    """The tree of what a unit, a sample, a class or a model is made of.

    `unit`, of `layer` (by default the last): the parts of the layer below that it is made of, their
    parts, and so on down to the features. `sample`: a row of X, explained by its code. `label`: a
    class of X, where `labels` has one label per sample: its mean code, and what sets it apart from
    the other classes. None of these: the mean code of X, or without X code 1 for every unit.

    Each unit shows at most `top` children, and each part of layer 1 at most `features`, those with
    the largest share of x̂ first (`order="weight"`: with the largest weight first). None shows all
    that are not 0. Codes are H_L, also where `transform` returns g(H_L). The weights of nsNMF and
    of its layers are W S.
    """
    weights, link = decoder(model)
    one_of("order", order, ORDERS)
    _check_count("top", top)
    _check_count("features", features)
    if sum(choice is not None for choice in (unit, sample, label)) > 1:
        raise ValueError("unit, sample, label: give one of them, or none for the whole model.")
    layer = layer_of(layer, len(weights))
    weights = weights[:layer]
    names = _names(model, feature_names, len(weights[0]))
    distinct: tuple[Distinct, ...] = ()
    size = weights[-1].shape[1]
    if unit is not None:
        code = np.eye(size)[_index("unit", unit, size, f"layer {layer} has {size} units")]
        subject = f"part {unit} of layer {layer}"
    elif sample is not None:
        X = _required("sample", "X", X)
        rows = int(X.shape[0])
        row = _index("sample", sample, rows, f"X has {rows} samples")
        code, subject = codes_of(model, X[row : row + 1], layer)[0], f"sample {row}"
    elif label is not None:
        H = codes_of(model, _required("label", "X", X), layer)
        y = np.asarray(_required("label", "labels", labels))
        distinct = distinctions(H, y, label)
        code, subject = H[y == label].mean(0), f"class {label}"
    else:
        code = np.ones(size) if X is None else codes_of(model, X, layer).mean(0)
        subject = "all parts" if X is None else "all samples"
    decoding = Decoding.of(weights, link, code[:, None])
    support = getattr(model, "support_", None)
    children, left_out = _Growth(decoding, names, support, top, features, order).roots()
    decoded, offset = decoding.decoded[:, 0], decoding.offset[:, 0]
    return Tree(subject, layer, code, decoded, offset, children, left_out, distinct)


def distinctions(H: np.ndarray, y: np.ndarray, label: Label) -> tuple[Distinct, ...]:
    """How codes H (n, k) of a class differ from those of other classes, the largest gap first."""
    if y.shape != (len(H),):
        raise ValueError(f"labels: {y.shape} given for {len(H)} samples; give one per sample.")
    members = y == label
    if not members.any():
        known = ", ".join(repr(value) for value in np.unique(y)[:5].tolist())
        raise ValueError(f"label: no sample has the label {label!r}; there are {known}, …")
    inside = H[members].mean(0)
    if members.all():
        return ()
    outside = H[~members].mean(0)
    squares = H[members].var(0) * members.sum() + H[~members].var(0) * (~members).sum()
    deviation = np.sqrt(squares / max(len(H) - 2, 1))
    gap = inside - outside
    without_deviation = np.select([gap > 0, gap < 0], [math.inf, -math.inf], 0.0)
    difference = np.divide(gap, deviation, out=without_deviation, where=deviation > 0)
    return tuple(
        Distinct(int(j), float(inside[j]), float(outside[j]), float(difference[j]))
        for j in np.argsort(-difference, kind="stable")
    )


def summaries(
    model: MatrixFactorization, X: Array | None = None, near: float = NEAR
) -> tuple[LayerSummary, ...]:
    """Sparsity, dead parts and near-equal parts, layer by layer.

    With X, units that no sample uses are counted as dead too.
    """
    weights, link = decoder(model)
    H = None if X is None else codes_of(model, X).T
    return tuple(summaries_of(weights, link, H, near))


def summaries_of(
    weights: Sequence[np.ndarray], link: Link, H: np.ndarray | None, near: float = NEAR
) -> list[LayerSummary]:
    """`summaries` from weights, link and codes (k_L, n)."""
    used: list[np.ndarray] = [np.ones(W.shape[1], bool) for W in weights]
    if H is not None:
        used = [~alive for alive in used]
        zeros = [link.at_zero] * (len(weights) - 1) + [0.0]
        for _, decoding in decodings(weights, link, H.T):
            for alive, code, zero in zip(used, decoding.codes, zeros, strict=True):
                alive |= (code != zero).any(1)
    layers = []
    for index, W in enumerate(weights):
        alive = used[index] & (W != 0).any(0)
        if index + 1 < len(weights):
            alive &= (weights[index + 1] != 0).any(1)
        layers.append(
            LayerSummary(
                layer=index + 1,
                parts=W.shape[1],
                zeros=float((W == 0).mean()),
                sparseness=_sparseness(W),
                dead=tuple(np.flatnonzero(~alive).tolist()),
                redundant=near_equal(parts_of(weights[: index + 1], link), alive, near),
            )
        )
    return layers


def near_equal(
    parts: np.ndarray, alive: np.ndarray, near: float = NEAR
) -> tuple[tuple[int, int, float], ...]:
    """Pairs of parts (k, m) whose cosine is at least `near`, among those alive."""
    norms = np.linalg.norm(parts, axis=1)
    kept = np.flatnonzero(alive & (norms > 0))
    units = (parts[kept] / norms[kept, None]).astype(np.float32)
    cosines = np.triu(units @ units.T, 1)
    pairs = [
        (int(kept[first]), int(kept[second]), min(float(cosines[first, second]), 1.0))
        for first, second in zip(*np.nonzero(cosines >= near), strict=True)
    ]
    return tuple(sorted(pairs, key=lambda pair: -pair[2]))


@dataclass(frozen=True, eq=False)
class _Growth:
    """Builds the tree of one code, from the top down."""

    decoding: Decoding
    names: Sequence[str] | None
    support: Sequence[np.ndarray] | None
    top: int | None
    features: int | None
    order: str

    @cached_property
    def total(self) -> float:
        """Σ|x̂ − offset|: shares are relative to it."""
        return float(np.abs(self.decoding.codes[-1][:, 0]) @ self.decoding.masses[-1][:, 0])

    def roots(self) -> tuple[tuple[Node, ...], float]:
        h = self.decoding.codes[-1][:, 0]
        return self._nodes(len(self.decoding.weights), h, h)

    def _nodes(
        self, layer: int, weight: np.ndarray, amount: np.ndarray
    ) -> tuple[tuple[Node, ...], float]:
        """The units of a layer with a weight that is not 0, and the share of those left out."""
        total = self.total
        mass = self.decoding.masses[layer - 1][:, 0] if layer else np.ones(len(amount))
        share = np.abs(amount) * mass / total if total else np.zeros(len(amount))
        key = share if self.order == "share" else np.abs(weight)
        ranked = np.argsort(-key, kind="stable")
        ranked = ranked[weight[ranked] != 0]
        shown = ranked[: self.top if layer else self.features]
        nodes = []
        for unit in shown:
            children, left_out = self._below(layer, int(unit), float(amount[unit]))
            name = self._name(layer, int(unit))
            numbers = (float(weight[unit]), float(amount[unit]), float(share[unit]))
            support = float(self.support[layer - 1][unit]) if layer and self.support else None
            nodes.append(Node(layer, int(unit), name, *numbers, children, left_out, support))
        return tuple(nodes), float(share[ranked[len(shown) :]].sum())

    def _below(self, layer: int, unit: int, amount: float) -> tuple[tuple[Node, ...], float]:
        if layer == 0:
            return (), 0.0
        weight = self.decoding.weights[layer - 1][:, unit]
        slope = self.decoding.slopes[layer - 2][:, 0] if layer > 1 else 1.0
        return self._nodes(layer - 1, weight, slope * weight * amount)

    def _name(self, layer: int, unit: int) -> str:
        if layer:
            return f"part {unit} of layer {layer}"
        return f"feature {unit}" if self.names is None else str(self.names[unit])


def _write(nodes: Sequence[Node], left_out: float, depth: int, lines: list[str]) -> None:
    for node in nodes:
        fits = "" if node.support is None else f" [{node.support:.0%} of fits]"
        lines.append(f"{'  ' * depth}{node.weight:.4g} × {node.name}{fits}  ({node.share:.1%})")
        _write(node.children, node.left_out, depth + 1, lines)
    if left_out > 0.0005:
        lines.append(f"{'  ' * depth}… and others  ({left_out:.1%})")


def _sparseness(W: np.ndarray) -> float:
    """(√rows − ‖w‖₁/‖w‖₂)/(√rows − 1), mean over the columns that are not 0."""
    norms = np.linalg.norm(W, axis=0)
    if len(W) < 2 or not norms.any():
        return 0.0
    ratio = np.abs(W).sum(0)[norms > 0] / norms[norms > 0]
    root = len(W) ** 0.5
    return float(((root - ratio) / (root - 1)).mean())


def _index(name: str, value: int, size: int, has: str) -> int:
    if not is_whole(value) or not 0 <= value < size:
        raise ValueError(f"{name}: {value!r}, but {has}: 0 to {size - 1}.")
    return int(value)


def _check_count(name: str, value: int | None) -> None:
    if value is not None and (not is_whole(value) or value < 1):
        raise ValueError(f"{name}: {value!r} must be a whole number ≥ 1, or None for all.")


def _required(option: str, name: str, value: Any) -> Any:
    """`value`, which `option` needs, as an array that rows can be taken of."""
    if value is None:
        needed = "explain(model, X, label=…, labels=y)" if option == "label" else "X"
        raise ValueError(f"{option}: needs {name}, which was not given; give {needed}.")
    if is_sparse(value):
        return value.tocsr()
    return np.asarray(value) if isinstance(value, list | tuple) else value


def _names(
    model: MatrixFactorization, names: Sequence[str] | None, features: int
) -> Sequence[str] | None:
    names = getattr(model, "feature_names_in_", None) if names is None else names
    if names is not None and len(names) != features:
        raise ValueError(f"feature_names: {len(names)} given for {features} features.")
    return names
