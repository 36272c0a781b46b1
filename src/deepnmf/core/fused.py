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
import triton.language as tl

from deepnmf.core.arrays import Array, at_least, eye, namespace, perron_bound
from deepnmf.core.subproblems import Quadratic

COLUMNS, ROWS, WARPS = 64, 16, 4
TILE_CODES, TILE_WEIGHTS = (8, 128), (64, 16)
"""Columns and rows of a tile; those of codes lie column by column in memory."""

BLOCK = 2048
GOLDEN = (1 + 5**0.5) / 2
"""α after the first step without momentum."""


def covers(problem: Quadratic, F: Array) -> bool:
    """Single precision without the unit ball, and a penalty that the kernel knows."""
    known = problem.by_column or problem.penalty.uniform is not None
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
    _column_dot[grid](*parts, out, **_sizes(rows, columns, COLUMNS, ROWS))
    return xp.reshape(out, (*U.shape[:-2], 1, columns))


def update(
    problem: Quadratic, F: Array, steps: int, memory: Array | None
) -> tuple[Array, Array | None, Array]:
    """F after that many accelerated steps, the first and the last of them plain; the Perron vector
    of its Gram matrix, for the next Lipschitz constant; and ‖LC (F − P(F − ∇q(F)/LC))‖² per run of
    the F that came in. See `Nesterov`.

    Codes are worked on as (n, k) in memory, sample by sample: (AH)ᵀ = HᵀA is the faster product.
    """
    xp = namespace(F)
    shape = F.shape
    rows, columns = shape[-2:]
    A, B = _flat(problem.A), _flat(problem.B)
    mu, lam = problem.penalty.uniform or (0.0, 0.0)
    if problem.by_column:
        A, B = None, A + problem.penalty.gradient(eye(rows, A))
        mu, lam = 0.0, 0.0
        start, C = _flat(F.mT), _flat(problem.C.mT)
        tile = TILE_CODES
    else:
        start, C = _flat(F), _flat(problem.C)
        tile = TILE_WEIGHTS
    runs = start.shape[0]
    if A is None:
        # The matrix is much like that of the update before: two steps from its vector do.
        bound, memory = perron_bound(B, 16 if memory is None else 2, memory)
        LC = at_least(bound[:, 0, 0] + (mu * rows + lam), float(xp.finfo(F.dtype).tiny) ** 0.5)
    else:
        LC = xp.reshape(problem.lipschitz, (-1,))

    def multiply(factor: Array, out: Array) -> Array:
        if A is None:
            return xp.matmul(factor, B, out=out)
        return xp.matmul(A @ factor, B, out=out)

    def vector() -> Array:
        return xp.empty((runs, columns), dtype=F.dtype, device=F.device)

    def finished(result: Array) -> tuple[Array, Array | None, Array]:
        if problem.by_column:
            result = xp.reshape(result, (*shape[:-2], columns, rows)).mT
        else:
            result = xp.reshape(result, shape)
        return result, memory, xp.reshape(residual, shape[:-2])

    dots, alpha, sums = [vector(), vector()], [vector(), vector()], [vector(), vector()]
    grid = (triton.cdiv(columns, tile[0]), runs)
    size = {"mu": mu, "lam": lam, "BY_SAMPLE": problem.by_column, **_sizes(rows, columns, *tile)}
    decided = {"BY_COLUMN": problem.by_column, "PADDED": triton.next_power_of_2(columns)}
    first = multiply(start, xp.empty_like(start))
    now = xp.empty_like(start)
    _plain_step[grid](first, C, start, now, LC, sums[0], sums[1], dots[1], KNOWN=False, **size)
    residual = xp.sum(dots[1], axis=-1, dtype=xp.float64)
    if steps == 1:
        return finished(now)
    dots[0].fill_(0)
    alpha[0].fill_(1)
    # F_0 and P_0 stay: the safeguard needs them again. What comes after them is written over.
    before, P_before = start, first
    last, this = sums
    P = multiply(now, xp.empty_like(start))
    for step in range(steps - 2):
        beginning = before is start
        target = xp.empty_like(start) if beginning else before
        room = vector() if beginning else last
        if beginning:  # no momentum yet
            _plain_step[grid](P, C, now, target, LC, this, room, dots[1], KNOWN=True, **size)
            dots[1].fill_(0)
            alpha[1].fill_(GOLDEN)
        else:
            _step[grid](
                P, P_before, C, now, before, target, LC, this, last, room,
                dots[step % 2], dots[1 - step % 2], alpha[step % 2], alpha[1 - step % 2],
                **size, **decided,
            )  # fmt: skip
        before, now = now, target
        last, this = this, room
        P_before, P = P, multiply(now, xp.empty_like(start) if beginning else P_before)
    target = xp.empty_like(start) if before is start else before
    _last_step[grid](P, first, C, now, start, target, LC, this, sums[0], dots[0], **size)
    _repair[grid](first, C, start, target, LC, sums[0], dots[0], **size, **decided)
    return finished(target)


