"""The codes of all layers of a sample, each of which explains the codes below.

    ½‖x − W_1h_1‖² + ½ Σ_{l≥2} a_l ‖u_{l−1} − W_lh_l‖² + penalties,    h_l = φ(u_l) for l < L,

with the weights frozen: in a sweep of training, and in `transform`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deepnmf.arrays import (
    Array,
    by_samples,
    choose,
    column_dots,
    divisor,
    epsilon,
    eye,
    gram,
    in_order,
    inner,
    is_numpy,
    matmul,
    namespace,
    product_transposed,
    transposed_product,
)
from deepnmf.core.hidden import descend_hidden
from deepnmf.core.passes import exact_solver
from deepnmf.links import Link
from deepnmf.penalties import Penalty, Zero
from deepnmf.solvers import Coordinate, Nesterov, Solver
from deepnmf.solvers.base import SolverMemory
from deepnmf.solvers.quadratic import codes_problem
from deepnmf.starts import empty_codes

STARTING = 4
"""Updates of the codes of each layer before the first sweep."""
ROUNDS = 300
"""The most rounds over the layers of a sample, behind a link."""
SETTLED = 1e-6
"""A sample is finished when a round changes its codes by less than this share of their norm, or 100
times what rounding changes."""


@dataclass(frozen=True)
class CodesOfLayers:
    """The problem of all codes of a sample, with the weights frozen."""

    weights: tuple[Array, ...]
    grams: tuple[Array, ...]
    importance: tuple[Array, ...]
    ridges: tuple[Array, ...]
    """2R(w_j), the cost of ½‖h_j‖² for the weights: (…, k_l, 1)."""
    penalties: tuple[Penalty, ...]
    link: Link

    @property
    def linear(self) -> bool:
        return self.link.linear or len(self.weights) == 1

    def lower(
        self, X: Array, Z: Array, solver: Solver, memory: SolverMemory
    ) -> tuple[Array, SolverMemory, Array]:
        """Lower codes, the solver's memory of them, and their KKT residual before."""
        return (self._linear if self.linear else self._through)(X, Z, solver, memory)

    def _linear(
        self, X: Array, Z: Array, solver: Solver, memory: SolverMemory
    ) -> tuple[Array, SolverMemory, Array]:
        """All layers as one quadratic, since each h_l meets only h_{l−1} and h_{l+1}.

        In the variables √a_l h_l the layers are of the same size, which gradient steps need.
        """
        A, t = self._joint()
        C = transposed_product(self.weights[0], X)
        if len(self.weights) > 1 or self.penalties[0].linear > 0:
            C = _tall(C, Z.shape[-2]) - self._shift(t)
        solved = solver.update(codes_problem(A, C, Zero()), Z * t, memory)
        return solved.F / t, solved.memory, solved.residual

    def _joint(self) -> tuple[Array, Array]:
        """The matrix of the quadratic, and √a_l for every row."""
        xp = namespace(self.weights[0])
        sizes = [W.shape[-1] for W in self.weights]
        ratios = self._ratios()
        rows = []
        for layer, size in enumerate(sizes):
            blocks = [0 * _empty(self.grams[0], size, width) for width in sizes]
            blocks[layer] = self._diagonal(layer)
            if layer + 1 < len(sizes):
                blocks[layer] = blocks[layer] + ratios[layer] * eye(size, self.grams[0])
                blocks[layer + 1] = -(ratios[layer] ** 0.5) * self.weights[layer + 1]
            if layer > 0:
                blocks[layer - 1] = -(ratios[layer - 1] ** 0.5) * self.weights[layer].mT
            rows.append(xp.concat(blocks, axis=-1))
        t = [a**0.5 + _empty(a, size, 1) for a, size in zip(self.importance, sizes, strict=True)]
        return xp.concat(rows, axis=-2), xp.concat(t, axis=-2)

    def _diagonal(self, layer: int) -> Array:
        """W_lᵀW_l and the penalties of h_l, as a matrix."""
        G = self.grams[layer]
        unit = eye(G.shape[-1], G)
        A = G + unit * self.ridges[layer]
        penalty = self.penalties[layer].quadratic
        return A + penalty.gradient(unit) if penalty.active else A

    def _ratios(self) -> list[Array]:
        """a_{l+1}/a_l."""
        pairs = zip(self.importance[1:], self.importance, strict=False)
        return [above / here for above, here in pairs]

    def _shift(self, t: Array) -> Array:
        """What the linear terms of the penalties take from C."""
        xp = namespace(t)
        sizes = [W.shape[-1] for W in self.weights]
        pairs = zip(self.penalties, sizes, strict=True)
        linear = [R.linear + _empty(t, size, 1) for R, size in pairs]
        return t * xp.concat(linear, axis=-2)

    def _through(
        self, X: Array, Z: Array, solver: Solver, memory: SolverMemory
    ) -> tuple[Array, SolverMemory, Array]:
        """Layer by layer, from the data up."""
        below, codes, ratios = X, list(split_rows(Z, self.weights)), self._ratios()
        residual: Array = inner(self.weights[0], 0 * self.weights[0])
        for layer, W in enumerate(self.weights):
            A = self._diagonal(layer)
            C = transposed_product(W, below) - self.penalties[layer].linear
            if layer + 1 < len(self.weights):
                above = matmul(self.weights[layer + 1], self.decoded(codes, layer + 1))
                codes[layer], mapping = descend_hidden(
                    self.link, A, C, above, ratios[layer], codes[layer]
                )
            else:
                codes[layer], memory, mapping = solver.update(
                    codes_problem(A, C, Zero()), codes[layer], memory
                )
            residual = residual + mapping
            below = codes[layer]
        return namespace(Z).concat(codes, axis=-2), memory, residual

    def decoded(self, codes: Sequence[Array], layer: int) -> Array:
        """H_l."""
        last = layer + 1 == len(self.weights)
        return codes[layer] if last else self.link.decode(codes[layer])

    def started(self, X: Array, solver: Solver) -> Array:
        """Codes layer by layer: each fits the codes of the layer below, roughly."""
        below, codes = X, []
        for layer, W in enumerate(self.weights):
            problem = codes_problem(
                self.grams[layer], transposed_product(W, below), self.penalties[layer]
            )
            H = empty_codes(below, W.shape[-1])
            for _ in range(STARTING):
                H = solver.update(problem, H).F
            last = layer + 1 == len(self.weights)
            below = H if last else self.link.project(H)
            codes.append(below)
        return namespace(codes[0]).concat(codes, axis=-2)

    def sums(self, X: Array, Z: Array) -> tuple[Array, ...]:
        """The entries of `LayerSums`, one after another."""
        codes = split_rows(Z, self.weights)
        decoded = [self.decoded(codes, layer) for layer in range(len(codes))]
        below = (X, *codes[:-1])
        return (
            *(gram(H.mT) for H in decoded),
            *(product_transposed(D, H) for D, H in zip(below, decoded, strict=True)),
            *(column_dots(U.mT, U.mT).mT for U in codes[:-1]),
            *(namespace(H).sum(H, axis=-1, keepdims=True) for H in decoded),
        )


