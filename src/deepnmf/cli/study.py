"""`deepnmf study`: models compared on a user's data, as the paper compares them."""

from __future__ import annotations

from typing import Any

import typer

from deepnmf.cli import inputs
from deepnmf.cli.reproduce import run_all, write
from deepnmf.cli.screen import UsageFault, output_folder, say


def study(
    data: str = typer.Argument(help="A file or folder, or digits, pie, orl, reuters."),
    output: str = typer.Option(..., "-o", "--output", help="The folder to write to."),
    labels: str | None = typer.Option(None, help=inputs.LABELS),
    ignore_labels: bool = typer.Option(
        False, "--ignore-labels", help="Do without the labels that the data come with."
    ),
    models: str = typer.Option("sdnmf/l,dnmf,nenmf", help="Names from `deepnmf models`."),
    layers: list[str] = typer.Option(
        ["64,16"], help="Parts per layer, from the data up; may be given several times."
    ),
    options: list[str] | None = typer.Option(
        None, "--set", help="An option, name=value, for the models that have it: mu=1e-3."
    ),
    normalize: str = typer.Option("none", help="l2 scales every sample to unit norm; or none."),
    folds: int = typer.Option(5, min=2, help="Samples are held out a fold at a time."),
    runs: int = typer.Option(5, min=1, help="Fits per fold, with seeds 0, 1, …"),
    repeats: int = typer.Option(10, min=1, help="K-means runs per fit, where there are labels."),
    dtype: str = typer.Option("float32", help="float32 or float64."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
) -> None:
    """Compare models on your data: folds, seeds, scores. Started again it goes on.

    With labels: K-means on the codes of held-out samples, scored. Always: the error of held-out
    samples, sparsity, and how alike the parts of different seeds are.
    """
    from deepnmf.data.dataset import Dataset
    from deepnmf.experiments.design import Experiment
    from deepnmf.experiments.rows import read
    from deepnmf.samples.place import DEVICES

    inputs.one_of("--normalize", normalize, inputs.NORMALIZE)
    inputs.one_of("--dtype", dtype, inputs.DTYPES)
    inputs.one_of("--device", device, list(DEVICES))
    if labels is not None and ignore_labels:
        raise UsageFault("--labels and --ignore-labels: give one of them.")
    settings = dict(inputs.option(text) for text in options or [])
    sizes = [inputs.numbers("--layers", text, int) for text in layers]
    fits = _fits([name for name in models.split(",") if name], sizes, settings)
    dataset = inputs.load_data(data)
    y = None if ignore_labels else inputs.load_labels(dataset, labels)
    signed = all(getattr(fit.estimator, "signed", False) for fit in fits)
    X = inputs.prepare(dataset.X, normalize, dtype, signed)
    experiment = Experiment(
        name="study",
        title=f"{dataset.name}: {X.shape[0]} samples of {X.shape[1]} features",
        data=dataset.name,
        fits=fits,
        normalize="none",
        dtype=dtype,
        folds=folds,
        first_folds=folds,
        runs=runs,
        kmeans=0 if y is None else repeats,
        kmeans_start="greedy",
        stability=runs > 1,
        boxes=("held_out_error",) if y is None else ("nmi", "held_out_error"),
    )
    folder = output_folder(output)
    path = folder / "study.csv"
    run_all(experiment, path, device, Dataset(X=X, y=y, name=dataset.name))
    made = write(experiment, read(path), folder)
    say((folder / "study.md").read_text("utf-8"))
    for one in [path, *made]:
        say(f"written  {one}")


def _fits(names: list[str], sizes: list[Any], settings: dict[str, Any]) -> tuple[Any, ...]:
    """Every model with every choice of layers, checked before any work."""
    from deepnmf.experiments.design import TITLES, Fit, Scoring
    from deepnmf.models.registry import MODELS

    single = [name for name, known in MODELS.items() if not known.several]
    if not names:
        raise UsageFault("--models is empty: give names from `deepnmf models`.")
    for name in names:
        inputs.one_of("--models", name, single)
    for name in settings:
        if not any(name in MODELS[model].options for model in names):
            raise UsageFault(f"--set {name}: none of {', '.join(names)} has such an option.")
    fits: dict[str, Any] = {}
    for model in names:
        own = {name: value for name, value in settings.items() if name in MODELS[model].options}
        for given in sizes:
            layers = given if isinstance(given, tuple) else (given,)
            if MODELS[model].one_layer:
                layers = layers[-1:]
            row = Scoring(name=TITLES.get(model, model), group=str(list(layers)))
            fit = Fit(model, layers, own, (row,))
            try:
                _ = fit.estimator
            except (ValueError, TypeError) as problem:
                raise UsageFault(str(problem)) from None
            fits[fit.key] = fit
    return tuple(fits.values())
