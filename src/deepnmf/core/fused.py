"""Accelerated steps on a card: one matrix product and one pass over memory each.

The gradient is linear, so with P_k = A F_k B kept from step to step the gradient at
Y = F_k + m (F_k − F_{k−1}) is (1 + m) P_k − m P_{k−1} − C (+ penalty, as linear): Y itself is
never stored, and everything else of a step,

    F_{k+1} = P(Y − ∇q(Y)/LC),    restart if ⟨Y − F_{k+1}, F_{k+1} − F_k⟩ > 0,

is one Triton kernel, which writes F_{k+1} over F_{k−1}. Sums run in a fixed order, so the same
input gives the same result every time.
"""

from __future__ import annotations

from typing import Any

import triton

from deepnmf.core import triton_kernels as kernels
from deepnmf.core.arrays import Array, at_least, eye, namespace, perron_bound, scalars
from deepnmf.core.stopping import Pace, Rule, Stepping
from deepnmf.core.subproblems import Quadratic

COLUMNS, ROWS, WARPS = 64, 16, 4
TILE_CODES, TILE_WEIGHTS = (8, 128), (64, 16)
"""Columns and rows of a tile; those of codes lie column by column in memory."""

BLOCK = 2048
GOLDEN = (1 + 5**0.5) / 2
"""α after the first step without momentum."""


def covers(problem: Quadratic, F: Array) -> bool:
    """Single precision with no constraint but F ≥ 0, and a penalty that the kernel knows."""
    known = problem.by_column or problem.penalty.uniform is not None
    known = known and type(problem) is Quadratic
    return known and not problem.unit_columns and F.dtype == namespace(F).float32


def single(U: Array, V: Array) -> bool:
    """Two arrays of one shape in single precision."""
    single_precision = namespace(U).float32
    return U.shape == V.shape and U.ndim > 1 and U.dtype == V.dtype == single_precision


def column_dot(U: Array, V: Array) -> Array:
    """⟨u_j, v_j⟩ for every column j, (…, 1, n), in one pass."""
    xp = namespace(U)
    parts = [_flat(U), _flat(V)]
    runs, rows, columns = parts[0].shape
    out = xp.empty((runs, columns), dtype=U.dtype, device=U.device)
    grid = (triton.cdiv(columns, COLUMNS), runs)
    kernels.column_dot[grid](*parts, out, **_sizes(rows, columns, COLUMNS, ROWS))
    return xp.reshape(out, (*U.shape[:-2], 1, columns))


