"""Every model on every kind of X.

A call either refuses what it was given, with one line that says why, or its results are finite
numbers ≥ 0 that fit together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import deepnmf
from deepnmf.arrays.tensors import is_tensor, to_numpy
from deepnmf.core.graph import RENEWALS
from deepnmf.models.settings import link_of
from tests.fuzz import hostile as data
from tests.fuzz.case import Case, numbered, pick
from tests.fuzz.hostile import Hostile, hostile
from tests.fuzz.settings import BASELINES, Made, made
from tests.fuzz.verdict import POLITE, Broken, complaint, demand, judged
from tests.laws import objectives, stages


def cases(seed: int, count: int) -> Iterator[Case]:
    return numbered("api", seed, count)


def run(case: Case) -> str | None:
    """What went wrong, or None."""
    rng = case.generator()
    X, model = hostile(rng), made(rng)
    with _elsewhere():
        finding = judged(lambda: _fitted(model, X, rng))
    return finding and f"{finding}; {model} on {X.about}"


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Work in an empty folder: any word can be the name of a checkpoint."""
    here, there = Path.cwd(), data.folder() / "api"
    there.mkdir(exist_ok=True)
    os.chdir(there)
    try:
        yield
    finally:
        os.chdir(here)
        for file in there.iterdir():
            file.unlink()


def _fitted(make: Made, given: Hostile, rng: np.random.Generator) -> None:
    """Fit a model, and check everything that it can then do."""
    try:
        model = make()
        model.fit(given.X)
    except POLITE as problem:
        if complaint(problem) is None and make.legal and given.ordinary and _roomy(make, given):
            raise Broken(f"other: ordinary data were refused | {problem}") from None
        raise
    if given.refuse or (given.negative and not model.signed):
        raise Broken("accepted: what is not a matrix of numbers ≥ 0 | fit took it")
    _history(model, given)
    _weights(model)
    _used(model, given, rng)
    if rng.random() < 0.2:
        _loaded(model, given)
    if rng.random() < 0.2:
        _misused(model, rng)
    if rng.random() < 0.1 and "max_memory" not in make.settings:  # tiny blocks take long enough
        _agreed(make, given)
    if rng.random() < 0.05 and isinstance(model, deepnmf.DeepNMF):
        _chosen(model, given, rng)


def _agreed(make: Made, given: Hostile) -> None:
    """A consensus of two fits is a model like them."""
    models = deepnmf.fit_many(given.X, make(), seeds=2)
    model = deepnmf.consensus(models, given.X)
    _weights(model)
    for shares in (*model.support_, *model.edge_support_):
        demand(((shares >= 0) & (shares <= 1)).all(), "other: support is not between 0 and 1 |")
    demand(np.isfinite(model.reconstruction_err_), "nan: the error of a consensus |")
    demand(np.isfinite(_array(model.transform(given.X))).all(), "nan: codes of a consensus |")


def _chosen(model: Any, given: Hostile, rng: np.random.Generator) -> None:
    """Chosen layers are whole numbers, the lowest the widest."""
    most = int(rng.integers(2, 5))
    choice = deepnmf.choose_layers(given.X, model, most=most, starts=0, repeats=1, samples=20)
    sizes = choice.layer_sizes
    demand(list(sizes) == sorted(sizes, reverse=True), f"other: layers are not ordered | {sizes}")
    demand(1 <= sizes[-1] <= sizes[0] <= most, f"other: layers are out of bounds | {sizes}")
    errors = [row["error"] for row in choice.table()]
    demand(np.isfinite(errors).all(), "nan: a held-out error is not finite |")


def _roomy(make: Made, given: Hostile) -> bool:
    """Whether the settings suit X: some limits depend on the number of samples or features."""
    small = make.model.name in ("hoyer-nmf", "l0-nmf", "graph-nmf")
    if is_tensor(given.X) and make.settings.get("solver") == "coordinate":
        return False  # it works on NumPy arrays only
    if _steep(make()):
        return False
    dense = make.model.name in ("semi-nmf", "deep-semi-nmf") or "loss" in make.settings
    if make.settings.get("graph") is not None:
        return False  # it needs more samples than neighbours, and all in memory
    return not small and (isinstance(given.X, np.ndarray) or not (dense or _baseline(make)))


def _steep(model: Any) -> bool:
    """Whether the products of three or more layers may be too large or too small for numbers. With
    scales as in the paper, a penalty on the weights makes each of them small, one on the codes
    makes them large, and through the root unit codes of layer L decode to weights to the power
    2^(L − 1)."""
    strong = max(getattr(model, "mu", 0), getattr(model, "lam", 0)) >= 1e4
    layers = getattr(model, "layer_sizes", ())
    return strong and getattr(model, "scaling", "fixed") == "paper" and len(layers) > 2


def _baseline(make: Made) -> bool:
    """Whether a model works in memory only."""
    return make.model in BASELINES


