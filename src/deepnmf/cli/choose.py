"""`deepnmf choose`: how many parts and layers a data set has."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepnmf.cli import inputs
from deepnmf.cli.options import (
    AsJson,
    DataSource,
    Device,
    Dtype,
    Folder,
    LabelColumn,
    Normalize,
    in_options,
)
from deepnmf.cli.reproduce import pictures
from deepnmf.cli.screen import Interrupted, UsageFault, output_folder, plain, say, say_json, steps
from deepnmf.cli.texts import AsText, TextColumn, TextSettings, load_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from deepnmf.models.choice import Choice
    from deepnmf.models.deep import DeepNMF

ModelName = Annotated[str, typer.Option(help="The deep model to choose for; see `deepnmf models`.")]
Depth = Annotated[
    int | None,
    typer.Option(min=1, help="The number of layers. [default: as many as help, at most 3]"),
]
Most = Annotated[
    int | None, typer.Option(min=2, help="The most parts to try. [default: what hold-outs allow]")
]
Folds = Annotated[
    int, typer.Option(min=2, help="Folds of the samples and features; each is held out once.")
]
Repeats = Annotated[int, typer.Option(min=1, help="How often to fold, in another random order.")]
Starts = Annotated[
    int,
    typer.Option(min=0, help="Fits from random starts that measure stability; 0 measures none."),
]
Budget = Annotated[
    str | None,
    typer.Option(help="Stop after this many fits (200) or this much time (90s, 10min, 2h)."),
]
SampleCount = Annotated[
    int, typer.Option("--samples", min=6, help="Of more samples, this many are drawn at random.")
]
Options = Annotated[
    list[str] | None, typer.Option("--set", help="An option of the model, as name=value: mu=1e-3.")
]
Seed = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same choice.")
]
UNUSED = (
    "layer_sizes", "max_iter", "pretrain_iter", "tol", "max_memory", "checkpoint", "callback",
    "verbose", "device", "random_state",
)  # fmt: skip
"""Options of a model that a choice does not use, or has options of its own for."""
NAMES = ("depth", "most", "folds", "repeats", "starts", "budget", "samples")
"""Settings of `choose_layers` that are options here under the same names."""


def choose(
    data: DataSource,
    output: Folder,
    model: ModelName = "sdnmf/l",
    depth: Depth = None,
    most: Most = None,
    folds: Folds = 3,
    repeats: Repeats = 2,
    starts: Starts = 5,
    budget: Budget = None,
    samples: SampleCount = 5000,
    normalize: Normalize = "none",
    labels: LabelColumn = None,
    text: AsText = False,
    text_column: TextColumn = None,
    dtype: Dtype = "float32",
    device: Device = "auto",
    options: Options = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Choose how many parts and layers a model of your data should have. Run again, it resumes.

    Rows and columns of the data are held out together, and predicted by models of every size that
    comes into question. The smallest size that predicts as well as the best is chosen.
    """
    from deepnmf.models.choice import FileLedger
    from deepnmf.models.choice.effort import Effort

    inputs.one_of("--normalize", normalize, inputs.NORMALIZE)
    inputs.one_of("--dtype", dtype, inputs.DTYPES)
    try:
        Effort.of(folds, repeats, starts, _budget(budget))
    except ValueError as problem:
        raise UsageFault(in_options(str(problem), NAMES)) from None
    estimator = _estimator(model, dict(inputs.option(text) for text in options or []), device)
    if text or text_column is not None:
        dataset, _ = load_texts(data, TextSettings(text_column))
    else:
        dataset = inputs.load_data(data, labels)
    X = inputs.prepare(dataset.X, normalize, dtype)
    folder = output_folder(output)
    choice = chosen(
        X, estimator, FileLedger(folder / "choose.csv"), depth=depth, most=most, folds=folds,
        repeats=repeats, starts=starts, budget=_budget(budget), samples=samples, random_state=seed,
    )  # fmt: skip
    figure = _figure(choice)
    written = [folder / "choose.csv", _write(choice, folder / "choose.json")]
    if figure is not None:
        written += pictures(figure, folder / "choose")
    if as_json:
        say_json(choice.to_dict())
        return
    say(str(choice))
    if figure is None:
        say("no figure: matplotlib is missing; pip install 'deepnmf[report]'.")
    for file in written:
        say(f"written  {file}")


def _estimator(model: str, settings: Mapping[str, Any], device: str) -> DeepNMF:
    """The model to choose for, with layer sizes that are still open."""
    from deepnmf.models.registry import MODELS

    check_chooses("--model", model)
    for name in settings:
        if name in UNUSED:
            own = {"random_state": "use --seed", "device": "use --device"}
            raise UsageFault(
                f"--set {name}: a choice does not use it; {own.get(name, 'leave it out')}."
            )
    wanted = {"layer_sizes": "auto", "device": device, **settings}
    try:
        estimator: Any = MODELS[model].estimator(wanted)
    except (ValueError, TypeError) as problem:
        words = in_options(str(problem)).removeprefix("--layers auto: ")
        raise UsageFault(words.replace(", or the sizes", "")) from None
    return estimator


def check_chooses(option: str, model: str) -> None:
    """Refuse models whose layer sizes cannot be chosen."""
    from deepnmf.models.registry import PRESETS

    deep = [preset.name for preset in PRESETS if not preset.one_layer]
    if model not in deep:
        inputs.one_of("--model", model, inputs.single_models())
        raise UsageFault(
            f"{option} {model}: layers can be chosen for {', '.join(deep)}. Choose for one of "
            f"these, and give the sizes to {model}."
        )


def _budget(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def chosen(X: Any, estimator: DeepNMF, ledger: Any = None, **settings: Any) -> Choice:
    """The choice for these samples, with a progress bar on a terminal."""
    from deepnmf.models.choice import choose_layers

    done = 0

    def report(stage: str, fits: int) -> None:
        nonlocal done
        done = fits
        move("choose", fits, None, stage)

    with _explained(lambda: done, getattr(ledger, "path", None)), steps() as move:
        return choose_layers(X, estimator, ledger=ledger, progress=report, **settings)


@contextlib.contextmanager
def _explained(fits: Any, path: Path | None) -> Iterator[None]:
    """Errors in the words of the command line."""
    try:
        yield
    except ValueError as problem:
        raise ValueError(in_options(str(problem), NAMES)) from problem
    except KeyboardInterrupt:
        kept = "no fit is done"
        if fits():
            kept = f"what {fits()} fits measured is "
            kept += "lost" if path is None else f"in {path}: run it again to resume"
        raise Interrupted(f"interrupted; {kept}.") from None


def _write(choice: Choice, target: Path) -> Path:
    """The choice as JSON."""
    from deepnmf.files.atomic import write_atomically

    text = json.dumps(plain(choice.to_dict()), indent=2, allow_nan=False)
    write_atomically(target, text.encode())
    return target


def _figure(choice: Choice) -> Figure | None:
    """The choice as a figure; None where matplotlib is missing."""
    try:
        from deepnmf.report.choice import choice_figure
    except ImportError:
        return None
    return choice_figure(choice)
