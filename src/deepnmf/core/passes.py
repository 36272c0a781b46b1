"""Passes over the samples.

Given the weights, the code of a sample depends on that sample alone; given the codes, the weights
need only sums over samples. So a pass is one function of a block of samples, and its results are
small: S = H Hᵀ and Q = X Hᵀ. A pass reads X twice, for ΨᵀX and for Q.
"""

from __future__ import annotations

from typing import NamedTuple

from deepnmf.arrays import (
    Array,
    Recipe,
    epsilon,
    gram,
    is_numpy,
    pass_over,
    product_transposed,
    sums_over_samples,
    transposed_product,
)
from deepnmf.core.graph import Pull
from deepnmf.penalties import Penalty
from deepnmf.solvers import Coordinate, Nesterov, Solver
from deepnmf.solvers.base import SolverMemory
from deepnmf.solvers.quadratic import codes_problem
from deepnmf.starts import empty_codes


class Sums(NamedTuple):
    """All that the weights need to know about the samples: S = H Hᵀ and Q = X Hᵀ."""

    S: Array
    Q: Array
    """Empty, (…, 0, k), when it is no longer needed."""

    def rescaled(self, scale: Array) -> Sums:
        """The sums for diag(c) H, from those for H; `scale` is c as (…, k, 1)."""
        return Sums(scale * self.S * scale.mT, self.Q * scale.mT)


def add_up(X: Array, H: Array) -> Sums:
    """The sums for given codes."""
    return Sums(*sums_over_samples(_both_sums, 2, X, H))


def _both_sums(X: Array, H: Array) -> tuple[Array, Array]:
    return gram(H.mT), product_transposed(X, H)


class Coded(NamedTuple):
    """Codes after a pass, their sums, and the solver's memory and KKT residual."""

    H: Array
    sums: Sums
    memory: SolverMemory
    residual: Array


def update_codes(
    X: Array,
    H: Array,
    basis: Array,
    basis_gram: Array,
    penalty: Penalty,
    solver: Solver,
    memory: SolverMemory,
    pull: Pull | None = None,
) -> Coded:
    """Lower ½‖X − ΨH‖² + R(H) from the current codes, then add up."""
    passed = pass_over(
        _updated, X, H, basis, basis_gram, penalty, solver, memory, pull,
        rows=basis.shape[-1], sums=3, recipe=Recipe(nonnegative_least_squares, (X, basis, penalty)),
    )  # fmt: skip
    residual, S, Q = passed.sums
    return Coded(passed.stored, Sums(S, Q), passed.collected, residual)


def _updated(
    X: Array,
    H: Array,
    basis: Array,
    basis_gram: Array,
    penalty: Penalty,
    solver: Solver,
    memory: SolverMemory,
    pull: Pull | None,
) -> tuple[Array, SolverMemory, Array, Array, Array]:
    """New codes of a block, the solver's memory of them, and three sums over samples."""
    problem = codes_problem(basis_gram, transposed_product(basis, X), penalty)
    problem = problem if pull is None else pull.on(problem)
    H, memory, residual = solver.update(problem, H, memory)
    del problem
    return H, memory, residual, *_both_sums(X, H)


def nonnegative_least_squares(
    X: Array, basis: Array, penalty: Penalty, pull: Pull | None = None
) -> Array:
    """argmin_{H ≥ 0} ½‖X − ΨH‖² + R(H). Convex: solved up to rounding."""
    return least_squares(X, basis, penalty, exact_solver(X), pull)


def exact_solver(X: Array) -> Solver:
    """The solver that computes codes up to rounding, with the weights frozen."""
    double = epsilon(X) < 1e-10
    if is_numpy(X):
        return Coordinate(max_passes=2000, tol=1e-20 if double else 1e-12)
    return Nesterov(max_steps=2000, tol=1e-7 if double else 1e-5)


def least_squares(
    X: Array, basis: Array, penalty: Penalty, solver: Solver, pull: Pull | None = None
) -> Array:
    """argmin_{H ≥ 0} ½‖X − ΨH‖² + R(H), from H = 0."""
    problem = codes_problem(gram(basis), transposed_product(basis, X), penalty)
    problem = problem if pull is None else pull.on(problem)
    return solver.update(problem, empty_codes(X, basis.shape[-1])).F
