"""NMF with a bound on the number of nonzeros (Peharz and Pernkopf 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from deepnmf.arrays import (
    Array,
    choose,
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
from deepnmf.models.settings import whole_number
from deepnmf.penalties import Zero
from deepnmf.solvers import Auto, Nesterov
from deepnmf.solvers.quadratic import Quadratic, codes_problem, weights_problem
from deepnmf.solvers.stopping import per_run

ON_SUPPORT = Nesterov(max_steps=30, min_steps=2, tol=1e-3)
"""What solves for the entries that may be nonzero."""


@dataclass(eq=False, repr=False, kw_only=True)
class L0NMF(SingleLayer):
    """½‖X − WH‖², W, H ≥ 0, with at most `nonzeros_H` entries > 0 in every column of H (parts a
    sample is made of) and/or `nonzeros_W` in every column of W (features of a part).

    Codes by reverse sparse nonnegative least squares: from the least squares codes the smallest
    entries are taken away, a few at a time, and the others solved for again, until few enough are
    left; where the codes there were, solved for on their support, are better, they stay. W by
    gradient steps that keep the largest entries of a column, then on the support. So no sweep
    raises the objective.

    Parameters
    ----------
    n_components : int
    nonzeros_H, nonzeros_W : None or int
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    References
    ----------
    R. Peharz, F. Pernkopf, Sparse nonnegative matrix factorization with ℓ0-constraints,
    Neurocomputing 2012.
    """

    name = "l0-nmf"
    purpose = "a limit on the parts per sample, or the features per part"

    nonzeros_H: int | None = 4
    nonzeros_W: int | None = None
    start: Any = "random"
    max_iter: int = 100

    def _sizes(self) -> tuple[int, ...]:
        for name in ("nonzeros_H", "nonzeros_W"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), least=1)
        return super()._sizes()

    def _train(self, X: Array, watch: Watch) -> Trained:
        W, H = self._first(X, watch.generators)
        problem = Bounded(X, self.nonzeros_H, self.nonzeros_W)
        return self._descend(problem, problem.begin(W, H), watch)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        (W,) = weights
        H = nonnegative_least_squares(X, W, Zero())
        if self.nonzeros_H is None:
            return H
        problem = codes_problem(gram(W), transposed_product(W, X), Zero())
        return reverse_sparse(problem, H, self.nonzeros_H)


@dataclass(frozen=True)
class OnSupport(Quadratic):
    """A quadratic over the entries that a mask leaves."""

    mask: Array = field(kw_only=True)

    def project(self, F: Array) -> Array:
        """The nearest feasible point."""
        return positive(F) * self.mask


def on_support(problem: Quadratic, F: Array) -> Array:
    """F solved for where it is > 0."""
    mask = namespace(F).astype(F > 0, F.dtype)
    masked = OnSupport(problem.C, problem.A, problem.B, by_column=problem.by_column, mask=mask)
    return ON_SUPPORT.update(masked, F).F


def largest(F: Array, count: int) -> Array:
    """P(F) with the `count` largest entries of every column, exactly so many at most."""
    xp = namespace(F)
    F = positive(F)
    if count >= F.shape[-2]:
        return F
    order = xp.argsort(F, axis=-2, descending=True, stable=True)
    rank = xp.argsort(order, axis=-2, stable=True)
    return F * xp.astype(rank < count, F.dtype)


def reverse_sparse(problem: Quadratic, H: Array, count: int) -> Array:
    """From codes H to codes with at most `count` entries > 0 a column, by the same cuts for every
    sample, whatever others are beside it."""
    left = H.shape[-2]
    while left > count:
        left -= max(1, (left - count) // 4)
        H = on_support(problem, largest(H, left))
    return largest(H, count)


@dataclass(frozen=True)
class Bounded(LeastSquares):
    """½‖X − WH‖² over factors with few entries > 0."""

    nonzeros_H: int | None
    nonzeros_W: int | None

    def begin(self, W: Array, H: Array) -> State:
        """The start, with the entries that are too many cut off."""
        W = W if self.nonzeros_W is None else largest(W, self.nonzeros_W)
        H = H if self.nonzeros_H is None else largest(H, self.nonzeros_H)
        return State((W,), H, inner(H, 0 * H), add_up(self.X, H), (None, None))

    def sweep(self, state: State) -> State:
        """The codes, then the weights."""
        (W,), memories = state.weights, list(state.memories)
        codes = codes_problem(gram(W), transposed_product(W, self.X), Zero())
        if self.nonzeros_H is None:
            H, memories[0], residual = Auto().update(codes, state.H, memories[0])
        else:
            H, residual = self._coded(codes, state.H)
        residual = residual * inner(state.H, state.H)
        sums = add_up(self.X, H)
        problem = weights_problem(None, sums.S, sums.Q, Zero())
        if self.nonzeros_W is None:
            moved, memories[1], found = Auto().update(problem, W, memories[1])
        else:
            moved, found = W, _mapping(problem, W, self.nonzeros_W)
            for _ in range(5):
                step = problem.gradient(moved) / problem.lipschitz
                moved = largest(moved - step, self.nonzeros_W)
            moved = on_support(problem, moved)
        residual = residual + found * inner(W, W)
        return State((moved,), H, residual, sums, tuple(memories))

    def _coded(self, problem: Quadratic, H: Array) -> tuple[Array, Array]:
        """The better of the old support and a new one, sample by sample."""
        assert self.nonzeros_H is not None
        residual = _mapping(problem, H, self.nonzeros_H)
        dense = Auto().update(problem, H).F
        old, new = on_support(problem, H), reverse_sparse(problem, dense, self.nonzeros_H)
        change = problem.change(old, problem.gradient(old), new, problem.gradient(new))
        return choose(change < 0, new, old), residual


def _mapping(problem: Quadratic, F: Array, count: int) -> Array:
    """‖LC (F − Π(F − ∇/LC))‖² per run."""
    LC = problem.lipschitz
    step = (F - largest(F - problem.gradient(F) / LC, count)) * LC
    return per_run(column_dots(step, step))
