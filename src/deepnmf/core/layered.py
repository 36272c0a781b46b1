"""One sweep over the factors of all layers, with a loss on every layer.

    f = ½‖X − W_1H_1‖² + ½ Σ_{l≥2} a_l ‖U_{l−1} − W_lH_l‖² + ½ b ‖X − Ψ_LH_L‖² + penalties,

over all W_l, U_l and H_L ≥ 0, with H_l = φ(U_l) for l < L. In linear models U_l = H_l. The loss of
a layer says what its parts are, whatever the layers above make of them. An end-to-end loss sees
only the product of all weights.

The loss of the decoding, b, is for linear models: without it, the codes at the top describe the
codes of layer 1 and not the data, and are worse than those of plain NMF. A large a_l would mend
that as well, but pulls the parts of layer 1 away from what they are in the data.

The columns of every W_l have unit norm, so that no factor can escape into the scale of another. A
penalty on W_l counts each part by its energy: Σ_j R(w_j) ‖h_j‖² does not depend on how w_j and h_j
share their scale, or on the number of samples. It is a ridge on the rows of H_l when these move.

How codes are lowered stands in `layer_codes`, and how weights are in `layer_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import scipy.sparse

from deepnmf.arrays import (
    Array,
    Dense,
    Recipe,
    added,
    ahead,
    by_samples,
    column_dots,
    divisor,
    gram,
    inner,
    matmul,
    namespace,
    pass_over,
    scalars,
    sums_over_samples,
    to_double,
    trace,
)
from deepnmf.core.decode import product
from deepnmf.core.encoding import squared_error
from deepnmf.core.layer_codes import (
    CodesOfLayers,
    all_codes,
    codes_of_layers,
    split_rows,
)
from deepnmf.core.layer_factors import (
    LayeredFactors,
    LayerSums,
    canonical,
    grouped,
    scaled_sums,
)
from deepnmf.core.layer_weights import WeightsOfLayers
from deepnmf.core.linear import fit_of_sums
from deepnmf.core.scaling import Scaling
from deepnmf.core.stage import Result, Stage
from deepnmf.links import Link
from deepnmf.penalties import Penalty
from deepnmf.solvers import Solver
from deepnmf.solvers.base import SolverMemory
from deepnmf.starts import best_scale

ALONE, TOGETHER = 10, 30
"""How many of the last sweeps say whether one layer, or all together, have converged."""
PLAIN = 10
"""Updates of all codes until they have forgotten a graph."""


def _lowered(
    X: Array, Z: Array, problem: CodesOfLayers, solver: Solver, memory: SolverMemory
) -> tuple[Array, ...]:
    """New codes of a block, the solver's memory of them, and sums over its samples."""
    Z, memory, residual = problem.lower(X, Z, solver, memory)
    return Z, memory, residual, *problem.sums(X, Z)


def _started(X: Array, problem: CodesOfLayers, solver: Solver) -> Array:
    return problem.started(X, solver)


def _sums(X: Array, Z: Array, problem: CodesOfLayers) -> tuple[Array, ...]:
    return problem.sums(X, Z)


class Learned(NamedTuple):
    """Weights of unit norm after a batch, and sums over all batches. How well the weights before
    it fit the batch: f, its penalties, and ‖X − X̂‖²."""

    weights: tuple[Array, ...]
    sums: LayerSums
    objective: Array
    penalty: Array
    error: Dense


