"""The exact line search: the smallest value of a quartic on an interval, many at once."""

from __future__ import annotations

from deepnmf.arrays import Array, fused_kernels, namespace

GRID = 16
NEWTON = 8


def minimise_quartic(c: tuple[Array, Array, Array, Array], limit: Array) -> Array:
    """argmin over t in [0, limit] of c_1 t + c_2 t² + c_3 t³ + c_4 t⁴, entry by entry.

    The best point of a grid, then Newton's method on the slope between its neighbours; 0 if no
    value is below 0, so that steps only go downhill.
    """
    c1, c2, c3, c4 = c
    xp = namespace(c1)
    fused = fused_kernels(c1)
    if fused is not None and c1.dtype == xp.float32:
        return fused.quartic(c, limit, GRID, NEWTON)

    def value(t: Array) -> Array:
        return t * (c1 + t * (c2 + t * (c3 + t * c4)))

    best = low = xp.zeros_like(c1)
    high, lowest = limit, value(best)
    points = [limit * (point / GRID) ** 2 for point in range(GRID + 1)]
    for point in range(1, GRID + 1):
        height = value(points[point])
        better = height < lowest
        best, lowest = xp.where(better, points[point], best), xp.where(better, height, lowest)
        low = xp.where(better, points[point - 1], low)
        high = xp.where(better, points[min(point + 1, GRID)], high)
    t = best
    for _ in range(NEWTON):
        slope = c1 + t * (2 * c2 + t * (3 * c3 + t * 4 * c4))
        bend = 2 * c2 + t * (6 * c3 + t * 12 * c4)
        step = xp.where(bend > 0, slope / xp.where(bend > 0, bend, xp.ones_like(bend)), 0 * slope)
        t = xp.minimum(xp.maximum(t - step, low), high)
    refined = value(t)
    return xp.where((refined <= lowest) & (refined < 0), t, best)