def update(problem: Quadratic, F: Array, rule: Rule, pace: Pace) -> tuple[Array, Pace, Array]:
    """F after the rule's accelerated steps, the first and the last of them plain; what is kept
    for the next update; and ‖LC (F − P(F − ∇q(F)/LC))‖² per run of the F that came in.

    Codes are worked on as (n, k) in memory, sample by sample: (AH)ᵀ = HᵀA is the faster product.
    """
    xp = namespace(F)
    shape = F.shape
    rows, columns = shape[-2:]
    A, B = _flat(problem.A), _flat(problem.B)
    mu, lam = problem.penalty.uniform or (0.0, 0.0)
    if problem.by_column:
        A, B, mu, lam = None, A, 0.0, 0.0
        if problem.penalty.active:
            B = B + _flat(problem.penalty.gradient(eye(rows, B)))
        start, C = _flat(F.mT), _flat(problem.C.mT)
        tile = TILE_CODES
    else:
        start, C = _flat(F), _flat(problem.C)
        tile = TILE_WEIGHTS
    runs = start.shape[0]
    if A is None:
        # The matrix is much like that of the update before: two steps from its vector do.
        bound, vector = perron_bound(B, 16 if pace.vector is None else 2, pace.vector)
        LC = at_least(bound[:, 0, 0] + (mu * rows + lam), float(xp.finfo(F.dtype).tiny) ** 0.5)
    else:
        vector = None
        LC = xp.reshape(problem.lipschitz, (-1,))

    def multiply(factor: Array, out: Array) -> Array:
        if A is None:
            return xp.matmul(factor, B, out=out)
        return xp.matmul(A @ factor, B, out=out)

    def row() -> Array:
        return xp.empty((runs, columns), dtype=F.dtype, device=F.device)

    def of_problems(values: Array) -> Array:
        """Numbers of columns, (runs, columns), as those of problems."""
        if problem.by_column:
            return values[:, None, :]
        return scalars(xp.sum(values, axis=-1, dtype=xp.float64), values)

    def finished(result: Array, goal: Array | None) -> tuple[Array, Pace, Array]:
        if problem.by_column:
            result = xp.reshape(result, (*shape[:-2], columns, rows)).mT
        else:
            result = xp.reshape(result, shape)
        if goal is not None:
            goal = xp.reshape(goal, (*shape[:-2], *goal.shape[-2:]))
        return result, Pace(goal, vector), xp.reshape(residual, shape[:-2])

    dots, alpha, sums = [row(), row()], [row(), row()], [row(), row()]
    grid = (triton.cdiv(columns, tile[0]), runs)
    size = {"mu": mu, "lam": lam, "BY_SAMPLE": problem.by_column, **_sizes(rows, columns, *tile)}
    decided = {"BY_COLUMN": problem.by_column, "PADDED": triton.next_power_of_2(columns)}
    first = multiply(start, xp.empty_like(start))
    now = xp.empty_like(start)
    kernels.plain_step[grid](
        first, C, start, now, LC, sums[0], sums[1], dots[1], KNOWN=False, **size
    )
    residual = xp.sum(dots[1], axis=-1, dtype=xp.float64)
    if rule.max_steps == 1:
        return finished(now, pace.goal)
    stepping: Stepping | None = None
    stops: dict[str, Any] = {"STOPS": False, "running": LC, "moved_out": LC, "norms_out": LC}
    if rule.tol > 0:
        goal = pace.goal if pace.goal is None else pace.goal.reshape(runs, *pace.goal.shape[-2:])
        stepping = Stepping(rule, of_problems(dots[1]), LC[:, None, None], goal)
        stops = {"STOPS": True, "moved_out": row(), "norms_out": row()}
    dots[0].fill_(0)
    alpha[0].fill_(1)
    # F_0 and P_0 stay: the safeguard needs them again. What comes after them is written over.
    before, P_before = start, first
    last, this = sums
    P = multiply(now, xp.empty_like(start))
    for step in range(rule.max_steps - 2):
        beginning = before is start
        target = xp.empty_like(start) if beginning else before
        room = row() if beginning else last
        if stepping is not None:
            stops["running"] = stepping.running
        if beginning and stepping is None:  # no momentum yet
            kernels.plain_step[grid](P, C, now, target, LC, this, room, dots[1], KNOWN=True, **size)
            dots[1].fill_(0)
            alpha[1].fill_(GOLDEN)
        else:
            kernels.step[grid](
                P, P_before, C, now, before, target, LC, this, last, room,
                dots[step % 2], dots[1 - step % 2], alpha[step % 2], alpha[1 - step % 2],
                **stops, **size, **decided,
            )  # fmt: skip
        before, now = now, target
        last, this = this, room
        P_before, P = P, multiply(now, xp.empty_like(start) if beginning else P_before)
        if stepping is not None:
            stepping.note(of_problems(stops["moved_out"]), of_problems(stops["norms_out"]))
            if stepping.done(step + 2):
                break
    target = xp.empty_like(start) if before is start else before
    kernels.last_step[grid](P, first, C, now, start, target, LC, this, sums[0], dots[0], **size)
    kernels.repair[grid](first, C, start, target, LC, sums[0], dots[0], **size, **decided)
    return finished(target, None if stepping is None else stepping.next_goal())


