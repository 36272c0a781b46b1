"""The forward and backward pass through X ≈ W_1 φ(W_2 φ(… φ(W_L H_L))).

    forward     A_l = W_l H̃_l,  H̃_{l-1} = φ(A_l),                       l = L … 2
    backward    G_1 = W_1ᵀW_1 H̃_1 − W_1ᵀX,
                D_l = G_{l-1} ∘ φ′(A_l),  ∂f/∂W_l = D_l H̃_lᵀ,  G_l = W_lᵀ D_l,
                ∂f/∂H_L = G_L

The fit is a quadratic in H̃_1, known by M = W_1ᵀW_1 and P = W_1ᵀX alone: two points differ by
⟨½(G_1 + G_1′), H̃_1′ − H̃_1⟩ exactly, without the cancellation of subtracting values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepnmf.arrays import Array, choose, choose_each, is_blocked, matmul
from deepnmf.links import Link


@dataclass(frozen=True)
class Chain:
    """A forward pass. Levels are the paper's: 2 … L for A_l and W_l, and L for H_L."""

    link: Link
    weights: tuple[Array, ...]
    M: Array
    P: Array
    A: tuple[Array, ...]
    """A_2 … A_L."""
    codes: tuple[Array, ...]
    """H̃_1 … H̃_{L-1}, H_L."""
    G: Array
    """G_1."""

    @classmethod
    def forward(cls, link: Link, weights: Sequence[Array], H: Array, M: Array, P: Array) -> Chain:
        """The complete pass, from the codes down."""
        depth = len(weights)
        empty = cls(link, tuple(weights), M, P, (H,) * (depth - 1), (H,) * depth, G=P)
        return empty.replaced(depth, matmul(weights[-1], H))

    @property
    def depth(self) -> int:
        return len(self.weights)

    def replaced(
        self, level: int, A: Array, weights: Array | None = None, H: Array | None = None
    ) -> Chain:
        """The pass with a new A_level (for a new W_level or H_L), computed from there down."""
        products, codes, Ws = list(self.A), list(self.codes), list(self.weights)
        if weights is not None:
            Ws[level - 1] = weights
        if H is not None:
            codes[-1] = H
        for below in range(level, 1, -1):
            products[below - 2] = A
            codes[below - 2] = self.link.decode(A)
            if below > 2:
                A = matmul(Ws[below - 2], codes[below - 2])
        G = matmul(self.M, codes[0]) - self.P
        return replace(self, weights=tuple(Ws), A=tuple(products), codes=tuple(codes), G=G)

    def stepped(self, level: int, codes: bool, F: Array, A: Array, G: Array) -> Chain:
        """The pass with F as H_L (`codes`) or as W_level, A_level being A_2, and G_1 known."""
        weights, H = list(self.weights), list(self.codes)
        if codes:
            H[-1] = F
        else:
            weights[level - 1] = F
        H[0] = self.link.decode(A)
        products = (A, *self.A[1:])
        return replace(self, weights=tuple(weights), A=products, codes=tuple(H), G=G)

    def settled(self) -> Chain:
        """The pass to take the next step from. Restart the lazy graph of a blocked pass, or earlier
        steps are recomputed."""
        if not is_blocked(self.P):
            return self
        return Chain.forward(self.link, self.weights, self.codes[-1], self.M, self.P)

    def rescaled(self, weights: Sequence[Array], H: Array) -> Chain:
        """The same pass with scale moved between W_L and H_L; their product stays the same."""
        return replace(self, weights=tuple(weights), codes=(*self.codes[:-1], H))

    def error(self, level: int, G: Array | None = None) -> Array:
        """D_level = G_{level-1} ∘ φ′(A_level), from G_1 or from another error of layer 1."""
        G = self.G if G is None else G
        for l in range(2, level):  # noqa: E741
            G = matmul(self.weights[l - 1].mT, self.link.pull(G, self.A[l - 2]))
        return self.link.pull(G, self.A[level - 2])

    def gradient_weights(self, level: int) -> Array:
        """∂f/∂W_level of the fit."""
        return matmul(self.error(level), self.codes[level - 1].mT)

    def gradient_codes(self) -> Array:
        """∂f/∂H_L of the fit."""
        return matmul(self.weights[-1].mT, self.error(self.depth))

    def push(self, D: Array) -> Array:
        """The change of H̃_1, to first order, when H_L changes by D."""
        for level in range(self.depth, 1, -1):
            D = self.link.slope(self.A[level - 2]) * (self.weights[level - 1] @ D)
        return D

    def merged(self, keep: Array, before: Chain) -> Chain:
        """This pass for the problems in `keep`, and `before` for the others."""
        return replace(
            self,
            weights=choose_each(keep, self.weights, before.weights),
            A=choose_each(keep, self.A, before.A),
            codes=choose_each(keep, self.codes, before.codes),
            G=choose(keep, self.G, before.G),
        )