def column_sums(G: Array, U1: Array, U2: Array, MU1: Array, MU2: Array) -> Array:
    """(…, 4, n): Σ GU_1, Σ GU_2 + ½U_1MU_1, Σ U_1MU_2, Σ ½U_2MU_2 over every column, in one pass:
    the coefficients of the quartic that an exact line search minimises."""
    xp = namespace(G)
    parts = [_flat(part) for part in (G, U1, U2, MU1, MU2)]
    runs, rows, columns = parts[0].shape
    out = xp.empty((runs, 4, columns), dtype=G.dtype, device=G.device)
    grid = (triton.cdiv(columns, COLUMNS), runs)
    _column_sums[grid](*parts, out, **_sizes(rows, columns, COLUMNS, ROWS))
    return xp.reshape(out, (*G.shape[:-2], 4, columns))


def along(A: Array, B: Array, G: Array, MU1: Array, MU2: Array, s: Array) -> tuple[Array, Array]:
    """P(A + sB) and G + s MU_1 + s² MU_2, with s (…, 1, n) or (…, 1, 1), in one pass."""
    xp = namespace(G)
    parts = [_flat(part) for part in (A, B, G, MU1, MU2)]
    runs, rows, columns = parts[0].shape
    size = _flat(xp.broadcast_to(s, (*s.shape[:-1], columns)))
    A_out, G_out = xp.empty_like(parts[0]), xp.empty_like(parts[0])
    grid = (triton.cdiv(columns, COLUMNS), runs)
    _along[grid](*parts, size, A_out, G_out, **_sizes(rows, columns, COLUMNS, ROWS))
    return xp.reshape(A_out, A.shape), xp.reshape(G_out, G.shape)


def square_expansion(A: Array, B: Array) -> tuple[Array, Array]:
    """2AB and B²: (A + tB)² = A² + t 2AB + t² B², in one pass."""
    flat = [_flat(A), _flat(B)]
    first, second = namespace(A).empty_like(flat[0]), namespace(A).empty_like(flat[0])
    size = first.numel()
    _square_expansion[(triton.cdiv(size, BLOCK),)](*flat, first, second, size, BLOCK=BLOCK)
    return first.reshape(A.shape), second.reshape(A.shape)


def doubled_product(A: Array, B: Array) -> Array:
    """2AB, in one pass."""
    flat = [_flat(A), _flat(B)]
    out = namespace(A).empty_like(flat[0])
    _doubled_product[(triton.cdiv(out.numel(), BLOCK),)](*flat, out, out.numel(), BLOCK=BLOCK)
    return out.reshape(A.shape)


def quartic(c: tuple[Array, Array, Array, Array], limit: Array, grid: int, newton: int) -> Array:
    """`minimise_quartic`, all of it in one kernel."""
    flat = [part.contiguous() for part in (*c, limit)]
    out = namespace(limit).empty_like(flat[0])
    size = out.numel()
    _quartic[(triton.cdiv(size, 256),)](*flat, out, size, GRID=grid, NEWTON=newton, BLOCK=256)
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


