"""Tables from rows: Markdown and LaTeX."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from deepnmf.evaluation.metrics import SCORES
from deepnmf.experiments.design import Experiment

HEADS = {
    **SCORES, "relative_error": "error, training", "seconds": "seconds",
    "held_out_error": "error, held out", "sparsity_parts": "sparsity, parts",
    "sparsity_codes": "sparsity, codes", "stability": "stability, top layer",
    "stability_lowest": "stability, layer 1",
}  # fmt: skip
PAPERS = ("nmi", "naive_precision", "error_rate")
CORRECTED = ("ami", "ari", "accuracy")
ABOUT = (
    "relative_error", "held_out_error", "sparsity_parts", "sparsity_codes", "stability",
    "stability_lowest", "seconds",
)  # fmt: skip
DIGITS = {"error_rate": 2, "seconds": 2}
NONE, NOT_MEASURED = "–", "not measured"
"""What cells say that have no value."""


class Cell(NamedTuple):
    """A score of one line of a table."""

    mean: str
    deviation: str
    paper: float | None
    """The paper's figure."""
    missing: str = ""
    """What the cell says if there is no value."""


def markdown(experiment: Experiment, rows: pd.DataFrame) -> str:
    """The paper's scores with the paper's figures beside them, the scores corrected for chance, and
    the measures that need no labels. Columns without values are left out, except for a stability
    that was asked for."""
    lines = [f"# {experiment.title}", ""]
    count = rows.groupby(["name", "group"], sort=False).size()
    each = f"{count.min()}" if count.min() == count.max() else f"{count.min()} to {count.max()}"
    lines += [f"Means and deviations over {each} rows: folds, seeds, K-means runs.", ""]
    if experiment.small:
        lines += [
            f"A small version. `deepnmf reproduce {experiment.name} --full`: the paper's.",
            "",
        ]
    has_paper = any(scoring.paper for fit in experiment.fits for scoring in fit.scorings)
    for metrics in (PAPERS, CORRECTED, ABOUT):
        asked = ("stability",) if experiment.stability else ()
        known = tuple(name for name in metrics if name in asked or rows[name].notna().any())
        if known:
            paper = has_paper and metrics is PAPERS
            lines += [*_table(experiment, rows, known, paper), ""]
    return "\n".join(lines)


def latex(experiment: Experiment, rows: pd.DataFrame) -> str:
    """The paper's scores, or without labels the measures, as a LaTeX tabular."""
    metrics = PAPERS if rows[PAPERS[0]].notna().any() else ABOUT
    lines = [r"\begin{tabular}{l" + "c" * len(metrics) + "}", r"\toprule"]
    lines.append(" & ".join(["Method", *(HEADS[name] for name in metrics)]) + r" \\")
    lines.append(r"\midrule")
    for name, values in _cells(experiment, rows, metrics):
        cells = [cell.missing or f"${cell.mean} \\pm {cell.deviation}$" for cell in values]
        lines.append(" & ".join([name.replace("_", r"\_"), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _table(
    experiment: Experiment, rows: pd.DataFrame, metrics: tuple[str, ...], paper: bool
) -> list[str]:
    heads = ["method"]
    for name in metrics:
        heads += [HEADS[name], "paper"] if paper else [HEADS[name]]
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join(["---"] * len(heads)) + " |"]
    for name, values in _cells(experiment, rows, metrics):
        cells = [name]
        for cell in values:
            cells.append(cell.missing or f"{cell.mean} ± {cell.deviation}")
            if paper:
                cells.append(NONE if cell.paper is None else str(cell.paper))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cells(
    experiment: Experiment, rows: pd.DataFrame, metrics: tuple[str, ...]
) -> list[tuple[str, list[Cell]]]:
    """The name and the cells of every line.

    Lines come in the order of the TOML file. Fits that share a box share a line.
    """
    printed = {
        (scoring.name, scoring.group): (scoring.paper, len(fit.layers))
        for fit in experiment.fits
        for scoring in fit.scorings
    }
    rows = rows[rows["fit"].isin([fit.key for fit in experiment.fits])]
    groups = dict(list(rows.groupby(["name", "group"])))
    lines = []
    for key, (paper, layers) in printed.items():
        if key not in groups:
            continue
        values = []
        for name in metrics:
            digits, scores = DIGITS.get(name, 3), groups[key][name].astype(float)
            mean, deviation = f"{scores.mean():.{digits}f}", f"{scores.std():.{digits}f}"
            missing = "" if scores.notna().any() else _missing(name, layers)
            values.append(Cell(mean, deviation, paper.get(name), missing))
        lines.append((", ".join(text for text in key if text), values))
    return lines


def _missing(metric: str, layers: int) -> str:
    """What a cell says that has no value. In a single layer, layer 1 is the top layer."""
    asked = metric == "stability" or (metric == "stability_lowest" and layers > 1)
    return NOT_MEASURED if asked else NONE
