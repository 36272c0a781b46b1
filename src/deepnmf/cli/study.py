"""`deepnmf study`: models compared on a user's data, as the paper compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from deepnmf.cli import inputs
from deepnmf.cli.inputs import Setting
from deepnmf.cli.options import DataSource, Device, Dtype, Folder, Labels, Normalize
from deepnmf.cli.reproduce import run_all, write
from deepnmf.cli.screen import UsageFault, output_folder, say

if TYPE_CHECKING:
    from deepnmf.experiments.design import Fit

IgnoreLabels = Annotated[
    bool, typer.Option("--ignore-labels", help="Ignore the labels that the data come with.")
]
ModelNames = Annotated[str, typer.Option(help="Names from `deepnmf models`.")]
LayerChoices = Annotated[
    list[str],
    typer.Option(help="Parts per layer, the lowest layer first; may be given several times."),
]
SharedOptions = Annotated[
    list[str] | None,
    typer.Option("--set", help="An option, name=value, for the models that have it: mu=1e-3."),
]
Folds = Annotated[int, typer.Option(min=2, help="Folds of the samples; each is held out once.")]
Runs = Annotated[int, typer.Option(min=1, help="Fits per fold, with seeds 0, 1, …")]
Repeats = Annotated[int, typer.Option(min=1, help="K-means runs per fit, where there are labels.")]


def study(
    data: DataSource,
    output: Folder,
    labels: Labels = None,
    ignore_labels: IgnoreLabels = False,
    models: ModelNames = "sdnmf/l,dnmf,nenmf",
    layers: LayerChoices = ["64,16"],  # noqa: B006
    options: SharedOptions = None,
    normalize: Normalize = "none",
    folds: Folds = 5,
    runs: Runs = 5,
    repeats: Repeats = 10,
    dtype: Dtype = "float32",
    device: Device = "auto",
) -> None:
    """Compare models on your data: folds, seeds, scores. Run again, it resumes.

    Other settings may go to the same folder: rows are only ever added.

    With labels: K-means on the codes of held-out samples, scored. Always: the error of held-out
    samples, sparsity, and stability.

    Stability says how alike the parts are that a model learns from different random starts. Models
    that start in another way are fitted again to measure it, which doubles their time; --runs 1
    leaves it out.
    """
    from deepnmf.data.dataset import Dataset
    from deepnmf.experiments.design import Experiment
    from deepnmf.samples.place import DEVICES

    inputs.one_of("--normalize", normalize, inputs.NORMALIZE)
    inputs.one_of("--dtype", dtype, inputs.DTYPES)
    inputs.one_of("--device", device, DEVICES)
    if labels is not None and ignore_labels:
        raise UsageFault("--labels and --ignore-labels: give one of them.")
    settings = dict(inputs.option(text) for text in options or [])
    sizes = [inputs.numbers("--layers", text, int) for text in layers]
    fits = _fits([name for name in models.split(",") if name], sizes, settings)
    dataset = inputs.load_data(data, labels)
    y = None if ignore_labels else inputs.load_labels(dataset, labels)
    most = dataset.X.shape[0] if y is None else max(Counter(y.tolist()).values(), default=0)
    if folds > most:
        has = f"{most} samples" if y is None else f"no class of more than {most} samples"
        raise UsageFault(f"--folds {folds}: {data} has {has}; give at most {most} folds.")
    signed = all(getattr(fit.estimator, "signed", False) for fit in fits)
    X = inputs.prepare(dataset.X, normalize, dtype, signed)
    experiment = Experiment(
        name="study", title=f"{dataset.name}: {X.shape[0]} samples of {X.shape[1]} features",
        data=dataset.name, fits=fits, normalize="none", dtype=dtype, folds=folds,
        first_folds=folds, runs=runs, kmeans=0 if y is None else repeats, kmeans_start="greedy",
        stability=True, boxes=("held_out_error",) if y is None else ("nmi", "held_out_error"),
        sizes=len(fits) > len({fit.model for fit in fits}),
    )  # fmt: skip
    folder = output_folder(output)
    path = folder / "study.csv"
    rows = run_all(experiment, path, device, Dataset(X=X, y=y, name=dataset.name))
    written = write(experiment, rows, folder)
    say((folder / "study.md").read_text("utf-8"))
    for file in [path, *written]:
        say(f"written  {file}")


def _fits(
    models: Sequence[str],
    sizes: Sequence[int | tuple[int, ...]],
    settings: Mapping[str, Setting],
) -> tuple[Fit, ...]:
    """Every model with every choice of layers, checked before any work."""
    from deepnmf.experiments.design import TITLES, Fit, Scoring
    from deepnmf.models.registry import MODELS

    if not models:
        raise UsageFault("--models is empty: give names from `deepnmf models`.")
    for model in models:
        inputs.one_of("--models", model, inputs.single_models())
    for name in settings:
        if not any(name in MODELS[model].options for model in models):
            raise UsageFault(f"--set {name}: none of {', '.join(models)} has such an option.")
    fits: dict[str, Fit] = {}
    for model in models:
        own = {name: value for name, value in settings.items() if name in MODELS[model].options}
        for size in sizes:
            layers = size if isinstance(size, tuple) else (size,)
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
