"""`deepnmf fit`: train a model on data and write it to a file."""

from __future__ import annotations

import inspect
import time
from typing import Any

import typer

from deepnmf.cli import inputs
from deepnmf.cli.screen import UsageFault, check_writable, progress, say, say_json


def fit(
    data: str = typer.Argument(help="A file or folder, or digits, pie, orl, reuters."),
    output: str = typer.Option(..., "-o", "--output", help="The model file to write."),
    model: str = typer.Option("sdnmf/l", help="See `deepnmf models`."),
    layers: str | None = typer.Option(None, help="Parts per layer, from the data up: 600,160."),
    mu: str | None = typer.Option(None, help="Penalty on the parts; one number, or one a layer."),
    lam: str | None = typer.Option(None, help="Penalty on the codes; one number, or one a layer."),
    link: str = typer.Option("identity", help="The function between layers."),
    normalize: str = typer.Option("none", help="l2 scales every sample to unit norm; or none."),
    start: str | None = typer.Option(None, help="nnsvd or random. [default: the model's]"),
    fill: str = typer.Option("random", help="NNSVD's zeros become: zero, mean, random, a number."),
    scaling: str = typer.Option("paper", help="paper, or fixed: sparsity that does not fade."),
    project_codes: bool = typer.Option(False, "--project-codes", help="Codes are g(H_L)."),
    solver: str | None = typer.Option(
        None, help="auto, coordinate, nesterov, projected_gradient. [default: the model's]"
    ),
    max_iter: int | None = typer.Option(None, help="Fine-tuning sweeps. [default: the model's]"),
    pretrain_iter: int = typer.Option(100, help="Alternations per layer in pre-training."),
    tol: float | None = typer.Option(None, help="Stop when a sweep gains less than this share."),
    dtype: str = typer.Option("float32", help="float32 or float64."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    seed: int = typer.Option(0, min=0, max=2**32 - 1, help="The same seed gives the same model."),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON."),
) -> None:
    """Train a model and write it to a file."""
    from deepnmf.presets import MODELS
    from deepnmf.settings import plan_of
    from deepnmf.storage import save

    inputs.one_of("--model", model, list(MODELS))
    inputs.one_of("--normalize", normalize, inputs.NORMALIZE)
    inputs.one_of("--dtype", dtype, inputs.DTYPES)
    settings: dict[str, Any] = {
        "link": link,
        "fill": _fill(fill),
        "scaling": scaling,
        "project_codes": project_codes,
        "pretrain_iter": pretrain_iter,
        "device": device,
        "random_state": seed,
    }
    optional = {
        "layer_sizes": None if layers is None else inputs.numbers("--layers", layers, int),
        "mu": None if mu is None else inputs.numbers("--mu", mu),
        "lam": None if lam is None else inputs.numbers("--lam", lam),
        "start": start,
        "solver": solver,
        "max_iter": max_iter,
        "tol": tol,
    }
    settings |= {name: value for name, value in optional.items() if value is not None}
    preset = MODELS[model]
    takes = inspect.signature(preset).parameters
    for name in ("mu", "lam"):
        if name in settings and name not in takes:
            raise UsageFault(f"--{name}: {model} has no such penalty; see `deepnmf models`.")
    try:
        estimator = preset(**settings)
        plan = plan_of(estimator)
    except (ValueError, TypeError) as problem:
        raise UsageFault(str(problem)) from None
    target = check_writable(output)

    dataset = inputs.load_data(data)
    X = inputs.prepare(dataset.X, normalize, dtype)
    depth = len(plan.sizes)
    sweeps = plan.max_iter + (depth * plan.pretrain_iter if depth > 1 else 0)
    began = time.perf_counter()
    with progress(sweeps) as callback:
        estimator.set_params(callback=callback).fit(X)
    seconds = time.perf_counter() - began
    estimator.set_params(callback=None)

    names = dataset.feature_names
    notes = {
        "model": model,
        "data": dataset.name,
        "normalize": normalize,
        "dtype": dtype,
        "image_shape": dataset.image_shape,
        "feature_names": None if names is None else [str(name) for name in names],
    }
    save(estimator, target, notes)
    norm = _norm(X)
    summary: dict[str, Any] = {
        "file": str(target),
        "model": model,
        "samples": int(X.shape[0]),
        "features": int(X.shape[1]),
        "layers": list(plan.sizes),
        "relative_error": estimator.reconstruction_err_ / norm if norm else 0.0,
        "sweeps": estimator.n_iter_,
        "zeros": [float((W <= 0).mean()) for W in estimator.weights_],
        "dead_units": estimator.history_[-1]["dead"] if estimator.history_ else 0,
        "seconds": seconds,
        "status": estimator.status_,
    }
    if as_json:
        say_json(summary)
        return
    say(f"{model} {list(plan.sizes)} on {X.shape[0]} samples of {X.shape[1]} features")
    say(f"relative error  {summary['relative_error']:.4f}")
    for layer, zeros in enumerate(summary["zeros"], 1):
        say(f"zeros in W_{layer}    {zeros:.0%}")
    if summary["dead_units"]:
        say(
            f"dead units      {summary['dead_units']} of {sum(plan.sizes)}: no sample uses them; "
            "try smaller layers, a weaker penalty or a larger --fill"
        )
    say(f"time            {seconds:.1f} s, {estimator.n_iter_} fine-tuning sweeps")
    say(f"status          {estimator.status_}")
    say(f"written         {target}")


def _fill(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _norm(X: Any) -> float:
    import numpy as np

    values = X.data if hasattr(X, "indptr") else X
    return float(np.sqrt(np.sum(np.square(values, dtype=np.float64))))
