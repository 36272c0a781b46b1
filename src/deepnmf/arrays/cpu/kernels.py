"""Compiled kernels for everything that is not a dense matrix product.

Numba compiles them for float32 and float64 on first use, and caches them on disk. They release the
GIL and start no threads: `deepnmf.arrays.cpu.threads` gives each thread its share.
"""

from __future__ import annotations

from typing import TypeAlias

import numba
import numpy as np
from numpy import ndarray

Span: TypeAlias = tuple[int, int]
"""From and to: what a thread works on."""
LANES = 64
"""Columns that a kernel works on side by side, in the lanes of vector instructions."""

_compiled = numba.njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"}
)

_exactly = numba.njit(nogil=True, cache=True, error_model="numpy")
"""Rounds as array operations do, so that a stack of runs gets the same numbers."""


@_compiled
def code_passes(
    A: ndarray,
    inverse: ndarray,
    C: ndarray,
    H: ndarray,
    by_sample: bool,
    state: ndarray,
    share: tuple[int, int, int, float],
) -> int:
    """h_i ← max(0, h_i − (a_iᵀh − c_i)/A_ii) for i = 1 … k, pass after pass, for every column h
    (for every row, if C and H are stored `by_sample`).

    64 columns at a time are copied to a buffer that stays in cache, and coordinates are updated in
    groups of four: their gradients are one sum over all rows, corrected for the moves within the
    group. A column stops when the gain of a pass, Σ A_ii Δ_i², is at most `tol` times the gain of
    its first pass.

    `A` and `inverse` (1/A_ii, or 0 for a coordinate that must not move) are padded with zeros to a
    multiple of four. `state` has three numbers per column: the gain of its first pass (−1 before
    it), 1 or 0 for whether it is running, and Σ (A_ii Δ_i)² of the first pass. `share` holds the
    first block and the end, the number of passes, and tol. Returns the passes of all columns, added
    up.
    """
    begin, end, passes, tol = share
    first, running, mapping = state[0], state[1], state[2]
    k, n = (H.shape[1], H.shape[0]) if by_sample else H.shape
    size = A.shape[0]
    zero = inverse[0] - inverse[0]
    h = np.zeros((size, LANES), H.dtype)
    c = np.zeros((size, LANES), H.dtype)
    g = np.empty((4, LANES), H.dtype)
    gain = np.empty(LANES, H.dtype)
    moved = np.empty(LANES, H.dtype)
    on = np.empty(LANES, H.dtype)
    total = 0
    for block in range(begin, end):
        low = block * LANES
        width = min(LANES, n - low)
        if by_sample:
            for s in range(width):
                for i in range(k):
                    h[i, s] = H[low + s, i]
                    c[i, s] = C[low + s, i]
        else:
            for i in range(k):
                for s in range(width):
                    h[i, s] = H[i, low + s]
                    c[i, s] = C[i, low + s]
        for s in range(LANES):
            on[s] = running[low + s] if s < width else zero
        for _ in range(passes):
            for s in range(LANES):
                gain[s] = zero
                moved[s] = zero
            for i in range(0, size, 4):
                for s in range(LANES):
                    g[0, s], g[1, s] = -c[i, s], -c[i + 1, s]
                    g[2, s], g[3, s] = -c[i + 2, s], -c[i + 3, s]
                for j in range(0, size, 4):
                    a0, a1, a2, a3 = A[i, j], A[i, j + 1], A[i, j + 2], A[i, j + 3]
                    b0, b1, b2, b3 = A[i + 1, j], A[i + 1, j + 1], A[i + 1, j + 2], A[i + 1, j + 3]
                    d0, d1, d2, d3 = A[i + 2, j], A[i + 2, j + 1], A[i + 2, j + 2], A[i + 2, j + 3]
                    e0, e1, e2, e3 = A[i + 3, j], A[i + 3, j + 1], A[i + 3, j + 2], A[i + 3, j + 3]
                    for s in range(LANES):
                        x0, x1, x2, x3 = h[j, s], h[j + 1, s], h[j + 2, s], h[j + 3, s]
                        g[0, s] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                        g[1, s] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
                        g[2, s] += d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3
                        g[3, s] += e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3
                a0, b1, d2, e3 = A[i, i], A[i + 1, i + 1], A[i + 2, i + 2], A[i + 3, i + 3]
                b0, d0, d1 = A[i + 1, i], A[i + 2, i], A[i + 2, i + 1]
                e0, e1, e2 = A[i + 3, i], A[i + 3, i + 1], A[i + 3, i + 2]
                v0, v1, v2, v3 = inverse[i], inverse[i + 1], inverse[i + 2], inverse[i + 3]
                for s in range(LANES):
                    x0, x1, x2, x3 = h[i, s], h[i + 1, s], h[i + 2, s], h[i + 3, s]
                    y0 = max(x0 - v0 * g[0, s], zero) if on[s] > 0 else x0
                    z0 = y0 - x0
                    y1 = max(x1 - v1 * (g[1, s] + b0 * z0), zero) if on[s] > 0 else x1
                    z1 = y1 - x1
                    slope = g[2, s] + d0 * z0 + d1 * z1
                    y2 = max(x2 - v2 * slope, zero) if on[s] > 0 else x2
                    z2 = y2 - x2
                    slope = g[3, s] + e0 * z0 + e1 * z1 + e2 * z2
                    y3 = max(x3 - v3 * slope, zero) if on[s] > 0 else x3
                    z3 = y3 - x3
                    h[i, s], h[i + 1, s], h[i + 2, s], h[i + 3, s] = y0, y1, y2, y3
                    t0, t1, t2, t3 = a0 * z0, b1 * z1, d2 * z2, e3 * z3
                    gain[s] += t0 * z0 + t1 * z1 + t2 * z2 + t3 * z3
                    moved[s] += t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3
            going = 0
            for s in range(width):
                if on[s] > 0:
                    total += 1
                    if first[low + s] < 0:
                        first[low + s] = gain[s]
                        mapping[low + s] = moved[s]
                    if gain[s] <= tol * first[low + s]:
                        on[s] = zero
                    else:
                        going += 1
            if going == 0:
                break
        if by_sample:
            for s in range(width):
                for i in range(k):
                    H[low + s, i] = h[i, s]
        else:
            for i in range(k):
                for s in range(width):
                    H[i, low + s] = h[i, s]
        for s in range(width):
            running[low + s] = on[s]
    return total


