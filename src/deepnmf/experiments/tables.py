"""Tables from rows: Markdown and LaTeX."""

from __future__ import annotations

import pandas as pd

from deepnmf.evaluation.metrics import SCORES
from deepnmf.experiments.design import Experiment

HEADS = {
    **SCORES, "relative_error": "error, training", "seconds": "seconds",
    "held_out_error": "error, held out", "sparsity_parts": "sparsity, parts",
    "sparsity_codes": "sparsity, codes", "stability": "stability",
}  # fmt: skip
PAPERS = ("nmi", "naive_precision", "error_rate")
CORRECTED = ("ami", "ari", "accuracy")
ABOUT = (
    "relative_error", "held_out_error", "sparsity_parts", "sparsity_codes", "stability", "seconds",
)  # fmt: skip
DIGITS = {"error_rate": 2, "seconds": 2}


def markdown(experiment: Experiment, rows: pd.DataFrame) -> str:
    """The paper's scores with the paper's figures beside them, the scores corrected for chance, and
    the measures that need no labels. Columns without values are left out."""
    lines = [f"# {experiment.title}", ""]
    count = rows.groupby(["name", "group"], sort=False).size()
    each = f"{count.min()}" if count.min() == count.max() else f"{count.min()} to {count.max()}"
    lines += [f"Means and deviations over {each} rows: folds, seeds, K-means runs.", ""]
    has_paper = any(scoring.paper for fit in experiment.fits for scoring in fit.scorings)
    for metrics in (PAPERS, CORRECTED, ABOUT):
        known = tuple(name for name in metrics if rows[name].notna().any())
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
        cells = [f"${mean} \\pm {deviation}$" for mean, deviation, _ in values]
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
        for mean, deviation, printed in values:
            cells.append("–" if mean == "nan" else f"{mean} ± {deviation}")
            if paper:
                cells.append("–" if printed is None else str(printed))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cells(
    experiment: Experiment, rows: pd.DataFrame, metrics: tuple[str, ...]
) -> list[tuple[str, list[tuple[str, str, float | None]]]]:
    """For every line its name and, for every score, mean, deviation and the paper's figure.

    Lines come in the order of the TOML file. Fits that share a box share a line.
    """
    printed = {
        (scoring.name, scoring.group): scoring.paper
        for fit in experiment.fits
        for scoring in fit.scorings
    }
    rows = rows[rows["fit"].isin([fit.key for fit in experiment.fits])]
    groups = dict(list(rows.groupby(["name", "group"])))
    lines = []
    for key, paper in printed.items():
        if key not in groups:
            continue
        values = []
        for name in metrics:
            digits, scores = DIGITS.get(name, 3), groups[key][name].astype(float)
            mean, deviation = f"{scores.mean():.{digits}f}", f"{scores.std():.{digits}f}"
            values.append((mean, deviation, paper.get(name)))
        lines.append((", ".join(text for text in key if text), values))
    return lines
