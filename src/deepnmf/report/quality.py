"""How far a fit can be trusted, for the page: warnings, and its convergence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deepnmf.core.watch import Record
from deepnmf.explain.hierarchy import NEAR, LayerSummary
from deepnmf.models.advice import unfinished
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.choice.record import FEW_FITS
from deepnmf.report.records import Curve

STAGES = {"pretrain": "pre-training", "finetune": "fine-tuning"}


def warnings_of(model: MatrixFactorization, layers: Sequence[LayerSummary]) -> list[str]:
    """What a user should know before trusting the parts, and what to do about it."""
    warnings = []
    if unfinished(model):
        warnings.append(f"Not converged: {model.status_}")
    for summary in layers:
        name, dead, pairs = f"Layer {summary.layer}", len(summary.dead), len(summary.redundant)
        if dead:
            warnings.append(
                f"{name}: {dead} of {summary.parts} parts are dead: they have no weights, or "
                "nothing uses them. Use fewer parts, a weaker penalty or a larger fill."
            )
        if pairs:
            subject = "pair of parts is" if pairs == 1 else "pairs of parts are"
            warnings.append(
                f"{name}: {pairs} {subject} near-equal (cosine at least {NEAR}): fewer parts may "
                "be enough."
            )
    return [*warnings, *_poorly_supported(model)]


def _poorly_supported(model: MatrixFactorization) -> list[str]:
    """For a consensus: the layers with parts that few fits have."""
    warnings = []
    for layer, support in enumerate(getattr(model, "support_", ()), 1):
        few = int((support < FEW_FITS).sum())
        if few:
            verbs = ("is", "it depends") if few == 1 else ("are", "they depend")
            warnings.append(
                f"Layer {layer}: {few} of {len(support)} parts {verbs[0]} found in fewer than "
                f"{FEW_FITS:.0%} of the fits: {verbs[1]} on the start or on single samples. Use "
                "fewer parts."
            )
    return warnings


def convergence(history: Sequence[Record], most: int = 150) -> list[Curve]:
    """The objective over the sweeps, one curve per stage."""
    stages: dict[str, list[Record]] = {}
    for record in history:
        layer = "" if record["layer"] is None else f", layer {record['layer']}"
        stage = str(record["stage"])
        stages.setdefault(STAGES.get(stage, stage) + layer, []).append(record)
    curves: list[Curve] = []
    for name, records in stages.items():
        kept = [records[row] for row in spread(len(records), most)]
        curves.append(
            {
                "name": name,
                "sweeps": records[-1]["sweep"],
                "sweep": [record["sweep"] for record in kept],
                "seconds": [round(record["seconds"], 4) for record in kept],
                "objective": [float(f"{record['objective']:.6g}") for record in kept],
            }
        )
    return curves


def spread(size: int, most: int) -> np.ndarray:
    """At most `most` of 0 … size − 1, evenly spread."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(int))
