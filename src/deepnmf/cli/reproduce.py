"""`deepnmf reproduce`: the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepnmf.cli import inputs
from deepnmf.cli.options import Device, Folder
from deepnmf.cli.screen import output_folder, say, say_error, steps
from deepnmf.experiments import EXPERIMENTS

if TYPE_CHECKING:
    import pandas as pd

    from deepnmf.data import Dataset
    from deepnmf.experiments.design import Experiment

Name = Annotated[
    str,
    typer.Argument(help=f"{', '.join(EXPERIMENTS)}."),
]
Full = Annotated[
    bool, typer.Option("--full", help="At the paper's size; otherwise a small version.")
]
FromRows = Annotated[
    str | None,
    typer.Option(
        help="Make tables and figures from these rows (fig8: from this model) without fitting."
    ),
]


def reproduce(
    name: Name,
    output: Folder,
    full: Full = False,
    device: Device = "auto",
    from_rows: FromRows = None,
) -> None:
    """Reproduce a table or figure of the paper. Run again, it resumes."""
    from deepnmf.experiments.design import load
    from deepnmf.experiments.rows import read
    from deepnmf.samples.place import DEVICES

    inputs.one_of("NAME", name, EXPERIMENTS)
    inputs.one_of("--device", device, list(DEVICES))
    folder = output_folder(output)
    if name == "rate":
        _rate(folder, full, from_rows)
        return
    if name == "fig8":
        _fig8(folder, full, device, from_rows)
        return
    experiment = load(name, full)
    if from_rows is None:
        path = folder / f"{name}{'-full' if full else ''}.csv"
        run_all(experiment, path, device)
    else:
        path = Path(from_rows)
    for file in write(experiment, read(path), folder):
        say(f"written  {file}")


def run_all(
    experiment: Experiment, path: Path, device: str, dataset: Dataset | None = None
) -> None:
    """Do every fit that has no rows yet. Ctrl-C keeps the rows of the fits that are done."""
    from deepnmf.experiments.runner import run

    done = 0

    def report(fit: str, so_far: int, total: int) -> None:
        nonlocal done
        done = so_far
        move(experiment.name, so_far, total, fit)

    try:
        with steps() as move:
            run(experiment, path, device, report, dataset)
    except KeyboardInterrupt:
        kept = f"{done} fits are in {path}: run it again to resume" if done else "no fit is done"
        say_error(f"interrupted; {kept}.")
        raise typer.Exit(130) from None


def write(experiment: Experiment, rows: pd.DataFrame, folder: Path) -> list[Path]:
    """The tables and figures of an experiment, from its rows."""
    from deepnmf.experiments import figures, tables

    written = [folder / f"{experiment.name}.md", folder / f"{experiment.name}.tex"]
    written[0].write_text(tables.markdown(experiment, rows), encoding="utf-8")
    written[1].write_text(tables.latex(experiment, rows), encoding="utf-8")
    drawings = [(metric, figures.boxes) for metric in experiment.boxes]
    drawings += [(metric, figures.lines) for metric in experiment.lines]
    for metric, draw in drawings:
        figure = draw(experiment, rows, metric)
        for kind in ("png", "svg"):
            written.append(folder / f"{experiment.name}-{metric}.{kind}")
            figure.savefig(written[-1], dpi=150)
    return written


def _rate(folder: Path, full: bool, from_rows: str | None) -> None:
    """How fast a subproblem is solved: on PIE at full size, otherwise on digits."""
    import pandas as pd
    from sklearn.preprocessing import normalize

    from deepnmf.data.datasets import DATASETS
    from deepnmf.experiments.rate import gaps, orders, plot

    data, parts = ("pie", 160) if full else ("digits", 16)
    path = folder / f"rate{'-full' if full else ''}.csv"
    if from_rows is None:
        frame = gaps(normalize(DATASETS[data][0]().X), parts, 1000 if full else 300)
        frame.to_csv(path, index=False)
    else:
        frame = pd.read_csv(from_rows)
    figure = plot(frame, f"Codes of {data}, {parts} parts")
    for kind in ("png", "svg"):
        figure.savefig(folder / f"rate.{kind}", dpi=150)
    for method, order in orders(frame).items():
        say(f"{method}: in the last decade of steps the gap falls like 1/k^{order:.2f}")
    say(f"written  {folder / 'rate.png'}, {folder / 'rate.svg'}")


def _fig8(folder: Path, full: bool, device: str, from_rows: str | None) -> None:
    """The hierarchy of a class; the model is saved beside it."""
    from deepnmf.data.datasets import DATASETS
    from deepnmf.experiments import fig8

    hierarchy = fig8.settings(full)
    dataset = DATASETS[hierarchy.data][0]()
    X, y = fig8.samples(hierarchy, dataset)
    model_file = folder / f"fig8{'-full' if full else ''}.safetensors"
    if from_rows is not None and not Path(from_rows).exists():
        raise FileNotFoundError(f"{from_rows}: there is no such model file.")
    model = fig8.fitted(hierarchy, X, model_file if from_rows is None else Path(from_rows), device)
    figure, rows = fig8.draw(hierarchy, model, X, y, dataset.image_shape)
    written = [folder / f"fig8.{kind}" for kind in ("csv", "png", "svg")]
    rows.to_csv(written[0], index=False)
    for path in written[1:]:
        figure.savefig(path, dpi=150)
    first = rows.iloc[0]
    say(f"class {hierarchy.label}: mainly part {first['unit']} of layer {first['layer']}")
    for path in [*([] if from_rows else [model_file]), *written]:
        say(f"written  {path}")