def _history(model: Any, given: Hostile) -> None:
    """The objective is finite, is what was printed, and does not rise within a stage."""
    values = objectives(model.history_)
    demand(np.isfinite(values).all(), "nan: an objective is not finite |")
    residuals = [record["kkt"] for record in model.history_]
    demand(np.isfinite(residuals).all(), "nan: a KKT residual is not finite |")
    demand(np.isfinite(model.reconstruction_err_), "nan: reconstruction_err_ is not finite |")
    dense = given.dense
    if dense is None:
        return
    size, slack = max(float(np.sum(dense**2)) / 2, 1e-300), _slack(model)
    if len(getattr(model, "loss_weights_", ())) > 1:
        size *= 1 + np.sum(model.layer_weights) * (len(model.weights_) - 1) + model.decoding_weight
    for records in stages(model.history_):
        stage = objectives(records)
        rises = np.sort(np.diff(stage))
        if getattr(model, "graph", None) == "codes":  # a new graph is a new objective
            rises = rises[: max(0, len(rises) - RENEWALS)]
        rise = rises.max(initial=0)
        demand(
            rise <= slack * max(size, _input_size(model, size, records[0]["layer"]), stage[0]),
            f"other: the objective rises | by {rise:.3g} of {stage[0]:.3g}, ‖X‖²/2 = {size:.3g}",
        )
    if not _least_squares(model) or not model.history_:
        return
    last = model.history_[-1]
    if last["stage"] != "finetune":
        return
    expected = model.reconstruction_err_**2 / 2 + last["penalty"]
    demand(
        abs(last["objective"] - expected) <= slack * max(size, expected),
        f"other: the objective is not ½‖X − X̂‖² + penalties | {last['objective']:.6g}, "
        f"but {expected:.6g}; ‖X‖²/2 = {size:.3g}",
    )


def _input_size(model: Any, size: float, layer: int | None) -> float:
    """About ½‖·‖² of what a layer is fitted to. X ≈ W H with W and H of one size, so that the codes
    of a layer have the size of the square root of its input. Links that are no powers bring them to
    at most 1."""
    if (layer or 1) > 1 and link_of(getattr(model, "link", "identity")).degree is None:
        return 1.0
    return float(size ** (0.5 ** ((layer or 1) - 1)))


def _least_squares(model: Any) -> bool:
    name = type(model).__name__
    if len(getattr(model, "loss_weights_", ())) > 1:  # the losses of all layers count
        return False
    return name != "MultilayerNMF" and getattr(model, "loss", "frobenius") == "frobenius"


def _slack(model: Any) -> float:
    return 1e-5 if "32" in str(model.weights_[0].dtype) else 1e-9


def _weights(model: Any) -> None:
    for W in (*model.weights_, model.components_):
        W = to_numpy(W)
        demand(np.isfinite(W).all(), "nan: a weight is not finite |")
        demand(model.signed or (W >= 0).all(), "other: a weight is negative |")


def _used(model: Any, given: Hostile, rng: np.random.Generator) -> None:
    """transform, inverse_transform and score of the data of the fit."""
    Z = _array(model.transform(given.X))
    demand(np.isfinite(Z).all(), "nan: a code is not finite |")
    demand((Z >= 0).all(), "other: a code is negative |")
    decoded = to_numpy(model.inverse_transform(Z))
    demand(np.isfinite(decoded).all(), "nan: inverse_transform is not finite |")
    score = model.score(given.X)
    demand(np.isfinite(score), "nan: score is not finite |")
    if given.dense is None:
        return
    demand(Z.shape[0] == len(given.dense), "other: not one code per sample |")
    if model.project_codes:
        return
    error = float(np.mean(np.sum((given.dense - decoded) ** 2, axis=1)))
    scale = float(np.mean(np.sum(given.dense**2, axis=1)))
    demand(
        abs(score + error) <= 10 * _slack(model) * max(scale, error, 1e-300),
        f"other: score is not minus the mean squared error | {score:.6g} and {error:.6g}",
    )


def _loaded(model: Any, given: Hostile) -> None:
    """A saved model is the same when it is loaded."""
    path = data.folder() / "model.safetensors"
    model.save(path)
    other = deepnmf.load(path)
    same = all(
        np.array_equal(to_numpy(one), to_numpy(two))
        for one, two in zip(model.weights_, other.weights_, strict=True)
    )
    demand(same, "other: a loaded model differs from the saved one |")
    X = to_numpy(given.X) if is_tensor(given.X) else given.X
    demand(np.isfinite(_array(other.transform(X))).all(), "nan: codes of a loaded model |")


def _misused(model: Any, rng: np.random.Generator) -> None:
    """Other data, or none, in a fitted model."""
    other = hostile(rng)
    call = pick(rng, ["transform", "inverse_transform", "score"])
    result = _array(getattr(model, call)(other.X))  # codes of Dask arrays are lazy
    if other.refuse and call != "inverse_transform":
        raise Broken(f"accepted: what is not a matrix of numbers ≥ 0 | {call} took {other.about}")
    demand(np.isfinite(result).all(), f"nan: {call} of other data |")


def _array(result: Any) -> np.ndarray:
    """Codes as an array, whatever kind of X they are of."""
    if hasattr(result, "compute"):
        result = result.compute()
    if is_tensor(result):
        return to_numpy(result)
    return np.asarray(result, dtype=float)
