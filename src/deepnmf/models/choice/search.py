"""Which numbers of parts to try: first coarse, then fine around the choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deepnmf.models.choice.record import compared, smallest_good

ALL = 12
"""Up to so many sizes, all are tried."""
AT_LEAST = 16
"""Doubling does not stop before this size: two parts can be no better than one where four are."""

Errors = dict[int, Sequence[float]]
"""The errors of every size on the same hold-outs."""


class BudgetSpentError(Exception):
    """No more fits may be done. The message says which limit was reached."""


def search(measure: Callable[[int], Sequence[float]], most: int) -> tuple[Errors, str]:
    """The errors of the sizes that were tried, out of 1 … most, and why the search ended early.

    Sizes are doubled until one is no better than half of it. Then the gaps on either side of the
    choice are halved until its neighbours are known.
    """
    errors: Errors = {}
    try:
        for size in _coarse(most):
            errors[size] = measure(size)
            if size >= AT_LEAST and _chosen(errors) < size:
                break
        while gaps := _gaps(errors):
            for size in gaps:
                errors[size] = measure(size)
    except BudgetSpentError as spent:
        return errors, str(spent)
    return errors, ""


def _coarse(most: int) -> list[int]:
    if most <= ALL:
        return list(range(1, most + 1))
    powers = [2**power for power in range(most.bit_length())]
    return [*(size for size in powers if size < most), most]


def _chosen(errors: Errors) -> int:
    return smallest_good(compared(errors))


def _gaps(errors: Errors) -> list[int]:
    """The middles of the gaps beside the choice, if there are gaps."""
    chosen, sizes = _chosen(errors), sorted(errors)
    place = sizes.index(chosen)
    beside = [sizes[low : low + 2] for low in (place - 1, place) if 0 <= low < len(sizes) - 1]
    return [(low + high) // 2 for low, high in beside if high - low > 1]
