"""The accelerated steps of one update on a CUDA device: one matrix product and one kernel each.

The gradient is linear. With P_k = A F_k B kept from step to step, the gradient at
Y = F_k + m (F_k − F_{k−1}) is (1 + m) P_k − m P_{k−1} − C, plus the penalty's, which is linear as
well. So Y is never stored, and the rest of a step,

    F_{k+1} = P(Y − ∇q(Y)/LC),    restart if ⟨Y − F_{k+1}, F_{k+1} − F_k⟩ > 0,

is one Triton kernel, which writes F_{k+1} over F_{k−1}. Sums run in a fixed order, so the same
input always gives the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton

from deepnmf.arrays.cuda import kernels
from deepnmf.arrays.cuda.fused import flat, sizes
from deepnmf.arrays.operations import namespace, scalars

if TYPE_CHECKING:
    from torch import Tensor

TILE_CODES, TILE_WEIGHTS = (8, 128), (64, 16)
"""Columns and rows of a tile. The tiles of codes lie column by column in memory."""
GOLDEN = (1 + 5**0.5) / 2
"""α after the first step without momentum."""


class Steps:
    """F, and the buffers that its steps write to.

    Codes (`by_column`) are stored as (n, k), sample by sample: (AH)ᵀ = HᵀA is the faster
    product. A and B are (runs, …) or None; LC is (runs,).
    """

    def __init__(
        self,
        F: Tensor,
        C: Tensor,
        A: Tensor | None,
        B: Tensor,
        LC: Tensor,
        strengths: tuple[float, float],
        by_column: bool,
    ) -> None:
        self.shape, self.by_column = F.shape, by_column
        self.A, self.B, self.LC = A, B, LC
        self.start = flat(F.mT if by_column else F)
        self.C = flat(C.mT if by_column else C)
        self.runs = self.start.shape[0]
        rows, self.columns = F.shape[-2:]
        tile = TILE_CODES if by_column else TILE_WEIGHTS
        mu, lam = strengths
        self.grid = (triton.cdiv(self.columns, tile[0]), self.runs)
        self.size = {"mu": mu, "lam": lam, "BY_SAMPLE": by_column}
        self.size |= sizes(rows, self.columns, *tile)
        self.decided = {"BY_COLUMN": by_column, "PADDED": triton.next_power_of_2(self.columns)}
        self.dots, self.alpha = [self._row(), self._row()], [self._row(), self._row()]
        self.start_sums, self.sums = self._row(), self._row()
        self.taken = 0

    def first(self) -> Tensor:
        """The first step, without momentum. Returns ‖LC (F − F_1)‖² for every problem."""
        self.start_product = self._multiply(self.start, self._like())
        self.now = self._like()
        kernels.plain_step[self.grid](
            self.start_product, self.C, self.start, self.now, self.LC, self.start_sums, self.sums,
            self.dots[1], KNOWN=False, **self.size,
        )  # fmt: skip
        mapping = self._per_problem(self.dots[1])
        self.residual = namespace(self.start).sum(
            self.dots[1], axis=-1, dtype=namespace(self.start).float64
        )
        return mapping

    def begin_momentum(self, stops: bool) -> None:
        """Prepare the steps after the first; with `stops` each reports how far it went."""
        self.stops: dict[str, Any] = {"STOPS": False}
        self.stops |= dict.fromkeys(("running", "moved_out", "norms_out"), self.LC)
        if stops:
            self.stops = {"STOPS": True, "moved_out": self._row(), "norms_out": self._row()}
        self.dots[0].fill_(0)
        self.alpha[0].fill_(1)
        # F_0 and P_0 stay, because the safeguard needs them. Later ones are overwritten.
        self.before, self.product_before = self.start, self.start_product
        self.sums_before = self.start_sums
        self.product = self._multiply(self.now, self._like())

    def accelerated(self, running: Tensor | None) -> None:
        """One accelerated step of the problems that are `running` (None: all)."""
        beginning = self.before is self.start
        target = self._like() if beginning else self.before
        sums_out = self._row() if beginning else self.sums_before
        turn = self.taken % 2
        if running is not None:
            self.stops["running"] = running
        if beginning and running is None:  # there is no momentum yet
            kernels.plain_step[self.grid](
                self.product, self.C, self.now, target, self.LC, self.sums, sums_out,
                self.dots[1], KNOWN=True, **self.size,
            )  # fmt: skip
            self.dots[1].fill_(0)
            self.alpha[1].fill_(GOLDEN)
        else:
            kernels.step[self.grid](
                self.product, self.product_before, self.C, self.now, self.before, target, self.LC,
                self.sums, self.sums_before, sums_out, self.dots[turn], self.dots[1 - turn],
                self.alpha[turn], self.alpha[1 - turn], **self.stops, **self.size, **self.decided,
            )  # fmt: skip
        self.taken += 1
        self.before, self.now = self.now, target
        self.sums_before, self.sums = self.sums, sums_out
        room = self._like() if beginning else self.product_before
        self.product_before, self.product = self.product, self._multiply(self.now, room)

    def went(self) -> tuple[Tensor, Tensor]:
        """‖Y − F‖² and ‖F‖² of the last step, for every problem."""
        return (
            self._per_problem(self.stops["moved_out"]),
            self._per_problem(self.stops["norms_out"]),
        )

    def last(self) -> Tensor:
        """A plain step at the end; a problem that ended above its start takes its first step."""
        target = self._like() if self.before is self.start else self.before
        kernels.last_step[self.grid](
            self.product, self.start_product, self.C, self.now, self.start, target, self.LC,
            self.sums, self.start_sums, self.dots[0], **self.size,
        )  # fmt: skip
        kernels.repair[self.grid](
            self.start_product, self.C, self.start, target, self.LC, self.start_sums,
            self.dots[0], **self.size, **self.decided,
        )  # fmt: skip
        return self.shaped(target)

    def shaped(self, result: Tensor) -> Tensor:
        """A factor of the kernels in the shape of F."""
        xp = namespace(result)
        if not self.by_column:
            return xp.reshape(result, self.shape)
        stack, (rows, columns) = self.shape[:-2], self.shape[-2:]
        return xp.reshape(result, (*stack, columns, rows)).mT

    def _multiply(self, factor: Tensor, out: Tensor) -> Tensor:
        left = factor if self.A is None else self.A @ factor
        return namespace(factor).matmul(left, self.B, out=out)

    def _row(self) -> Tensor:
        xp = namespace(self.start)
        return xp.empty((self.runs, self.columns), dtype=self.start.dtype, device=self.start.device)

    def _like(self) -> Tensor:
        return namespace(self.start).empty_like(self.start)

    def _per_problem(self, values: Tensor) -> Tensor:
        """One number per problem, from one per column (runs, columns)."""
        if self.by_column:
            return values[:, None, :]
        xp = namespace(values)
        return scalars(xp.sum(values, axis=-1, dtype=xp.float64), values)
