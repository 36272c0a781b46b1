"""`deepnmf demo`: sparse deep NMF at work on handwritten digits."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepnmf.cli.options import Folder
from deepnmf.cli.screen import check_writable, output_folder, progress, say, table

if TYPE_CHECKING:
    import numpy as np

    from deepnmf import DeepNMF
    from deepnmf.data import Dataset

LAYERS = (32, 16)
PictureSeed = Annotated[int, typer.Option(help="The same seed gives the same pictures.")]


def demo(output: Folder = "demo", seed: PictureSeed = 0) -> None:
    """Fit SDNMF/L to handwritten digits, score it against plain NMF, show the parts it found."""
    from sklearn.preprocessing import normalize as to_unit_norm

    from deepnmf.data import load_digits
    from deepnmf.models.presets import sdnmf_l

    folder = output_folder(output)
    check_writable(str(folder / "report.html"))
    digits = load_digits()
    scaled = replace(digits, X=to_unit_norm(digits.X))
    say(f"{len(digits.X)} handwritten digits of 8 x 8 pixels, 10 classes")
    say(f"SDNMF/L with layers {LAYERS}: {LAYERS[0]} parts, combined into {LAYERS[1]}")

    model = sdnmf_l(LAYERS, random_state=seed)
    beside = sdnmf_l(LAYERS, graph="codes", random_state=seed)
    deep = _deep_fit(f"SDNMF/L {list(LAYERS)}", model, scaled.X)
    fits = [
        DemoFit("the pixels", scaled.X),
        *_plain_fits(scaled.X, seed),
        deep,
        _deep_fit("the same, with a graph", beside, scaled.X),
    ]
    scores = _scores(fits, scaled, seed)
    _show_scores(scores)
    for layer, W in enumerate(model.weights_, 1):
        say(f"zeros in W_{layer}: {(W <= 0).mean():.0%}")
    say(f"fitted in {deep.seconds:.1f} s; {model.status_}")
    written = _write(folder, model, digits, scaled, scores)
    say()
    for path in written:
        say(f"written  {path}")


@dataclass(frozen=True)
class DemoFit:
    """One line of the demo's table."""

    name: str
    codes: np.ndarray
    error: float | None = None
    """‖X − X̂‖."""
    seconds: float = 0.0
    model: DeepNMF | None = None


def _deep_fit(name: str, model: DeepNMF, X: np.ndarray) -> DemoFit:
    from deepnmf.models.advice import complete

    began = time.perf_counter()
    with progress(2 * model.pretrain_iter + model.max_iter) as callback:
        codes = model.set_params(callback=callback).fit_transform(X)
    complete(model).set_params(callback=None)
    seconds = time.perf_counter() - began
    return DemoFit(name, codes, model.reconstruction_err_, seconds, model)


def _plain_fits(X: np.ndarray, seed: int) -> list[DemoFit]:
    """scikit-learn's NMF, with its codes as they are and rescaled."""
    from sklearn.decomposition import NMF

    began = time.perf_counter()
    plain = NMF(LAYERS[-1], init="nndsvda", max_iter=500, random_state=seed)
    codes = plain.fit_transform(X)
    fit = DemoFit(
        f"plain NMF [{LAYERS[-1]}]", codes, plain.reconstruction_err_, time.perf_counter() - began
    )
    rescaled = codes / (codes**2).mean(axis=0) ** 0.5
    return [fit, replace(fit, name=f"{fit.name}, codes rescaled", codes=rescaled)]


Row = dict[str, str | float]
"""One line of the table of scores, by column."""


def _scores(fits: Sequence[DemoFit], data: Dataset, seed: int) -> list[Row]:
    """Every fit clustered by K-means and by the graph of neighbours, and scored; then its error and
    its time."""
    from deepnmf import cluster
    from deepnmf.evaluation import cluster_scores, nmi
    from deepnmf.evaluation.metrics import SCORES

    assert data.y is not None
    norm = float((data.X**2).sum() ** 0.5)
    rows: list[Row] = []
    for fit in fits:
        scores = cluster_scores(fit.codes, data.y, random_state=seed)
        row: Row = {"model": fit.name}
        row |= {label: scores[name] for name, label in SCORES.items()}
        what, X = (fit.codes, None) if fit.model is None else (fit.model, data.X)
        found = cluster(what, X, len(set(data.y)), random_state=seed)
        row["NMI, by graph"] = nmi(data.y, found.labels)
        row["relative error"] = "" if fit.error is None else fit.error / norm
        rows.append({**row, "seconds": "" if fit.error is None else fit.seconds})
    return rows


def _show_scores(rows: Sequence[Mapping[str, str | float]]) -> None:
    from deepnmf.evaluation.metrics import SCORES

    labels = [SCORES[name] for name in ("nmi", "ami", "accuracy")]
    columns = ("model", *labels, "NMI, by graph", "relative error", "seconds")
    cells = [[_text(row[column]) for column in columns] for row in rows]
    say()
    say(table(columns, cells))
    say("(NMI, AMI and accuracy: K-means on the codes, means of 10 runs. By graph: spectral")
    say(" clusters of nearest neighbours; a graph in the model is for K-means. Rescaled: codes of")
    say(" unit RMS, which SDNMF/L has by itself.)")
    say()


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"


def _write(
    folder: Path, model: DeepNMF, digits: Dataset, scaled: Dataset, scores: Sequence[Row]
) -> list[Path]:
    """Write the scores and the model, and where matplotlib and Jinja2 are installed the pictures
    and the page. Returns the paths."""
    from deepnmf.files.atomic import write_atomically
    from deepnmf.models.storage import save

    content = io.StringIO(newline="")
    writer = csv.DictWriter(content, fieldnames=list(scores[0]))
    writer.writeheader()
    writer.writerows(scores)
    write_atomically(folder / "scores.csv", content.getvalue().encode())
    notes = {
        "model": "sdnmf/l",
        "data": "digits",
        "normalize": "l2",
        "image_shape": digits.image_shape,
    }
    save(model, folder / "digits.safetensors", notes)
    written = [folder / "scores.csv", folder / "digits.safetensors"]
    try:
        from deepnmf.report import write_pictures, write_report
    except ImportError as problem:
        say(f"no pictures: {problem.name} is missing; pip install 'deepnmf[report]'")
        return written
    written += write_pictures(model, digits, folder)
    return [*written, write_report(model, scaled, folder / "report.html", notes, scores)]
