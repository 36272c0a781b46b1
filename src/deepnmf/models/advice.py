"""What users are told: why a fit stopped, and warnings that point at their line of code."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Sequence
from typing import Protocol, TypeVar

from deepnmf.arrays import Array, namespace
from deepnmf.core.history import Record
from deepnmf.core.plan import Plan
from deepnmf.core.training import Run
from deepnmf.links import Link

OURS = ("deepnmf", "sklearn", "contextlib", "functools")


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
            "layers: the model is the best so far. Fit again to continue: with a checkpoint from "
            "here, without one from the start.",
            True,
        )
    if run.reason == "converged":
        return (
            f"converged: sweep {run.sweeps} lowered the objective by less than tol={tol:g} times "
            "its value, or the relative error is below tol.",
            False,
        )
    if run.reason == "stalled":
        return (
            f"stopped after sweep {run.sweeps}, as the next one raised the objective: rounding "
            "hides further progress. The model is as it was before that sweep. For a better fit, "
            'use float64 or scaling="fixed".',
            True,
        )
    if tol == 0 or max_iter == 0:
        return f"did the max_iter={max_iter} sweeps asked for (tol is not used).", False
    fall = _fall_per_sweep([record for record in run.history if record["stage"] == "finetune"])
    falling = "before it could converge"
    if math.isfinite(fall):
        falling = f"with the objective still falling by {fall:.1e} of its value per sweep"
    return (
        f"stopped at max_iter={max_iter} {falling} (tol={tol:g}). Raise max_iter for a better fit, "
        "or tol if this one is good enough.",
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


def warn_of_dead_units(plan: Plan, run: Run) -> None:
    """Warn if more than a tenth of the parts are dead. Through a link they stay so."""
    dead = run.history[-1]["dead"] if run.history else 0
    if not plan.link.linear and len(plan.sizes) > 1 and dead > sum(plan.sizes) / 10:
        warn(
            f"{dead} of {sum(plan.sizes)} parts are dead: no sample uses them. Use smaller layers, "
            "a weaker penalty, or a larger fill of the start, such as fill=0.1 for samples of unit "
            "norm.",
            UserWarning,
        )


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
            UserWarning,
        )
