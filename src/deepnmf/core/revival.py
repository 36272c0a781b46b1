"""Dead parts: counted, and revived if that lowers the objective.

A unit of layer l − 1 is dead when nothing reaches it or it reaches nothing: its row of W_l (of H_L
for the last layer) or its column of W_{l-1} is zero. If φ′(0) = 0, as for the square, a dead row of
W_l has no gradient and would stay dead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deepnmf.arrays import Array, added, namespace
from deepnmf.core.chain import Chain
from deepnmf.core.line_search import Variable
from deepnmf.links import Link

TRIALS = 6


def count_dead(link: Link, weights: Sequence[Array], used: Array) -> Array:
    """Dead parts of all layers, per run; `used` (…, k_L) says which rows of H_L are not 0."""
    xp = namespace(used)
    counts = []
    for layer, W in enumerate(weights):
        last = layer == len(weights) - 1
        unused = ~(xp.max(W, axis=-2) > 0)
        # With φ(0) > 0 a unit without input is a constant, not dead.
        reached = used if last else xp.max(weights[layer + 1], axis=-1) > 0
        silent = ~reached & (last or not link.at_zero > 0)
        counts.append(xp.sum(xp.astype(unused | silent, xp.int64), axis=-1))
    return added(counts)


def revive(chain: Chain, variable: Variable) -> Chain:
    """Give dead rows of W_level one entry each if that lowers f; otherwise return `chain`.

    To first order in φ(s h_c), unit i with the single entry W_ic = s changes f by
    Σ_j G_ij φ(s h_cj), most for the c that correlates best with −G_i. The size s begins at the best
    one for the unit alone, and is reduced until f falls.
    """
    W = chain.weights[variable.level - 1]
    xp = namespace(W)
    if float(chain.link.slope(np.zeros(1))[0]) > 0:
        return chain
    dead = ~xp.any(W > 0, axis=-1, keepdims=True)
    if not bool(xp.any(dead)):
        return chain
    H = chain.codes[variable.level - 1]
    reached = chain.link.decode(H)
    pull = -(_error_below(chain, variable.level) @ reached.mT)
    power = namespace(H).sum(reached * reached, axis=-1, keepdims=True).mT
    gain = pull / xp.sqrt(xp.where(power > 0, power, xp.ones_like(power)))
    best = xp.max(gain, axis=-1, keepdims=True)
    useful = dead & (best > 0)
    count = xp.sum(xp.astype(useful, W.dtype), axis=-2, keepdims=True)
    if not bool(xp.any(useful)):
        return chain
    curvature = xp.linalg.diagonal(chain.M)[..., :, None] if variable.level == 2 else 1.0
    # φ(s h) = sᵖ φ(h): the best sᵖ of a unit alone, divided among the revived (f is convex there).
    bend = curvature * power
    height = pull / xp.where(bend > 0, bend, xp.ones_like(bend))
    share = xp.where(count > 0, count, xp.ones_like(count))
    entry = (xp.clip(height, 0, None) / share) ** (1 / (chain.link.degree or 2))
    chosen = useful & (gain == best) & (bend > 0)
    for _ in range(TRIALS):
        seeded = variable.project(W + xp.where(chosen, entry, xp.zeros_like(entry)))
        revived = variable.moved(chain, seeded)
        better = variable.change(chain, revived) < 0
        if bool(xp.all(better)):
            return revived
        entry = xp.where(better, entry, entry / 4)
    return revived.merged(better, chain)


def _error_below(chain: Chain, level: int) -> Array:
    """G_{level-1}: the error of the units that W_level feeds."""
    if level == 2:
        return chain.G
    return chain.weights[level - 2].mT @ chain.error(level - 1)
