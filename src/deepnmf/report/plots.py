"""Still pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.patches import ConnectionPatch
from numpy.typing import ArrayLike

from deepnmf.arrays import Array, is_sparse
from deepnmf.core.watch import Record
from deepnmf.data.dataset import check_grid
from deepnmf.evaluation.matching import matched, unit_rows
from deepnmf.explain.decoding import codes_of, parts
from deepnmf.explain.hierarchy import Label, LayerSummary, explain
from deepnmf.explain.tree import Node
from deepnmf.models.base import MatrixFactorization
from deepnmf.terminal.text import one_line

INK, PAPER = "0.15", "white"
NAME = 24
"""How many characters of the name of a part stand below its picture."""


@dataclass(frozen=True)
class Look:
    """How samples and parts are drawn: as images, as lines over an axis, or as bars."""

    image_shape: tuple[int, int] | None
    axis: np.ndarray | None


def parts_sheet(
    sheet: ArrayLike,
    image_shape: tuple[int, int],
    title: str = "",
    columns: int = 8,
    most: int = 64,
) -> Figure:
    """The parts of a layer as images, each scaled to its own largest entry: dark is large."""
    images = np.asarray(sheet)[:most]
    rows = -(-len(images) // columns)
    figure = Figure(figsize=(columns * 0.8, rows * 0.8 + 0.4), facecolor=PAPER)
    axes = figure.subplots(rows, columns, squeeze=False)
    for place in axes.flat:
        place.set_xticks([])
        place.set_yticks([])
        for spine in place.spines.values():
            spine.set_color("0.85")
    for place, part in zip(axes.flat, images, strict=False):
        place.imshow(part.reshape(image_shape), cmap="gray_r", vmin=0, vmax=max(part.max(), 1e-12))
    for place in axes.flat[len(images) :]:
        place.set_visible(False)
    figure.suptitle(title, fontsize=11, color=INK)
    figure.subplots_adjust(0.01, 0.01, 0.99, 1 - 0.36 / (rows * 0.8 + 0.4), 0.08, 0.08)
    return figure


def part_lines(
    sheet: ArrayLike,
    axis: ArrayLike | None = None,
    label: str = "",
    references: Mapping[str, np.ndarray] | None = None,
    columns: int = 3,
    most: int = 24,
) -> Figure:
    """Parts as lines over the axis of their features, such as wavelengths.

    `references` are known spectra: each is drawn, dashed, with the part that matches it, both
    scaled to unit norm; other parts stay as they are.
    """
    rows = np.asarray(sheet, dtype=float)
    known = dict(references or {})
    names: dict[int, str] = {}
    if known:
        match, _ = matched(np.stack([*known.values()]), rows)
        names = {int(part): name for name, part in zip(known, match, strict=True) if part >= 0}
    places = np.arange(rows.shape[1]) if axis is None else np.asarray(axis, dtype=float)
    shown = [*names, *(part for part in range(len(rows)) if part not in names)][:most]
    columns = min(columns, len(shown))
    lines = -(-len(shown) // columns)
    figure = Figure(figsize=(3.1 * columns, 2.2 * lines), facecolor=PAPER, layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True)
    for panel, part in zip(panels.flat, shown, strict=False):
        row = unit_rows(rows[part : part + 1])[0] if part in names else rows[part]
        panel.plot(places, row, color="C0", linewidth=1.6)
        panel.set_title(f"part {part}", fontsize=10)
        if part in names:
            panel.plot(places, unit_rows(known[names[part]][None])[0], "--", color=INK)
            panel.set_title(f"part {part}, and {names[part]} (dashed)", fontsize=10)
        panel.set_ylim(bottom=min(0.0, float(row.min())))
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    for panel in panels.flat[len(shown) :]:
        panel.set_visible(False)
    figure.supxlabel(label, fontsize=10)
    return figure


def code_maps(
    Z: ArrayLike,
    grid: tuple[int, int],
    names: Sequence[str] | None = None,
    columns: int = 4,
    most: int = 32,
) -> Figure:
    """Codes (n, k) of samples that are the pixels of an image of height x width: a map per part.

    All maps have one scale if no code exceeds 1, as shares do; else each has its own.
    """
    codes = np.asarray(Z, dtype=float)
    check_grid(grid, len(codes))
    count = min(most, codes.shape[1])
    columns = min(columns, count)
    lines = -(-count // columns)
    figure = Figure(figsize=(2.6 * columns, 2.7 * lines), facecolor=PAPER, layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False)
    shares = bool(codes.max(initial=0) <= 1)
    for part, panel in enumerate(panels.flat):
        panel.set_axis_off()
        if part >= count:
            continue
        top = 1.0 if shares else max(float(codes[:, part].max()), 1e-12)
        image = panel.imshow(codes[:, part].reshape(grid), vmin=0, vmax=top, cmap="viridis")
        panel.set_title(f"part {part}" if names is None else str(names[part]), fontsize=10)
        figure.colorbar(image, ax=panel, fraction=0.046, pad=0.03).ax.tick_params(labelsize=7)
    return figure


def convergence(history: Sequence[Record]) -> Figure:
    """The objective over time, stage by stage."""
    figure = Figure(figsize=(6.4, 3.0), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    stages: dict[str, list[Record]] = {}
    for record in history:
        layer = "" if record["layer"] is None else f", layer {record['layer']}"
        stages.setdefault(record["stage"] + layer, []).append(record)
    for name, records in stages.items():
        axes.plot(
            [record["seconds"] for record in records],
            [record["objective"] for record in records],
            label=name,
            linewidth=1.6,
        )
    axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel("objective")
    axes.grid(True, color="0.92")
    if stages:
        axes.legend(frameon=False, fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def sparsity(layers: Sequence[LayerSummary]) -> Figure:
    """Per layer, the share of zeros in W_l and Hoyer's sparseness of its columns."""
    figure = Figure(figsize=(1.6 + 1.3 * len(layers), 3.0), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    positions = np.arange(len(layers))
    for shift, name, values in (
        (-0.2, "zeros in W", [layer.zeros for layer in layers]),
        (0.2, "Hoyer's sparseness", [layer.sparseness for layer in layers]),
    ):
        bars = axes.bar(positions + shift, values, 0.38, label=name)
        axes.bar_label(bars, fmt="%.2f", fontsize=8)
    axes.set_xticks(positions, [f"layer {layer.layer}\n{layer.parts} parts" for layer in layers])
    axes.set_ylim(0, 1.12)
    axes.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def codes_plane(Z: ArrayLike) -> np.ndarray:
    """Codes of unit norm along their two principal directions, (n, 2)."""
    codes = np.asarray(Z, dtype=np.float64)
    norms = np.linalg.norm(codes, axis=1, keepdims=True)
    codes = codes / np.where(norms > 0, norms, 1)
    codes = codes - codes.mean(0)
    _, vectors = np.linalg.eigh(codes.T @ codes)
    directions = vectors[:, ::-1][:, :2]
    # The sign of a direction is arbitrary: make its largest entry positive.
    largest = np.take_along_axis(directions, np.abs(directions).argmax(0)[None], 0)
    directions = directions * np.where(largest < 0, -1, 1)
    flat = codes @ directions
    return flat if flat.shape[1] == 2 else np.column_stack([flat, np.zeros(len(flat))])


def codes_map(Z: ArrayLike, y: ArrayLike | None = None) -> Figure:
    """The codes in the plane of their two principal directions, one colour per class."""
    plane = codes_plane(Z)
    figure = Figure(figsize=(5.6, 4.6), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    if y is None:
        axes.scatter(plane[:, 0], plane[:, 1], s=8, alpha=0.6)
    else:
        y = np.asarray(y)
        for index, label in enumerate(np.unique(y)):
            points = plane[y == label]
            colour = f"C{index % 10}"
            axes.scatter(points[:, 0], points[:, 1], s=8, alpha=0.5, color=colour)
            axes.annotate(
                str(label), np.median(points, axis=0), color=colour, weight="bold", ha="center",
                bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1},
            )  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel("first principal direction of the codes")
    axes.set_ylabel("second")
    return figure


def class_hierarchy(
    model: MatrixFactorization,
    X: Any,
    y: ArrayLike,
    label: Label,
    *,
    image_shape: tuple[int, int] | None = None,
    axis: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    top: int = 5,
    samples: int = 10,
) -> Figure:
    """The hierarchy of a class, as in the paper's Figure 8.

    At the top are some samples of the class and the codes of all of them. The next line shows the
    parts of the last layer with the largest mean codes, and each line below shows what the first
    part of the line above is made of, with the largest coefficients W_l[i, j] on the edges. Samples
    and parts are images (`image_shape`), lines over the features (`axis`), or their largest
    features.
    """
    look = Look(image_shape, None if axis is None else np.asarray(axis, dtype=float))
    y = np.asarray(y)
    tree = explain(
        model, X, label=label, labels=y, feature_names=feature_names, top=top, features=6,
        depth=None, order="weight",
    )  # fmt: skip
    depth = len(model.weights_)
    figure = Figure(figsize=(9.0, 2.6 + 2.0 * depth), facecolor=PAPER)
    grid = figure.add_gridspec(
        depth + 1, 1, left=0.09, right=0.97, top=0.91, bottom=0.03, hspace=0.42,
        height_ratios=[1.25] + [1] * depth,
    )  # fmt: skip
    members = np.flatnonzero(y == label)
    is_frame = hasattr(X, "columns")
    shown = members[np.linspace(0, len(members) - 1, min(samples, len(members))).astype(int)]
    rows = X.to_numpy() if is_frame else X
    first = grid[0].subgridspec(1, 2, width_ratios=[1, 1.1], wspace=0.14)
    _samples_of_class(figure, first[0], [_dense(rows[row]) for row in shown], look)
    H = codes_of(model, X.iloc[members] if is_frame else X[members])
    heat = _codes_of_class(figure, first[1], H, label, depth)
    _parts_of_class(figure, grid, heat, model, tree.children, top, look)
    figure.suptitle(f"class {label}: samples, codes, and the parts they are made of", fontsize=12)
    return figure


def _samples_of_class(
    figure: Figure,
    place: SubplotSpec,
    rows: Sequence[np.ndarray],
    look: Look,
) -> None:
    """Draw samples in two lines."""
    grid = place.subgridspec(2, -(-len(rows) // 2), wspace=0.06, hspace=0.06)
    for position, row in enumerate(rows):
        axes = figure.add_subplot(grid[position // grid.ncols, position % grid.ncols])
        _draw(axes, row, look, None)


def _codes_of_class(
    figure: Figure, place: SubplotSpec, H: np.ndarray, label: Label, layer: int
) -> Axes:
    """Draw the codes (n, k) of a class as a heat map, one column per sample."""
    heat = figure.add_subplot(place)
    image = heat.imshow(H.T, aspect="auto", cmap="magma")
    heat.set_title(f"codes of the {len(H)} samples of class {label}", fontsize=9)
    heat.set_ylabel(f"part of layer {layer}", fontsize=8)
    heat.set_xlabel("sample", fontsize=8, labelpad=1)
    heat.tick_params(labelsize=7)
    figure.colorbar(image, ax=heat, pad=0.02).ax.tick_params(labelsize=7)
    return heat


def _parts_of_class(
    figure: Figure,
    grid: GridSpec,
    above: Axes,
    model: MatrixFactorization,
    nodes: Sequence[Node],
    top: int,
    look: Look,
) -> None:
    """Draw one line of parts per layer, the last layer first; each line shows what the first part
    of the line above is made of."""
    depth = len(model.weights_)
    for row in range(1, depth + 1):
        if not nodes:
            break
        layer = depth + 1 - row
        pictures = parts(model, layer)
        line = grid[row].subgridspec(1, top, wspace=0.25)
        drawn = []
        for column, node in enumerate(nodes):
            axes = figure.add_subplot(line[column])
            _draw(axes, pictures[node.unit], look, node)
            _edge(figure, above, axes, node.weight, leaving=row > 1)
            drawn.append(axes)
        height = drawn[0].get_position()
        figure.text(0.012, (height.y0 + height.y1) / 2, f"layer {layer}", rotation=90, va="center")
        above, nodes = drawn[0], nodes[0].children


def _draw(axes: Axes, values: np.ndarray, look: Look, node: Node | None) -> None:
    """Draw a sample or a part: an image, bright where it is large, a line, or its largest
    features."""
    if node is not None:
        of_layer = f" of layer {node.layer}"
        name = one_line(node.name.removesuffix(of_layer), NAME)
        axes.set_xlabel(name, fontsize=8, labelpad=2, parse_math=False)
    axes.set_xticks([])
    axes.set_yticks([])
    if look.image_shape is not None:
        low = min(0.0, float(values.min()))
        axes.imshow(values.reshape(look.image_shape), cmap="gray", vmin=low)
        return
    if look.axis is not None:
        axes.plot(look.axis, values, color="C0", linewidth=1.2)
        return
    leading = np.argsort(-values)[:6][::-1]
    axes.barh(np.arange(len(leading)), values[leading], color="0.8")
    if node is not None:
        names = {leaf.unit: leaf.name for leaf in node.children if leaf.layer == 0}
        for place, feature in enumerate(leading):
            axes.text(0, place, f" {names.get(int(feature), feature)}", va="center", fontsize=6)


def _edge(figure: Figure, above: Axes, below: Axes, weight: float, leaving: bool) -> None:
    """Draw a line from a part to one that it is made of, with its coefficient."""
    if leaving:
        line = ConnectionPatch(
            (0.5, -0.13),
            (0.5, 1.16),
            "axes fraction",
            "axes fraction",
            axesA=above,
            axesB=below,
            color="0.65",
            zorder=-1,
        )
        figure.add_artist(line)
    below.set_title(f"{weight:.3g}", fontsize=9, color="#b03a2e", pad=3)


def _dense(row: Array) -> np.ndarray:
    return np.asarray(row.toarray() if is_sparse(row) else row, dtype=float).ravel()
