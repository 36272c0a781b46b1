"""Joint NMF of several data sets (Zhang et al. 2012), with networks (Zhang et al. 2011)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from deepnmf.arrays import (
    Array,
    added,
    at_least,
    gram,
    inner,
    precise_inner,
    product_transposed,
    transposed_product,
)
from deepnmf.core.finite import checked_later, finite
from deepnmf.models.advice import warn
from deepnmf.models.baselines.base import State, multiply, stationarity
from deepnmf.models.baselines.several import SeveralSets, SharedCodes
from deepnmf.models.settings import number
from deepnmf.penalties import Penalty, Ridge, SquaredL1
from deepnmf.solvers import Coordinate
from deepnmf.solvers.quadratic import codes_problem

Networks = dict[tuple[int, int], Array]
"""λ A_ij by the places i and j of two data sets."""


@dataclass(eq=False, repr=False, kw_only=True)
class JointNMF(SeveralSets):
    """NMF of several data sets with one H for all: X_i ≈ W_i H.

        ½ Σ_i ‖X_i − W_i H‖² + ½ γ‖H‖² + ½ β Σ_i Σ_f ‖W_i(f, :)‖₁²
            − ½ λ Σ_i ⟨W_i, A_ii W_i⟩ − λ Σ_{i<j} ⟨W_i, A_ij W_j⟩,    W_i, H ≥ 0.

    Without β, γ and λ this is the joint NMF of Zhang et al. 2012, and plain NMF for a single data
    set. With them it is their network-regularised form: features that a network links go to the
    same part, and each feature goes to few parts. β must be above λ times the spectral radius of
    the networks, or W would grow without end; γ must be > 0, or the sparsity fades.

    The updates are multiplicative, with a square root for a W_i under networks. None raises the
    objective.

    Parameters
    ----------
    n_components : int, default=16
        The number of parts, k.
    shared : {"samples", "features"}, default="samples"
        What the data sets have in common; H has one column for each.
    sparsity : float, default=0
        β, the strength of the squared L1 penalty on the rows of W_i.
    ridge : float, default=0
        γ, the strength of the squared L2 penalty on H.
    networks : None, or dict {(name, name): matrix}
        A_ij ≥ 0 between the features of data sets i and j, symmetric for i = j. The names are the
        keys of the dict given to `fit`, or places in the list.
    network_strength : float, default=0
        λ, the strength of the networks.
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    References
    ----------
    S. Zhang et al., Discovery of multi-dimensional modules by integrative analysis of
    cancer genomic data, Nucleic Acids Research 2012; S. Zhang et al., A novel computational
    framework for simultaneous integration of multiple types of genomic data, Bioinformatics 2011.
    """

    name = "joint-nmf"
    purpose = "several data sets on the same samples"
    several = True

    sparsity: float = 0.0
    ridge: float = 0.0
    networks: Mapping[tuple[Any, Any], Any] | None = None
    network_strength: float = 0.0

    def check(self) -> None:
        super().check()
        for name in ("sparsity", "ridge", "network_strength"):
            number(name, getattr(self, name))
        if self.networks and self.network_strength == 0:
            raise ValueError(
                "networks are given, but network_strength is 0: set it, or leave them out."
            )

    def transform(self, X: Any) -> Array:
        """Codes (n_samples, k) of new samples.

        With shared samples, from a list of all data sets, or a dict of some of them. With shared
        features, of a single matrix with these features.
        """
        check_is_fitted(self)
        if self.shared == "features":
            _, (data,) = self._opened([X])
            features = self.components_.shape[1]
            if data.shape[1] != features:
                raise ValueError(
                    f"transform: X has {data.shape[1]} features, {features} were fitted."
                )
            penalty = SquaredL1(float(self.sparsity))
            return _codes([self.components_.T], [data.T], penalty).T
        names, sets = self._opened(X)
        return _codes(self._bases(names, sets), sets, Ridge(float(self.ridge))).T

    def _problem(self, names: list[Hashable], sets: tuple[Array, ...]) -> Joint:
        sparsity, ridge = float(self.sparsity), float(self.ridge)
        if sparsity > 0 and ridge == 0:
            warn(
                "sparsity without ridge fades: W shrinks and H grows at the same fit. Set ridge "
                "> 0 as well.",
                UserWarning,
            )
        return Joint(sets[0], sets, sparsity, ridge, self._networks(names, sets))

    def _networks(self, names: list[Hashable], sets: tuple[Array, ...]) -> Networks:
        """λ A_ij by place, for both (i, j) and (j, i)."""
        networks: Networks = {}
        if not self.networks:
            return networks
        strength = float(self.network_strength)
        for (first, second), matrix in self.networks.items():
            if first not in names or second not in names:
                raise ValueError(
                    f"networks: {(first, second)!r} names no data sets; there are {names}."
                )
            i, j = names.index(first), names.index(second)
            A = scipy.sparse.csr_array(matrix, dtype=sets[0].dtype)
            expected = (sets[i].shape[0], sets[j].shape[0])
            label = f"networks[{first!r}, {second!r}]"
            if A.shape != expected:
                raise ValueError(f"{label}: shape {A.shape}, not {expected}.")
            if A.nnz and A.data.min() < 0:
                raise ValueError(f"{label}: has negative entries.")
            if i == j and abs(A - A.T).sum() > 1e-6 * abs(A).sum():
                raise ValueError(f"{label}: is not symmetric.")
            if (i, j) in networks:
                raise ValueError(
                    f"networks: {first!r} and {second!r} are given twice; give them once."
                )
            networks[i, j] = strength * A
            networks[j, i] = strength * scipy.sparse.csr_array(A.T)
        radius = _spectral_radius(networks, [data.shape[0] for data in sets])
        if radius >= self.sparsity:
            raise ValueError(
                f"networks: network_strength times their spectral radius is {radius:.3g}, which "
                f"must be below sparsity={self.sparsity}, or W would grow without end. Lower "
                "network_strength or raise sparsity."
            )
        return networks


def _spectral_radius(networks: Networks, sizes: list[int]) -> float:
    """ρ of all networks together, as one matrix over the features of all data sets."""
    blocks = [
        [
            networks.get((i, j), scipy.sparse.csr_array((rows, columns)))
            for j, columns in enumerate(sizes)
        ]
        for i, rows in enumerate(sizes)
    ]
    A = scipy.sparse.csr_array(scipy.sparse.block_array(blocks), dtype=np.float64)
    x = np.ones((A.shape[0], 1))
    for _ in range(200):
        x = A @ x + 1e-12
        x /= x.max()
    return float(((A @ x) / x).max())


def _codes(bases: Sequence[Array], sets: Sequence[Array], penalty: Penalty) -> Array:
    """argmin_{H ≥ 0} ½ Σ_i ‖X_i − W_i H‖² + R(H)."""
    with checked_later():
        A = added(gram(W) for W in bases)
        C = added(transposed_product(W, X) for W, X in zip(bases, sets, strict=True))
        problem = codes_problem(A, C, penalty)
        H = Coordinate(max_passes=2000, tol=1e-12).update(problem, 0 * C).F
    return finite(H, "the codes")


@dataclass(frozen=True)
class Joint(SharedCodes):
    """The objective of `JointNMF`. The memories are Q_i = X_i Hᵀ for every i, and S = H Hᵀ."""

    sparsity: float
    ridge: float
    networks: Networks

    def begin(self, weights: Sequence[Array], H: Array) -> State:
        return State(tuple(weights), H, inner(H, 0 * H), None, self._sums(H))

    def sweep(self, state: State) -> State:
        """The codes, then every W_i."""
        H = state.H
        above = added(
            transposed_product(W, X) for W, X in zip(state.weights, self.sets, strict=True)
        )
        below = added(gram(W) for W in state.weights) @ H + self.ridge * H
        H, residual = multiply(H, above, below)
        sums = self._sums(H)
        *Qs, S = sums
        weights = list(state.weights)
        for i, Q in enumerate(Qs):
            weights[i], stationary = self._update(i, weights, Q, S)
            residual = residual + stationary
        return State(tuple(weights), H, residual, None, sums)

    def _update(self, i: int, weights: Sequence[Array], Q: Array, S: Array) -> tuple[Array, Array]:
        """W_i after its update, and how far from stationary it was."""
        W = weights[i]
        pulls = self._pulls(i, weights)
        above, below = added([Q, *pulls]), W @ (S + self.sparsity)
        if not pulls:
            return multiply(W, above, below)
        tiny = float(np.finfo(W.dtype).tiny) ** 0.5
        return W * np.sqrt(above / at_least(below, tiny)), stationarity(W, below - above)

    def _pulls(self, i: int, weights: Sequence[Array]) -> list[Array]:
        """λ A_ij W_j for every network of data set i."""
        return [A @ weights[j] for (row, j), A in self.networks.items() if row == i]

    def objective(self, state: State) -> tuple[Array, Array]:
        """f, and what penalties and networks add to it."""
        *Qs, S = state.memories
        fit = self.half_norm
        penalty = self.ridge * inner(state.H, state.H) / 2
        for i, (W, Q) in enumerate(zip(state.weights, Qs, strict=True)):
            fit = fit - precise_inner(Q, W) + precise_inner(gram(W), S) / 2
            sums = W.sum(axis=1, keepdims=True)
            penalty = penalty + self.sparsity * inner(sums, sums) / 2
            for pull in self._pulls(i, state.weights):  # once from i, once from j
                penalty = penalty - inner(W, pull) / 2
        return fit + penalty, penalty + 0 * fit

    def _sums(self, H: Array) -> tuple[Array, ...]:
        return (*(product_transposed(X, H) for X in self.sets), gram(H.mT))