@triton.jit
def _plain_step(
    P, C, F, out, LC, sums, sums_out, mapping, mu, lam, rows, columns,
    KNOWN: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    BY_SAMPLE: tl.constexpr, UNIT_ROWS: tl.constexpr, UNIT_COLUMNS: tl.constexpr,
):  # fmt: skip
    """out = P(F − ∇q(F)/LC), and ‖LC (F − out)‖² and Σ out of every column; Σ F if not KNOWN."""
    rows, columns = rows * UNIT_ROWS, columns * UNIT_COLUMNS
    down, across = (1, rows) if BY_SAMPLE else (columns, 1)
    run = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    where = run * columns + column
    base = run * rows * columns
    constant = tl.load(LC + run)
    total = tl.zeros((COLUMNS,), tl.float32)
    if KNOWN:
        total = tl.load(sums + where, mask=inside, other=0.0)
    elif mu > 0:
        parts = tl.zeros((ROWS, COLUMNS), tl.float32)
        for low in range(0, rows, ROWS):
            row = low + tl.arange(0, ROWS)
            mask = (row < rows)[:, None] & inside[None, :]
            place = base + row[:, None] * down + column[None, :] * across
            parts += tl.load(F + place, mask=mask, other=0.0)
        total = tl.sum(parts, axis=0)
        tl.store(sums + where, total, mask=inside)
    moved = tl.zeros((ROWS, COLUMNS), tl.float32)
    after = tl.zeros((ROWS, COLUMNS), tl.float32)
    for low in range(0, rows, ROWS):
        row = low + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        place = base + row[:, None] * down + column[None, :] * across
        f = tl.load(F + place, mask=mask, other=0.0)
        g = tl.load(P + place, mask=mask, other=0.0) - tl.load(C + place, mask=mask, other=0.0)
        g += mu * total[None, :] + lam * f
        new = tl.where(mask, tl.maximum(f - g / constant, 0.0), 0.0)
        step = (f - new) * constant
        moved += step * step
        after += new
        tl.store(out + place, new, mask=mask)
    tl.store(sums_out + where, tl.sum(after, axis=0), mask=inside)
    tl.store(mapping + where, tl.sum(moved, axis=0), mask=inside)


@triton.jit
def _step(
    P, P_before, C, F, F_before, out, LC, sums, sums_before, sums_out,
    dots, dots_out, alpha, alpha_out, mu, lam, rows, columns,
    BY_COLUMN: tl.constexpr, PADDED: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    BY_SAMPLE: tl.constexpr, UNIT_ROWS: tl.constexpr, UNIT_COLUMNS: tl.constexpr,
):  # fmt: skip
    """An accelerated step; `dots` says whether the momentum of the step before pointed uphill."""
    rows, columns = rows * UNIT_ROWS, columns * UNIT_COLUMNS
    down, across = (1, rows) if BY_SAMPLE else (columns, 1)
    run = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    where = run * columns + column
    base = run * rows * columns
    constant = tl.load(LC + run)
    # α and the momentum: 1 and 0 after a restart.
    last = tl.load(alpha + where, mask=inside, other=1.0)
    if BY_COLUMN:
        uphill = tl.load(dots + where, mask=inside, other=0.0) > 0
    else:
        every = tl.arange(0, PADDED)
        all_dots = tl.load(dots + run * columns + every, mask=every < columns, other=0.0)
        uphill = (tl.sum(all_dots, axis=0) + tl.zeros((COLUMNS,), tl.float32)) > 0
    following = (1 + tl.sqrt(4 * last * last + 1)) / 2
    m = tl.where(uphill, 0.0, (last - 1) / following)[None, :]
    tl.store(alpha_out + where, tl.where(uphill, 1.0, following), mask=inside)
    penalty = tl.zeros((1, COLUMNS), tl.float32)
    if mu > 0:
        s = tl.load(sums + where, mask=inside, other=0.0)[None, :]
        s_before = tl.load(sums_before + where, mask=inside, other=0.0)[None, :]
        penalty = mu * (s + m * (s - s_before))
    dot = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for low in range(0, rows, ROWS):
        row = low + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        place = base + row[:, None] * down + column[None, :] * across
        p = tl.load(P + place, mask=mask, other=0.0)
        p_before = tl.load(P_before + place, mask=mask, other=0.0)
        f = tl.load(F + place, mask=mask, other=0.0)
        f_before = tl.load(F_before + place, mask=mask, other=0.0)
        c = tl.load(C + place, mask=mask, other=0.0)
        y = f + m * (f - f_before)
        g = p + m * (p - p_before) - c + penalty + lam * y
        new = tl.where(mask, tl.maximum(y - g / constant, 0.0), 0.0)
        dot += (y - new) * (new - f)
        total += new
        tl.store(out + place, new, mask=mask)
    tl.store(dots_out + where, tl.sum(dot, axis=0), mask=inside)
    tl.store(sums_out + where, tl.sum(total, axis=0), mask=inside)


