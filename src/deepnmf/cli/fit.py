"""`deepnmf fit`: train a model on data and write it to a file."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import typer

from deepnmf.cli import clusters, inputs
from deepnmf.cli.screen import UsageFault, check_writable, progress, say, say_json


def fit(
    data: str = typer.Argument(help="A file or folder, or digits, pie, orl, reuters."),
    output: str = typer.Option(..., "-o", "--output", help="The model file to write."),
    model: str = typer.Option("sdnmf/l", help="See `deepnmf models`."),
    layers: str | None = typer.Option(
        None, help="Parts per layer, from the data up: 600,160. [default: the model's]"
    ),
    mu: str | None = typer.Option(
        None, help="Penalty on the parts; one number, or one a layer. [default: the model's]"
    ),
    lam: str | None = typer.Option(
        None, help="Penalty on the codes; one number, or one a layer. [default: the model's]"
    ),
    link: str | None = typer.Option(
        None,
        help="The function between layers: identity, root, tanh, sigmoid, softplus. "
        "[default: the model's]",
    ),
    normalize: str = typer.Option("none", help="l2 scales every sample to unit norm; or none."),
    start: str | None = typer.Option(None, help="nnsvd or random. [default: the model's]"),
    fill: str | None = typer.Option(
        None, help="NNSVD's zeros become: zero, mean, random, a number. [default: the model's]"
    ),
    scaling: str | None = typer.Option(
        None, help="paper, or fixed: sparsity that does not fade. [default: paper]"
    ),
    project_codes: bool = typer.Option(False, "--project-codes", help="Codes are g(H_L)."),
    solver: str | None = typer.Option(
        None, help="auto, coordinate, nesterov, projected_gradient. [default: the model's]"
    ),
    max_iter: int | None = typer.Option(None, help="Fine-tuning sweeps. [default: the model's]"),
    pretrain_iter: int | None = typer.Option(
        None, help="Alternations per layer in pre-training. [default: the model's]"
    ),
    tol: float | None = typer.Option(
        None, help="Stop when a sweep gains less than this share. [default: the model's]"
    ),
    dtype: str = typer.Option("float32", help="float32 or float64."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    max_memory: str | None = typer.Option(
        None, help="Work on blocks of samples within about so much memory: 600MB."
    ),
    dask: str | None = typer.Option(
        None, help="Work on a Dask cluster: tcp://host:8786, or local:2 for two workers here."
    ),
    checkpoint: str | None = typer.Option(
        None, help="Keep the fit in this file; started again it goes on from there."
    ),
    options: list[str] | None = typer.Option(
        None, "--set", help="An option of the model's own, name=value; see `deepnmf models`."
    ),
    seed: int = typer.Option(0, min=0, max=2**32 - 1, help="The same seed gives the same model."),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON."),
) -> None:
    """Train a model and write it to a file."""
    from deepnmf.models.advice import interrupted
    from deepnmf.models.registry import MODELS
    from deepnmf.models.storage import save

    single = [name for name, known in MODELS.items() if not known.several]
    inputs.one_of("--model", model, single)
    inputs.one_of("--normalize", normalize, inputs.NORMALIZE)
    inputs.one_of("--dtype", dtype, inputs.DTYPES)
    chosen = MODELS[model]
    given: dict[str, Any] = {
        "layer_sizes": None if layers is None else inputs.numbers("--layers", layers, int),
        "mu": None if mu is None else inputs.numbers("--mu", mu),
        "lam": None if lam is None else inputs.numbers("--lam", lam),
        "link": link,
        "fill": None if fill is None else inputs.value(fill),
        "scaling": scaling,
        "project_codes": project_codes or None,
        "start": start,
        "solver": solver,
        "max_iter": max_iter,
        "pretrain_iter": pretrain_iter,
        "tol": tol,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    for name in ("mu", "lam"):
        if name in settings and name not in chosen.options:
            raise UsageFault(f"--{name}: {model} has no such penalty; see `deepnmf models`.")
    for option in options or []:
        name, value = inputs.option(option)
        settings[name] = value
    # Where work is done is settled where the model lets one choose.
    settings |= {"device": device} if "device" in chosen.options else {}
    if device == "cuda" and "device" not in chosen.options:
        raise UsageFault(f"--device cuda: {model} is fitted on the CPU; leave --device out.")
    for name, wanted in (("max_memory", max_memory), ("checkpoint", checkpoint)):
        if wanted is not None:
            settings[name] = wanted
    if dask is not None and "max_memory" not in chosen.options:
        raise UsageFault(
            f"--dask: {model} needs its data in one piece; use one of the deep models."
        )
    settings["random_state"] = seed
    try:
        estimator = chosen.estimator(settings)
    except (ValueError, TypeError) as problem:
        raise UsageFault(str(problem)) from None
    target = check_writable(output)

    with contextlib.ExitStack() as open_things:
        if dask is not None or max_memory is not None:
            dataset = inputs.open_data(data)
            X = inputs.prepare_on_disk(dataset.X, normalize, dtype)
        else:
            dataset = inputs.load_data(data)
            signed = bool(getattr(estimator, "signed", False))
            X = inputs.prepare(dataset.X, normalize, dtype, signed)
        samples, features = (int(size) for size in X.shape)
        if dask is not None:
            client = open_things.enter_context(clusters.cluster(dask))
            X = clusters.on_cluster(X, data, client)
        began = time.perf_counter()
        callback = open_things.enter_context(progress(_sweeps(estimator)))
        estimator.set_params(callback=callback).fit(X)
        seconds = time.perf_counter() - began
        norm = _norm(X)
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
    sizes = [int(W.shape[-1]) for W in estimator.weights_]
    summary: dict[str, Any] = {
        "file": str(target),
        "model": model,
        "samples": samples,
        "features": features,
        "layers": sizes,
        "relative_error": estimator.reconstruction_err_ / norm if norm else 0.0,
        "sweeps": estimator.n_iter_,
        "zeros": [float((W == 0).mean()) for W in estimator.weights_],
        "dead_units": estimator.history_[-1]["dead"] if estimator.history_ else 0,
        "seconds": seconds,
        "status": estimator.status_,
    }
    if as_json:
        say_json(summary)
    else:
        _show(summary, sum(sizes))
    if interrupted(estimator):
        raise typer.Exit(130)


def _show(summary: dict[str, Any], units: int) -> None:
    samples, features = summary["samples"], summary["features"]
    say(f"{summary['model']} {summary['layers']} on {samples} samples of {features} features")
    say(f"relative error  {summary['relative_error']:.4f}")
    for layer, zeros in enumerate(summary["zeros"], 1):
        say(f"zeros in W_{layer}    {zeros:.0%}")
    if summary["dead_units"]:
        say(
            f"dead units      {summary['dead_units']} of {units}: no sample uses them; "
            "try smaller layers, a weaker penalty or a larger --fill"
        )
    say(f"time            {summary['seconds']:.1f} s, {summary['sweeps']} fine-tuning sweeps")
    say(f"status          {summary['status']}")
    say(f"written         {summary['file']}")


def _sweeps(estimator: Any) -> int:
    """The sweeps that a fit may take in all, for the bar."""
    sizes = getattr(estimator, "layer_sizes", 1)
    depth = len(sizes) if isinstance(sizes, list | tuple) else 1
    before = getattr(estimator, "pretrain_iter", None)
    if before is None:  # no fine-tuning: every layer takes max_iter
        return int(depth * estimator.max_iter)
    return int(estimator.max_iter + (depth * before if depth > 1 else 0))


def _norm(X: Any) -> float:
    """‖X‖, of data in memory, on disk or on a cluster."""
    import numpy as np

    if hasattr(X, "dask"):
        return float((X.astype(np.float64) ** 2).sum().compute()) ** 0.5
    if hasattr(X, "indptr"):
        X = X.data[:, None]
    total, step = 0.0, max(1, int(1e7) // max(1, X.shape[1]))
    for low in range(0, X.shape[0], step):
        total += float(np.sum(np.square(X[low : low + step], dtype=np.float64)))
    return total**0.5
