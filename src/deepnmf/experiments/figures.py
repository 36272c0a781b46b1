"""Figures from rows: box plots like the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deepnmf.experiments.design import Experiment
from deepnmf.experiments.tables import HEADS

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3")


def boxes(experiment: Experiment, rows: pd.DataFrame, metric: str) -> Figure:
    """A panel per model, a box per group."""
    names = list(dict.fromkeys(rows["name"]))
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.0 * lines + 0.5), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for place, name in zip(axes.flat, names, strict=False):
        mine = rows[rows["name"] == name]
        groups = list(dict.fromkeys(mine["group"]))
        values = [mine.loc[mine["group"] == group, metric].astype(float) for group in groups]
        drawn = place.boxplot(
            values, patch_artist=True, widths=0.6, medianprops={"color": "0.1"},
            flierprops={"markersize": 2, "alpha": 0.4},
        )  # fmt: skip
        for index, box in enumerate(drawn["boxes"]):
            box.set_facecolor(COLOURS[index % len(COLOURS)])
            box.set_alpha(0.75)
        place.set_title(name, fontsize=10)
        place.set_xticks(np.arange(1, len(groups) + 1), groups, rotation=35, ha="right", fontsize=8)
        place.grid(axis="y", color="0.9")
        place.set_axisbelow(True)
    for place in axes.flat[len(names) :]:
        place.set_visible(False)
    for place in axes[:, 0]:
        place.set_ylabel(HEADS[metric])
    figure.suptitle(experiment.title, fontsize=11)
    return figure