@triton.jit
def _last_step(
    P, P_start, C, F, start, out, LC, sums, sums_start, dots, mu, lam, rows, columns,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    BY_SAMPLE: tl.constexpr, UNIT_ROWS: tl.constexpr, UNIT_COLUMNS: tl.constexpr,
):  # fmt: skip
    """out = P(F − ∇q(F)/LC), and q(F) − q(start) = ⟨½(∇q(F) + ∇q(start)), F − start⟩ by column."""
    rows, columns = rows * UNIT_ROWS, columns * UNIT_COLUMNS
    down, across = (1, rows) if BY_SAMPLE else (columns, 1)
    run = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    where = run * columns + column
    base = run * rows * columns
    constant = tl.load(LC + run)
    penalty = tl.zeros((1, COLUMNS), tl.float32)
    penalty_start = tl.zeros((1, COLUMNS), tl.float32)
    if mu > 0:
        penalty = mu * tl.load(sums + where, mask=inside, other=0.0)[None, :]
        penalty_start = mu * tl.load(sums_start + where, mask=inside, other=0.0)[None, :]
    dot = tl.zeros((ROWS, COLUMNS), tl.float32)
    for low in range(0, rows, ROWS):
        row = low + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        place = base + row[:, None] * down + column[None, :] * across
        f = tl.load(F + place, mask=mask, other=0.0)
        f_start = tl.load(start + place, mask=mask, other=0.0)
        c = tl.load(C + place, mask=mask, other=0.0)
        g = tl.load(P + place, mask=mask, other=0.0) - c + penalty + lam * f
        g_start = tl.load(P_start + place, mask=mask, other=0.0) - c + penalty_start + lam * f_start
        dot += tl.where(mask, 0.5 * (g + g_start) * (f - f_start), 0.0)
        tl.store(out + place, tl.maximum(f - g / constant, 0.0), mask=mask)
    tl.store(dots + where, tl.sum(dot, axis=0), mask=inside)


