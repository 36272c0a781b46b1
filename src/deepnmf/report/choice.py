"""How many parts: the curves of a choice, as records for the page and as a still picture."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from deepnmf.models.choice.record import Choice, LayerChoice
from deepnmf.report.plots import INK, PAPER
from deepnmf.report.records import SizeCurve

WIDE = 16
"""Sizes that span at least this ratio are drawn on a logarithmic axis."""
CURVE, CHOSEN, PALE = "C0", "#b03a2e", "0.6"


def size_curve(layer: LayerChoice) -> SizeCurve:
    """The curve of a layer, for the page."""
    candidates = layer.candidates
    return {
        "layer": layer.layer,
        "chosen": layer.size,
        "best": layer.best.size,
        "helps": layer.helps,
        "doubling": _doubling(layer),
        "size": [candidate.size for candidate in candidates],
        "error": [candidate.error for candidate in candidates],
        "spread": [candidate.spread for candidate in candidates],
        "stability": [candidate.stability for candidate in candidates],
    }


def choice_figure(choice: Choice) -> Figure:
    """The held-out error over the number of parts, one column per layer that was tried.

    The bars are the standard error of the difference from the size that predicts best: where a bar
    reaches the dashed line, the size predicts as well. Below is the stability, if it was measured.
    """
    layers = choice.layers
    stable = any(one.stability is not None for layer in layers for one in layer.candidates)
    heights = [3.0, 1.3] if stable else [3.0]
    figure = Figure(
        figsize=(0.6 + 4.4 * len(layers), 0.7 + sum(heights)), facecolor=PAPER, layout="constrained"
    )
    panels = figure.subplots(
        len(heights), len(layers), squeeze=False, sharex="col", height_ratios=heights
    )
    for column, layer in zip(panels.T, layers, strict=True):
        _draw_error(column[0], layer)
        if stable:
            _draw_stability(column[1], layer)
        for axes in column:
            _finish(axes, layer)
        column[-1].set_xlabel("parts")
    panels[0, 0].set_ylabel("held-out error")
    if stable:
        panels[1, 0].set_ylabel("stability")
    figure.align_ylabels()
    return figure


def _draw_error(axes: Axes, layer: LayerChoice) -> None:
    """The error of every size, with the chosen and the best one marked."""
    best, chosen = layer.best, layer.candidate(layer.size)
    curve, mark = (CURVE, CHOSEN) if layer.helps else (PALE, PALE)
    axes.errorbar(
        [one.size for one in layer.candidates],
        [best.error + one.above_best for one in layer.candidates],
        [one.spread for one in layer.candidates],
        color=curve, marker="o", markersize=3.5, linewidth=1.4, capsize=2,
    )  # fmt: skip
    axes.axhline(best.error, color="0.75", linewidth=0.9, linestyle="--", zorder=0)
    if best.size != chosen.size:
        axes.plot(
            best.size, best.error, marker="o", markersize=8, color=PALE, fillstyle="none",
            linestyle="none", label=f"predicts best: {best.size}",
        )  # fmt: skip
    axes.plot(
        chosen.size, chosen.error, marker="o", markersize=8, color=mark, linestyle="none",
        label=f"{'chosen' if layer.helps else 'would be chosen'}: {chosen.size}", zorder=3,
    )  # fmt: skip
    axes.annotate(
        str(chosen.size), (chosen.size, chosen.error), (0, 10), textcoords="offset points",
        ha="center", weight="bold", color=mark,
    )  # fmt: skip
    axes.legend(frameon=False, fontsize=9)
    title = f"layer {layer.layer}" + ("" if layer.helps else ": does not help")
    axes.set_title(title, fontsize=11, color=INK if layer.helps else PALE)


def _draw_stability(axes: Axes, layer: LayerChoice) -> None:
    """The stability of the sizes for which it was measured."""
    measured = [(one.size, one.stability) for one in layer.candidates if one.stability is not None]
    if not measured:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=PALE)
    sizes, stabilities = [size for size, _ in measured], [value for _, value in measured]
    axes.plot(sizes, stabilities, color=CURVE, marker="o", markersize=3.5, linewidth=1.4)
    for size, stability in measured:
        if size == layer.size:
            axes.plot(size, stability, color=CHOSEN, marker="o", markersize=8)
    axes.set_ylim(0, 1.05)


def _finish(axes: Axes, layer: LayerChoice) -> None:
    """The axis of sizes, the grid and the frame."""
    if _doubling(layer):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(True, color="0.92")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _doubling(layer: LayerChoice) -> bool:
    """Whether equal steps on the axis of sizes stand for doublings."""
    sizes = [candidate.size for candidate in layer.candidates]
    return max(sizes) >= WIDE * min(sizes)
