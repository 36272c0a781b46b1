"""`deepnmf reproduce`: the paper's tables and figures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepnmf.cli import inputs
from deepnmf.cli.options import Device, Folder
from deepnmf.cli.screen import Interrupted, output_folder, say, steps
from deepnmf.experiments import EXPERIMENTS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

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
    from deepnmf.data.datasets import DATASETS
    from deepnmf.experiments.design import load
    from deepnmf.experiments.rows import of_one_setting, read
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
        rows = run_all(experiment, path, device, DATASETS[experiment.data][0]())
    else:
        path = Path(from_rows)
        rows = of_one_setting(read(path), [fit.key for fit in experiment.fits], path)
    for file in write(experiment, rows, folder):
        say(f"written  {file}")
    if experiment.small:
        say("This is a small version: fewer parts, folds and runs than the paper's. Use --full.")


def run_all(experiment: Experiment, path: Path, device: str, dataset: Dataset) -> pd.DataFrame:
    """Do every fit that has no rows yet, and return the rows of all. Ctrl-C keeps the rows of the
    fits that are done."""
    from deepnmf.experiments.runner import rows_of, run

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
        raise Interrupted(f"interrupted; {kept}.") from None
    return rows_of(experiment, path, dataset)


def write(experiment: Experiment, rows: pd.DataFrame, folder: Path) -> list[Path]:
    """The tables and figures of an experiment, from its rows."""
    from deepnmf.experiments import figures, tables
    from deepnmf.files.atomic import write_atomically

    names = {kind: folder / f"{experiment.name}.{kind}" for kind in ("md", "tex")}
    write_atomically(names["md"], tables.markdown(experiment, rows).encode())
    write_atomically(names["tex"], tables.latex(experiment, rows).encode())
    written = list(names.values())
    drawings = [(metric, figures.boxes) for metric in experiment.boxes]
    drawings += [(metric, figures.lines) for metric in experiment.lines]
    if experiment.sizes:
        written += pictures(figures.sizes(experiment, rows), folder / f"{experiment.name}-sizes")
    for metric, draw in drawings:
        written += pictures(draw(experiment, rows, metric), folder / f"{experiment.name}-{metric}")
    return written


def pictures(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and as SVG."""
    from deepnmf.files.atomic import write_atomically

    written = []
    for kind in ("png", "svg"):
        written.append(stem.with_name(f"{stem.name}.{kind}"))
        content = io.BytesIO()
        figure.savefig(content, dpi=150, format=kind)
        write_atomically(written[-1], content.getvalue())
    return written


def _rate(folder: Path, full: bool, from_rows: str | None) -> None:
    """How fast a subproblem is solved: on PIE at full size, otherwise on digits."""
    from sklearn.preprocessing import normalize

    from deepnmf.data.datasets import DATASETS
    from deepnmf.experiments.rate import gaps, orders, plot, read
    from deepnmf.files.atomic import write_atomically

    data, parts = ("pie", 160) if full else ("digits", 16)
    path = folder / f"rate{'-full' if full else ''}.csv"
    if from_rows is None:
        frame = gaps(normalize(DATASETS[data][0]().X), parts, 1000 if full else 300)
        write_atomically(path, frame.to_csv(index=False).encode())
    else:
        frame = read(from_rows)
    written = pictures(plot(frame, f"Codes of {data}, {parts} parts"), folder / "rate")
    for method, order in orders(frame).items():
        say(f"{method}: in the last decade of steps the gap falls like 1/k^{order:.2f}")
    say(f"written  {', '.join(map(str, written))}")


def _fig8(folder: Path, full: bool, device: str, from_rows: str | None) -> None:
    """The hierarchy of a class; the model is saved beside it."""
    from deepnmf.data.datasets import DATASETS
    from deepnmf.experiments import fig8
    from deepnmf.files.atomic import write_atomically

    hierarchy = fig8.settings(full)
    dataset = DATASETS[hierarchy.data][0]()
    X, y = fig8.samples(hierarchy, dataset)
    model_file = folder / f"fig8{'-full' if full else ''}.safetensors"
    if from_rows is not None and not Path(from_rows).exists():
        raise FileNotFoundError(
            f"--from-rows {from_rows}: there is no such file. For fig8, give a model file."
        )
    model = fig8.fitted(hierarchy, X, model_file if from_rows is None else Path(from_rows), device)
    figure, rows = fig8.draw(hierarchy, model, X, y, dataset.image_shape)
    table = folder / "fig8.csv"
    write_atomically(table, rows.to_csv(index=False).encode())
    written = [table, *pictures(figure, folder / "fig8")]
    first = rows.iloc[0]
    say(f"class {hierarchy.label}: mainly part {first['unit']} of layer {first['layer']}")
    for path in [*([] if from_rows else [model_file]), *written]:
        say(f"written  {path}")