@_compiled
def coupled_rows(
    B: ndarray, G: ndarray, C: ndarray, F: ndarray, D: ndarray, mu: float, unit: bool
) -> tuple[float, float]:
    """Move each row f of F in turn to its minimum with the other rows fixed, for entries of a row
    that a penalty or a constraint couples:

        min ½ b‖f‖² − rᵀf + ½ μ (Σ f)²    f = P((r − μ s 1)/b) with s = Σ f, by Newton's method;
        min ½ b‖f‖² − rᵀf, ‖f‖ ≤ 1        f = P(r)/max(b, ‖P(r)‖).

    F holds the rows of a group, G − C their gradient of the fit before the first move, B their b's,
    and D receives their moves. No sample uses a row with b = 0: under a penalty it is halved, not
    set to zero, so that a sample can still use it later. So is a row with b below the rounding of
    μ, for which (r − μs)/b would be noise. Returns the gain Σ b Δ² and the squared gradient mapping
    Σ b² Δ².
    """
    rows, m = F.shape
    zero = mu - mu
    one = zero + F.dtype.type(1)
    enough = one + F.dtype.type(4 * np.finfo(F.dtype).eps)
    least = mu * F.dtype.type(np.finfo(F.dtype).eps)
    gained, moved = 0.0, 0.0
    for i in range(rows):
        g, c, f, d = G[i], C[i], F[i], D[i]
        j = 0
        while j + 4 <= i:
            b0, b1, b2, b3 = B[i, j], B[i, j + 1], B[i, j + 2], B[i, j + 3]
            d0, d1, d2, d3 = D[j], D[j + 1], D[j + 2], D[j + 3]
            for s in range(m):
                g[s] += b0 * d0[s] + b1 * d1[s] + b2 * d2[s] + b3 * d3[s]
            j += 4
        while j < i:
            b0 = B[i, j]
            d0 = D[j]
            for s in range(m):
                g[s] += b0 * d0[s]
            j += 1
        b = B[i, i]
        if not b > least:
            for s in range(m):
                new = f[s] / 2 if mu > 0 else f[s]
                d[s] = new - f[s]
                f[s] = new
            continue
        size = zero
        for s in range(m):
            g[s] = b * f[s] - (g[s] - c[s])
            size += f[s]
        shift, scale = zero, one / b
        if unit:
            square = 0.0  # in double precision: r is of the size of ‖X‖²
            for s in range(m):
                r = np.float64(max(g[s], zero))
                square += r * r
            scale = one / max(b, F.dtype.type(np.sqrt(square)))
        elif mu > 0:
            # s − Σ P(r − μs)/b is concave and increasing in s: Newton's first step ends at or left
            # of the root, later steps never pass it, and the method ends when the set of positive
            # entries stays the same.
            shift = mu * size
            for turn in range(100):
                above, count = zero, 0
                for s in range(m):
                    above += g[s] if g[s] > shift else zero
                    count += g[s] > shift
                following = mu * above / (b + mu * F.dtype.type(count))
                settled = turn > 0 and not following > shift * enough
                # Rounding can put it slightly below, or at 0 if no entry is above.
                shift = max(shift, following) if turn > 0 else following
                if settled:
                    break
        total = zero
        for s in range(m):
            new = max(g[s] - shift, zero) * scale
            d[s] = new - f[s]
            f[s] = new
            total += d[s] * d[s]
        gained += np.float64(b) * total
        moved += np.float64(b) * np.float64(b) * total
    return gained, moved


