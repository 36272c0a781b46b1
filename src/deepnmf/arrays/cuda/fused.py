"""Array operations on a CUDA device, in one pass over memory instead of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton

from deepnmf.arrays.cuda import kernels
from deepnmf.arrays.operations import namespace

if TYPE_CHECKING:
    from torch import Tensor

COLUMNS, ROWS, WARPS = 64, 16, 4
BLOCK = 2048


def single(U: Tensor, V: Tensor) -> bool:
    """Two arrays of one shape in single precision."""
    single_precision = namespace(U).float32
    return U.shape == V.shape and U.ndim > 1 and U.dtype == V.dtype == single_precision


def column_dot(U: Tensor, V: Tensor) -> Tensor:
    """⟨u_j, v_j⟩ for every column j, (…, 1, n), in one pass."""
    xp = namespace(U)
    pair = [flat(U), flat(V)]
    runs, rows, columns = pair[0].shape
    out = xp.empty((runs, columns), dtype=U.dtype, device=U.device)
    grid = (triton.cdiv(columns, COLUMNS), runs)
    kernels.column_dot[grid](*pair, out, **sizes(rows, columns, COLUMNS, ROWS))
    return xp.reshape(out, (*U.shape[:-2], 1, columns))


def column_sums(G: Tensor, U1: Tensor, U2: Tensor, MU1: Tensor, MU2: Tensor) -> Tensor:
    """(…, 4, n): Σ GU_1, Σ GU_2 + ½U_1MU_1, Σ U_1MU_2, Σ ½U_2MU_2 for every column, in one pass:
    the coefficients of the quartic that an exact line search minimises."""
    xp = namespace(G)
    arrays = [flat(array) for array in (G, U1, U2, MU1, MU2)]
    runs, rows, columns = arrays[0].shape
    out = xp.empty((runs, 4, columns), dtype=G.dtype, device=G.device)
    grid = (triton.cdiv(columns, COLUMNS), runs)
    kernels.column_sums[grid](*arrays, out, **sizes(rows, columns, COLUMNS, ROWS))
    return xp.reshape(out, (*G.shape[:-2], 4, columns))


def along(
    A: Tensor, B: Tensor, G: Tensor, MU1: Tensor, MU2: Tensor, s: Tensor
) -> tuple[Tensor, Tensor]:
    """P(A + sB) and G + s MU_1 + s² MU_2, with s (…, 1, n) or (…, 1, 1), in one pass."""
    xp = namespace(G)
    arrays = [flat(array) for array in (A, B, G, MU1, MU2)]
    runs, rows, columns = arrays[0].shape
    size = flat(xp.broadcast_to(s, (*s.shape[:-1], columns)))
    A_out, G_out = xp.empty_like(arrays[0]), xp.empty_like(arrays[0])
    grid = (triton.cdiv(columns, COLUMNS), runs)
    kernels.along[grid](*arrays, size, A_out, G_out, **sizes(rows, columns, COLUMNS, ROWS))
    return xp.reshape(A_out, A.shape), xp.reshape(G_out, G.shape)


def square_expansion(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """2AB and B²: (A + tB)² = A² + t 2AB + t² B², in one pass."""
    pair = [flat(A), flat(B)]
    first, second = namespace(A).empty_like(pair[0]), namespace(A).empty_like(pair[0])
    size = first.numel()
    kernels.square_expansion[(triton.cdiv(size, BLOCK),)](*pair, first, second, size, BLOCK=BLOCK)
    return first.reshape(A.shape), second.reshape(A.shape)


def doubled_product(A: Tensor, B: Tensor) -> Tensor:
    """2AB, in one pass."""
    pair = [flat(A), flat(B)]
    out = namespace(A).empty_like(pair[0])
    kernels.doubled_product[(triton.cdiv(out.numel(), BLOCK),)](
        *pair, out, out.numel(), BLOCK=BLOCK
    )
    return out.reshape(A.shape)


def quartic(
    c: tuple[Tensor, Tensor, Tensor, Tensor], limit: Tensor, grid: int, newton: int
) -> Tensor:
    """`minimise_quartic` in one kernel."""
    arrays = [array.contiguous() for array in (*c, limit)]
    out = namespace(limit).empty_like(arrays[0])
    size = out.numel()
    kernels.quartic[(triton.cdiv(size, 256),)](
        *arrays, out, size, GRID=grid, NEWTON=newton, BLOCK=256
    )
    return out


def sizes(rows: int, columns: int, tile_columns: int, tile_rows: int) -> dict[str, int]:
    """Sizes as kernels take them: in units of four if divisible, so that the compiler knows that
    it can load four entries at once."""
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


def flat(array: Tensor | None) -> Tensor:
    """(…, m, n) as (runs, m, n), in row-major order."""
    if array is None:
        return None
    return array.reshape(-1, *array.shape[-2:]).contiguous()
