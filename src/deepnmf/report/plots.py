"""Still pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from deepnmf.core.training import Record

INK, PAPER = "0.15", "white"


def parts_sheet(
    parts: Any, image_shape: tuple[int, int], title: str = "", columns: int = 8, most: int = 64
) -> Figure:
    """The parts of a layer as images, each scaled to its own largest entry: dark is present."""
    parts = np.asarray(parts)[:most]
    rows = -(-len(parts) // columns)
    figure = Figure(figsize=(columns * 0.8, rows * 0.8 + 0.4), facecolor=PAPER)
    axes = figure.subplots(rows, columns, squeeze=False)
    for place in axes.flat:
        place.set_xticks([])
        place.set_yticks([])
        for spine in place.spines.values():
            spine.set_color("0.85")
    for place, part in zip(axes.flat, parts, strict=False):
        place.imshow(part.reshape(image_shape), cmap="gray_r", vmin=0, vmax=max(part.max(), 1e-12))
    for place in axes.flat[len(parts) :]:
        place.set_visible(False)
    figure.suptitle(title, fontsize=11, color=INK)
    figure.subplots_adjust(0.01, 0.01, 0.99, 1 - 0.36 / (rows * 0.8 + 0.4), 0.08, 0.08)
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
    axes.legend(frameon=False, fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure
