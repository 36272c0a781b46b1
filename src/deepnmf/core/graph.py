"""A graph of the samples, as a penalty on the codes of the last layer.

    ½ λ c tr(H L Hᵀ),    L = I − S,    S = D^{−½} A D^{−½},

for a graph A ≥ 0 of the samples with degrees D: neighbours have similar codes. L is the normalised
Laplacian; for a sample without neighbours its row is 0. c makes λ a number without a unit: what
the relative roughness of the codes, tr(H L Hᵀ)/‖H‖², counts beside the relative errors. It is set
when a stage gets the graph, and stays as it is.

The graph ties all samples together, but one update of the codes need not. The eigenvalues of S lie
between −1 and 1, so −tr(H (I + S) Hᵀ) is concave, and below its tangent at the codes H' of before:

    ½ tr(H L Hᵀ) ≤ ‖H‖² − ⟨H, H'(I + S)⟩ + const.,    with equality at H = H'.

What lowers the right side lowers the left. It is one problem per sample again, which pulls a code
to the mean of itself and its neighbours: a `Pull`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse

from deepnmf.arrays import Array, Dense, eye, graph_like, namespace, stack_shape
from deepnmf.penalties import Penalty
from deepnmf.solvers.quadratic import Quadratic

RENEWALS = 3
"""How many graphs of its own codes a fit makes, one after another."""


@dataclass(frozen=True)
class Pull:
    """½ s ‖H‖² − ⟨T, H⟩, which pulls codes to T/s."""

    strength: Array
    """s per run, (…, 1, 1)."""
    target: Array
    """T, of the shape of H."""

    def on(self, problem: Quadratic) -> Quadratic:
        """The problem of codes with this added."""
        A = problem.A
        assert A is not None
        unit = eye(A.shape[-1], A)
        return replace(problem, A=A + self.strength * unit, C=problem.C + self.target)


@dataclass(frozen=True)
class Pulled(Penalty):
    """A penalty on codes, and a pull."""

    penalty: Penalty
    pull: Pull

    def gradient(self, F: Array) -> Array:
        return self.penalty.gradient(F) + self.pull.strength * F - self.pull.target

    @property
    def quadratic(self) -> Penalty:
        return Pulled(self.penalty.quadratic, Pull(self.pull.strength, 0 * self.pull.strength))

    def lipschitz(self, rows: int) -> Array:
        return self.penalty.lipschitz(rows) + self.pull.strength


class GraphSource(Protocol):
    """Where the graph of a fit comes from."""

    @property
    def strength(self) -> float:
        """λ."""

    @property
    def renewals(self) -> int:
        """How many graphs a fit makes from its codes; 0 if the graph is known from the start."""

    def of(self, X: Array, codes: Array) -> scipy.sparse.csr_array:
        """A for X (…, m, n) and codes of layer 1 without a graph (…, k, n), of parts of unit norm:
        of several runs, the blocks of a diagonal."""


class Neighborhood(NamedTuple):
    """What a fit with a graph knows about its samples."""

    S: scipy.sparse.csr_array
    """Of several runs, the blocks of a diagonal."""
    weight: Array
    """λ c per run, (…, 1, 1)."""

    def runs(self) -> Iterator[Neighborhood]:
        """That of every run, in order."""
        places = list(np.ndindex(stack_shape(self.weight)))
        n = self.S.shape[0] // len(places)
        for place, index in enumerate(places):
            own = slice(place * n, (place + 1) * n)
            yield Neighborhood(self.S[own, own], self.weight[index])


@dataclass(frozen=True)
class Graph:
    """½ λ c tr(H L Hᵀ)."""

    S: Any
    """(n, n), for several runs the blocks of a diagonal, as it can be multiplied with codes."""
    weight: Array
    """λ c per run, (…, 1, 1)."""

    @classmethod
    def of(cls, S: scipy.sparse.csr_array, H: Array, weight: Array) -> Graph:
        """The penalty for codes like H (…, k, n)."""
        return cls(graph_like(S, H), weight)

    def of_neighbors(self, H: Array) -> Array:
        """H S: for every sample the weighted sum of the codes of its neighbours."""
        *stack, k, n = H.shape
        tall = H.mT.reshape(-1, k)
        return (self.S @ tall).reshape(*stack, n, k).mT

    def pull(self, H: Array) -> Pull:
        """The bound that touches the penalty at H."""
        return Pull(2 * self.weight, self.weight * (H + self.of_neighbors(H)))

    def roughness(self, H: Array) -> Array:
        """λ c ⟨h, L h⟩ for every row h of H: (…, k, 1)."""
        xp = namespace(H)
        rough = xp.sum(H * (H - self.of_neighbors(H)), axis=-1, keepdims=True)
        return self.weight * xp.maximum(rough, 0 * rough)

    def value(self, H: Array) -> Dense:
        """The penalty per run, in double precision."""
        xp = namespace(H)
        return xp.sum(self.roughness(H), axis=(-2, -1), dtype=xp.float64) / 2


def normalised(A: scipy.sparse.sparray) -> scipy.sparse.csr_array:
    """S = D^{−½} A D^{−½}; 1 on the diagonal where a sample has no neighbours."""
    A = scipy.sparse.csr_array(A, dtype=np.float64)
    degrees = np.asarray(A.sum(axis=1)).ravel()
    roots = np.sqrt(np.where(degrees > 0, degrees, 1))
    scale = scipy.sparse.diags_array(1 / roots)
    alone = scipy.sparse.diags_array((degrees == 0).astype(float))
    return scipy.sparse.csr_array(scale @ A @ scale + alone)
