"""Strengths without units, for scaling="fixed".

The strengths of penalties are meant for samples of unit mean square norm, and per sample. With
σ² = ‖X‖²/n, the objective of X/σ, counted per sample, is

    ½‖X − X̂‖²/(nσ²) + Σ_l R_l(W_l) + R(H)/n.

The first factor without a fixed scale takes σ (through links of degree p, a root of it). So the
penalties of the objective for X itself are multiplied by powers of σ and by n, and X → cX, or every
sample twice, changes neither parts nor sparsity.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deepnmf.arrays import Array, scalars, squared_norm
from deepnmf.arrays.tensors import to_numpy
from deepnmf.core.scaling import Scaling
from deepnmf.penalties import Penalty, Scaled


def mean_square(X: Array) -> Array:
    """σ² = ‖X‖²/n per run; 1 where X is 0."""
    square = squared_norm(X) / X.shape[-1]
    return square + (square == 0)


def relative(
    penalties_W: Sequence[Penalty],
    penalties_H: Sequence[Penalty],
    scaling: Scaling,
    square: Array,
    samples: int,
    like: Array,
) -> tuple[tuple[Penalty, ...], tuple[Penalty, ...]]:
    """The penalties for the objective of X, whose samples have this mean square norm."""
    layers = len(penalties_W)
    free = next((layer for layer, unit in enumerate(scaling.unit_columns) if not unit), layers)
    # σ to this power is the scale that the first free factor takes.
    power = scaling.degree ** -min(free, layers - 1)
    on_W = []
    for layer, penalty in enumerate(penalties_W):
        taken = power if layer == free else 0.0
        on_W.append(_scaled(penalty, samples, square, taken, like))
    taken = power if free == layers else 0.0
    on_H = (_scaled(penalty, 1, square, taken, like) for penalty in penalties_H)
    return tuple(on_W), tuple(on_H)


def _scaled(penalty: Penalty, samples: int, square: Array, taken: float, like: Array) -> Penalty:
    """nσ² R(F/σᵗ)."""
    if not penalty.active:
        return penalty
    factors = samples * square ** (1 - taken)
    numbers = np.unique(to_numpy(factors + 0.0))
    linear = float(np.mean(to_numpy(samples * square ** (1 - taken / 2))))
    if len(numbers) == 1:
        return Scaled(penalty, float(numbers[0]), linear)
    return Scaled(penalty, scalars(factors, like), linear)
