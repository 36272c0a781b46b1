"""Block coordinate descent on the CPU: exact minima of one coordinate, or one column, at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal, NamedTuple, cast

import numpy as np

from deepnmf.arrays import Array, in_order, is_numpy, matmul
from deepnmf.arrays.cpu.threads import share
from deepnmf.penalties import Penalty
from deepnmf.solvers.base import Outcome, Solver, SolverMemory, is_between, is_whole, require
from deepnmf.solvers.nesterov import Nesterov
from deepnmf.solvers.quadratic import Quadratic

GROUP = 64
"""Rows in a group: within it the kernel updates the gradient, between groups a matrix product."""
ROUND = 8
"""Passes after which finished columns are removed from the work."""
INNER = 2
"""Passes over a column of W_l, l ≥ 2, before the next column."""


class Work(NamedTuple):
    """How many passes an update took, on average over the columns of the factor."""

    passes: float


class Solved(NamedTuple):
    """The factor of one run, its KKT residual before the update, and the passes it took."""

    F: np.ndarray
    residual: float
    passes: float


@dataclass(frozen=True)
class Coordinate(Solver):
    """F_ij ← max(0, F_ij − ∇q(F)_ij / A_ii B_jj), one coordinate after another, always with the
    current gradient; no update raises q.

    - Codes: several passes over each sample while the Gram matrix is in cache.
    - W_1 without a penalty: the same, feature by feature.
    - W_1 with a penalty on its columns, or with columns in the unit ball: each column in turn is
      set to its exact minimum.
    - W_l, l ≥ 2: column by column, coordinate by coordinate, at a cost independent of m and n.
    - Other problems (W_l, l ≥ 2, in the unit ball; penalties on W that are not μ **11**ᵀ + λ I)
      are solved by Nesterov's method.

    A problem stops when a pass gains at most `tol` times the gain of its first pass (Gillis and
    Glineur's rule), or after `max_passes`. For NumPy arrays only; numba compiles the passes.
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
            'tensors and device="cuda", or "auto", which chooses the one that fits.'
        )

    def extrapolates(self, X: Array, *, linear: bool) -> bool:
        del X, linear
        return True

    def rescales(self, X: Array) -> bool:
        """From a start that is far too large, the first coordinates would explain everything and
        the others become zero, under a penalty for good."""
        del X
        return True

    def update(self, problem: Quadratic, F: Array, memory: SolverMemory = None) -> Outcome:
        stack = F.shape[:-2]
        solve = self._method(problem.run((0,) * len(stack)) if stack else problem)
        if solve is None:
            return Nesterov(max_steps=max(10, self.max_passes)).update(problem, F, memory)
        if F.ndim == 2:
            solved = solve(problem, np.asarray(F))
            return Outcome(solved.F, Work(solved.passes), np.asarray(solved.residual))
        runs = [solve(problem.run(index), F[index]) for index in np.ndindex(stack)]
        return Outcome(
            np.stack([run.F for run in runs]).reshape(F.shape),
            Work(float(np.mean([run.passes for run in runs]))),
            np.asarray([run.residual for run in runs]).reshape(stack),
        )

    def _method(self, problem: Quadratic) -> Callable[[Quadratic, np.ndarray], Solved] | None:
        """The method for a problem, None if there is none here."""
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
        """W_1 without a penalty that couples its rows: the columns of Wᵀ are like codes."""
        ridge = _strengths(problem)[1] * np.eye(W.shape[1], dtype=W.dtype)
        F, residual, passes = self._independent(_matrix(problem.B) + ridge, problem.C.T, W.T)
        return Solved(F.T, residual, passes)

    def _independent(self, A: np.ndarray, C: np.ndarray, H: np.ndarray) -> Solved:
        """Independent columns, each with ½ hᵀA h − cᵀh. The result has the memory order of C."""
        order: Literal["C", "F"] = "F" if C.flags.f_contiguous and not C.flags.c_contiguous else "C"
        C, H = np.asarray(C, H.dtype, order=order), np.array(H, order=order)
        k, n = H.shape
        size = -(-k // 4) * 4
        padded = np.zeros((size, size), H.dtype)
        padded[:k, :k] = A
        diagonal = np.diag(_without_noise(padded))
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
            else:  # Copy the unfinished columns side by side.
                open_H = np.asarray(H[:, running], order=order)
                open_C = np.asarray(C[:, running], order=order)
                open_state = state[:, running]
                total += _passes(padded, inverse, open_C, open_H, open_state, passes, self.tol)
                H[:, running], state[:, running] = open_H, open_state
            running = np.flatnonzero(state[1] > 0)
        return Solved(H, float(np.sum(state[2], dtype=np.float64)), total / n)

    def _coupled(self, problem: Quadratic, W: np.ndarray) -> Solved:
        """W_1 column by column, as the rows of Wᵀ, with one matrix product per group."""
        F, C, B = (
            np.array(W.T, order="C"),
            in_order(problem.C.T),
            _without_noise(_matrix(problem.B)),
        )
        mu = F.dtype.type(_strengths(problem)[0])
        D = np.empty((min(GROUP, len(F)), F.shape[1]), F.dtype)

        def step(group: slice) -> tuple[float, float]:
            G = matmul(B[group], F)
            return kernels().coupled_rows(
                _matrix(B[group, group]), G, C[group], F[group], D, mu, problem.unit_columns
            )

        return self._grouped(F, step, self.max_passes)

    def _two_sided(self, problem: Quadratic, W: np.ndarray) -> Solved:
        """W_l, l ≥ 2, column by column, as the rows of Wᵀ."""
        F, C = np.array(W.T, order="C"), problem.C.T
        A, B = _without_noise(_matrix(problem.A)), _without_noise(_matrix(problem.B))
        mu, lam = (F.dtype.type(strength) for strength in _strengths(problem))
        AD = np.empty((min(GROUP, len(F)), F.shape[1]), F.dtype)

        def step(group: slice) -> tuple[float, float]:
            G = matmul(B[group] @ F, A)
            G -= C[group]
            return kernels().two_sided_columns(
                A, _matrix(B[group, group]), G, F[group], AD, mu, lam, INNER
            )

        # A quarter of the passes: they cannot use all cores, and the codes follow.
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
            gains, mappings = zip(*(step(group) for group in groups), strict=True)
            gained = sum(gains)
            if done == 1:
                first, residual = gained, sum(mappings)
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


def _without_noise(A: np.ndarray) -> np.ndarray:
    """A with diagonal entries below rounding set to 0: dividing by them would amplify noise."""
    diagonal = np.diag(A)
    floor = np.finfo(A.dtype).eps ** 2 * np.max(diagonal, initial=0)
    if not np.any((diagonal > 0) & (diagonal <= floor)):
        return A
    return A - np.diag(np.where(diagonal <= floor, diagonal, 0))


def _matrix(A: Array | None) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(A))
