"""Block coordinate descent on the CPU: exact minima of one coordinate, or one column, at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from deepnmf.arrays import Array, in_order, is_numpy
from deepnmf.arrays.cpu.threads import share
from deepnmf.penalties import Penalty
from deepnmf.solvers.base import Outcome, Solver, is_between, is_whole, require
from deepnmf.solvers.nesterov import Nesterov
from deepnmf.solvers.quadratic import Quadratic

GROUP = 64
"""Rows between which the gradient is kept up to date by hand; groups meet in matrix products."""


ROUND = 8
"""Passes after which the columns that are done make room for the others."""
INNER = 2
"""Passes over a column of W_l, l ≥ 2, before the next."""


class Work(NamedTuple):
    """What an update did: passes over the factor, on average over its columns."""

    passes: float


class Solved(NamedTuple):
    """One run's factor, its KKT residual as it came in, and the passes it had."""

    F: np.ndarray
    residual: float
    passes: float


@dataclass(frozen=True)
class Coordinate(Solver):
    """F_ij ← max(0, F_ij − ∇q(F)_ij / A_ii B_jj), coordinate after coordinate, with the gradient
    of what has moved so far; no update raises q.

    Codes: several passes over the samples while the Gram matrix is in cache. W_1 without penalty:
    the same, feature by feature. Under the penalty on its columns, or with columns in the unit
    ball: column by column, each at its exact minimum. W_l, l ≥ 2: column by column, coordinate by
    coordinate, at a cost free of m and n. What none of this covers (W_l, l ≥ 2, in the unit ball;
    penalties on W that are not μ **11**ᵀ + λ I) is left to Nesterov's method.

    A problem stops when a pass gains at most `tol` times what its first pass gained (Gillis and
    Glineur's rule), or after `max_passes`. NumPy arrays only; numba compiles the passes.
    """

    max_passes: int = 8
    tol: float = 0.01

    def __post_init__(self) -> None:
        require(self, "max_passes", is_whole(self.max_passes), "a whole number ≥ 1")
        require(self, "tol", is_between(self.tol, 0, 1), "a number ≥ 0 and < 1")

    def refusal(self, X: Array, penalties: Sequence[Penalty]) -> str | None:
        del penalties
        if is_numpy(X):
            return None
        return (
            'solver="coordinate" works on NumPy arrays on the CPU: use solver="nesterov" for '
            'tensors and device="cuda", or "auto", which takes the one that fits.'
        )

    def extrapolates(self, X: Array) -> bool:
        del X
        return True

    def rescales(self, X: Array) -> bool:
        """From a start that is far too large the first coordinates would explain everything, and
        the others end at zero, under a penalty for good."""
        del X
        return True

    def update(self, problem: Quadratic, F: Array, memory: Any = None) -> Outcome:
        solve = self._method(problem)
        if solve is None:
            return Nesterov(max_steps=max(10, self.max_passes)).update(problem, F, memory)
        if F.ndim == 2:
            solved = solve(problem, np.asarray(F))
            return Outcome(solved.F, Work(solved.passes), np.asarray(solved.residual))
        stack = F.shape[:-2]
        runs = [solve(problem.run(index), F[index]) for index in np.ndindex(stack)]
        return Outcome(
            np.stack([run.F for run in runs]).reshape(F.shape),
            Work(float(np.mean([run.passes for run in runs]))),
            np.asarray([run.residual for run in runs]).reshape(stack),
        )

    def _method(self, problem: Quadratic) -> Callable[[Quadratic, np.ndarray], Solved] | None:
        """How this problem is solved, None where it is not."""
        if problem.B is None:
            return self._codes
        unit, strengths = problem.unit_columns, problem.penalty.uniform
        if strengths is None or (unit and (problem.A is not None or problem.penalty.active)):
            return None
        if problem.A is not None:
            return self._two_sided
        return self._coupled if unit or strengths[0] > 0 else self._rows

    def _codes(self, problem: Quadratic, H: np.ndarray) -> Solved:
        K = problem.penalty.gradient(np.eye(H.shape[0], dtype=H.dtype))
        return self._independent(_matrix(problem.A) + K, np.asarray(problem.C), H)

    def _rows(self, problem: Quadratic, W: np.ndarray) -> Solved:
        """W_1 without a penalty that ties its rows together: Wᵀ has columns like codes."""
        ridge = _strengths(problem)[1] * np.eye(W.shape[1], dtype=W.dtype)
        F, residual, passes = self._independent(_matrix(problem.B) + ridge, problem.C.T, W.T)
        return Solved(F.T, residual, passes)

    def _independent(self, A: np.ndarray, C: np.ndarray, H: np.ndarray) -> Solved:
        """Columns that are problems of their own: ½ hᵀA h − cᵀh each. What is found lies in
        memory as C does: row by row or column by column."""
        order: Literal["C", "F"] = "F" if C.flags.f_contiguous and not C.flags.c_contiguous else "C"
        C, H = np.asarray(C, H.dtype, order=order), np.array(H, order=order)
        k, n = H.shape
        size = -(-k // 4) * 4
        padded = np.zeros((size, size), H.dtype)
        padded[:k, :k] = A
        diagonal = np.diag(_known(padded))
        inverse = np.divide(1, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        state = np.zeros((3, n), H.dtype)
        state[0], state[1] = -1, 1
        running, total = np.arange(n), 0
        for begun in range(0, self.max_passes, ROUND):
            if not len(running):
                break
            passes = min(ROUND, self.max_passes - begun)
            if len(running) == n:
                total += _passes(padded, inverse, C, H, state, passes, self.tol)
            else:  # Only the columns that are not done go on, side by side.
                part = np.asarray(H[:, running], order=order)
                aims = np.asarray(C[:, running], order=order)
                part_state = state[:, running]
                total += _passes(padded, inverse, aims, part, part_state, passes, self.tol)
                H[:, running], state[:, running] = part, part_state
            running = np.flatnonzero(state[1] > 0)
        return Solved(H, float(np.sum(state[2], dtype=np.float64)), total / n)

    def _coupled(self, problem: Quadratic, W: np.ndarray) -> Solved:
        """W_1 column by column, as the rows of Wᵀ; groups of them share a matrix product."""
        F, C, B = np.array(W.T, order="C"), in_order(problem.C.T), _known(_matrix(problem.B))
        mu = F.dtype.type(_strengths(problem)[0])
        D = np.empty((min(GROUP, len(F)), F.shape[1]), F.dtype)

        def step(group: slice) -> tuple[float, float]:
            G = B[group] @ F
            return kernels().coupled_rows(
                _matrix(B[group, group]), G, C[group], F[group], D, mu, problem.unit_columns
            )

        return self._grouped(F, step, self.max_passes)

    def _two_sided(self, problem: Quadratic, W: np.ndarray) -> Solved:
        """W_l, l ≥ 2, column by column, as the rows of Wᵀ."""
        F, C = np.array(W.T, order="C"), problem.C.T
        A, B = _known(_matrix(problem.A)), _known(_matrix(problem.B))
        mu, lam = (F.dtype.type(strength) for strength in _strengths(problem))
        AD = np.empty((min(GROUP, len(F)), F.shape[1]), F.dtype)

        def step(group: slice) -> tuple[float, float]:
            G = (B[group] @ F) @ A
            G -= C[group]
            return kernels().two_sided_columns(
                A, _matrix(B[group, group]), G, F[group], AD, mu, lam, INNER
            )

        # A quarter of the passes: they do not fill the machine, and the codes come after them.
        return self._grouped(F, step, max(1, self.max_passes // 4))

    def _grouped(
        self, F: np.ndarray, step: Callable[[slice], tuple[float, float]], max_passes: int
    ) -> Solved:
        """Passes over the groups of rows of F, which `step` changes in place."""
        residual = first = 0.0
        done = 0
        while done < max_passes:
            done += 1
            groups = [slice(low, low + GROUP) for low in range(0, len(F), GROUP)]
            found = [step(group) for group in groups]
            gained = sum(gain for gain, _ in found)
            if done == 1:
                first, residual = gained, sum(moved for _, moved in found)
            if gained <= self.tol * first:
                break
        return Solved(F.T, residual, float(done))


def kernels() -> ModuleType:
    """The compiled kernels. Numba is imported when a fit needs them."""
    from deepnmf.arrays.cpu import kernels

    return kernels


def _passes(
    A: np.ndarray,
    inverse: np.ndarray,
    C: np.ndarray,
    H: np.ndarray,
    state: np.ndarray,
    passes: int,
    tol: float,
) -> int:
    """`code_passes` over all columns, shared among the threads."""
    k, n = H.shape
    lanes, code_passes = kernels().LANES, kernels().code_passes
    by_sample = not H.flags.c_contiguous
    C, H = (C.T, H.T) if by_sample else (C, H)

    def work(begin: int, end: int) -> int:
        return code_passes(A, inverse, C, H, by_sample, state, (begin, end, passes, tol))

    return sum(share(work, -(-n // lanes), 2.0 * passes * k * k * n))


def _strengths(problem: Quadratic) -> tuple[float, float]:
    return cast("tuple[float, float]", problem.penalty.uniform)


def _known(A: np.ndarray) -> np.ndarray:
    """A, with 0 for the diagonal entries that rounding leaves no word about: a coordinate that so
    little depends on would be the quotient of two rounding errors, of any size."""
    diagonal = np.diag(A)
    floor = np.finfo(A.dtype).eps ** 2 * np.max(diagonal, initial=0)
    if not np.any((diagonal > 0) & (diagonal <= floor)):
        return A
    return A - np.diag(np.where(diagonal <= floor, diagonal, 0))


def _matrix(A: Array | None) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(A))