def split_rows(Z: Array, weights: Sequence[Array]) -> tuple[Array, ...]:
    """The codes of every layer."""
    codes, low = [], 0
    for W in weights:
        codes.append(Z[..., low : low + W.shape[-1], :])
        low += W.shape[-1]
    return tuple(codes)


def unit_weights(
    weights: Sequence[Array], link: Link, before: Sequence[Array] | None = None
) -> tuple[tuple[Array, ...], list[Array]]:
    """Weights with columns of unit norm, and by what the rows of H_l are multiplied: (…, k_l, 1).

    The rows of W_{l+1} follow those of U_l. A column that became zero keeps its direction from
    before, and its codes become zero.
    """
    unit, scales, carried = [], [], None
    for layer, W in enumerate(weights):
        xp = namespace(W)
        W = W if carried is None else carried * W
        norms = xp.sqrt(column_dots(W, W))
        empty = norms <= float(xp.finfo(W.dtype).tiny) ** 0.5
        W = W / divisor(norms)
        if bool(xp.any(empty)):
            W = xp.where(empty, 0 * W if before is None else before[layer], W)
        unit.append(W)
        scales.append(xp.where(empty, 0 * norms, norms).mT)
        carried = scales[-1] ** (1 / degree_of(link))
    return tuple(unit), scales


