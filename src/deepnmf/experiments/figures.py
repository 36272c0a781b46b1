"""Figures from rows: box plots like the paper's, and lines over strengths or sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deepnmf.experiments.design import Experiment, Scoring
from deepnmf.experiments.tables import HEADS, NOT_MEASURED

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3")

STABILITY = {
    "stability": ("top layer", -0.04, COLOURS[1], "o-"),
    "stability_lowest": ("layer 1", 0.04, COLOURS[2], "s--"),
}
"""The two measures in a figure: name, shift along the axis, colour, and marker with line."""


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


def sizes(experiment: Experiment, rows: pd.DataFrame) -> Figure:
    """Two panels per model over the sizes of its layers: the held-out error, and the stability.

    Means with deviations over folds and seeds; the sizes are in the order in which they were given.
    """
    names = _names(experiment, rows)
    figure = Figure(figsize=(max(4.5, 3.2 * len(names)), 5.4), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False, sharex="col", sharey="row")
    for (above, below), name in zip(axes.T, names, strict=True):
        scores = rows[rows["name"] == name]
        groups = _in_order((row.group for row in _scorings(experiment)), scores["group"])
        places, means, deviations = _points(scores, groups, "held_out_error")
        above.errorbar(
            places, means, deviations, fmt="o-", color=COLOURS[0], capsize=2, markersize=4,
        )  # fmt: skip
        _draw_stability(below, scores, groups)
        above.set_title(name, fontsize=10)
        below.set_xticks(range(len(groups)), groups, rotation=35, ha="right", fontsize=8)
        below.set_xlim(-0.5, len(groups) - 0.5)
    for place in axes.flat:
        place.grid(axis="y", color="0.9")
        place.set_axisbelow(True)
    axes[0, 0].set_ylabel(HEADS["held_out_error"])
    axes[1, 0].set_ylabel("stability")
    axes[1, 0].set_ylim(min(0, axes[1, 0].get_ylim()[0]), 1.05)
    figure.align_ylabels()
    keys = [place.get_legend_handles_labels() for place in axes[1]]
    drawn = {label: handle for place in keys for handle, label in zip(*place, strict=True)}
    if drawn:
        figure.legend(
            list(drawn.values()), list(drawn), loc="outside lower center", ncols=2, fontsize=8,
            title="stability of", title_fontsize=8, handlelength=3,
        )  # fmt: skip
    figure.suptitle(experiment.title, fontsize=11)
    return figure


def _draw_stability(axes: Axes, scores: pd.DataFrame, groups: Sequence[str]) -> None:
    """The stability of the top layer and of layer 1, where they were measured."""
    if scores["stability"].isna().all():
        axes.text(0.5, 0.5, NOT_MEASURED, transform=axes.transAxes, ha="center", color="0.4")
    for metric, (label, shift, colour, line) in STABILITY.items():
        if scores[metric].notna().any():
            places, means, deviations = _points(scores, groups, metric)
            axes.errorbar(
                places + shift, means, deviations, fmt=line, color=colour, label=label, capsize=2,
                markersize=4,
            )  # fmt: skip


def _points(
    scores: pd.DataFrame, groups: Sequence[str], metric: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places of the groups on the axis, and the means and deviations of a score."""
    by_group = scores[metric].astype(float).groupby(scores["group"])
    points = by_group.agg(["mean", "std"]).loc[list(groups)]
    return np.arange(len(groups)), points["mean"].to_numpy(), points["std"].to_numpy()


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
