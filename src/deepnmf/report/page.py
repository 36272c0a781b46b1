"""One self-contained HTML page to explore a model. It opens from disk and uses no network."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from deepnmf.arrays.tensors import to_numpy
from deepnmf.data import Dataset
from deepnmf.explain.decoding import parts
from deepnmf.files.atomic import write_atomically
from deepnmf.models.base import MatrixFactorization
from deepnmf.report.choice import choice_figure
from deepnmf.report.content import content
from deepnmf.report.plots import code_maps, convergence, part_lines, parts_sheet
from deepnmf.report.records import Page

SCRIPTS = ("data.js", "elements.js", "pictures.js", "spectra.js", "support.js", "overview.js",
           "choice.js", "layers.js", "explorer.js", "search.js", "router.js")  # fmt: skip


def write_report(
    model: MatrixFactorization,
    data: Dataset | Any,
    path: str | Path,
    notes: Mapping[str, object] | None = None,
    scores: Sequence[Mapping[str, str | float]] | None = None,
) -> Path:
    """Write the page of a fitted model and samples: an overview, the parts of every layer, and what
    classes, samples and parts are made of.

    `data` is a `Dataset`, or the samples alone, as the model sees them: scaled, features in the
    model's order. `notes` may hold "model", its name, and "normalize", how samples were scaled.
    `scores` are rows for the table of scores; without them, K-means on the codes is scored where
    there are labels.
    """
    path = Path(path)
    samples = data.X if isinstance(data, Dataset) else data
    if not isinstance(data, Dataset):
        names = getattr(data, "columns", None)
        names = None if names is None else np.asarray(names, dtype=object)
        data = Dataset(data if names is None else data.to_numpy(), feature_names=names)
    record = content(model, data, notes or {}, scores, samples)
    write_atomically(path, page(record).encode("utf-8"))
    return path


def page(record: Page) -> str:
    """The page of a record."""
    # "<" could end the script element, so it is escaped.
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    script = "\n".join(_source(name) for name in SCRIPTS)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_source("page.html")).render(
        title=record["title"],
        version=record["version"],
        style=Markup(_source("page.css")),
        script=Markup(script),
        data=Markup(text),
    )


def _source(name: str) -> str:
    return resources.files("deepnmf.report").joinpath("assets", name).read_text("utf-8")


def write_pictures(model: MatrixFactorization, data: Dataset, folder: Path) -> list[Path]:
    """Write PNG pictures: the parts of each layer, as images or as lines over the axis of the
    features; for samples on a grid, maps of their codes; how the numbers of parts were chosen; and
    the convergence. What a model does not have is left out."""
    pictures: dict[str, Figure] = {}
    for layer in range(1, len(model.weights_) + 1):
        sheet = parts(model, layer)
        title = f"layer {layer}: {len(sheet)} parts"
        if data.image_shape is not None:
            pictures[f"parts-layer-{layer}"] = parts_sheet(sheet, data.image_shape, title)
        elif data.axis is not None:
            lines = part_lines(sheet, data.axis, data.axis_label, data.references)
            pictures[f"parts-layer-{layer}"] = lines
        if data.grid is not None:
            codes = to_numpy(model.transform(data.X, layer=layer))
            pictures[f"maps-layer-{layer}"] = code_maps(codes, data.grid)
    choice = getattr(model, "choice_", None)
    if choice is not None:
        pictures["choose"] = choice_figure(choice)
    if model.history_:
        pictures["convergence"] = convergence(model.history_)
    written = []
    for name, figure in pictures.items():
        written.append(folder / f"{name}.png")
        content = io.BytesIO()
        figure.savefig(content, dpi=110)
        write_atomically(written[-1], content.getvalue())
    return written