@triton.jit
def _repair(
    P_start, C, start, out, LC, sums_start, dots, mu, lam, rows, columns,
    BY_COLUMN: tl.constexpr, PADDED: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    BY_SAMPLE: tl.constexpr, UNIT_ROWS: tl.constexpr, UNIT_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Where the steps ended above the start: a plain step from the start instead."""
    rows, columns = rows * UNIT_ROWS, columns * UNIT_COLUMNS
    down, across = (1, rows) if BY_SAMPLE else (columns, 1)
    run = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    where = run * columns + column
    if BY_COLUMN:
        rise = tl.load(dots + where, mask=inside, other=0.0)
    else:
        every = tl.arange(0, PADDED)
        all_dots = tl.load(dots + run * columns + every, mask=every < columns, other=0.0)
        rise = tl.sum(all_dots, axis=0) + tl.zeros((COLUMNS,), tl.float32)
    if tl.max(rise, axis=0) > 0:
        rose = rise > 0
        base = run * rows * columns
        constant = tl.load(LC + run)
        penalty = tl.zeros((1, COLUMNS), tl.float32)
        if mu > 0:
            penalty = mu * tl.load(sums_start + where, mask=inside, other=0.0)[None, :]
        for low in range(0, rows, ROWS):
            row = low + tl.arange(0, ROWS)
            mask = (row < rows)[:, None] & (inside & rose)[None, :]
            place = base + row[:, None] * down + column[None, :] * across
            f = tl.load(start + place, mask=mask, other=0.0)
            g = tl.load(P_start + place, mask=mask, other=0.0) + penalty + lam * f
            g -= tl.load(C + place, mask=mask, other=0.0)
            tl.store(out + place, tl.maximum(f - g / constant, 0.0), mask=mask)


@triton.jit
def _column_sums(
    G,
    U1,
    U2,
    MU1,
    MU2,
    out,
    rows,
    columns,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    UNIT_ROWS: tl.constexpr,
    UNIT_COLUMNS: tl.constexpr,
):
    rows, columns = rows * UNIT_ROWS, columns * UNIT_COLUMNS
    run = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    base = run * rows * columns
    c1 = tl.zeros((ROWS, COLUMNS), tl.float32)
    c2 = tl.zeros((ROWS, COLUMNS), tl.float32)
    c3 = tl.zeros((ROWS, COLUMNS), tl.float32)
    c4 = tl.zeros((ROWS, COLUMNS), tl.float32)
    for low in range(0, rows, ROWS):
        row = low + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        place = base + row[:, None] * columns + column[None, :]
        g = tl.load(G + place, mask=mask, other=0.0)
        u1 = tl.load(U1 + place, mask=mask, other=0.0)
        u2 = tl.load(U2 + place, mask=mask, other=0.0)
        mu1 = tl.load(MU1 + place, mask=mask, other=0.0)
        mu2 = tl.load(MU2 + place, mask=mask, other=0.0)
        c1 += g * u1
        c2 += g * u2 + 0.5 * u1 * mu1
        c3 += u1 * mu2
        c4 += 0.5 * u2 * mu2
    where = out + run * 4 * columns + column
    tl.store(where, tl.sum(c1, axis=0), mask=inside)
    tl.store(where + columns, tl.sum(c2, axis=0), mask=inside)
    tl.store(where + 2 * columns, tl.sum(c3, axis=0), mask=inside)
    tl.store(where + 3 * columns, tl.sum(c4, axis=0), mask=inside)


@triton.jit
def _along(
    A, B, G, MU1, MU2, size, A_out, G_out, rows, columns,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, UNIT_ROWS: tl.constexpr, UNIT_COLUMNS: tl.constexpr,
):  # fmt: skip
    rows, columns = rows * UNIT_ROWS, columns * UNIT_COLUMNS
    run = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    base = run * rows * columns
    s = tl.load(size + run * columns + column, mask=inside, other=0.0)[None, :]
    for low in range(0, rows, ROWS):
        row = low + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        place = base + row[:, None] * columns + column[None, :]
        a = tl.load(A + place, mask=mask, other=0.0)
        b = tl.load(B + place, mask=mask, other=0.0)
        g = tl.load(G + place, mask=mask, other=0.0)
        g += s * (tl.load(MU1 + place, mask=mask) + s * tl.load(MU2 + place, mask=mask))
        tl.store(A_out + place, tl.maximum(a + s * b, 0.0), mask=mask)
        tl.store(G_out + place, g, mask=mask)


@triton.jit
def _column_dot(
    U,
    V,
    out,
    rows,
    columns,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    UNIT_ROWS: tl.constexpr,
    UNIT_COLUMNS: tl.constexpr,
):
    rows, columns = rows * UNIT_ROWS, columns * UNIT_COLUMNS
    run = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    base = run * rows * columns
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for low in range(0, rows, ROWS):
        row = low + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        place = base + row[:, None] * columns + column[None, :]
        u = tl.load(U + place, mask=mask, other=0.0)
        total += u * tl.load(V + place, mask=mask, other=0.0)
    tl.store(out + run * columns + column, tl.sum(total, axis=0), mask=inside)


@triton.jit
def _square_expansion(A, B, first, second, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < size
    a = tl.load(A + place, mask=mask)
    b = tl.load(B + place, mask=mask)
    tl.store(first + place, 2 * a * b, mask=mask)
    tl.store(second + place, b * b, mask=mask)


@triton.jit
def _doubled_product(A, B, out, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < size
    value = 2 * tl.load(A + place, mask=mask) * tl.load(B + place, mask=mask)
    tl.store(out + place, value, mask=mask)


@triton.jit
def _quartic(
    C1, C2, C3, C4, limit, out, size,
    GRID: tl.constexpr, NEWTON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < size
    c1 = tl.load(C1 + place, mask=mask, other=0.0)
    c2 = tl.load(C2 + place, mask=mask, other=0.0)
    c3 = tl.load(C3 + place, mask=mask, other=0.0)
    c4 = tl.load(C4 + place, mask=mask, other=0.0)
    high = tl.load(limit + place, mask=mask, other=0.0)
    top = high
    best = tl.zeros((BLOCK,), tl.float32)
    low = best
    lowest = best
    for point in tl.static_range(1, GRID + 1):
        t = top * ((point / GRID) * (point / GRID))
        value = t * (c1 + t * (c2 + t * (c3 + t * c4)))
        better = value < lowest
        best = tl.where(better, t, best)
        lowest = tl.where(better, value, lowest)
        low = tl.where(better, top * (((point - 1) / GRID) * ((point - 1) / GRID)), low)
        after = min(point + 1, GRID) / GRID
        high = tl.where(better, top * (after * after), high)
    t = best
    for _ in tl.static_range(NEWTON):
        slope = c1 + t * (2 * c2 + t * (3 * c3 + t * 4 * c4))
        bend = 2 * c2 + t * (6 * c3 + t * 12 * c4)
        step = tl.where(bend > 0, slope / tl.where(bend > 0, bend, 1.0), 0.0)
        t = tl.minimum(tl.maximum(t - step, low), high)
    value = t * (c1 + t * (c2 + t * (c3 + t * c4)))
    tl.store(out + place, tl.where((value <= lowest) & (value < 0), t, best), mask=mask)