@_compiled
def two_sided_columns(
    A: ndarray, B: ndarray, G: ndarray, F: ndarray, AD: ndarray, mu: float, lam: float, passes: int
) -> tuple[float, float]:
    """Columns w of a weight matrix between two Gram matrices, coordinate by coordinate:

        min ½ b wᵀA w − rᵀw + ½ μ (Σ w)² + ½ λ ‖w‖².

    The rows of F are the columns of a group, G is their gradient of the fit before the first move,
    B their b's, and AD receives A times their moves. A coordinate that is zero and stays zero costs
    nothing. Returns the gain and the squared gradient mapping of the first pass.
    """
    columns, size = F.shape
    zero = A[0, 0] - A[0, 0]
    gained, moved = 0.0, 0.0
    for j in range(columns):
        g, f, ad = G[j], F[j], AD[j]
        for before in range(j):
            b, d = B[j, before], AD[before]
            for s in range(size):
                g[s] += b * d[s]
        b = B[j, j]
        total = zero
        for s in range(size):
            ad[s] = zero
            total += f[s]
        for turn in range(passes):
            for i in range(size):
                bend = b * A[i, i] + mu + lam
                slope = g[i] + b * ad[i] + mu * total + lam * f[i]
                if not bend > 0 or (f[i] == 0 and slope >= 0):
                    continue
                new = max(f[i] - slope / bend, zero)
                step = new - f[i]
                if step == 0:
                    continue
                f[i] = new
                total += step
                row = A[i]
                for s in range(size):
                    ad[s] += step * row[s]
                if turn == 0:
                    slope = bend * step
                    gained += slope * step
                    moved += np.float64(slope) * slope
    return gained, moved


@_compiled
def gather_product(
    starts: ndarray, indices: ndarray, values: ndarray, A: ndarray, out: ndarray, span: Span
) -> None:
    """Row j of `out` ← Σ x_ij · (row i of A) over the entries of sample j, four at a time."""
    for j in range(span[0], span[1]):
        row = out[j]
        row[:] = 0
        e, end = starts[j], starts[j + 1]
        while e + 4 <= end:
            x0, x1, x2, x3 = values[e], values[e + 1], values[e + 2], values[e + 3]
            a0, a1 = A[indices[e]], A[indices[e + 1]]
            a2, a3 = A[indices[e + 2]], A[indices[e + 3]]
            for c in range(row.shape[0]):
                row[c] += x0 * a0[c] + x1 * a1[c] + x2 * a2[c] + x3 * a3[c]
            e += 4
        while e < end:
            x0, a0 = values[e], A[indices[e]]
            for c in range(row.shape[0]):
                row[c] += x0 * a0[c]
            e += 1


@_compiled
def double_dots(u: ndarray, v: ndarray, size: int, out: ndarray, span: Span) -> None:
    """out_p ← Σ u_i v_i over the p-th `size` entries, in double precision, for p in `span`."""
    for piece in range(span[0], span[1]):
        total = 0.0
        for i in range(piece * size, min((piece + 1) * size, u.shape[0])):
            total += np.float64(u[i]) * np.float64(v[i])
        out[piece] = total


@_exactly
def look_ahead(f: ndarray, before: ndarray, beta: np.floating, out: ndarray, span: Span) -> None:
    """out_i ← max(0, f_i + β (f_i − before_i)) for i in `span`."""
    zero = beta - beta
    for i in range(span[0], span[1]):
        out[i] = max(f[i] + beta * (f[i] - before[i]), zero)


@_compiled
def copy_transposed(A: ndarray, out: ndarray, span: Span) -> None:
    """out ← Aᵀ for the rows of `span`, in tiles that stay in cache."""
    columns = A.shape[1]
    for low in range(span[0], span[1], 32):
        high = min(low + 32, span[1])
        for left in range(0, columns, 32):
            right = min(left + 32, columns)
            for j in range(left, right):
                for i in range(low, high):
                    out[j, i] = A[i, j]
