"""What users are told: why a fit stopped, and warnings that point at their line of code."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np

from deepnmf.arrays import Array, Dense, namespace, over_samples
from deepnmf.arrays.glimpse import glimpse
from deepnmf.core.history import Record
from deepnmf.core.plan import Plan
from deepnmf.core.training import Run
from deepnmf.links import Link

MOSTLY, HEAVY = 0.5, 10
"""Raw counts: the least share of zeros, and how many times the mean the largest has at least."""
LEAST = 0.1
"""The least share of X that parts explain in a sound fit."""
MANY, FEW, TINY = 10, 1.5, 1e-3
"""A collapse: of at least `MANY` features or parts, fewer than `FEW` are used on average. Entries
of a part below `TINY` times its largest do not count."""
OURS = ("deepnmf", "sklearn", "contextlib", "functools")


class Advice(UserWarning):
    """A fit is not what its user may have wanted, and the message says what to change."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn from the first caller outside this library and scikit-learn."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def status(run: Run, tol: float, max_iter: int) -> tuple[str, bool]:
    """Why training stopped, what to do about it, and whether that deserves a warning."""
    if run.reason == "callback":
        return "stopped by the callback: the model is as it was after its last sweep.", False
    if run.reason == "interrupted":
        return (
            f"interrupted by Ctrl-C after {run.all_sweeps} sweeps, {run.sweeps} of them over all "
            "layers: the model is the best so far. With a checkpoint, fit again to continue.",
            True,
        )
    if run.reason == "converged":
        return (
            f"converged after {run.sweeps} sweeps (tol={tol:g}).",
            False,
        )
    if run.reason == "stalled":
        return (
            f"stopped after sweep {run.sweeps}: the next one raised the objective, as rounding "
            "hides further progress. For a better fit, use float64, fewer parts, or "
            'scaling="fixed".',
            True,
        )
    if tol == 0 or max_iter == 0:
        return f"did the max_iter={max_iter} sweeps asked for.", False
    fall = _fall_per_sweep([record for record in run.history if record["stage"] == "finetune"])
    falling = f", still falling by {fall:.0e} per sweep" if math.isfinite(fall) else ""
    return (
        f"stopped at max_iter={max_iter}{falling} (tol={tol:g}): raise max_iter, or tol if this is "
        "good enough.",
        True,
    )


def _fall_per_sweep(history: Sequence[Record]) -> float:
    """By what share of its value the objective fell in a sweep, at the end of a stage."""
    if len(history) < 2 or history[-1]["objective"] <= 0:
        return float("inf")
    before, last = history[-2:]
    fall = (before["objective"] - last["objective"]) / last["objective"]
    return float(fall / (last["sweep"] - before["sweep"]))


class Fitted(Protocol):
    """What a fitted model tells about the end of its fit."""

    tol: float
    max_iter: int
    reason_: str


Model = TypeVar("Model", bound=Fitted)


def interrupted(model: Fitted) -> bool:
    """Whether Ctrl-C ended the fit of a model early."""
    return getattr(model, "reason_", None) == "interrupted"


def unfinished(model: Fitted) -> bool:
    """Whether a fit was stopped while its objective was still falling."""
    if model.reason_ == "limit":
        return bool(model.tol > 0 and model.max_iter > 0)
    return model.reason_ in ("callback", "interrupted")


def complete(model: Model) -> Model:
    """The model. Raises KeyboardInterrupt if Ctrl-C ended its fit early, so that it does not count
    as one of many fits, and the others do not start."""
    if interrupted(model):
        raise KeyboardInterrupt
    return model


def warn_of_sizes(sizes: Sequence[int], X: Array) -> None:
    """Warn of layers that X (m, n) or the layer below cannot fill."""
    features, samples = X.shape[-2:]
    for what, count in (("features", features), ("samples", samples)):
        if sizes[0] > count:
            warn(
                f"layer_sizes: layer 1 has {sizes[0]} parts, but X has {count} {what}, so that "
                f"parts can copy single {what}. Use at most {count}.",
                Advice,
            )
            break
    for layer, (below, size) in enumerate(pairwise(sizes), 2):
        if size > below:
            warn(
                f"layer_sizes: layer {layer} is wider than layer {layer - 1} ({size} parts over "
                f"{below}), and cannot sum it up. Use sizes that fall, such as "
                f"{tuple(sorted(sizes, reverse=True))}.",
                Advice,
            )
            break


