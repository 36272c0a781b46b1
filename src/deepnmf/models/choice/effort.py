"""How much work a choice may be."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from deepnmf.models.settings import whole_number
from deepnmf.terminal.text import one_line

SECONDS = {"s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True)
class Effort:
    """How much work a choice may be."""

    folds: int = 3
    repeats: int = 2
    starts: int = 5
    """Fits per candidate to measure stability; 0 does not measure it."""
    fits: float = math.inf
    seconds: float = math.inf

    @classmethod
    def of(cls, folds: Any, repeats: Any, starts: Any, budget: Any) -> Effort:
        """From the settings of a user. Those that cannot work are refused."""
        fits, seconds = _budget(budget)
        effort = cls(
            whole_number("folds", folds, least=2),
            whole_number("repeats", repeats, least=1),
            whole_number("starts", starts, least=0),
            fits,
            seconds,
        )
        if effort.starts == 1:
            raise ValueError("starts: one fit has nothing to agree with. Give 0, or 2 and more.")
        return effort


def _budget(budget: Any) -> tuple[float, float]:
    """The most fits, and the most seconds."""
    if budget is None:
        return math.inf, math.inf
    if not isinstance(budget, str):
        return whole_number("budget", budget, least=1), math.inf
    read = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|min|h)\s*", budget)
    seconds = float(read[1]) * SECONDS[read[2]] if read else 0.0
    if seconds <= 0:
        raise ValueError(
            f"budget: {one_line(repr(budget))} is neither a number of fits, such as 200, nor a "
            'time, such as "90s", "10min" or "2h".'
        )
    return math.inf, seconds
