"""NMF with a chosen sparseness (Hoyer 2004)."""

from __future__ import annotations

from dataclasses import dataclass

from deepnmf.arrays import Array, at_least, column_dots, namespace, positive, to_device
from deepnmf.models.baselines.constrained import ConstrainedNMF, Constraint, residual
from deepnmf.models.settings import number
from deepnmf.solvers.quadratic import Quadratic
from deepnmf.starts import Given, Start

STEPS = 10
"""Projected gradient steps per factor and sweep."""
CODING = 200
"""Steps that `transform` takes from the nonnegative least squares solution."""
HALVINGS = 40
TIED = 1e-4
"""By how much the ratio of norms may be off. If it is more, equal entries are the cause."""


@dataclass(eq=False, repr=False, kw_only=True)
class HoyerNMF(ConstrainedNMF):
    """NMF whose parts, codes or both have exactly the sparseness you choose.

    Minimises ½‖X − WH‖² over W, H ≥ 0. Every column of W (a part), of H (the code of a sample) or
    of both has the sparseness

        s(x) = (√n − ‖x‖₁/‖x‖₂)/(√n − 1),    0: all entries equal, 1: a single nonzero entry.

    A constrained factor takes projected gradient steps F ← Π(F − ∇/LC), where Π is the nearest
    point of that sparseness. The other factor is updated as in `DeepNMF`. No step raises the
    objective.

    Parameters
    ----------
    n_components : int, default=16
        The number of parts, k.
    sparseness_W : None or float in (0, 1), default=0.7
        The sparseness of every part; None leaves the parts free.
    sparseness_H : None or float in (0, 1), default=None
        The sparseness of every sample's code; None leaves the codes free.
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
    start: str | Start | Given = "random"
    max_iter: int = 300

    def _sizes(self) -> tuple[int, ...]:
        for name in ("sparseness_W", "sparseness_H"):
            value = getattr(self, name)
            if value is not None and not 0 < number(name, value) < 1:
                raise ValueError(f"{name}: {value!r} must be None, or strictly between 0 and 1.")
        return super()._sizes()

    def _constraints(self) -> tuple[Sparseness | None, Sparseness | None]:
        on_W, on_H = (
            None if value is None else Sparseness(value)
            for value in (self.sparseness_W, self.sparseness_H)
        )
        return on_W, on_H


@dataclass(frozen=True)
class Sparseness(Constraint):
    """s(f) = value for every column f."""

    value: float

    def nearest(self, F: Array) -> Array:
        return with_sparseness(F, self.value)

    def update(self, problem: Quadratic, F: Array) -> tuple[Array, Array]:
        stepped = self.step(problem, F)
        distance = residual(problem, F, stepped)
        for _ in range(STEPS - 1):
            stepped = self.step(problem, stepped)
        return stepped, distance

    def encode(self, problem: Quadratic, H: Array) -> Array:
        H = self.nearest(H)
        for _ in range(CODING):
            H = self.step(problem, H)
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

    Column by column it is a multiple of max(x − τ, 0), with τ such that ‖·‖₁/‖·‖₂ is right. That
    ratio falls as τ rises, so bisection finds τ. If the largest entries of a column are equal, they
    can be too many for any τ. All ways to share among them are then equally near, and earlier
    entries get more. The nearest point of some columns would be 0, which has no sparseness: they
    keep a length that is lost in rounding.
    """
    xp = namespace(F)
    rows = F.shape[-2]
    if rows == 1:
        return positive(F)
    ratio = rows**0.5 - wanted * (rows**0.5 - 1)
    cut = _cut(F, ratio, 100 / wanted)
    dense = _ratios(cut) > (1 + TIED) * ratio
    if bool(xp.any(dense)):
        ramp = xp.astype(xp.arange(rows, 0, -1), F.dtype) / rows
        ramp = xp.where(cut > 0, to_device(ramp, F)[:, None], xp.zeros_like(F))
        cut = xp.where(dense, _cut(ramp, ratio, 100 / wanted), cut)
    size = xp.sqrt(column_dots(cut, cut))
    direction = cut / xp.where(size > 0, size, xp.ones_like(size))
    length = positive(column_dots(F, direction))
    least = float(xp.finfo(F.dtype).eps) * xp.max(length, axis=-1, keepdims=True)
    return direction * xp.maximum(length, least)


def _cut(F: Array, ratio: float, reach: float) -> Array:
    """max(x − τ, 0) of every column, with the largest τ for which ‖·‖₁/‖·‖₂ is at least `ratio`."""
    xp = namespace(F)
    high = xp.max(F, axis=-2, keepdims=True)
    sizes = xp.max(xp.abs(F), axis=-2, keepdims=True)
    least = xp.maximum(
        float(xp.finfo(F.dtype).eps) * sizes, 1e-30 * xp.max(sizes, axis=-1, keepdims=True)
    )
    spread = xp.maximum(high - xp.min(F, axis=-2, keepdims=True), least)
    low = high - (1 + reach) * spread
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        dense = _ratios(positive(F - middle)) > ratio
        low, high = xp.where(dense, middle, low), xp.where(dense, high, middle)
    return positive(F - low)


def _ratios(F: Array) -> Array:
    """‖x‖₁/‖x‖₂ of every column x ≥ 0; 0 for a column of zeros."""
    xp = namespace(F)
    size = xp.sqrt(column_dots(F, F))
    return xp.sum(F, axis=-2, keepdims=True) / xp.where(size > 0, size, xp.ones_like(size))