def warn_of_counts(X: Array) -> None:
    """Warn if X (m, n) looks like raw counts of words or molecules: whole numbers, mostly zeros,
    with a few that are far larger than the others."""
    seen = glimpse(X)
    if seen is None or seen.zeros < MOSTLY or not len(seen.values):
        return
    values, largest = seen.values, seen.values.max()
    if largest >= HEAVY * values.mean() and bool(np.all(values == np.floor(values))):
        warn(
            f"X looks like raw counts: whole numbers up to {largest:.0f}, {seen.zeros:.1%} zeros. "
            "Long samples and frequent features then rule the fit. Scale the counts first, with "
            "scikit-learn's TfidfTransformer for words, or per sample and by log1p for cells.",
            Advice,
        )


def warn_of_collapse(plan: Plan, run: Run) -> None:
    """Warn if parts are dead or explain nothing, or if penalties have left next to nothing."""
    dead = run.history[-1]["dead"] if run.history else 0
    if dead > sum(plan.sizes) / 10:
        warn(
            f"{dead} of {sum(plan.sizes)} parts are dead: no sample uses them. Use smaller layers, "
            "or weaker penalties.",
            Advice,
        )
        return
    explained = 1.0 if run.errors is None else 1 - run.errors[0] ** 2
    if explained < LEAST:
        warn(
            f"The parts of layer 1 explain {explained:.0%} of X (1 − ‖X − W_1H_1‖²/‖X‖²). Use "
            "weaker penalties (mu, lam), or more parts.",
            Advice,
        )
        return
    for layer, W in enumerate(run.weights, 1):
        entries = _entries_per_part(W)
        if W.shape[-2] >= MANY and entries < FEW:
            things = "features" if layer == 1 else f"parts of layer {layer - 1}"
            warn(
                f"The parts of layer {layer} are made of {entries:.1f} {things} each, of "
                f"{W.shape[-2]}: they combine nothing. Use a weaker penalty on the weights (mu), "
                "or fewer parts.",
                Advice,
            )
            return
    used = float(over_samples(_nonzero, run.H)) / max(1, run.H.shape[-1])
    if plan.sizes[-1] >= MANY and used < FEW:
        warn(
            f"Samples use {used:.1f} of {plan.sizes[-1]} parts on average: the codes are nearly "
            "empty. Use a weaker penalty on the codes (lam).",
            Advice,
        )


def _nonzero(H: Array) -> Dense:
    xp = namespace(H)
    return xp.sum(xp.astype(H > 0, xp.float64))


def _entries_per_part(W: Array) -> float:
    """How many entries the columns of W that are not 0 have, on average; tiny ones do not count."""
    xp = namespace(W)
    largest = xp.max(xp.abs(W), axis=-2, keepdims=True)
    entries = xp.sum(xp.astype(xp.abs(W) > TINY * largest, xp.int64), axis=-2)
    entries = entries[entries > 0]
    return float(xp.mean(xp.astype(entries, xp.float64))) if len(entries) else float("inf")


def warn_of_clipped_codes(link: Link, H: Array) -> None:
    """Warn if more than a tenth of the codes are outside the domain of g."""
    xp = namespace(H)
    low, high = link.domain
    outside = float(xp.mean(xp.astype((low > H) | (high < H), xp.float64)))
    if outside > 0.1:
        warn(
            f"project_codes: {outside:.0%} of the codes are outside the domain of "
            f"{type(link).__name__}, [{low:.3g}, {high:.3g}], and are clipped to it. Use "
            'link="root", whose domain is all numbers ≥ 0, or project_codes=False.',
            Advice,
        )