@dataclass(frozen=True)
class LayeredStage(Stage[LayeredFactors]):
    """A loss on every layer: one layer of pre-training (L = 1), or all layers together."""

    link: Link
    penalties_H: tuple[Penalty, ...]
    layer_weights: tuple[float, ...]
    """α_1 = 1, α_2, …, α_L: what the relative error of a layer counts."""
    decoding: float = 0.0
    """b: what the relative error of X̂ counts."""
    rescaled: bool = False
    """Begin with W and H scaled to fit X best."""

    @classmethod
    def of(
        cls,
        X: Array,
        penalties_W: Sequence[Penalty],
        penalties_H: Sequence[Penalty],
        solver: Solver,
        link: Link,
        layer_weights: Sequence[float],
        decoding: float,
        rescaled: bool,
    ) -> LayeredStage:
        """The stage of these layers."""
        return cls(
            X, tuple(penalties_W), penalties_H[-1], Scaling.paper(len(penalties_W)), solver,
            True, link, tuple(penalties_H), tuple(layer_weights), decoding, rescaled,
        )  # fmt: skip

    @property
    def patience(self) -> int:
        """In single precision the falls of one sweep are hidden by rounding, and layers that settle
        together pause on the way."""
        return ALONE if len(self.penalties_W) == 1 else TOGETHER

    def judged(self, falls: Sequence[Array]) -> Array:
        """The mean fall. Single falls are hidden by rounding long before the parts have settled."""
        return added(falls) / len(falls)

    def negligible(self, tol: float) -> Array:
        """As in other stages, if all layers have this relative error."""
        return (sum(self.layer_weights) + self.decoding) * super().negligible(tol)

    def _count_of_sums(self, layers: int) -> int:
        """How many sums over samples the weights need."""
        return 4 * layers - 1 + (self.decoding > 0)

    @property
    def updates(self) -> WeightsOfLayers:
        """How the weights of all layers are updated."""
        return WeightsOfLayers(
            self.link, self.penalties_W, self.penalties_H, self.decoding, self.solver
        )

    def begin(self, weights: Sequence[Array], H: Array) -> LayeredFactors:
        """The factors that the stage starts from. Codes of several layers are computed here."""
        weights = tuple(weights)
        layers = len(weights)
        one = 0 * weights[0][..., :1, :1] + 1
        zero = inner(weights[0], 0 * weights[0])
        problem = self._codes(weights, (one,) * layers, tuple(gram(W) for W in weights))
        Z = H if layers == 1 else by_samples(_started, self.X, problem, self.solver)
        sums = self._add_up(problem, Z)
        if self.rescaled and layers == 1:
            s = scalars(best_scale(inner(sums.Q[0], weights[0]), problem.grams[0], sums.S[0]), one)
            weights, Z, sums = (s * weights[0],), s * Z, scaled_sums(sums, (s,), None)
        factors = LayeredFactors(
            weights, Z, (one,) * layers, sums, memories=(None,) * (layers + 1), residual=zero
        )
        factors = self.updates.unit(factors, weights)
        return replace(factors, importance=self._relative(factors.sums, one))

    def _relative(self, sums: LayerSums, one: Array) -> tuple[Array, ...]:
        """a_l = α_l ‖X‖²/‖U_{l−1}‖²."""
        size = scalars(2 * self.half_norm + 0 * inner(one, one), one)
        importance = [one]
        for alpha, squares in zip(self.layer_weights[1:], sums.squares, strict=True):
            below = namespace(one).sum(squares, axis=-2, keepdims=True)
            importance.append(alpha * divisor(size) / divisor(below))
        return tuple(importance)

    def sweep(self, factors: LayeredFactors) -> LayeredFactors:
        """All codes, then every W from the last to the first; none of the updates raises f."""
        problem, graph = self._problem(factors), self.graph
        if graph is not None:
            problem = replace(problem, pull=graph.pull(factors.H))
        layers = len(factors.weights)
        count = 1 + self._count_of_sums(layers)
        passed = pass_over(
            _lowered, self.X, factors.codes, problem, self.solver, factors.memories[-1],
            rows=sum(factors.sizes), sums=count, recipe=self.recipe(factors),
        )  # fmt: skip
        mapping, *sums = passed.sums
        sizes = added(trace(S) for S in factors.sums.S)
        coded = replace(
            factors,
            codes=passed.stored,
            sums=grouped(sums, layers),
            memories=(*factors.memories[:-1], passed.collected),
            residual=mapping * sizes + 0 * factors.residual,
            fits=(),
        )
        if graph is not None:
            rough = (graph.roughness(coded.H),)
            coded = replace(coded, sums=coded.sums._replace(roughness=rough))
        swept = self.updates.updated(coded)
        return replace(swept, fits=self._fits(swept))

    def on_graph(
        self, S: scipy.sparse.csr_array, factors: LayeredFactors, strength: float
    ) -> tuple[Self, LayeredFactors]:
        stage, factors = super().on_graph(S, factors, strength)
        assert stage.graph is not None
        rough = (stage.graph.roughness(factors.H),)
        return stage, replace(factors, sums=factors.sums._replace(roughness=rough))

    @property
    def counted(self) -> float:
        return self.layer_weights[-1] + self.decoding

    def first_codes(self, factors: LayeredFactors) -> Array:
        problem, Z = self._problem(factors), factors.codes
        for _ in range(PLAIN):
            Z, _, _ = problem.lower(self.X, Z, self.solver, None)
        return problem.decoded(split_rows(Z, factors.weights), 0)

    def recipe(self, factors: LayeredFactors) -> Recipe:
        """How to compute lost codes again."""
        return Recipe(all_codes, (self.X, self._problem(factors)))

    def _problem(self, factors: LayeredFactors) -> CodesOfLayers:
        return self._codes(factors.weights, factors.importance, factors.grams)

    def objective(self, factors: LayeredFactors) -> tuple[Array, Array]:
        """f and its penalties per run, from the sums in double precision."""
        fit = penalty = 0 * inner(factors.weights[0], factors.weights[0])
        *own, whole = *self._fits(factors), None
        if self.decoding:
            *own, whole = own
            fit = fit + self.decoding * whole
        for layer, own_fit in enumerate(own):
            a = to_double(factors.importance[layer][..., 0, 0])
            fit = fit + a * own_fit
            penalty = penalty + a * self._penalty(factors, layer)
        for rough in factors.sums.roughness:
            penalty = penalty + inner(rough, 1 + 0 * rough) / 2
        return fit + penalty, penalty

    def _fits(self, factors: LayeredFactors) -> tuple[Array, ...]:
        """½‖U_{l−1} − W_lH_l‖² per run, for every layer; then ½‖X − Ψ_LH_L‖², if it counts."""
        if factors.fits:
            return factors.fits
        sums = factors.sums
        fits = [
            fit_of_sums(half, *of_layer)
            for half, *of_layer in zip(
                self._halves(factors), factors.weights, factors.grams, sums.S, sums.Q, strict=True
            )
        ]
        for cross in sums.cross:
            above = product(factors.weights[1:])
            basis_gram = above.mT @ factors.grams[0] @ above
            basis = matmul(factors.weights[0], above)
            fits.append(fit_of_sums(self.half_norm, basis, basis_gram, sums.S[-1], cross))
        return tuple(fits)

    def _halves(self, factors: LayeredFactors) -> list[Array]:
        """½‖U_{l−1}‖² per run, for every layer."""
        squares = factors.sums.squares
        return [self.half_norm, *(inner(row, 1 + 0 * row) / 2 for row in squares)]

    def slim(self, factors: LayeredFactors) -> LayeredFactors:
        """A sweep begins with the codes and needs no U_{l−1}H_lᵀ."""
        sums = factors.sums
        Q, cross = (tuple(M[..., :0, :] for M in matrices) for matrices in (sums.Q, sums.cross))
        return replace(factors, sums=sums._replace(Q=Q, cross=cross))

    def _penalty(self, factors: LayeredFactors, layer: int) -> Array:
        """The penalties of a layer, per run."""
        W, S = factors.weights[layer], factors.sums.S[layer]
        R, R_H = self.penalties_W[layer], self.penalties_H[layer]
        value = inner(W, 0 * W)
        if R.active:
            value = value + inner(R.columns(W), self.updates.energy(factors, layer))
        if R_H.active:
            totals = factors.sums.totals[layer]
            value = value + R_H.quadratic.of_codes(totals, S)
            value = value + R_H.linear * inner(totals, 1 + 0 * totals)
        return value

    def beyond(self, now: LayeredFactors, before: LayeredFactors, beta: Dense) -> LayeredFactors:
        """The factors at F + β (F − F_before), made feasible."""
        weights = []
        for W, W_before in zip(now.weights, before.weights, strict=True):
            V = ahead(W, W_before, beta)
            weights.append(V / divisor(namespace(V).sqrt(column_dots(V, V))))
        codes = ahead(now.codes, before.codes, beta)
        return replace(now, weights=tuple(weights), codes=codes)

    def _errors(self, factors: LayeredFactors) -> Array:
        """‖U_{l−1} − W_lH_l‖/‖U_{l−1}‖ for every layer: (…, L)."""
        halves = self._halves(factors)
        pairs = zip(self._fits(factors)[: len(halves)], halves, strict=True)
        errors = [fit / divisor(half + 0 * fit) for fit, half in pairs]
        xp = namespace(errors[0])
        return xp.sqrt(xp.stack(errors, axis=-1))

    def _codes(
        self, weights: tuple[Array, ...], importance: tuple[Array, ...], grams: tuple[Array, ...]
    ) -> CodesOfLayers:
        return codes_of_layers(
            weights, importance, grams, self.link, self.penalties_W, self.penalties_H,
            self.decoding,
        )  # fmt: skip

    def _add_up(self, problem: CodesOfLayers, Z: Array) -> LayerSums:
        layers = len(problem.weights)
        return grouped(
            sums_over_samples(_sums, self._count_of_sums(layers), self.X, Z, problem), layers
        )

    def result(self, factors: LayeredFactors) -> Result:
        """The factors for users, in the scale of `canonical`."""
        weights, scale = canonical(factors.weights, factors.sums, self.X.shape[-1], self.link)
        importance = [a[..., 0, 0] for a in factors.importance]
        stack = namespace(weights[0]).stack
        return Result(weights, factors.H / scale, stack(importance, axis=-1), self._errors(factors))

    def learned(
        self,
        weights: Sequence[Array],
        importance: Sequence[Array],
        past: LayerSums | None,
        forget: float,
    ) -> Learned:
        """Learn from X as one more batch. The past counts `forget` times as much."""
        weights, importance = tuple(weights), tuple(importance)
        problem = self._codes(weights, importance, tuple(gram(W) for W in weights))
        Z = all_codes(self.X, problem)
        sums = self._add_up(problem, Z)
        nothing = inner(weights[0], 0 * weights[0])
        memories = (None,) * (len(weights) + 1)
        factors = LayeredFactors(weights, Z, importance, sums, memories, nothing)
        before = self.objective(factors)
        if past is not None:
            pairs = zip(past, sums, strict=True)
            faded = [
                tuple(forget * old + new for old, new in zip(*pair, strict=True)) for pair in pairs
            ]
            factors = replace(factors, sums=LayerSums(*faded))
        moved = self.updates.updated(factors)
        error = squared_error(self.X, weights, self.link, factors.H)
        return Learned(moved.weights, moved.sums, *before, error)
