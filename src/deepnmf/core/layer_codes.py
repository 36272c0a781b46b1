"""The codes of all layers of a sample, each of which explains the codes below.

    ½‖x − W_1h_1‖² + ½ Σ_{l≥2} a_l ‖u_{l−1} − W_lh_l‖² + ½ b ‖x − Ψ_Lh_L‖² + penalties,

h_l = φ(u_l) for l < L, with the weights frozen: in a sweep of training, and in `transform`. b is 0
behind a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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
from deepnmf.core.decode import product
from deepnmf.core.graph import Pull
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
    decoding: float = 0.0
    """b."""
    pull: Pull | None = None
    """What neighbours do to the codes of the last layer."""

    @cached_property
    def above(self) -> Array:
        """W_2 … W_L."""
        return product(self.weights[1:])

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
        first = C = transposed_product(self.weights[0], X)
        if len(self.weights) > 1 or self.penalties[0].linear > 0:
            C = _tall(first, Z.shape[-2], self._last_rows(first)) - self._shift(t)
        if len(self.weights) == 1 and self.pull is not None:
            C = C + self.pull.target
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

    def _last_rows(self, first: Array) -> Array | None:
        """What the loss of the decoding, from W_1ᵀX, and neighbours add to C for h_L, in a model of
        several layers."""
        if len(self.weights) == 1:
            return None
        rows, root = None, self.importance[-1] ** 0.5
        if self.decoding:
            rows = self.decoding / root * matmul(self.above.mT, first)
        if self.pull is not None:
            pulled = self.pull.target / root
            rows = pulled if rows is None else rows + pulled
        return rows

    def _diagonal(self, layer: int) -> Array:
        """W_lᵀW_l, the penalties of h_l and, for h_L, the loss of the decoding and what neighbours
        do, as a matrix."""
        G, last = self.grams[layer], layer + 1 == len(self.weights)
        unit = eye(G.shape[-1], G)
        A = G + unit * self.ridges[layer]
        if self.pull is not None and last:
            A = A + self.pull.strength / self.importance[-1] * unit
        if self.decoding and last:
            K = decoding_gram(self.weights, self.grams[0], self.ridges, self.importance)
            A = A + self.decoding / self.importance[-1] * K
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
                if self.pull is not None:
                    C = C + self.pull.target / self.importance[-1]
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

    def _products(self, X: Array, decoded: Sequence[Array]) -> list[Array]:
        """X H_1ᵀ and, if the decoding has a loss, X H_Lᵀ: in one product, which reads X once."""
        H, size = decoded[0], decoded[0].shape[-2]
        if not self.decoding:
            return [product_transposed(X, H)]
        both = product_transposed(X, namespace(H).concat([H, decoded[-1]], axis=-2))
        return [both[..., :size], both[..., size:]]

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
        first, *cross = self._products(X, decoded)
        return (
            *(gram(H.mT) for H in decoded),
            first,
            *(product_transposed(U, H) for U, H in zip(codes, decoded[1:], strict=False)),
            *(column_dots(U.mT, U.mT).mT for U in codes[:-1]),
            *(namespace(H).sum(H, axis=-1, keepdims=True) for H in decoded),
            *cross,
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
    decoding: float,
) -> CodesOfLayers:
    """The problem of all codes, with penalties on weights that count parts by their energy."""
    return CodesOfLayers(
        tuple(weights), tuple(grams), tuple(importance), ridges_of(weights, penalties_W),
        tuple(penalties_H), link, decoding,
    )  # fmt: skip


def ridges_of(weights: Sequence[Array], penalties_W: Sequence[Penalty]) -> tuple[Array, ...]:
    """2R(w_j) for the parts of every layer, as (…, k_l, 1)."""
    pairs = zip(weights, penalties_W, strict=False)
    return tuple((2 * R.columns(W) if R.active else 0 * W[..., :1, :]).mT for W, R in pairs)


def decoding_gram(
    weights: Sequence[Array],
    first_gram: Array,
    ridges: Sequence[Array],
    importance: Sequence[Array],
) -> Array:
    """K_l with ½⟨h, K_l h⟩ what a code h of layer l costs in the decoding, without its product with
    X: ½‖Ψ_lh‖², and the penalties of the parts that it decodes to.

        K_1 = W_1ᵀW_1 + diag(2R(w_1)),    K_l = W_lᵀ K_{l−1} W_l + a_l diag(2R(w_l))
    """
    K = first_gram + eye(first_gram.shape[-1], first_gram) * ridges[0]
    for W, ridge, a in zip(weights[1:], ridges[1:], importance[1:], strict=False):
        K = W.mT @ K @ W
        K = K + a * eye(K.shape[-1], K) * ridge
    return K


def _empty(like: Array, rows: int, columns: int) -> Array:
    """Zeros (…, rows, columns), one matrix per run of `like`."""
    xp = namespace(like)
    return xp.broadcast_to(0 * like[..., :1, :1], (*like.shape[:-2], rows, columns))


def _tall(top: Array, rows: int, bottom: Array | None) -> Array:
    """Rows at the top and at the bottom, and zeros between them."""
    ends = [top] if bottom is None else [top, bottom]
    between = _empty(top, rows - sum(end.shape[-2] for end in ends), top.shape[-1])
    return namespace(top).concat([top, between, *ends[1:]], axis=-2)


def encode_layers(
    X: Array,
    weights: Sequence[Array],
    importance: Sequence[Array],
    link: Link,
    penalties_W: Sequence[Penalty],
    penalties_H: Sequence[Penalty],
    decoding: float,
    layer: int,
    pull: Pull | None = None,
) -> Array:
    """The codes of X at a layer (1 … L): of the codes of all layers, found together. A pull is for
    codes as they are returned."""
    unit, scales = unit_weights([in_order(W) for W in weights], link)
    grams = tuple(gram(W) for W in unit)
    problem = codes_of_layers(unit, importance, grams, link, penalties_W, penalties_H, decoding)
    if pull is not None:
        problem = replace(problem, pull=Pull(pull.strength, pull.target * divisor(scales[-1])))
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
