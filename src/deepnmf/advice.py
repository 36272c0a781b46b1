"""Warnings that point at the user's line, not at ours."""

from __future__ import annotations

import inspect
import warnings

OURS = ("deepnmf", "sklearn", "contextlib", "functools")


def warn(message: str, category: type[Warning]) -> None:
    """Warn from the first caller outside this library and scikit-learn."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