def column_sums(G: Array, U1: Array, U2: Array, MU1: Array, MU2: Array) -> Array:
    """(…, 4, n): Σ GU_1, Σ GU_2 + ½U_1MU_1, Σ U_1MU_2, Σ ½U_2MU_2 over every column, in one pass:
    the coefficients of the quartic that an exact line search minimises."""
    xp = namespace(G)
    parts = [_flat(part) for part in (G, U1, U2, MU1, MU2)]
    runs, rows, columns = parts[0].shape
    out = xp.empty((runs, 4, columns), dtype=G.dtype, device=G.device)
    grid = (triton.cdiv(columns, COLUMNS), runs)
    kernels.column_sums[grid](*parts, out, **_sizes(rows, columns, COLUMNS, ROWS))
    return xp.reshape(out, (*G.shape[:-2], 4, columns))


def along(A: Array, B: Array, G: Array, MU1: Array, MU2: Array, s: Array) -> tuple[Array, Array]:
    """P(A + sB) and G + s MU_1 + s² MU_2, with s (…, 1, n) or (…, 1, 1), in one pass."""
    xp = namespace(G)
    parts = [_flat(part) for part in (A, B, G, MU1, MU2)]
    runs, rows, columns = parts[0].shape
    size = _flat(xp.broadcast_to(s, (*s.shape[:-1], columns)))
    A_out, G_out = xp.empty_like(parts[0]), xp.empty_like(parts[0])
    grid = (triton.cdiv(columns, COLUMNS), runs)
    kernels.along[grid](*parts, size, A_out, G_out, **_sizes(rows, columns, COLUMNS, ROWS))
    return xp.reshape(A_out, A.shape), xp.reshape(G_out, G.shape)


def square_expansion(A: Array, B: Array) -> tuple[Array, Array]:
    """2AB and B²: (A + tB)² = A² + t 2AB + t² B², in one pass."""
    flat = [_flat(A), _flat(B)]
    first, second = namespace(A).empty_like(flat[0]), namespace(A).empty_like(flat[0])
    size = first.numel()
    kernels.square_expansion[(triton.cdiv(size, BLOCK),)](*flat, first, second, size, BLOCK=BLOCK)
    return first.reshape(A.shape), second.reshape(A.shape)


def doubled_product(A: Array, B: Array) -> Array:
    """2AB, in one pass."""
    flat = [_flat(A), _flat(B)]
    out = namespace(A).empty_like(flat[0])
    kernels.doubled_product[(triton.cdiv(out.numel(), BLOCK),)](
        *flat, out, out.numel(), BLOCK=BLOCK
    )
    return out.reshape(A.shape)


def quartic(c: tuple[Array, Array, Array, Array], limit: Array, grid: int, newton: int) -> Array:
    """`minimise_quartic`, all of it in one kernel."""
    flat = [part.contiguous() for part in (*c, limit)]
    out = namespace(limit).empty_like(flat[0])
    size = out.numel()
    kernels.quartic[(triton.cdiv(size, 256),)](
        *flat, out, size, GRID=grid, NEWTON=newton, BLOCK=256
    )
    return out


def _sizes(rows: int, columns: int, tile_columns: int, tile_rows: int) -> dict[str, int]:
    """Sizes as kernels take them: in units of four where they divide, so that the compiler knows
    that four entries can be loaded at once."""
    unit_rows, unit_columns = (4 if size % 4 == 0 else 1 for size in (rows, columns))
    return {
        "rows": rows // unit_rows,
        "columns": columns // unit_columns,
        "UNIT_ROWS": unit_rows,
        "UNIT_COLUMNS": unit_columns,
        "COLUMNS": tile_columns,
        "ROWS": tile_rows,
        "num_warps": WARPS,
    }


def _flat(array: Array | None) -> Any:
    """(…, m, n) as (runs, m, n), row by row in memory."""
    if array is None:
        return None
    return array.reshape(-1, *array.shape[-2:]).contiguous()
