"""The Triton kernels of `fused`: one pass over memory each, sums in a fixed order.

Arrays are (runs, rows, columns). A program works on some columns of a run, tile by tile of rows;
sizes come in units of four where they divide, so that four entries are loaded at once.
"""

import triton
import triton.language as tl


@triton.jit
def plain_step(
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
def step(
    P, P_before, C, F, F_before, out, LC, sums, sums_before, sums_out,
    dots, dots_out, alpha, alpha_out, running, moved_out, norms_out, mu, lam, rows, columns,
    STOPS: tl.constexpr, BY_COLUMN: tl.constexpr, PADDED: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    BY_SAMPLE: tl.constexpr, UNIT_ROWS: tl.constexpr, UNIT_COLUMNS: tl.constexpr,
):  # fmt: skip
    """An accelerated step; `dots` says whether the momentum of the step before pointed uphill.

    If it STOPS, what is not `running` stays, and ‖y − f_new‖² and ‖f‖² of every column are told.
    """
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
    if STOPS:
        goes = tl.zeros((COLUMNS,), tl.float32)
        if BY_COLUMN:
            goes += tl.load(running + where, mask=inside, other=0.0)
        else:
            goes += tl.load(running + run)
    dot = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    moved = tl.zeros((ROWS, COLUMNS), tl.float32)
    norms = tl.zeros((ROWS, COLUMNS), tl.float32)
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
        if STOPS:
            step = y - new
            new = tl.where((goes > 0)[None, :], new, f)
            dot += step * (new - f)
            moved += step * step
            norms += new * new
        else:
            dot += (y - new) * (new - f)
        total += new
        tl.store(out + place, new, mask=mask)
    tl.store(dots_out + where, tl.sum(dot, axis=0), mask=inside)
    tl.store(sums_out + where, tl.sum(total, axis=0), mask=inside)
    if STOPS:
        tl.store(moved_out + where, tl.sum(moved, axis=0), mask=inside)
        tl.store(norms_out + where, tl.sum(norms, axis=0), mask=inside)


@triton.jit
def last_step(
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
def repair(
    P_start, C, start, out, LC, sums_start, dots, mu, lam, rows, columns,
    BY_COLUMN: tl.constexpr, PADDED: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    BY_SAMPLE: tl.constexpr, UNIT_ROWS: tl.constexpr, UNIT_COLUMNS: tl.constexpr,
):  # fmt: skip
    """A plain step from the start for problems that ended above it."""
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
def column_sums(
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
    """Σ GU_1, Σ GU_2 + ½U_1MU_1, Σ U_1MU_2 and Σ ½U_2MU_2 of every column."""
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
def along(
    A, B, G, MU1, MU2, size, A_out, G_out, rows, columns,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, UNIT_ROWS: tl.constexpr, UNIT_COLUMNS: tl.constexpr,
):  # fmt: skip
    """P(A + sB) and G + s MU_1 + s² MU_2."""
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
def column_dot(
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
    """⟨u_j, v_j⟩ of every column."""
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
def square_expansion(A, B, first, second, size, BLOCK: tl.constexpr):
    """2AB and B²."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < size
    a = tl.load(A + place, mask=mask)
    b = tl.load(B + place, mask=mask)
    tl.store(first + place, 2 * a * b, mask=mask)
    tl.store(second + place, b * b, mask=mask)


@triton.jit
def doubled_product(A, B, out, size, BLOCK: tl.constexpr):
    """2AB."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < size
    value = 2 * tl.load(A + place, mask=mask) * tl.load(B + place, mask=mask)
    tl.store(out + place, value, mask=mask)


@triton.jit
def quartic(
    C1, C2, C3, C4, limit, out, size,
    GRID: tl.constexpr, NEWTON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The smallest value on [0, limit]: a grid, then Newton's method between its neighbours."""
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
