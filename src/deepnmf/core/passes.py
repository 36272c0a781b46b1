"""Passes over the samples.

Given the weights, the code of a sample depends on that sample alone; given the codes, the weights
need only sums over samples. So a pass is one function of a block of samples, and what leaves it
is small: S = H Hᵀ and Q = X Hᵀ. A pass touches X twice, for ΨᵀX and for Q.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from deepnmf.arrays import (
    Array,
    epsilon,
    gram,
    in_order,
    is_blocked,
    is_numpy,
    product_transposed,
    transposed_product,
)
from deepnmf.arrays.blocks import ToStore, lazy, parts
from deepnmf.penalties import Penalty
from deepnmf.solvers import Coordinate, Nesterov, Solver
from deepnmf.solvers.quadratic import codes_problem
from deepnmf.starts import empty_codes


class Sums(NamedTuple):
    """What the weights need to know about all samples: S = H Hᵀ and Q = X Hᵀ."""

    S: Array
    Q: Array
    """None where it is not needed any more."""

    def rescaled(self, scale: Array) -> Sums:
        """The sums for diag(c) H, from those for H; `scale` is c as (…, k, 1)."""
        return Sums(scale * self.S * scale.mT, self.Q * scale.mT)


def add_up(X: Array, H: Array) -> Sums:
    """The sums for given codes."""
    if is_blocked(X):
        return Sums(*X.layout.sweep(sums=parts(_both_sums, 2, X, H)).sums)
    return Sums(gram(H.mT), product_transposed(X, H))


class Coded(NamedTuple):
    """Codes after a pass, the sums for them, the solver's memory and KKT residual."""

    H: Array
    sums: Sums
    memory: Any
    residual: Array


def update_codes(
    X: Array,
    H: Array,
    basis: Array,
    basis_gram: Array,
    penalty: Penalty,
    solver: Solver,
    memory: Any,
) -> Coded:
    """Lower ½‖X − ΨH‖² + R(H) from the codes there are, then add up."""
    if is_blocked(X):
        nodes = parts(_updated, 5, X, H, basis, basis_gram, penalty, solver, memory)
        anew = lazy(nonnegative_least_squares, X, basis, penalty).node
        codes = ToStore(nodes[0], basis.shape[-1], X.dtype, anew)
        found = X.layout.sweep([codes], sums=nodes[2:], collect=nodes[1:2])
        residual, S, Q = found.sums
        return Coded(found.stored[0], Sums(S, Q), found.collected[0], residual)
    problem = codes_problem(basis_gram, transposed_product(basis, X), penalty)
    H, memory, residual = solver.update(problem, H, memory)
    del problem
    return Coded(H, add_up(X, H), memory, residual)


def _both_sums(X: Array, H: Array) -> tuple[Array, Array]:
    """The sums of a block."""
    return tuple(add_up(X, H))  # type: ignore[return-value]


def _updated(
    X: Array,
    H: Array,
    basis: Array,
    basis_gram: Array,
    penalty: Penalty,
    solver: Solver,
    memory: Any,
) -> tuple[Array, Any, Array, Array, Array]:
    """`update_codes` of a block, as what is stored, collected and summed."""
    coded = update_codes(X, H, basis, basis_gram, penalty, solver, memory)
    # Row by row, as they are kept in files: products round by how their factors lie.
    return in_order(coded.H), coded.memory, coded.residual, coded.sums.S, coded.sums.Q


def nonnegative_least_squares(X: Array, basis: Array, penalty: Penalty) -> Array:
    """argmin_{H ≥ 0} ½‖X − ΨH‖² + R(H). Convex: solved until rounding is in sight."""
    return least_squares(X, basis, penalty, _encoder(X))


def _encoder(X: Array) -> Solver:
    """What finds codes to the end with the weights frozen."""
    double = epsilon(X) < 1e-10
    if is_numpy(X):
        return Coordinate(max_passes=2000, tol=1e-20 if double else 1e-12)
    return Nesterov(max_steps=2000, tol=1e-7 if double else 1e-5)


def least_squares(X: Array, basis: Array, penalty: Penalty, solver: Solver) -> Array:
    """argmin_{H ≥ 0} ½‖X − ΨH‖² + R(H), from H = 0."""
    problem = codes_problem(gram(basis), transposed_product(basis, X), penalty)
    return solver.update(problem, empty_codes(X, basis.shape[-1])).F
