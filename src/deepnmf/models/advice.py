"""What to tell the user: why a fit stopped, and warnings that point at their line, not at ours."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

from deepnmf.arrays import Array, namespace
from deepnmf.core.training import Plan, Trained

INTERRUPTED = "interrupted"
OURS = ("deepnmf", "sklearn", "contextlib", "functools")


def warn(message: str, category: type[Warning]) -> None:
    """Warn from the first caller outside this library and scikit-learn."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def status(trained: Trained, tol: float, max_iter: int) -> tuple[str, bool]:
    """Why training stopped, what to do about it, and whether that deserves a warning."""
    if trained.reason == "callback":
        return "stopped by the callback: the model is what had been reached by then.", False
    if trained.reason == "interrupted":
        return (
            f"{INTERRUPTED} by Ctrl-C: the model is the best that had been reached, after "
            f"{len(trained.history)} sweeps in all, {trained.sweeps} of them of all layers. Fit "
            "again to go on: with a checkpoint from here, without one from the start.",
            True,
        )
    if trained.reason == "converged":
        return (
            f"converged: sweep {trained.sweeps} lowered the objective by less than "
            f"tol={tol:g} times its value, or left a relative error below that.",
            False,
        )
    if tol == 0 or max_iter == 0:
        return f"did the max_iter={max_iter} sweeps asked for (tol is not used).", False
    last = [record["objective"] for record in trained.history if record["stage"] == "finetune"]
    fall = (last[-2] - last[-1]) / last[-1] if len(last) > 1 and last[-1] > 0 else float("inf")
    return (
        f"stopped at max_iter={max_iter} with the objective still falling by {fall:.1e} of "
        f"its value a sweep (tol={tol:g}). Raise max_iter for a better fit, or tol if this "
        "one is good enough.",
        True,
    )


def interrupted(model: Any) -> bool:
    """Whether Ctrl-C ended this model's fit before its end."""
    return str(getattr(model, "status_", "")).startswith(INTERRUPTED)


def whole(model: Any) -> Any:
    """The model; where Ctrl-C ended its fit early, Ctrl-C again: one fit of many must not count,
    and the others are not to go on."""
    if interrupted(model):
        raise KeyboardInterrupt
    return model


def warn_of_dead_units(plan: Plan, trained: Trained) -> None:
    """Through a link, units can be lost for good: say so when more than a tenth are."""
    dead = trained.history[-1]["dead"] if trained.history else 0
    if not plan.link.linear and len(plan.sizes) > 1 and dead > sum(plan.sizes) / 10:
        warn(
            f"{dead} of {sum(plan.sizes)} units are dead: no sample uses them. Use smaller layers, "
            "a weaker penalty, or a larger fill of the start, such as fill=0.1 for samples of unit "
            "norm.",
            UserWarning,
        )


def warn_of_clipped_codes(plan: Plan, H: Array) -> None:
    """Say so when g cannot take a tenth of the codes as they are."""
    xp = namespace(H)
    low, high = plan.link.domain
    outside = float(xp.mean(xp.astype((low > H) | (high < H), xp.float64)))
    if outside > 0.1:
        warn(
            f"project_codes: {outside:.0%} of the codes are outside the domain of "
            f"{type(plan.link).__name__}, [{low:.3g}, {high:.3g}], and are clipped to it. Use "
            'link="root", whose domain has no edge above 0, or project_codes=False.',
            UserWarning,
        )
