"""The limit of an algorithm: its work, divided by the rate of this machine.

    limit = (products with X + other products + passes of the solver, in flops) / product rate

A pass over a factor F (p, q) of q(F) = ½⟨F, A F B⟩ − ⟨C, F⟩ costs 2p²q for A and 2pq² for B,
whether it goes coordinate by coordinate or as one gradient.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from deepnmf.arrays import product_transposed, transposed_product
from deepnmf.solvers import Nesterov, Outcome, Solver


class Product(NamedTuple):
    """A product (rows, inner) by (inner, columns). kind: "X" for a product with the data, "gram"
    for a matrix with itself, "plain" for others."""

    rows: int
    inner: int
    columns: int
    kind: str = "plain"

    def flops(self, density: float = 1.0) -> float:
        """2 · rows · inner · columns, or the share of it that sparse X needs."""
        share = density if self.kind == "X" else 1.0
        return 2.0 * self.rows * self.inner * self.columns * share


Work = Counter[Product]
"""How often each product is computed."""
GROUP = 32
"""Columns of W that our coordinate solver updates together."""


def begin(m: int, n: int, k: int) -> Work:
    """What a stage computes once: H Hᵀ and X Hᵀ."""
    return Work([Product(k, n, k, "gram"), Product(m, n, k, "X")])


def sweep(m: int, n: int, sizes: Sequence[int]) -> Work:
    """One sweep of X (m, n) ≈ W_1 … W_L H, without the passes of the solver.

    Codes: Ψ = W_1 … W_L, ΨᵀΨ, ΨᵀX, H Hᵀ, X Hᵀ. Weights, for every layer below the last: the sums
    W S Wᵀ and Q Wᵀ of the codes below, Ψ_l, Ψ_lᵀΨ_l and Ψ_lᵀQ.
    """
    k = sizes[-1]
    work = begin(m, n, k) + Work([Product(k, m, k, "gram"), Product(k, m, n, "X")])
    for layer, (below, above) in enumerate(pairwise(sizes)):
        work += Work([Product(below, above, above), Product(below, above, below)])
        work += Work([Product(m, above, below), Product(m, below, above)])
        work += Work([Product(below, m, below, "gram"), Product(below, m, above)])
        if layer:
            work += Work([Product(m, sizes[layer - 1], below)])
    return work


def times(work: Work, count: int) -> Work:
    """The work, repeated that often."""
    return Work({product: number * count for product, number in work.items()})


class Update(NamedTuple):
    """A kind of update: of a factor (rows, columns), with Gram matrices on these sides."""

    rows: int
    columns: int
    left: bool
    right: bool


@dataclass(frozen=True)
class Counting(Solver):
    """A solver that counts its work: its updates, the matrix products of its passes, and the
    flops of passes that are loops."""

    solver: Solver
    updates: Counter[Update] = field(default_factory=Counter)
    products: Work = field(default_factory=Work)
    loops: list[float] = field(default_factory=list)

    def refusal(self, X: Any) -> str | None:
        return self.solver.refusal(X, ())

    def extrapolates(self, X: Any) -> bool:
        return self.solver.extrapolates(X)

    def update(self, problem: Any, F: Any, memory: Any = None) -> Outcome:
        outcome = self.solver.update(problem, F, memory)
        p, q = F.shape
        kind = Update(p, q, problem.A is not None, problem.B is not None)
        self.updates[kind] += 1
        passes = passes_of(outcome)
        if isinstance(self.solver, Nesterov):
            shapes = ((Product(p, p, q), kind.left), (Product(p, q, q), kind.right))
        elif kind.right and (kind.left or problem.penalty.active or problem.unit_columns):
            # Column by column, but the gradient of a group of columns is one product.
            shapes = ((Product(GROUP, q, p), kind.right), (Product(GROUP, p, p), kind.left))
            passes *= q / GROUP
        else:
            self.loops.append(passes * 2.0 * p * q * (p * kind.left + q * kind.right))
            return outcome
        for product, used in shapes:
            self.products[product] += passes * used
        return outcome


def passes_of(outcome: Outcome) -> float:
    """Passes over the factor in this update: as counted by a coordinate solver, or the gradients
    of Nesterov's method."""
    return getattr(outcome.memory, "passes", Nesterov().max_steps)


@cache
def product_rate(dtype: str, size: int = 3072) -> float:
    """flop/s of a large square product: the best of five."""
    generator = np.random.default_rng(0)
    A, B = (generator.random((size, size)).astype(dtype) for _ in range(2))
    return 2.0 * size**3 / _best(lambda: A @ B, repeats=5)


def product_seconds(product: Product, dtype: str, X: Any = None) -> float:
    """Seconds of a product of this shape alone; X (n_samples, n_features) is given if sparse."""
    rows, inner, columns, kind = product
    if kind == "X" and scipy.sparse.issparse(X):
        if X.shape == (columns, inner):
            W = np.ones((inner, rows), dtype=dtype)
            return _best(lambda: transposed_product(W, X.T))
        H = np.ones((columns, inner), dtype=dtype)
        return _best(lambda: product_transposed(X.T, H))
    generator = np.random.default_rng(0)
    A = generator.random((rows, inner)).astype(dtype)
    B = A.T if kind == "gram" else generator.random((inner, columns)).astype(dtype)
    return _best(lambda: A @ B)


@dataclass(frozen=True)
class Limit:
    """The least time that the work could take, computed in two ways."""

    gflop: float
    rate: float
    """GFLOP/s of a large product."""
    seconds: float
    """All flops at that rate."""
    own_seconds: float
    """Every product at the rate of its own shape, loops at the rate of a large product."""
    product_seconds: float
    """The seconds of products within `own_seconds`."""


def limit(work: Work, loops: float, dtype: str, X: Any = None) -> Limit:
    """The limit for these products and loop flops; X is given if sparse."""
    density = X.nnz / (X.shape[0] * X.shape[1]) if scipy.sparse.issparse(X) else 1.0
    rate = product_rate(dtype)
    flops = sum(product.flops(density) * count for product, count in work.items()) + loops
    products = sum(product_seconds(product, dtype, X) * n for product, n in work.items() if n)
    return Limit(flops / 1e9, rate / 1e9, flops / rate, products + loops / rate, products)


def _best(function: Callable[[], Any], repeats: int = 3, enough: float = 0.1) -> float:
    """The shortest of several calls, in seconds; short calls are repeated for `enough` seconds."""
    function()
    found: list[float] = []
    while len(found) < repeats or sum(found) < enough:
        began = time.perf_counter()
        function()
        found.append(time.perf_counter() - began)
    return min(found)
