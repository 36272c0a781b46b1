"""`deepnmf report`: a page to explore a model and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import typer

from deepnmf.cli import inputs
from deepnmf.cli.options import DataSource, Grid, Labels, ModelFile
from deepnmf.cli.screen import check_writable, say
from deepnmf.cli.texts import AsText, TextColumn


def report(
    model: ModelFile,
    data: DataSource,
    labels: Labels = None,
    text: AsText = False,
    text_column: TextColumn = None,
    grid: Grid = None,
    output: str = typer.Option(..., "-o", "--output", help="The page to write: report.html."),
) -> None:
    """Write one HTML file to explore a model: classes, samples, and the parts they are made of."""
    from deepnmf.models.storage import load_stored

    target = check_writable(output, (".html", ".htm"))
    stored = load_stored(model)
    try:
        from deepnmf.report import write_report
    except ImportError as problem:
        raise ValueError(
            f"report: {problem.name} is missing; pip install 'deepnmf[report]'."
        ) from None
    dataset = inputs.load_for(stored, data, labels, text, text_column)
    y = inputs.load_labels(dataset, labels)
    X = inputs.prepare_for(stored, dataset)
    cells = inputs.grid(grid) or dataset.grid or _known_grid(stored.notes, X.shape[0])
    names, shape = stored.notes.get("feature_names"), stored.notes.get("image_shape")
    shown = replace(
        dataset,
        X=X,
        y=y,
        feature_names=dataset.feature_names if names is None else names,
        image_shape=dataset.image_shape if shape is None else tuple(shape),
        grid=cells,
        axis_label=dataset.axis_label or stored.notes.get("axis_label") or "",
    )
    write_report(stored.model, shown, target, stored.notes)
    say(f"{X.shape[0]} samples, layers {[int(W.shape[-1]) for W in stored.model.weights_]}")
    say(f"written  {target} ({target.stat().st_size / 1e6:.1f} MB)")


def _known_grid(notes: Mapping[str, Any], samples: int) -> tuple[int, int] | None:
    """The grid that the model was fitted with, if these samples can be the same ones."""
    height, width = notes.get("grid") or (0, 0)
    return (height, width) if height * width == samples else None
