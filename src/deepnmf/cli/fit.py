"""`deepnmf fit`: train a model on data and write it to a file."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepnmf.cli import inputs, workers
from deepnmf.cli.agreement import agreed, check_consensus, choose_sizes
from deepnmf.cli.choose import check_chooses
from deepnmf.cli.inputs import Setting
from deepnmf.cli.options import DataSource, Device, Dtype, Grid, LabelColumn, Normalize, in_options
from deepnmf.cli.screen import Interrupted, UsageFault, check_writable, progress, say_json
from deepnmf.cli.source import Source
from deepnmf.cli.summary import Training, norm_of, show_summary, summary_of
from deepnmf.cli.texts import AsText, MaxDf, MaxFeatures, MinDf, StopWords, TextColumn, TextSettings
from deepnmf.terminal import interrupts

if TYPE_CHECKING:
    from deepnmf.models.base import MatrixFactorization

ModelOutput = Annotated[str, typer.Option("-o", "--output", help="The model file to write.")]
ModelName = Annotated[
    str | None,
    typer.Option(help="See `deepnmf models`. [default: sdnmf/l; with --batch, batch-nmf]"),
]
Layers = Annotated[
    str | None,
    typer.Option(
        help="Parts per layer, the lowest layer first: 600,160; auto: choose them. "
        "[default: the model's]"
    ),
]
Mu = Annotated[
    str | None,
    typer.Option(help="Penalty on the parts; one number, or one per layer. [default: the model's]"),
]
Lam = Annotated[
    str | None,
    typer.Option(help="Penalty on the codes; one number, or one per layer. [default: the model's]"),
]
LinkName = Annotated[
    str | None,
    typer.Option(help="The function between layers: {links}. [default: the model's]"),
]
StartName = Annotated[str | None, typer.Option(help="The start: {starts}. [default: the model's]")]
FillText = Annotated[
    str | None,
    typer.Option(
        help="What replaces the zeros of NNSVD: zero, mean, random, a number. "
        "[default: the model's]"
    ),
]
ScalingName = Annotated[
    str | None,
    typer.Option(
        help="fixed: penalties keep their effect; paper: the objective as printed. [default: fixed]"
    ),
]
ObjectiveName = Annotated[
    str | None,
    typer.Option(
        help="layers: a loss on every layer; end_to_end: only X counts. "
        "[default: layers; end_to_end with --scaling paper]"
    ),
]
LayerWeights = Annotated[
    str | None,
    typer.Option(
        help="With --objective layers, what the layers above the first count; one number, or one "
        "per layer. [default: the model's]"
    ),
]
DecodingWeight = Annotated[
    float | None,
    typer.Option(
        help="With --objective layers and no link, what the error of the decoded codes counts. "
        "[default: the model's]"
    ),
]
GraphName = Annotated[
    str | None,
    typer.Option(
        "--graph",
        help="Give neighbouring samples similar codes: codes (neighbours by their codes) or data "
        "(by their entries). [default: none]",
    ),
]
GraphStrength = Annotated[
    float | None,
    typer.Option(help="How much the graph counts. [default: the model's]"),
]
ProjectCodes = Annotated[
    bool, typer.Option("--project-codes", help="The codes are g(H_L) instead of H_L.")
]
SolverName = Annotated[
    str | None,
    typer.Option(help="The solver: {solvers}. [default: the model's]"),
]
MaxIter = Annotated[int | None, typer.Option(help="Fine-tuning sweeps. [default: the model's]")]
PretrainIter = Annotated[
    int | None,
    typer.Option(help="Alternations per layer in pre-training. [default: the model's]"),
]
Tol = Annotated[
    float | None,
    typer.Option(
        help="Stop when a sweep lowers the objective by less than this share. "
        "[default: the model's]"
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(help="Work on blocks of samples within about this much memory: 600MB."),
]
Dask = Annotated[
    str | None,
    typer.Option(help="Work on a Dask cluster: tcp://host:8786, or local:2 for two workers here."),
]
CheckpointFile = Annotated[
    str | None,
    typer.Option(help="Save progress to this file; run again, the fit resumes from it."),
]
FeatureNames = Annotated[
    str | None,
    typer.Option(
        "--feature-names",
        help="Names of the features, such as words: one per line, or the first column of a "
        ".csv or .tsv.",
    ),
]
AxisLabel = Annotated[
    str | None,
    typer.Option(
        "--axis-label",
        help="What the features are, if their names are numbers along an axis: "
        "'wavelength (nm)'. The page draws parts over it.",
    ),
]
ModelOptions = Annotated[
    list[str] | None,
    typer.Option("--set", help="An option of this model, as name=value; see `deepnmf models`."),
]
ModelSeed = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same model.")
]
Fits = Annotated[
    int | None,
    typer.Option(
        "--consensus", min=2, help="Keep what this many fits agree on, from random starts."
    ),
]
LayerName = Annotated[
    str | None, typer.Option("--layer", help="The layer of an .h5ad file to fit. [default: X]")
]
BatchName = Annotated[
    str | None,
    typer.Option("--batch", help="The column of obs that names the batch of every sample."),
]
SummaryAsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def fit(
    data: DataSource,
    output: ModelOutput,
    model: ModelName = None,
    layers: Layers = None,
    mu: Mu = None,
    lam: Lam = None,
    link: LinkName = None,
    layer: LayerName = None,
    batch: BatchName = None,
    normalize: Normalize = "none",
    labels: LabelColumn = None,
    feature_names: FeatureNames = None,
    grid: Grid = None,
    axis_label: AxisLabel = None,
    text: AsText = False,
    text_column: TextColumn = None,
    max_features: MaxFeatures = None,
    min_df: MinDf = None,
    max_df: MaxDf = None,
    stop_words: StopWords = None,
    start: StartName = None,
    fill: FillText = None,
    scaling: ScalingName = None,
    objective: ObjectiveName = None,
    layer_weights: LayerWeights = None,
    decoding_weight: DecodingWeight = None,
    graph: GraphName = None,
    graph_strength: GraphStrength = None,
    project_codes: ProjectCodes = False,
    solver: SolverName = None,
    max_iter: MaxIter = None,
    pretrain_iter: PretrainIter = None,
    tol: Tol = None,
    dtype: Dtype = "float32",
    device: Device = "auto",
    max_memory: MaxMemory = None,
    dask: Dask = None,
    checkpoint: CheckpointFile = None,
    consensus: Fits = None,
    options: ModelOptions = None,
    seed: ModelSeed = 0,
    as_json: SummaryAsJson = False,
) -> None:
    """Train a model and write it to a file."""
    from deepnmf.models.advice import interrupted
    from deepnmf.models.settings import AUTO, GRAPHS

    model = model or (SINGLE if batch is None else BATCHES)
    _check_names(model, normalize, dtype, chooses=layers == AUTO)
    if batch is not None:
        _check_batch(model, consensus)
    if graph is not None:
        inputs.one_of("--graph", graph, GRAPHS)
    settings: dict[str, Setting] = {
        "layer_sizes": AUTO if layers == AUTO else inputs.numbers("--layers", layers, int),
        "mu": inputs.numbers("--mu", mu, float),
        "lam": inputs.numbers("--lam", lam, float), "link": link,
        "fill": None if fill is None else inputs.value(fill), "scaling": scaling,
        "objective": objective,
        "layer_weights": inputs.numbers("--layer-weights", layer_weights, float),
        "decoding_weight": decoding_weight, "graph": graph, "graph_strength": graph_strength,
        "project_codes": project_codes or None,
        "start": start, "solver": solver,
        "max_iter": max_iter, "pretrain_iter": pretrain_iter, "tol": tol,
    }  # fmt: skip
    place = Place(device, max_memory, dask, checkpoint)
    if consensus is not None:
        check_consensus(place, start, fill)
    asked = _estimator(model, settings, options or [], place, seed)
    target = check_writable(output)
    texts = TextSettings(text_column, max_features, min_df, max_df, stop_words)
    cells = inputs.grid(grid)
    source = Source(
        data, layer, batch, normalize, dtype, labels, feature_names, texts, text, cells, axis_label
    )
    source.check(place.in_blocks)
    training = _train(asked, source, place, consensus)
    estimator = training.estimator
    notes = source.notes(model, training.dataset)
    with interrupts.held():  # so that the fit is not lost
        written = _write(estimator, target, notes)
    show = say_json if as_json else show_summary
    show(summary_of(model, written, training))
    if interrupted(estimator):
        raise Interrupted(_left_behind(target, written, checkpoint))


SINGLE, BATCHES = "sdnmf/l", "batch-nmf"
"""The models of data without and with batches, where none is named."""


@dataclass(frozen=True)
class Place:
    """Where the work is done."""

    device: str
    max_memory: str | None
    dask: str | None
    checkpoint: str | None

    @property
    def in_blocks(self) -> bool:
        """Whether the samples stay in their file and are read block by block."""
        return self.dask is not None or self.max_memory is not None


def _check_names(model: str, normalize: str, dtype: str, chooses: bool) -> None:
    """Refuse words that are none of the choices, and models that cannot choose their layers."""
    inputs.one_of("--model", model, inputs.single_models())
    inputs.one_of("--normalize", normalize, inputs.NORMALIZE)
    inputs.one_of("--dtype", dtype, inputs.DTYPES)
    if chooses:
        check_chooses("--layers auto with --model", model)


def _check_batch(model: str, consensus: int | None) -> None:
    """Refuse batches where they would be ignored."""
    if model != BATCHES:
        raise UsageFault(f"--batch: {model} does not know of batches; use --model {BATCHES}.")
    if consensus is not None:
        raise UsageFault("--batch: fits of batches cannot be merged; leave --consensus out.")


def _estimator(
    model: str, settings: Mapping[str, Setting], options: Sequence[str], place: Place, seed: int
) -> MatrixFactorization:
    """The estimator with the settings that are not None. Impossible settings are refused here."""
    from deepnmf.models.registry import MODELS

    chosen = MODELS[model]
    wanted: dict[str, Setting] = {
        name: value for name, value in settings.items() if value is not None
    }
    for name in ("mu", "lam"):
        if name in wanted and name not in chosen.options:
            raise UsageFault(f"--{name}: {model} has no such penalty; see `deepnmf models`.")
    wanted |= dict(inputs.option(text) for text in options)
    if "graph" in wanted and "graph_strength" not in chosen.options:
        raise UsageFault(f"--graph: {model} has no such option; the deep models have it.")
    if "device" in chosen.options:
        wanted["device"] = place.device
    elif place.device == "cuda":
        raise UsageFault(f"--device cuda: {model} is fitted on the CPU; leave --device out.")
    if place.max_memory is not None:
        wanted["max_memory"] = place.max_memory
    if place.checkpoint is not None:
        wanted["checkpoint"] = place.checkpoint
    if place.dask is not None and "max_memory" not in chosen.options:
        raise UsageFault(
            f"--dask: {model} needs all its data in memory; use one of the deep models."
        )
    wanted["random_state"] = seed
    try:
        return chosen.estimator(wanted)
    except (ValueError, TypeError) as problem:
        raise UsageFault(in_options(str(problem))) from None


def _train(
    asked: MatrixFactorization, source: Source, place: Place, consensus: int | None
) -> Training:
    """Fit the model that was asked for, with a progress bar on a terminal."""
    from deepnmf.models.advice import Advice

    dataset, X, vectorizer = source.opened(asked, place.in_blocks)
    labels = {} if source.batch is None else {"batches": inputs.column(dataset, source.batch)}
    samples, features = (int(size) for size in X.shape)
    with contextlib.ExitStack() as stack:
        if place.dask is not None:
            client = stack.enter_context(workers.cluster(place.dask))
            X = workers.on_cluster(X, source.data, source.layer, client)
        began = time.perf_counter()
        heard = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always", Advice)
        choice = choose_sizes(asked, X)
        try:
            if consensus is None:
                estimator = _fitted(asked, X, labels)
            else:
                estimator = agreed(asked, X, consensus)
        except ValueError as problem:
            raise ValueError(in_options(str(problem))) from problem
        if choice is not None:
            estimator.choice_ = choice
        seconds = time.perf_counter() - began
        norm = norm_of(X)
    estimator.set_params(callback=None)
    if vectorizer is not None:
        estimator.vectorizer_ = vectorizer
    advice = [str(one.message) for one in heard if issubclass(one.category, Advice)]
    return Training(estimator, dataset, samples, features, norm, seconds, [*dict.fromkeys(advice)])


def _fitted(
    estimator: MatrixFactorization, X: Any, labels: Mapping[str, Any]
) -> MatrixFactorization:
    with progress(_sweeps(estimator)) as callback:
        estimator.set_params(callback=callback).fit(X, **labels)
    return estimator


def _write(estimator: MatrixFactorization, target: Path, notes: dict[str, object]) -> Path:
    """Write the model. One that Ctrl-C left unfinished goes beside a file that is there already."""
    from deepnmf.models.advice import interrupted
    from deepnmf.models.storage import save

    beside = interrupted(estimator) and target.is_file()
    path = target.with_name(f"{target.stem}.unfinished{target.suffix}") if beside else target
    save(estimator, path, notes)
    return path


def _left_behind(target: Path, written: Path, checkpoint: str | None) -> str:
    """What an interrupted fit wrote, and how to continue it."""
    other = "" if written == target else f", and {target} is as it was"
    how = (
        "run it again to continue" if checkpoint else "with --checkpoint FILE it could be continued"
    )
    return f"interrupted; the unfinished model is in {written}{other}: {how}."


def _sweeps(estimator: MatrixFactorization) -> int:
    """The most sweeps that a fit can take, for the bar."""
    sizes = getattr(estimator, "layer_sizes", 1)
    depth = len(sizes) if isinstance(sizes, list | tuple) else 1
    before = getattr(estimator, "pretrain_iter", None)
    if before is None:  # no fine-tuning: every layer takes max_iter
        return int(depth * estimator.max_iter)
    return int(estimator.max_iter + (depth * before if depth > 1 else 0))
