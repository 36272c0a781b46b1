"""The smallest number of iterations with which a method reaches the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

FIRST = 4
PRECISION = 20
"""The count is found to within 1/20 of its value, and exactly if it is below 20."""


class Found(NamedTuple):
    """A call: its iterations, its objective, its seconds, and whether that reaches the target."""

    iterations: int
    objective: float
    seconds: float
    reached: bool
    ended: str = ""
    """Why the method went no further."""


def smallest(run: Callable[[int], Found], longest: float) -> Found:
    """Double until the target is reached, then bisect.

    A call may take `longest` seconds. The last count tried before giving up is one that fits.
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