def degree_of(link: Link) -> float:
    """p if φ(ca) = cᵖ φ(a). With one layer the link does nothing, and may be any."""
    return link.degree or 1.0


def codes_of_layers(
    weights: Sequence[Array],
    importance: Sequence[Array],
    grams: Sequence[Array],
    link: Link,
    penalties_W: Sequence[Penalty],
    penalties_H: Sequence[Penalty],
) -> CodesOfLayers:
    """The problem of all codes, with penalties on weights that count parts by their energy."""
    ridges = []
    for W, R in zip(weights, penalties_W, strict=True):
        ridges.append((2 * R.columns(W) if R.active else 0 * W[..., :1, :]).mT)
    return CodesOfLayers(
        tuple(weights), tuple(grams), tuple(importance), tuple(ridges), tuple(penalties_H), link
    )


def _empty(like: Array, rows: int, columns: int) -> Array:
    """Zeros (…, rows, columns), one matrix per run of `like`."""
    xp = namespace(like)
    return xp.broadcast_to(0 * like[..., :1, :1], (*like.shape[:-2], rows, columns))


def _tall(C: Array, rows: int) -> Array:
    xp = namespace(C)
    return xp.concat([C, _empty(C, rows - C.shape[-2], C.shape[-1])], axis=-2)


def encode_layers(
    X: Array,
    weights: Sequence[Array],
    importance: Sequence[Array],
    link: Link,
    penalties_W: Sequence[Penalty],
    penalties_H: Sequence[Penalty],
    layer: int,
) -> Array:
    """The codes of X at a layer (1 … L): of the codes of all layers, found together."""
    unit, scales = unit_weights([in_order(W) for W in weights], link)
    grams = tuple(gram(W) for W in unit)
    problem = codes_of_layers(unit, importance, grams, link, penalties_W, penalties_H)
    return by_samples(_encoded, X, problem, divisor(scales[layer - 1]), layer)


def _encoded(X: Array, problem: CodesOfLayers, scale: Array, layer: int) -> Array:
    """The codes of a block at a layer."""
    codes = split_rows(all_codes(X, problem), problem.weights)
    return problem.decoded(codes, layer - 1) / scale


def all_codes(X: Array, problem: CodesOfLayers) -> Array:
    """The codes of all layers, solved to the end."""
    if not problem.linear:
        return _settled(X, problem)
    start = empty_codes(X, sum(W.shape[-1] for W in problem.weights))
    return problem.lower(X, start, exact_solver(X), None)[0]


def _settled(X: Array, problem: CodesOfLayers) -> Array:
    """Codes behind a link, lowered until each sample is finished."""
    solver = rough_solver(X)
    Z = problem.started(X, solver)
    xp = namespace(Z)
    running = column_dots(Z, 0 * Z) == 0
    settled = max(SETTLED, 100 * epsilon(Z))
    for _ in range(ROUNDS):
        lower, _, _ = problem.lower(X, Z, solver, None)
        moved = column_dots(lower - Z, lower - Z) > settled**2 * column_dots(lower, lower)
        Z = choose(running, lower, Z)
        running = running & moved
        if not bool(xp.any(running)):
            break
    return Z


def rough_solver(X: Array) -> Solver:
    """For codes that are refined later."""
    return Coordinate(max_passes=30) if is_numpy(X) else Nesterov(max_steps=30)
