"""Codes behind a link with all weights frozen, for each sample until nothing is gained.

Every sample is a small problem of its own,

    min_{h ≥ 0} ½‖x − W_1 φ(W_2 … φ(W_L h))‖² + R(h),

and all are solved side by side by L-BFGS with projection (after Bertsekas): entries that are 0 and
would decrease stay there; the others move along a quasi-Newton direction,

    h ← P(h + t E),    E = −B g,

where B approximates the inverse of the Hessian on those entries. It starts from the diagonal of the
Gauss-Newton matrix, as the scales of entries can be far apart, and learns from the last moves. Each
round tries one step per sample. A step that does not lower f enough is halved for the next round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from deepnmf.arrays import (
    Array,
    column_dots,
    divisor,
    epsilon,
    eye,
    gram,
    namespace,
    positive,
    put_columns,
    squared_columns,
    take_columns,
    transposed_product,
    wider,
)
from deepnmf.core.chain import Chain
from deepnmf.core.decode import first_codes
from deepnmf.core.graph import Pull, Pulled
from deepnmf.core.line_search import SIGMA, Variable, steps
from deepnmf.links import Link
from deepnmf.penalties import Penalty

WIDTH = 64
"""Samples are encoded in multiples of this: the edges of a matrix product round differently from
its middle, and the code of a sample must not depend on its place."""
PAIRS = 8
"""Moves that the quasi-Newton direction remembers."""
GAIN, PATIENCE = 1e-7, 4
"""A sample is finished when this many steps in a row promise to lower f by less than `GAIN` times
its value, or by less than rounding hides."""
SINGLE, FILL = 2, 0.05
"""Starts from single parts, and what the other parts have then."""
JUMPS_TO = (
    (0.0, 0.0), (1 / 8, 0.0), (1 / 2, 0.0), (8.0, 0.0), (0.0, 1.0), (0.0, 10.0), (0.0, 1e3),
    (0.0, 1e5),
)  # fmt: skip
"""Where an entry h jumps to: a h + b u, as (a, b). At u, A has an entry of 1."""
JUMPS, ENTRIES, JUMP_GAIN = 10, 64, 1e-6
"""The most rounds of jumps, the most entries per round, and by what share of its value f must
fall."""
TRIAL, ROUNDS, BATCH = 20, 1000, 20
"""The steps tried from each start through a power, the most steps from a start, and how many before
finished samples are removed."""
SHORTEST = 1e-9
"""A sample whose steps are this short cannot be lowered further."""
FLOOR = 1e-8
"""The smallest entry of the diagonal, relative to the largest of the sample."""
CURVED = 1e-8
"""The smallest cosine between a move and its change of gradient that is used."""


@dataclass(frozen=True)
class Pair:
    """A move of the codes, and the change of the gradient along it."""

    S: Array
    Y: Array


@dataclass(frozen=True)
class Search:
    """Where the problems stand between two rounds: one column per sample."""

    chain: Chain
    gradient: Array
    half_norms: Array
    """½‖x‖²."""
    first: Array
    """The scale of B before there is a pair."""
    t: Array
    slow: Array
    """How many steps in a row promised too little."""
    pairs: tuple[Pair, ...] = ()
    """The newest last; zero where a sample did not move."""

    @property
    def finished(self) -> Array:
        return self.slow >= PATIENCE

    def columns(self, places: Array) -> Search:
        """The problems of these columns only."""

        def taken(array: Array) -> Array:
            return take_columns(array, places)

        link, weights, M = self.chain.link, self.chain.weights, self.chain.M
        H, P = taken(self.chain.codes[-1]), taken(self.chain.P)
        return Search(
            Chain.forward(link, weights, H, M, P),
            taken(self.gradient),
            taken(self.half_norms),
            taken(self.first),
            taken(self.t),
            taken(self.slow),
            tuple(Pair(taken(pair.S), taken(pair.Y)) for pair in self.pairs),
        )


def encode_through(
    X: Array,
    weights: Sequence[Array],
    link: Link,
    penalty: Penalty,
    pull: Pull | None = None,
) -> Array:
    """The codes of samples in memory: from several starts, the lowest end; from there, to where a
    pull takes them."""
    samples = X.shape[-1]
    X = wider(X, -(-samples // WIDTH) * WIDTH)
    M, P = gram(weights[0]), transposed_product(weights[0], X, by_rows=True)
    variable = Variable(len(weights), codes=True, penalty=penalty)
    half_norms = squared_columns(X) / 2
    # Where a link is flat, the first steps do not say where a start leads.
    trial = ROUNDS if link.degree is None else TRIAL
    tried = (
        _lowered(Chain.forward(link, weights, H, M, P), variable, half_norms, trial)
        for H in _starts(link, weights, M, P)
    )
    best = reduce(lambda a, b: b.merged(variable.change(a, b) < 0, a), tried)
    if trial < ROUNDS:
        best = _lowered(best, variable, half_norms)
    if math.isfinite(link.domain[1]):  # φ is bounded, and flat for large codes
        best = _jumped(best, variable, half_norms)
    if pull is not None:
        pull = replace(pull, target=wider(pull.target, best.P.shape[-1]))
        best = _pulled(best, replace(variable, penalty=Pulled(penalty, pull)))
    return best.codes[-1][..., :samples]


def _pulled(chain: Chain, variable: Variable) -> Chain:
    """The pass after steps, until no sample moves by more than rounding."""
    t, least = None, 10 * epsilon(chain.P)
    for _ in range(ROUNDS):
        before = variable.value(chain)
        chain, t, _ = steps(chain, variable, t)
        now = variable.value(chain)
        D = now - before
        if not bool(namespace(D).any(column_dots(D, D) > least**2 * column_dots(now, now))):
            break
    return chain


def _jumped(chain: Chain, variable: Variable, half_norms: Array) -> Chain:
    """The pass after jumps of single entries that lower f, and steps from where they lead.

    Where a link is nearly flat, gradients vanish far from any minimum.
    """
    xp, H = namespace(chain.P), variable.value(chain)
    unit = 1 / divisor(xp.max(chain.weights[-1], axis=-2, keepdims=True).mT)
    now, places = chain, None
    for number in range(JUMPS):
        before = now
        value = half_norms + column_dots(now.G - now.P, now.codes[0]) / 2
        least = JUMP_GAIN * value + epsilon(H) * half_norms
        now = _lowered(_jump(now, variable, unit, least, number), variable, half_norms)
        codes = variable.value(now)
        H = codes if places is None else put_columns(H, places, codes)
        gained = variable.change(before, now) < -least
        left = int(xp.max(xp.sum(xp.astype(gained, xp.int64), axis=-1)))
        if left == 0:
            break
        order = _first(~gained, left)
        places = order if places is None else xp.take_along_axis(places, order, axis=-1)
        half_norms = take_columns(half_norms, order)
        codes, P = take_columns(codes, order), take_columns(now.P, order)
        now = Chain.forward(chain.link, chain.weights, codes, chain.M, P)
    return Chain.forward(chain.link, chain.weights, H, chain.M, chain.P)


def _jump(chain: Chain, variable: Variable, unit: Array, least: Array, number: int) -> Chain:
    """The pass after every entry has tried to jump, or `ENTRIES` of them: other ones each time."""
    xp = namespace(chain.P)
    size = unit.shape[-2]
    rows = eye(size, chain.P) > 0
    for step in range(min(size, ENTRIES)):
        part = (number * ENTRIES + step) % size
        for factor, reach in JUMPS_TO:
            H = variable.value(chain)
            moved = xp.where(rows[:, part : part + 1], factor * H + reach * unit, H)
            tried = variable.moved(chain, moved)
            chain = tried.merged(variable.change(chain, tried) < -least, chain)
    return chain


def _starts(link: Link, weights: Sequence[Array], M: Array, P: Array) -> Iterator[Array]:
    """All parts equally, and the `SINGLE` parts that fit best alone, with a little of the others.

    Behind a link a sample has several minima, and a part that starts at 0 may have no gradient.
    """
    xp, single = namespace(P), eye(weights[-1].shape[-1], weights[-1])
    level = xp.ones_like(single[:, :1])
    scale, _ = _alone(link, weights, level, M, P)
    yield level * scale
    scales, gains = _alone(link, weights, single, M, P)
    ranked = xp.argsort(-gains, axis=-2, stable=True)
    for rank in range(min(SINGLE, single.shape[0])):
        part = ranked[..., rank : rank + 1, :]
        scale = xp.take_along_axis(scales, part, axis=-2)
        others = FILL * scale / math.sqrt(single.shape[0])
        numbers = xp.argsort(single, axis=-1, stable=True)[:, -1:]  # 0 … k − 1, one per row
        yield xp.where(numbers == part, scale, others)


def _alone(
    link: Link, weights: Sequence[Array], codes: Array, M: Array, P: Array
) -> tuple[Array, Array]:
    """How much of each of these codes (k, j) fits each sample best, and how much f falls by that:
    (…, j, n). Approximately, unless the link is a power."""
    reached = first_codes(weights, link, codes)
    cross = positive(reached.mT @ P)
    fit = cross / divisor(column_dots(reached, M @ reached)).mT
    return fit ** ((link.degree or 1) ** (1 - len(weights))), fit * cross


def _lowered(chain: Chain, variable: Variable, half_norms: Array, rounds: int = ROUNDS) -> Chain:
    """The pass after every sample is finished, or after that many rounds."""
    xp, H = namespace(chain.P), variable.value(chain)
    search = _begin(chain, variable, half_norms)
    places: Array | None = None
    for _ in range(rounds // BATCH):
        for _ in range(BATCH):
            search = _round(search, variable)
        now = variable.value(search.chain)
        H = now if places is None else put_columns(H, places, now)
        # Continue with as many columns as the run with the most unfinished samples needs.
        left = int(xp.max(xp.sum(xp.astype(~search.finished, xp.int64), axis=-1)))
        if left == 0:
            break
        order = _first(search.finished, left)
        search = search.columns(order)
        places = order if places is None else xp.take_along_axis(places, order, axis=-1)
    return Chain.forward(chain.link, chain.weights, H, chain.M, chain.P)


def _first(finished: Array, left: int) -> Array:
    """The places of unfinished samples, and of as many others as a multiple of `WIDTH` needs."""
    xp = namespace(finished)
    left = min(-(-left // WIDTH) * WIDTH, finished.shape[-1])
    return xp.argsort(xp.astype(finished, xp.int8), axis=-1, stable=True)[..., :left]


def _begin(chain: Chain, variable: Variable, half_norms: Array) -> Search:
    """The problems at H. The first steps go to the minimum of the Gauss-Newton model along them."""
    H = variable.value(chain)
    gradient = variable.gradient(chain)
    E = _free(H, gradient) * gradient / _metric(chain)
    pushed = chain.push(E)
    bend = column_dots(pushed, chain.M @ pushed)
    if variable.penalty.active:
        bend = bend + column_dots(E, variable.penalty.quadratic.gradient(E))
    ones = namespace(H).ones_like(bend)
    return Search(
        chain, gradient, ones * half_norms, column_dots(E, gradient) / divisor(bend), ones, 0 * ones
    )


def _round(search: Search, variable: Variable) -> Search:
    """One step tried per sample."""
    xp = namespace(search.t)
    chain, gradient = search.chain, search.gradient
    H = variable.value(chain)
    E = _direction(search, H)
    slope = -column_dots(gradient, E)
    value = search.half_norms + column_dots(chain.G - chain.P, chain.codes[0]) / 2
    least = GAIN * value + epsilon(H) * search.half_norms
    slow = xp.where(slope <= least, search.slow + 1, 0 * search.slow)
    slow = xp.where(search.finished | (search.t < SHORTEST), PATIENCE + 0 * slow, slow)
    tried = variable.moved(chain, variable.project(H + search.t * E))
    S, change = variable.value(tried) - H, variable.change(chain, tried)
    lower = (change <= SIGMA * column_dots(gradient, S)) & (change < 0) & (slow < PATIENCE)
    moved = tried.merged(lower, chain)
    following = variable.gradient(moved)
    # A sample that did not move remembers a pair of zeros, which is skipped.
    S = variable.value(moved) - H
    pairs = (*search.pairs, Pair(S, following - gradient))[-PAIRS:]
    t = xp.where(lower, xp.ones_like(search.t), search.t / 2)
    return replace(search, chain=moved, gradient=following, pairs=pairs, t=t, slow=slow)


def _direction(search: Search, H: Array) -> Array:
    """E = −B g on the entries that may move, by the two loops of L-BFGS."""
    xp, D = namespace(H), _metric(search.chain)
    free = _free(H, search.gradient)
    g = free * search.gradient
    E, scale = -g, search.first  # B is scaled by the newest sound pair, if there is one
    known = search.t < 0
    steps: list[tuple[Array, Array, Array, Array]] = []
    for pair in reversed(search.pairs):
        S, Y = free * pair.S, free * pair.Y
        bend = column_dots(S, Y)
        # Skip pairs without curvature.
        sound = bend > CURVED * xp.sqrt(column_dots(S, S) * column_dots(Y, Y))
        share = xp.where(sound, 1 / divisor(bend), 0 * bend)
        if not bool(xp.all(known)):
            newest = bend / divisor(column_dots(Y, Y / D))
            scale, known = xp.where(sound & ~known, newest, scale), known | sound
        a = share * column_dots(S, E)
        E = E - a * Y
        steps.append((S, Y, share, a))
    E = scale * E / D
    for S, Y, share, a in reversed(steps):
        E = E + (a - share * column_dots(Y, E)) * S
    E = free * E
    downhill = -column_dots(E, g) > 0
    return xp.where(downhill, E, -search.first * g / D)


def _free(H: Array, gradient: Array) -> Array:
    """1 for entries that may move; 0 for those at 0 that would decrease."""
    return namespace(H).astype((H > 0) | (gradient < 0), H.dtype)


def _metric(chain: Chain) -> Array:
    """The diagonal of the Gauss-Newton matrix, (…, k, n). Squares of sums count as sums of squares
    below the second layer."""
    xp = namespace(chain.M)
    squares = xp.linalg.diagonal(chain.M)[..., :, None]
    for W, A in zip(chain.weights[1:], chain.A, strict=True):
        slope = chain.link.slope(A)
        squares = (W * W).mT @ (squares * slope * slope)
    # An entry without influence now may have some after a step.
    return divisor(xp.maximum(squares, FLOOR * xp.max(squares, axis=-2, keepdims=True)))
