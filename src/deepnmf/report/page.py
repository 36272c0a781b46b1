"""One self-contained HTML page: what was fitted, its scores, its convergence, its parts."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from matplotlib.figure import Figure

from deepnmf.data import Dataset
from deepnmf.estimator import DeepNMF
from deepnmf.report.plots import convergence, parts_sheet


def write_overview(
    model: DeepNMF, data: Dataset, codes: Any, scores: Sequence[dict[str, Any]], folder: Path
) -> list[Path]:
    """Write a picture per layer, the convergence and report.html; return what was written."""
    pictures: dict[str, Figure] = {}
    if data.image_shape is not None:
        for layer in range(1, len(model.weights_) + 1):
            basis = model.basis(layer)
            title = f"layer {layer}: {len(basis)} parts"
            pictures[f"parts-layer-{layer}"] = parts_sheet(basis, data.image_shape, title)
    pictures["convergence"] = convergence(model.history_)
    written, inline = [], {}
    for name, figure in pictures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110)
        path = folder / f"{name}.png"
        path.write_bytes(buffer.getvalue())
        written.append(path)
        inline[name] = base64.b64encode(buffer.getvalue()).decode()
    text = resources.files("deepnmf.report").joinpath("overview.html").read_text()
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        text
    )
    page = template.render(
        model=model,
        data=data,
        samples=codes.shape[0],
        layers=[int(W.shape[-1]) for W in model.weights_],
        zeros=[float((W <= 0).mean()) for W in model.weights_],
        scores=scores,
        pictures=inline,
    )
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return [*written, path]
