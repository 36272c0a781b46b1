"""What a part, a sample or a class is made of, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

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
from deepnmf.explain.labels import check_count, known_features, part_name
from deepnmf.explain.tree import Distinct, Node, Tree
from deepnmf.links import Link
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.settings import one_of

Label = str | int | float | np.generic
"""The name of a class."""
ORDERS = ("share", "weight")
NEAR = 0.95
"""Parts whose cosine is at least this are near-equal."""


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
    top: int | None = 3,
    features: int | None = 5,
    depth: int | None = 2,
    order: str = "share",
) -> Tree:
    """The tree of what a unit, a sample, a class or a model is made of.

    `unit`, of `layer` (by default the last): the parts of the layer below that it is made of, their
    parts, and so on down to the features. `sample`: a row of X, explained by its code. `label`: a
    class of X, where `labels` has one label per sample: its mean code, and what sets it apart from
    the other classes. None of these: the mean code of X, or without X code 1 for every unit.

    The tree is short unless you ask for more. Each unit shows at most `top` children, those with
    the largest share of x̂ first (`order="weight"`: with the largest weight first). Below the
    subject are at most `depth` layers of parts; those of the lowest show at most `features`
    features each. None shows all that are not 0. Hidden parts are among those that are left out.

    Codes are H_L, also where `transform` returns g(H_L). The weights of nsNMF and of its layers are
    W S.
    """
    weights, link = decoder(model)
    one_of("order", order, ORDERS)
    check_count("top", top)
    check_count("features", features)
    check_count("depth", depth)
    if sum(choice is not None for choice in (unit, sample, label)) > 1:
        raise ValueError("unit, sample, label: give one of them, or none for the whole model.")
    layer = layer_of(layer, len(weights))
    weights = weights[:layer]
    names = known_features(model, feature_names, len(weights[0]))
    part_names, hidden = model._checked_names(), [set(parts) for parts in model._checked_hidden()]
    distinct: tuple[Distinct, ...] = ()
    size = weights[-1].shape[1]
    if unit is not None:
        code = np.eye(size)[_index("unit", unit, size, f"layer {layer} has {size} units")]
        subject = f"part {unit} of layer {layer}"
        if part_name(part_names, layer, unit) != subject:
            subject = f"{part_names[layer - 1][unit]} ({subject})"
        hidden[layer - 1].discard(int(unit))
        depth = None if depth is None else depth + 1  # the part itself
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
    shown = _Shown(names, part_names, hidden, getattr(model, "support_", None))
    below = _Growth(decoding, shown, top, features, order).roots(depth)
    decoded, offset = decoding.decoded[:, 0], decoding.offset[:, 0]
    return Tree(
        subject, layer, code, decoded, offset, below.nodes, below.left_out, distinct, below.others,
        of_part=unit is not None,
    )  # fmt: skip


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
class _Shown:
    """What is known of parts and features besides the weights."""

    features: Sequence[str] | None
    parts: Sequence[Sequence[str]]
    hidden: Sequence[set[int]]
    support: Sequence[np.ndarray] | None

    def name(self, layer: int, unit: int) -> str:
        if layer:
            return part_name(self.parts, layer, unit)
        return f"feature {unit}" if self.features is None else str(self.features[unit])

    def support_of(self, layer: int, unit: int) -> float | None:
        return float(self.support[layer - 1][unit]) if layer and self.support else None


class _Below(NamedTuple):
    """The units below one that are shown, and how many and what share are not."""

    nodes: tuple[Node, ...] = ()
    others: int = 0
    left_out: float = 0.0


@dataclass(frozen=True, eq=False)
class _Growth:
    """Builds the tree of one code, from the top down."""

    decoding: Decoding
    shown: _Shown
    top: int | None
    features: int | None
    order: str

    @cached_property
    def total(self) -> float:
        """Σ|x̂ − offset|: shares are relative to it."""
        return float(np.abs(self.decoding.codes[-1][:, 0]) @ self.decoding.masses[-1][:, 0])

    def roots(self, depth: int | None) -> _Below:
        h = self.decoding.codes[-1][:, 0]
        return self._nodes(len(self.decoding.weights), h, h, depth)

    def _nodes(
        self, layer: int, weight: np.ndarray, amount: np.ndarray, depth: int | None
    ) -> _Below:
        """The units of a layer with a weight that is not 0."""
        total = self.total
        mass = self.decoding.masses[layer - 1][:, 0] if layer else np.ones(len(amount))
        share = np.abs(amount) * mass / total if total else np.zeros(len(amount))
        key = share if self.order == "share" else np.abs(weight)
        ranked = np.argsort(-key, kind="stable")
        ranked = ranked[weight[ranked] != 0]
        hidden = self.shown.hidden[layer - 1] if layer else set()
        known = [int(unit) for unit in ranked if int(unit) not in hidden] if hidden else ranked
        kept = known[: self.top if layer else self.features]
        nodes = []
        for unit in map(int, kept):
            below = self._below(layer, unit, float(amount[unit]), depth)
            name, support = self.shown.name(layer, unit), self.shown.support_of(layer, unit)
            numbers = (float(weight[unit]), float(amount[unit]), float(share[unit]))
            values = (*numbers, below.nodes, below.left_out, support, below.others)
            nodes.append(Node(layer, unit, name, *values))
        rest = np.setdiff1d(ranked, kept)
        return _Below(tuple(nodes), len(rest), float(share[rest].sum()))

    def _below(self, layer: int, unit: int, amount: float, depth: int | None) -> _Below:
        if layer == 0:
            return _Below()
        weight = self.decoding.weights[layer - 1][:, unit]
        if depth == 1 and layer > 1:
            weight = self._down_to_features(layer, weight)
            return self._nodes(0, weight, weight * amount, None)
        slope = self.decoding.slopes[layer - 2][:, 0] if layer > 1 else 1.0
        deeper = None if depth is None else depth - 1
        return self._nodes(layer - 1, weight, slope * weight * amount, deeper)

    def _down_to_features(self, layer: int, weight: np.ndarray) -> np.ndarray:
        """W_1 D_2 W_2 … D_l w_l: what a unit of layer l adds to x̂ per amount."""
        for W, D in zip(
            reversed(self.decoding.weights[: layer - 1]),
            reversed(self.decoding.slopes[: layer - 1]),
            strict=True,
        ):
            weight = W @ (D[:, 0] * weight)
        return weight


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


def _required(option: str, name: str, value: Any) -> Any:
    """`value`, which `option` needs, as an array that rows can be taken of."""
    if value is None:
        needed = "explain(model, X, label=…, labels=y)" if option == "label" else "X"
        raise ValueError(f"{option}: needs {name}, which was not given; give {needed}.")
    if is_sparse(value):
        return value.tocsr()
    return np.asarray(value) if isinstance(value, list | tuple) else value
