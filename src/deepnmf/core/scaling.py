"""The scale of the factors, which the paper's objective leaves open.

W → W D⁻¹, H → D H changes no product, so a factor without a penalty can take the scale of a
penalised one, and the penalty fades during training. `Scaling` says which factors have a fixed
scale; with none the objective is the paper's as printed.

The fixed mode is a descent method on a well-posed objective:

- weights W_l without a penalty: columns in the unit ball during their update, then of unit norm
  (the scale moves up to the codes, whose penalty falls or is none);
- codes without a penalty, with a penalised W_L: rows of unit RMS. The cost of a larger H once W_L
  takes its scale, ½ Σ_j rms(h_j)² · 2R(w_j), is a ridge on the rows of H during their update, so
  that rescaling afterwards does not change the objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deepnmf.arrays import Array, column_dots, divisor, namespace
from deepnmf.core.passes import Sums
from deepnmf.penalties import Penalty, RowRidge

FAR = 1e12
"""The ratio of the largest code to the largest weight, or the reverse, that `balanced` ends."""


@dataclass(frozen=True)
class Scaling:
    """Which weights have unit columns, and whether the codes have rows of unit RMS."""

    unit_columns: tuple[bool, ...]
    unit_rows: bool
    degree: float = 1.0
    """Of the link: rows of W_{l+1} times c^(1/degree) undo columns of W_l times 1/c."""

    @classmethod
    def paper(cls, layers: int) -> Scaling:
        """Nothing fixed."""
        return cls((False,) * layers, False)

    @classmethod
    def fixed(
        cls, penalties_W: Sequence[Penalty], codes_cost: bool, degree: float | None = 1.0
    ) -> Scaling:
        """The scale fixed on every side without a penalty; `codes_cost`: the codes have one.

        With a link that is not a power (`degree` None), only W_L and H_L can exchange scale.
        """
        last = len(penalties_W) - 1
        return cls(
            unit_columns=tuple(
                not penalty.active and (layer == last or degree is not None)
                for layer, penalty in enumerate(penalties_W)
            ),
            unit_rows=penalties_W[-1].active and not codes_cost,
            degree=degree or 1.0,
        )

    def codes_penalty(
        self, penalty_H: Penalty, penalty_top: Penalty, W_top: Array, n: int
    ) -> Penalty:
        """The penalty that the update of the codes sees."""
        if not self.unit_rows:
            return penalty_H
        return RowRidge(2 * penalty_top.columns(W_top).mT / n)

    def fix_weights(
        self, weights: Sequence[Array], H: Array, sums: Sums | None
    ) -> tuple[tuple[Array, ...], Array, Sums | None]:
        """Unit columns if asked. A layer passes its scale to the next, W_L to the codes."""
        if not any(self.unit_columns):
            return tuple(weights), H, sums
        fixed: list[Array] = []
        scale = None
        for W, unit in zip(weights, self.unit_columns, strict=True):
            W = W if scale is None else scale ** (1 / self.degree) * W
            scale = _roots(column_dots(W, W)).mT if unit else None
            fixed.append(W if scale is None else W / scale.mT)
        if scale is not None:
            H = scale * H
            sums = None if sums is None else sums.rescaled(scale)
        return tuple(fixed), H, sums

    def fix_codes(
        self, weights: Sequence[Array], H: Array, sums: Sums
    ) -> tuple[tuple[Array, ...], Array, Sums]:
        """Rows of H of unit RMS if asked; W_L takes the scale."""
        if not self.unit_rows:
            return tuple(weights), H, sums
        rms = _roots(namespace(H).linalg.diagonal(sums.S)[..., :, None] / H.shape[-1])
        return (*weights[:-1], weights[-1] * rms.mT), H / rms, sums.rescaled(1 / rms)

    def fix_rows(self, weights: Sequence[Array], H: Array) -> tuple[tuple[Array, ...], Array]:
        """`fix_codes` without sums."""
        if not self.unit_rows:
            return tuple(weights), H
        xp = namespace(H)
        rms = _roots(xp.sum(H * H, axis=-1, keepdims=True) / H.shape[-1])
        return (*weights[:-1], weights[-1] * rms.mT), H / rms


def grounded(
    weights: Sequence[Array], H: Array, degree: float | None
) -> tuple[tuple[Array, ...], Array]:
    """The same product with all scale in W_1, or in W_L if the link is not a power. The scale of
    the data is then that of W_1, whatever the pre-training of layers did with it."""
    (*below, top), H = Scaling((False,) * len(weights), unit_rows=True).fix_rows(weights, H)
    if degree is None:
        return (*below, top), H
    fixed = [top]
    for W in reversed(below):
        rows = _roots(column_dots(fixed[0].mT, fixed[0].mT)).mT
        fixed[0] = fixed[0] / rows
        fixed.insert(0, W * rows.mT**degree)
    return tuple(fixed), H


def balanced(W: Array, H: Array) -> tuple[Array, Array]:
    """W and H about equally large, if they were very far apart. Powers of 2 move the scale, so the
    product stays the same to the last bit.

    A penalty on W alone shrinks W for as long as a layer is trained, and H grows. The next layers
    would learn from numbers so large that rounding hides their penalties.
    """
    xp = namespace(W)
    upper = divisor(namespace(H).max(H, axis=(-2, -1), keepdims=True))
    lower = divisor(xp.max(W, axis=(-2, -1), keepdims=True))
    far = (upper / lower > FAR) | (lower / upper > FAR)
    if not bool(xp.any(far)):
        return W, H
    scale = 2 ** xp.round(xp.log2(upper / lower) / 2)
    scale = xp.where(far, scale, xp.ones_like(scale))
    return W * scale, H / scale


def _roots(squares: Array) -> Array:
    """Square roots, 1 for the root of 0."""
    xp = namespace(squares)
    return xp.where(squares > 0, xp.sqrt(squares), xp.ones_like(squares))
