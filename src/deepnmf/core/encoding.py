"""The codes of samples with the weights frozen, and how well they fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepnmf.arrays import (
    Array,
    Dense,
    by_samples,
    gram,
    inner,
    namespace,
    over_samples,
    precise_inner,
    spread,
    squared_norm,
    to_double,
    transposed_product,
)
from deepnmf.core.decode import decode, first_codes, product
from deepnmf.core.graph import Pull
from deepnmf.core.passes import nonnegative_least_squares
from deepnmf.core.refine import encode_through
from deepnmf.links import Link
from deepnmf.penalties import Penalty

BLOCK = 10_000_000
"""Entries of X − X̂ computed at a time."""


def encode(
    X: Array,
    weights: Sequence[Array],
    link: Link,
    penalties: Sequence[Penalty],
    pull: Pull | None = None,
) -> Array:
    """The codes of X for the weights, and penalties on codes, of layers 1 … l. Linear models:

        argmin_{H ≥ 0} ½‖X − Ψ_l H‖² + R_l(H),    Ψ_l = W_1 … W_l,

    solved to convergence. Through a link a sample can have several minima: the one below the
    best of a few starts. The code of a sample does not depend on the other samples of its
    block.
    """
    return by_samples(encode_block, spread(X), tuple(weights), link, tuple(penalties), pull)


def encode_block(
    X: Array,
    weights: Sequence[Array],
    link: Link,
    penalties: Sequence[Penalty],
    pull: Pull | None = None,
) -> Array:
    """`encode` for samples in memory."""
    if link.linear or len(weights) == 1:
        return nonnegative_least_squares(X, product(weights), penalties[-1], pull)
    return encode_through(X, weights, link, penalties[-1], pull)


def layer_input(
    link: Link, W: Array, H: Array, *, without_units: bool = False
) -> tuple[Array, Array]:
    """W R and g(H/R): the weights of a trained layer, and the input of the next one."""
    R = link.largest(H) if without_units and link.rescales else link.scale(H)
    return W * R, link.project(H / R)


def squared_error(X: Array, weights: Sequence[Array], link: Link, H: Array) -> Dense:
    """‖X − X̂‖² per run, from products: ‖X‖² − 2⟨W_1ᵀX, H̃_1⟩ + ⟨W_1ᵀW_1, H̃_1H̃_1ᵀ⟩."""
    weights = (product(weights),) if link.linear else tuple(weights)
    return over_samples(_squared_error, spread(X), weights, link, H)


def _squared_error(X: Array, weights: Sequence[Array], link: Link, H: Array) -> Dense:
    first = first_codes(weights, link, H)
    cross = precise_inner(transposed_product(weights[0], X), first)
    size = inner(to_double(gram(weights[0])), to_double(gram(first.mT)))
    error = squared_norm(X) - 2 * cross + size
    return namespace(error).maximum(error, 0 * error)


def signed_squared_error(X: Array, weights: Sequence[Array], link: Link, H: Array) -> Dense:
    """‖X − X̂‖² per run, from differences: products would cancel for weights of any sign."""
    total: Any = 0.0
    width = max(1, BLOCK // X.shape[-2])
    for low in range(0, X.shape[-1], width):
        samples = slice(low, low + width)
        difference = X[..., samples] - decode(weights, link, H[..., samples])
        difference = namespace(H).asarray(difference)
        total = total + inner(difference, difference)
    return total
