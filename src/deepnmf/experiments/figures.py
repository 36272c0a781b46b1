"""Figures from rows: box plots like the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deepnmf.experiments.design import Experiment, Scoring
from deepnmf.experiments.tables import HEADS

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3")


def boxes(experiment: Experiment, rows: pd.DataFrame, metric: str) -> Figure:
    """One panel per model and one box per group, in the order of the TOML file."""
    names = _names(experiment, rows)
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.0 * lines + 0.5), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for place, name in zip(axes.flat, names, strict=False):
        scores = rows[rows["name"] == name]
        groups = _in_order((row.group for row in _scorings(experiment)), scores["group"])
        values = [scores.loc[scores["group"] == group, metric].astype(float) for group in groups]
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


def lines(experiment: Experiment, rows: pd.DataFrame, metric: str) -> Figure:
    """One panel per model: the mean score over the first strength, one line per second strength."""
    names = _names(experiment, rows)
    figure = Figure(figsize=(3.4 * len(names), 3.4), layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for place, name in zip(axes, names, strict=True):
        scores = rows[rows["name"] == name]
        by_group = scores[metric].astype(float).groupby(scores["group"], sort=False)
        points = by_group.agg(["mean", "std"])
        # A group such as "mu = 0.1, lam = 0.01": the place on the axis, and the line.
        strengths = points.index.str.partition(", ").to_frame(index=False)
        where = strengths[0].str.split(" = ", expand=True)
        for index, line in enumerate(dict.fromkeys(strengths[2])):
            on = np.flatnonzero(strengths[2] == line)
            place.errorbar(
                where.loc[on, 1].astype(float), points["mean"].iloc[on], points["std"].iloc[on],
                label=_greek(line) or None, capsize=2, marker="o", markersize=3,
                color=COLOURS[index % len(COLOURS)],
            )  # fmt: skip
            if line:
                place.legend(fontsize=7)
        place.set_xscale("log")
        place.set_xlabel(_greek(where.loc[0, 0]))
        place.set_title(name, fontsize=10)
        place.grid(color="0.9")
    axes[0].set_ylabel(HEADS[metric])
    figure.suptitle(experiment.title, fontsize=11)
    return figure


def _scorings(experiment: Experiment) -> Iterator[Scoring]:
    for fit in experiment.fits:
        yield from fit.scorings


def _names(experiment: Experiment, rows: pd.DataFrame) -> list[str]:
    """The models that have rows."""
    return _in_order((scoring.name for scoring in _scorings(experiment)), rows["name"])


def _in_order(planned: Iterable[str], present: Iterable[str]) -> list[str]:
    """The names that are present, each once, in the planned order: rows come in any order."""
    present = list(present)
    return [name for name in dict.fromkeys([*planned, *present]) if name in set(present)]


def _greek(text: str) -> str:
    return text.replace("mu", "μ").replace("lam", "λ")
