"""NMF with a bound on the number of nonzeros (Peharz and Pernkopf 2012)."""

from __future__ import annotations

from dataclasses import dataclass, field

from deepnmf.arrays import Array, choose, namespace, positive
from deepnmf.models.baselines.constrained import ConstrainedNMF, Constraint, residual
from deepnmf.models.settings import whole_number
from deepnmf.solvers import Auto, Nesterov
from deepnmf.solvers.quadratic import Quadratic
from deepnmf.starts import Given, Start

ON_SUPPORT = Nesterov(max_steps=30, min_steps=2, tol=1e-3)
"""Solves for the entries that may be nonzero."""


@dataclass(eq=False, repr=False, kw_only=True)
class L0NMF(ConstrainedNMF):
    """NMF with a limit on the parts per sample, on the features per part, or on both.

    Minimises ½‖X − WH‖² over W, H ≥ 0. Every column of H (the code of a sample) has at most
    `nonzeros_H` entries > 0, every column of W (a part) at most `nonzeros_W`.

    Codes are found by reverse sparse nonnegative least squares: starting from the least squares
    codes, drop a few of the smallest entries, solve for the others again, and repeat until few
    enough are left. A sample keeps its previous nonzeros where, solved for again, they fit better.
    W takes gradient steps that keep the largest entries of each column, and is then solved for on
    its nonzeros. No sweep raises the objective.

    Parameters
    ----------
    n_components : int, default=16
        The number of parts, k.
    nonzeros_H : None or int, default=4
        The most parts that a sample is made of; None sets no limit.
    nonzeros_W : None or int, default=None
        The most features that a part has; None sets no limit.
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
    start: str | Start | Given = "random"
    max_iter: int = 100

    def _sizes(self) -> tuple[int, ...]:
        for name in ("nonzeros_H", "nonzeros_W"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), least=1)
        return super()._sizes()

    def _constraints(self) -> tuple[FewNonzeros | None, FewNonzeros | None]:
        on_W, on_H = (
            None if count is None else FewNonzeros(count)
            for count in (self.nonzeros_W, self.nonzeros_H)
        )
        return on_W, on_H


@dataclass(frozen=True)
class FewNonzeros(Constraint):
    """At most `count` entries > 0 in every column."""

    count: int

    def nearest(self, F: Array) -> Array:
        return largest(F, self.count)

    def update(self, problem: Quadratic, F: Array) -> tuple[Array, Array]:
        distance = residual(problem, F, self.step(problem, F))
        if problem.by_column:
            return self._codes(problem, F), distance
        for _ in range(5):
            F = self.step(problem, F)
        return on_support(problem, F), distance

    def encode(self, problem: Quadratic, H: Array) -> Array:
        """Reverse sparse least squares, with the same cuts for every sample."""
        left = H.shape[-2]
        while left > self.count:
            left -= max(1, (left - self.count) // 4)
            H = on_support(problem, largest(H, left))
        return largest(H, self.count)

    def _codes(self, problem: Quadratic, H: Array) -> Array:
        """The better of the old nonzeros and new ones, sample by sample."""
        old = on_support(problem, H)
        new = self.encode(problem, Auto().update(problem, H).F)
        change = problem.change(old, problem.gradient(old), new, problem.gradient(new))
        return choose(change < 0, new, old)


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
    """max(F, 0) with only the `count` largest entries of every column; ties are broken."""
    xp = namespace(F)
    F = positive(F)
    if count >= F.shape[-2]:
        return F
    order = xp.argsort(F, axis=-2, descending=True, stable=True)
    rank = xp.argsort(order, axis=-2, stable=True)
    return F * xp.astype(rank < count, F.dtype)
