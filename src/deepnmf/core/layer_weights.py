"""Updates of the weights in a sweep over all layers, with a loss on every layer.

The weights of a layer see samples only in sums. When W_l moves, its columns may grow, and the codes
take their norm. What that costs in the layers above is known from the same sums
(`cost_of_growth`). It is a ridge on the columns of W_l, so that rescaling afterwards does not
raise f. This needs a link that is a power, φ(ca) = cᵖ φ(a): through others, codes cannot take the
scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deepnmf.arrays import (
    Array,
    added,
    choose,
    column_dots,
    divisor,
    epsilon,
    eye,
    inner,
    is_numpy,
    matmul,
    namespace,
    spectral_bound,
    to_double,
)
from deepnmf.core.decode import product
from deepnmf.core.layer_codes import decoding_gram, degree_of, ridges_of, unit_weights
from deepnmf.core.layer_factors import LayeredFactors, diagonal, scaled_sums
from deepnmf.links import Link
from deepnmf.penalties import Penalty
from deepnmf.solvers import Solver
from deepnmf.solvers.base import SolverMemory
from deepnmf.solvers.quadratic import weights_problem


@dataclass(frozen=True)
class WeightsOfLayers:
    """What updates of the weights depend on, beside the factors."""

    link: Link
    penalties_W: tuple[Penalty, ...]
    penalties_H: tuple[Penalty, ...]
    decoding: float
    solver: Solver

    def updated(self, factors: LayeredFactors) -> LayeredFactors:
        """The factors after an update of every W, from the last to the first."""
        for layer in reversed(range(len(factors.weights))):
            W, memory, mapping = self._update_layer(factors, layer)
            before = factors.weights
            a = to_double(factors.importance[layer][..., 0, 0])  # tiny codes make it large
            residual = factors.residual + a * a * mapping
            weights = (*before[:layer], W, *before[layer + 1 :])
            memories = (*factors.memories[:layer], memory, *factors.memories[layer + 1 :])
            moved = replace(factors, weights=weights, memories=memories, residual=residual)
            factors = self.unit(moved, before)
        return factors

    def _update_layer(
        self, factors: LayeredFactors, layer: int
    ) -> tuple[Array, SolverMemory, Array]:
        """W_l, with columns of any norm, and what their growth costs the layers above.

        In the variables w_j √e_j, with e_j the energy of a part, a penalty counts all columns
        alike, and steps are equally long.
        """
        W, squares = factors.weights[layer], self.energy(factors, layer)
        xp = namespace(W)
        left, S, Q = self._quadratic_of(factors, layer)
        # A part that almost no sample uses stays as it is, so that one can use it later.
        used = squares > epsilon(W) * xp.max(squares, axis=-1, keepdims=True)
        all_used = bool(xp.all(used))
        if not all_used:
            unused = xp.where(used, 0 * W, W) @ S
            Q = xp.where(used, Q - (unused if left is None else left @ unused), W)
            S = xp.where(used & used.mT, S, 0 * S)
        d = xp.where(used, xp.sqrt(divisor(squares)), xp.ones_like(squares))
        growth = self.cost_of_growth(factors, layer).mT / factors.importance[layer]
        ridge = xp.where(used, growth / (d * d), xp.ones_like(d))
        B = S / (d * d.mT) + eye(S.shape[-1], S) * ridge
        start = W * d
        size = inner(start, start)
        # By columns, as the solver of arrays wants it: it would hold a copy beside this one.
        Q = np.divide(Q.mT, d.mT, order="C").mT if is_numpy(Q) else Q / d
        F, memory, mapping = self.solver.update(
            weights_problem(left, B, Q, self.penalties_W[layer]), start, factors.memories[layer]
        )
        del start, Q  # as large as W_1
        F = F / d
        return F if all_used else choose(used, F, W), memory, mapping * size

    def _quadratic_of(
        self, factors: LayeredFactors, layer: int
    ) -> tuple[Array | None, Array, Array]:
        """A, S and Q of ½⟨W, A W S⟩ − ⟨Q, W⟩, what W_l has to lower, over a_l. A is None for I.

        With K of `decoding_gram` for the layer below and M = (W_{l+1} … W_LH_L)(…)ᵀ, the loss of
        the decoding adds ½ b ⟨W, K W M⟩. The sum has this form in the first and in the last layer
        only. In others, and where growing columns cost codes their penalty, the largest eigenvalue
        stands for K: this bounds the loss from above and touches it at W.
        """
        S, Q = factors.sums.S[layer], factors.sums.Q[layer]
        if not self.decoding:
            return None, S, Q
        b, W = self.decoding / factors.importance[layer], factors.weights[layer]
        below, above = factors.weights[:layer], factors.weights[layer + 1 :]
        M, (C,) = factors.sums.S[-1], factors.sums.cross
        if above:
            T = product(above)
            M, C = T @ M @ T.mT, matmul(C, T.mT)
        if not below:
            C = b * C
            C += Q  # in place: as large as W_1
            return None, S + b * M, C
        ridges = ridges_of(below, self.penalties_W)
        K = decoding_gram(below, factors.grams[0], ridges, factors.importance)
        C = matmul(product(below).mT, C)
        if not above and not self.penalties_H[layer].active and not factors.sums.roughness:
            return eye(K.shape[-1], K) + b * K, S, Q + b * C
        largest = spectral_bound(K)
        return None, S + b * largest * M, Q + b * (C + (largest * W - K @ W) @ M)

    def energy(self, factors: LayeredFactors, layer: int) -> Array:
        """‖h_j‖² of every part, and b times that of its codes in the decoding: (…, 1, k_l)."""
        own = diagonal(factors.sums.S[layer])
        if not self.decoding:
            return own
        top = factors.sums.S[-1]
        if layer + 1 == len(factors.weights):
            return (1 + self.decoding) * own
        T = product(factors.weights[layer + 1 :])
        return own + self.decoding * column_dots((T @ top).mT, T.mT)

    def cost_of_growth(self, factors: LayeredFactors, layer: int) -> Array:
        """e with ½ Σ_j e_j c_j² + const. ≥ the change of f when row j of H_l is multiplied by c_j,
        and all weights above are brought back to unit norm: (…, k_l, 1).

        Where a cost grows with a lower power of c_j, its tangent in c_j² bounds it.
        """
        sums, a = factors.sums, factors.importance
        S, R_H = sums.S[layer], self.penalties_H[layer]
        cost = 0 * sums.totals[layer]
        if R_H.active:
            own = namespace(S).linalg.diagonal(R_H.quadratic.gradient(S) + 0 * S)[..., None]
            cost = a[layer] * (own + R_H.linear * sums.totals[layer])
        if layer + 1 == len(factors.weights):
            return cost + added(sums.roughness) if sums.roughness else cost
        W, S, Q = factors.weights[layer + 1], sums.S[layer + 1], sums.Q[layer + 1]
        xp = namespace(W)
        rows = (W @ S - 2 * Q) * W
        misfit = sums.squares[layer] + xp.sum(rows, axis=-1, keepdims=True)
        above = a[layer + 1] * xp.maximum(misfit, 0 * misfit)
        above = above + (W * W) @ self.cost_of_growth(factors, layer + 1)
        R = self.penalties_W[layer + 1]
        if R.active:
            energy = self.energy(factors, layer + 1)
            above = above + a[layer + 1] * ((W * R.gradient(W)) @ energy.mT)
        return cost + above / degree_of(self.link)

    def unit(self, factors: LayeredFactors, before: Sequence[Array]) -> LayeredFactors:
        """Columns of unit norm; the codes take the scale."""
        weights, scales = unit_weights(factors.weights, self.link, before)
        roots = [scale ** (1 / degree_of(self.link)) for scale in scales[:-1]]
        tall = namespace(scales[0]).concat([*roots, scales[-1]], axis=-2)
        sums = scaled_sums(factors.sums, scales, roots)
        return replace(factors, weights=weights, codes=factors.codes * tall, sums=sums)
