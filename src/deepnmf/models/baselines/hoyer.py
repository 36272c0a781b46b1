"""NMF with a chosen sparseness (Hoyer 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepnmf.arrays import (
    Array,
    at_least,
    column_dots,
    gram,
    inner,
    namespace,
    positive,
    transposed_product,
)
from deepnmf.core.passes import add_up, nonnegative_least_squares
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.models.baselines.base import LeastSquares, SingleLayer, State
from deepnmf.models.settings import number
from deepnmf.penalties import Zero
from deepnmf.solvers import Auto
from deepnmf.solvers.quadratic import Quadratic, codes_problem, weights_problem
from deepnmf.solvers.stopping import per_run

STEPS = 10
"""Projected gradient steps per factor and sweep."""
CODING = 200
"""Steps that `transform` takes from the nonnegative least squares solution."""
HALVINGS = 40


@dataclass(eq=False, repr=False, kw_only=True)
class HoyerNMF(SingleLayer):
    """½‖X − WH‖², W, H ≥ 0, every column w of W (every part) and/or every column h of H (every
    sample's code) of a chosen sparseness

        s(x) = (√n − ‖x‖₁/‖x‖₂)/(√n − 1),    0: all entries equal, 1: one entry.

    A constrained factor takes projected gradient steps F ← Π(F − ∇/LC), Π the nearest point of that
    sparseness; so no step raises the objective. The other one is updated as in `DeepNMF`.

    Parameters
    ----------
    n_components : int
    sparseness_W, sparseness_H : None or float in (0, 1)
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    References
    ----------
    P. O. Hoyer, Non-negative matrix factorization with sparseness constraints, JMLR
    2004; the projection as in M. Thom et al., Efficient dictionary learning with
    sparseness-enforcing projections, IJCV 2015.
    """

    name = "hoyer-nmf"
    purpose = "parts or codes of exactly the sparseness you ask"

    sparseness_W: float | None = 0.7
    sparseness_H: float | None = None
    start: Any = "random"
    max_iter: int = 300

    def _sizes(self) -> tuple[int, ...]:
        for name in ("sparseness_W", "sparseness_H"):
            given = getattr(self, name)
            if given is not None and not 0 < number(name, given) < 1:
                raise ValueError(f"{name}: {given!r} must be None, or between 0 and 1, both out.")
        return super()._sizes()

    def _train(self, X: Array, watch: Watch) -> Trained:
        W, H = self._first(X, watch.generators)
        problem = Constrained(X, self.sparseness_W, self.sparseness_H)
        return self._descend(problem, problem.begin(W, H), watch)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        (W,) = weights
        H = nonnegative_least_squares(X, W, Zero())
        if self.sparseness_H is None:
            return H
        problem = codes_problem(gram(W), transposed_product(W, X), Zero())
        H, _ = sparse_steps(
            problem, with_sparseness(H, self.sparseness_H), self.sparseness_H, CODING
        )
        return H


def sparseness(F: Array) -> Array:
    """s of every column, (1, columns); 0 for a column of zeros."""
    xp = namespace(F)
    root = F.shape[-2] ** 0.5
    tiny = float(xp.finfo(F.dtype).tiny) ** 0.5
    ratio = xp.sum(xp.abs(F), axis=-2, keepdims=True) / at_least(xp.sqrt(column_dots(F, F)), tiny)
    return xp.where(ratio > 0, (root - ratio) / max(root - 1, tiny), 0 * ratio)


def with_sparseness(F: Array, wanted: float) -> Array:
    """The nearest matrix ≥ 0 whose columns have that sparseness.

    It is a multiple of P(x − τ) column by column, τ such that ‖·‖₁/‖·‖₂ is as wanted; that falls as
    τ rises, and τ is found by halving. A column whose nearest point would be 0, which has no
    sparseness, keeps a size that rounding does not see.
    """
    xp = namespace(F)
    rows = F.shape[-2]
    if rows == 1:
        return positive(F)
    ratio = rows**0.5 - wanted * (rows**0.5 - 1)
    high = xp.max(F, axis=-2, keepdims=True)
    spread = at_least(high - xp.min(F, axis=-2, keepdims=True), 1e-30)
    low = high - (1 + 100 / wanted) * spread
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        cut = positive(F - middle)
        total = xp.sum(cut, axis=-2, keepdims=True)
        dense = total * total > ratio * ratio * column_dots(cut, cut)
        low, high = xp.where(dense, middle, low), xp.where(dense, high, middle)
    cut = positive(F - low)
    size = xp.sqrt(column_dots(cut, cut))
    direction = cut / xp.where(size > 0, size, xp.ones_like(size))
    length = positive(column_dots(F, direction))
    least = float(xp.finfo(F.dtype).eps) * xp.max(length, axis=-1, keepdims=True)
    return direction * xp.maximum(length, least)


def sparse_steps(problem: Quadratic, F: Array, wanted: float, steps: int) -> tuple[Array, Array]:
    """F after projected gradient steps, and ‖LC (F − Π(F − ∇/LC))‖² of the F that came in."""
    LC, residual = problem.lipschitz, None
    for _ in range(steps):
        following = with_sparseness(F - problem.gradient(F) / LC, wanted)
        if residual is None:
            step = (F - following) * LC
            residual = per_run(column_dots(step, step))
        F = following
    assert residual is not None
    return F, residual


@dataclass(frozen=True)
class Constrained(LeastSquares):
    """½‖X − WH‖² over factors of given sparseness."""

    sparseness_W: float | None
    sparseness_H: float | None

    def begin(self, W: Array, H: Array) -> State:
        """The start, brought to the sparseness asked for."""
        W = W if self.sparseness_W is None else with_sparseness(W, self.sparseness_W)
        H = H if self.sparseness_H is None else with_sparseness(H, self.sparseness_H)
        return State((W,), H, inner(H, 0 * H), add_up(self.X, H), (None, None))

    def sweep(self, state: State) -> State:
        """The codes, then the weights."""
        (W,), memories = state.weights, list(state.memories)
        codes = codes_problem(gram(W), transposed_product(W, self.X), Zero())
        H, memories[0], found = _update(codes, state.H, self.sparseness_H, memories[0])
        residual = found * inner(state.H, state.H)
        sums = add_up(self.X, H)
        problem = weights_problem(None, sums.S, sums.Q, Zero())
        moved, memories[1], found = _update(problem, W, self.sparseness_W, memories[1])
        residual = residual + found * inner(W, W)
        return State((moved,), H, residual, sums, tuple(memories))


def _update(
    problem: Quadratic, F: Array, wanted: float | None, memory: Any
) -> tuple[Array, Any, Array]:
    if wanted is None:
        return Auto().update(problem, F, memory)
    F, residual = sparse_steps(problem, F, wanted, STEPS)
    return F, None, residual
