"""What codes decode to: X̂ = W_1 φ(W_2 … φ(W_L H_L))."""

from __future__ import annotations

from collections.abc import Sequence

from deepnmf.arrays import Array, eye, matmul
from deepnmf.links import Link


def decode(weights: Sequence[Array], link: Link, H: Array) -> Array:
    """What the codes H of the last of these layers decode to: W_1 φ(W_2 … φ(W_l H))."""
    if link.linear:
        return matmul(product(weights), H)
    return matmul(weights[0], first_codes(weights, link, H))


def first_codes(weights: Sequence[Array], link: Link, H: Array) -> Array:
    """H̃_1 = φ(W_2 … φ(W_l H)): H decoded to codes of layer 1."""
    for W in reversed(weights[1:]):
        H = link.decode(matmul(W, H))
    return H


def product(weights: Sequence[Array]) -> Array:
    """Ψ_l = W_1 … W_l."""
    basis = weights[0]
    for W in weights[1:]:
        basis = matmul(basis, W)
    return basis


def basis_of(weights: Sequence[Array], link: Link) -> Array:
    """(…, m, k_l): what each unit code of the last of these layers decodes to."""
    if link.linear:
        return product(weights)
    return decode(weights, link, eye(weights[-1].shape[-1], weights[-1]))
