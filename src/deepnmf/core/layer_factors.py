"""The factors of a loss on every layer, and the sums over samples that their weights need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from deepnmf.arrays import Array, choose, choose_each, divisor, gram, namespace, take_rows
from deepnmf.core.layer_codes import degree_of
from deepnmf.links import Link
from deepnmf.solvers.base import SolverMemory


class LayerSums(NamedTuple):
    """All that the weights need to know about the samples, layer by layer."""

    S: tuple[Array, ...]
    """H_l H_lᵀ."""
    Q: tuple[Array, ...]
    """U_{l−1} H_lᵀ; for layer 1, X H_1ᵀ."""
    squares: tuple[Array, ...]
    """‖u‖² for every row u of U_1 … U_{L−1}, as (…, k_l, 1)."""
    totals: tuple[Array, ...]
    """The sum of every row of H_l, as (…, k_l, 1)."""
    cross: tuple[Array, ...]
    """X H_Lᵀ, if the decoding has a loss."""
    roughness: tuple[Array, ...] = ()
    """Twice what a graph costs every row of H_L, as (…, k_L, 1)."""


def grouped(sums: Sequence[Array], layers: int) -> LayerSums:
    """The sums of all layers, from the order in which a pass returns them."""
    S, Q = sums[:layers], sums[layers : 2 * layers]
    squares, totals = sums[2 * layers : 3 * layers - 1], sums[3 * layers - 1 : 4 * layers - 1]
    cross = sums[4 * layers - 1 :]
    return LayerSums(tuple(S), tuple(Q), tuple(squares), tuple(totals), tuple(cross))


def scaled_sums(
    sums: LayerSums, scales: Sequence[Array], roots: Sequence[Array] | None
) -> LayerSums:
    """The sums when the rows of H_l are multiplied by scales, and those of U_l by roots."""
    roots = roots or ()
    S = [c * S * c.mT for S, c in zip(sums.S, scales, strict=True)]
    Q = [Q * c.mT for Q, c in zip(sums.Q, scales, strict=True)]
    Q[1:] = [c * Q for Q, c in zip(Q[1:], roots, strict=True)]
    squares = [c * c * row for row, c in zip(sums.squares, roots, strict=True)]
    totals = [c * row for row, c in zip(sums.totals, scales, strict=True)]
    cross = tuple(C * scales[-1].mT for C in sums.cross)
    rough = tuple(scales[-1] ** 2 * row for row in sums.roughness)
    return LayerSums(tuple(S), tuple(Q), tuple(squares), tuple(totals), cross, rough)


def diagonal(S: Array) -> Array:
    """The diagonal of S as a row, (…, 1, k)."""
    return namespace(S).linalg.diagonal(S)[..., None, :]


@dataclass(frozen=True)
class LayeredFactors:
    """The factors of all layers between two sweeps."""

    weights: tuple[Array, ...]
    codes: Array
    """U_1 … U_{L−1} and H_L, one below the other."""
    importance: tuple[Array, ...]
    """a_1 = 1, a_2, …, a_L, each as (…, 1, 1)."""
    sums: LayerSums
    memories: tuple[SolverMemory, ...]
    """The solver's memories of each W_l, and last of the codes."""
    residual: Array
    """As in `Factors`."""
    fits: tuple[Array, ...] = ()
    """½‖U_{l−1} − W_lH_l‖² per run, after a sweep; empty while the factors move."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(W.shape[-1] for W in self.weights)

    @property
    def H(self) -> Array:
        """The codes of the last layer."""
        rows = self.codes.shape[-2]
        return take_rows(self.codes, rows - self.sizes[-1], rows)

    @property
    def used(self) -> Array:
        """Which rows of H_L have an entry > 0."""
        S = self.sums.S[-1]
        return namespace(S).linalg.diagonal(S) > 0

    @cached_property
    def grams(self) -> tuple[Array, ...]:
        """W_lᵀW_l: for the objective, and again for the next codes."""
        return tuple(gram(W) for W in self.weights)

    def kept(self, active: Array, before: LayeredFactors) -> LayeredFactors:
        """These factors for the runs that continue, `before` for those that have stopped."""
        keep = active[..., None, None]
        pairs = zip(self.sums, before.sums, strict=True)
        return replace(
            self,
            weights=choose_each(keep, self.weights, before.weights),
            codes=choose(keep, self.codes, before.codes),
            sums=LayerSums(*(choose_each(keep, new, old) for new, old in pairs)),
            fits=choose_each(active, self.fits, before.fits),
        )


def canonical(
    weights: Sequence[Array], sums: LayerSums, samples: float, link: Link
) -> tuple[tuple[Array, ...], Array]:
    """Weights for users, and by what H_L is divided: the codes of every layer have rows of unit RMS
    over the samples, and the weights take the scale."""
    scaled: list[Array] = []
    below, scale = None, 1 + 0 * weights[0][..., :1, :]
    for layer, W in enumerate(weights):
        scale = namespace(W).sqrt(divisor(diagonal(sums.S[layer]) / samples))
        scaled.append((W if below is None else W / below) * scale)
        below = scale.mT ** (1 / degree_of(link))
    return tuple(scaled), scale.mT
