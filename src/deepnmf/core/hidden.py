"""Codes of a layer between two others, behind a link: for every sample

    min_{u ≥ 0} ½ hᵀA h − cᵀh + ½ a ‖u − t‖²,    h = φ(u),

where A and c come from the layer below, and t is what the layer above makes of its own codes. The
steps are projected gradient steps in a diagonal metric, each halved until it lowers the problem of
its sample.
"""

from __future__ import annotations

from deepnmf.arrays import Array, choose, column_dots, divisor, matmul, namespace, positive
from deepnmf.links import Link
from deepnmf.solvers.stopping import per_run

STEPS = 3
"""Steps per sweep."""
SIGMA = 0.01
TRIALS = 20


def descend_hidden(
    link: Link, A: Array, C: Array, T: Array, a: Array, U: Array, steps: int = STEPS
) -> tuple[Array, Array]:
    """Lower U (…, k, n), and the squared gradient mapping before, per run."""
    bound = _row_bound(A)
    first: Array | None = None
    H = link.decode(U)
    slope_H = matmul(A, H) - C
    for _ in range(steps):
        phi = link.slope(U)
        gradient = phi * slope_H + a * (U - T)
        metric = phi * phi * bound + a
        del phi
        if first is None:
            moved = metric * (positive(U - gradient / metric) - U)
            first = per_run(column_dots(moved, moved))
            del moved
        U, H, slope_H = _step(link, A, C, T, a, (U, H, slope_H), gradient, metric)
        del gradient, metric
    assert first is not None
    return U, first


def _step(
    link: Link,
    A: Array,
    C: Array,
    T: Array,
    a: Array,
    state: tuple[Array, Array, Array],
    gradient: Array,
    metric: Array,
) -> tuple[Array, Array, Array]:
    """The new u, φ(u) and A φ(u) − c. These arrays are as large as the codes: each is dropped as
    soon as it can be."""
    U, H, slope_H = state
    xp = namespace(U)
    t = xp.ones_like(column_dots(U, U))
    best = list(state)
    open_ones = t > 0
    for _ in range(TRIALS):
        U_new = positive(U - t * gradient / metric)
        D = U_new - U
        downhill = SIGMA * column_dots(gradient, D)
        change = column_dots(a * ((U + U_new) / 2 - T), D)
        del D
        H_new = link.decode(U_new)
        slope_new = matmul(A, H_new) - C
        change = column_dots((slope_H + slope_new) / 2, H_new - H) + change
        lower = open_ones & (change <= downhill)
        tried = [U_new, H_new, slope_new]
        del U_new, H_new, slope_new
        for place in range(len(best)):
            best[place] = choose(lower, tried.pop(0), best[place])
        open_ones = open_ones & ~lower
        if not bool(xp.any(open_ones)):
            break
        t = t / 2
    return best[0], best[1], best[2]


def _row_bound(A: Array) -> Array:
    """m with A ⪯ diag(m) for a symmetric A: m_i = Σ_j |A_ij| x_j/x_i with x_i² = A_ii."""
    xp = namespace(A)
    x = xp.sqrt(divisor(xp.linalg.diagonal(A)[..., :, None]))
    return divisor(matmul(xp.abs(A), x) / x)
