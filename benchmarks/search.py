"""The smallest number of iterations with which a method reaches the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

FIRST = 4
PRECISION = 20
"""The count is found to a part in 20, or exactly below that."""


class Found(NamedTuple):
    """A call: its iterations, the objective there, its seconds, and whether it is good enough."""

    iterations: int
    objective: float
    seconds: float
    reached: bool
    ended: str = ""
    """Why the method would go no further."""


def smallest(run: Callable[[int], Found], longest: float) -> Found:
    """Double until the target is reached, then bisect.

    A call may take `longest` seconds: the last count tried before giving up is what fits in that.
    """
    low, iterations = 0, FIRST
    while True:
        best = run(iterations)
        if best.reached:
            break
        fits = int(iterations * longest / best.seconds)
        following = min(2 * iterations, fits)
        if best.ended or following < 1.25 * iterations:
            return best
        low, iterations = iterations, following
    while best.iterations - low > max(1, best.iterations // PRECISION):
        middle = (low + best.iterations) // 2
        tried = run(middle)
        if tried.reached:
            best = tried
        else:
            low = middle
    return best
