"""Joint NMF of several data sets (Zhang et al. 2012), with networks (Zhang et al. 2011)."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from deepnmf.arrays import (
    Array,
    Data,
    added,
    at_least,
    gram,
    inner,
    namespace,
    precise_inner,
    product_transposed,
    squared_norm,
    transposed_product,
)
from deepnmf.core.loop import descend
from deepnmf.core.stage import Descent
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.models.advice import warn
from deepnmf.models.base import Callback, Factorization, Seed
from deepnmf.models.baselines.base import State, layer_start, multiply, stationarity
from deepnmf.models.settings import number, one_of, whole_number
from deepnmf.penalties import Penalty, Ridge, SquaredL1, Zero
from deepnmf.samples.base import Needs
from deepnmf.samples.open import open_samples
from deepnmf.solvers import Coordinate
from deepnmf.solvers.quadratic import codes_problem
from deepnmf.starts import Start

SHARED = ("samples", "features")
Several = Sequence[Any] | Mapping[Any, Any]


@dataclass(eq=False, repr=False, kw_only=True)
class SeveralSets(Factorization):
    """What methods of several data sets share: a list or dict of matrices goes in, all over the
    same samples (shared="samples"), or all over the same features (shared="features").

    Attributes
    ----------
    names_ : list, the names (or places) of the data sets
    codes_ : array (n_samples, k), or a dict of one per data set where features are shared
    components_ : dict of arrays (k, n_features_i), or one array where features are shared
    history_, n_iter_, status_ : as in `DeepNMF`
    """

    n_components: int = field(default=16, kw_only=False)
    shared: str = "samples"
    start: str | Start = "random"
    fill: str | float = "mean"
    max_iter: int = 500
    tol: float = 1e-5
    callback: Callback | None = None
    random_state: Seed = None

    @abstractmethod
    def _problem(self, names: list[Any], sets: tuple[Array, ...]) -> Any:
        """What is minimised over the factors of these (m_i, n) matrices."""

    def check(self) -> None:
        super().check()
        whole_number("n_components", self.n_components, least=1)
        layer_start(self.start, self.fill)

    def fit(self, X: Several, y: Any = None) -> Self:
        """Learn from a list or dict of matrices (n_samples_i, n_features_i); y is ignored."""
        self.check()
        names, sets = self._opened(X)
        start = layer_start(self.start, self.fill)
        W, H = start.factors(_stacked(sets), int(self.n_components), [self._generator()])
        callback = self.callback
        watch = Watch(None if callback is None else lambda record, _: bool(callback(record)))
        problem = self._problem(names, sets)
        rows = np.cumsum([0, *(matrix.shape[0] for matrix in sets)])
        weights = tuple(W[low:high] for low, high in itertools.pairwise(rows))
        ended = descend(
            problem, problem.begin(weights, H), self.tol, self.max_iter, watch,
            stage_name="finetune",
        )  # fmt: skip
        self._keep(names, ended.factors)
        self._keep_story(
            Trained(self.weights_, H, watch.history, ended.sweeps, ended.reasons).only()
        )
        return self

    def _keep(self, names: list[Any], state: State) -> None:
        """Set the fitted attributes of the factors."""
        self.names_ = names
        self.weights_ = state.weights
        each = dict(zip(names, (W.T for W in state.weights), strict=True))
        if self.shared == "samples":
            self.codes_, self.components_ = state.H.T, each
        else:
            self.components_ = state.H
            self.codes_ = {name: components.T for name, components in each.items()}

    def fit_transform(self, X: Several, y: Any = None) -> Any:
        """Learn, and return `codes_`."""
        return self.fit(X).codes_

    def _opened(self, X: Any) -> tuple[list[Any], tuple[Array, ...]]:
        """Names, and the sets as (m_i, n) matrices, n being over what is shared."""
        whom = type(self).__name__
        one_of("shared", self.shared, SHARED)
        if isinstance(X, Mapping):
            names, given = list(X), list(X.values())
        elif isinstance(X, list | tuple):
            names, given = list(range(len(X))), list(X)
        else:
            raise ValueError(
                f"{whom} takes several data sets: a list or dict of matrices, such as "
                '{"genes": G, "methylation": M}; for one matrix use [X].'
            )
        if not given:
            raise ValueError(f"{whom}: no data set was given.")
        sets: list[Data] = []
        for name, matrix in zip(names, given, strict=True):
            needs = Needs(whom=f"{whom} (data set {name!r})")
            with open_samples(matrix, needs) as samples:
                data = samples.data
                sets.append(data if self.shared == "samples" else data.T)
        across = {matrix.shape[1] for matrix in sets}
        if len(across) != 1:
            shapes = {name: matrix.shape for name, matrix in zip(names, given, strict=True)}
            raise ValueError(
                f'{whom}: shared="{self.shared}", but the data sets do not have the same '
                f"{self.shared}: shapes {shapes}. Keep those they have in common."
            )
        if len({matrix.dtype for matrix in sets}) != 1:
            sets = [matrix.astype(np.float64) for matrix in sets]
        return names, tuple(sets)


@dataclass(eq=False, repr=False, kw_only=True)
class JointNMF(SeveralSets):
    """X_i ≈ W_i H for several data sets: one H for all, W_i each its own,

        ½ Σ_i ‖X_i − W_i H‖² + ½ γ‖H‖² + ½ β Σ_i Σ_f ‖W_i(f, :)‖₁²
            − ½ λ Σ_i ⟨W_i, A_ii W_i⟩ − λ Σ_{i<j} ⟨W_i, A_ij W_j⟩,    W_i, H ≥ 0.

    Without β, γ and λ: the joint NMF of Zhang et al. 2012; of one data set, NMF. With them, their
    network-regularised form: features that a network links go to the same part, and a feature goes
    to few (β must be above λ times the networks' spectral radius, or W would grow without end, and
    γ > 0, or the sparsity fades). Multiplicative updates, that of W_i
    under networks with a square root; none raises the objective.

    Parameters
    ----------
    n_components : int
    shared : {"samples", "features"}
        What the data sets have in common; H is over that.
    sparsity : float, default=0
        β.
    ridge : float, default=0
        γ.
    networks : None, or dict {(name, name): matrix}
        A_ij ≥ 0 between the features of data sets i and j; with i = j within one, symmetric. Names
        are those of the dict given to `fit`, or places in the list.
    network_strength : float, default=0
        λ.
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

    def transform(self, X: Any) -> Array:
        """Codes (n_samples, k). Shared samples: from all data sets, or those of a dict. Shared
        features: of any samples with these features, a single matrix."""
        check_is_fitted(self)
        if self.shared == "features":
            _, (matrix,) = self._opened([X])
            features = self.components_.shape[1]
            if matrix.shape[1] != features:
                raise ValueError(
                    f"transform: X has {matrix.shape[1]} features, {features} were fitted."
                )
            penalty = SquaredL1(float(self.sparsity)) if self.sparsity else Zero()
            return _codes([self.components_.T], [matrix.T], penalty).T
        names, sets = self._opened(X)
        bases = []
        for name, one in zip(names, sets, strict=True):
            if name not in self.names_:
                raise ValueError(
                    f"transform: data set {name!r} was not fitted; {self.names_} were."
                )
            W = self.components_[name].T
            if W.shape[0] != one.shape[0]:
                raise ValueError(
                    f"transform: data set {name!r} has {one.shape[0]} features, {W.shape[0]} were "
                    "fitted."
                )
            bases.append(W)
        return _codes(bases, sets, Ridge(float(self.ridge)) if self.ridge else Zero()).T

    def _problem(self, names: list[Any], sets: tuple[Array, ...]) -> Joint:
        sparsity, ridge = number("sparsity", self.sparsity), number("ridge", self.ridge)
        if sparsity > 0 and ridge == 0:
            warn(
                "sparsity without ridge fades: W shrinks and H grows at the same fit. Set ridge "
                "> 0 as well.",
                UserWarning,
            )
        return Joint(_stacked(sets[:1]), sets, sparsity, ridge, self._networks(names, sets))

    def _networks(self, names: list[Any], sets: tuple[Array, ...]) -> dict[tuple[int, int], Array]:
        """λ A_ij by place, both (i, j) and (j, i)."""
        strength = number("network_strength", self.network_strength)
        found: dict[tuple[int, int], Array] = {}
        if not self.networks:
            return found
        if strength == 0:
            raise ValueError(
                "networks are given, but network_strength is 0: set it, or leave them."
            )
        for (one, other), matrix in self.networks.items():
            if one not in names or other not in names:
                raise ValueError(
                    f"networks: {(one, other)!r} names no data sets; there are {names}."
                )
            i, j = names.index(one), names.index(other)
            A = scipy.sparse.csr_array(matrix, dtype=sets[0].dtype)
            expected = (sets[i].shape[0], sets[j].shape[0])
            if A.shape != expected:
                raise ValueError(f"networks[{one!r}, {other!r}]: shape {A.shape}, not {expected}.")
            if A.nnz and A.data.min() < 0:
                raise ValueError(f"networks[{one!r}, {other!r}]: has negative entries.")
            if i == j and abs(A - A.T).sum() > 1e-6 * abs(A).sum():
                raise ValueError(f"networks[{one!r}, {other!r}]: is not symmetric.")
            if (i, j) in found:
                raise ValueError(
                    f"networks: {one!r} and {other!r} are given twice; give them once."
                )
            found[i, j], found[j, i] = strength * A, strength * scipy.sparse.csr_array(A.T)
        size = _spectral_radius(found, [one.shape[0] for one in sets])
        if size >= number("sparsity", self.sparsity):
            raise ValueError(
                f"networks: network_strength times their spectral radius is {size:.3g}, which must "
                f"be below sparsity={self.sparsity}, or W would grow without end. Lower "
                "network_strength or raise sparsity."
            )
        return found


def _spectral_radius(links: dict[tuple[int, int], Array], sizes: list[int]) -> float:
    """ρ of the whole of the networks, all features of all sets."""
    blocks = [
        [
            links.get((i, j), scipy.sparse.csr_array((rows, columns)))
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


def _stacked(sets: Sequence[Array]) -> Array:
    """All features of all sets, one below the other."""
    if len(sets) == 1:
        return sets[0]
    if any(scipy.sparse.issparse(one) for one in sets):
        return scipy.sparse.csr_array(
            scipy.sparse.vstack([scipy.sparse.csr_array(one) for one in sets])
        )
    return namespace(*sets).concat(sets)


def _codes(bases: Sequence[Array], sets: Sequence[Array], penalty: Penalty) -> Array:
    """argmin_{H ≥ 0} ½ Σ_i ‖X_i − W_i H‖² + R(H)."""
    A = added(gram(W) for W in bases)
    C = added(transposed_product(W, one) for W, one in zip(bases, sets, strict=True))
    problem = codes_problem(A, C, penalty)
    return Coordinate(max_passes=2000, tol=1e-12).update(problem, 0 * C).F


@dataclass(frozen=True)
class Joint(Descent):
    """The objective of `JointNMF`. Q_i = X_i Hᵀ and S = H Hᵀ are kept as the memories."""

    sets: tuple[Array, ...]
    sparsity: float
    ridge: float
    links: dict[tuple[int, int], Array]

    @property
    def half_norm(self) -> Array:  # type: ignore[override]
        """½ Σ_i ‖X_i‖²."""
        return added(squared_norm(one) for one in self.sets) / 2

    def begin(self, weights: Sequence[Array], H: Array) -> State:
        """The factors that training starts from."""
        state = State(tuple(weights), H, inner(H, 0 * H))
        return replace(state, memories=self._sums(H))

    def sweep(self, state: State) -> State:
        """The codes, then every W_i."""
        H = state.H
        above = added(
            transposed_product(W, one) for W, one in zip(state.weights, self.sets, strict=True)
        )
        below = added(gram(W) for W in state.weights) @ H + self.ridge * H
        H, residual = multiply(H, above, below)
        sums = self._sums(H)
        S, weights = sums[-1], list(state.weights)
        for i, Q in enumerate(sums[:-1]):
            W = weights[i]
            pulled = [A @ weights[j] for (one, j), A in self.links.items() if one == i]
            above = added([Q, *pulled])
            below = W @ (S + self.sparsity)
            if pulled:
                tiny = float(np.finfo(W.dtype).tiny) ** 0.5
                found = stationarity(W, below - above)
                weights[i] = W * namespace(W).sqrt(above / at_least(below, tiny))
            else:
                weights[i], found = multiply(W, above, below)
            residual = residual + found
        return State(tuple(weights), H, residual, None, sums)

    def objective(self, state: State) -> tuple[Array, Array]:
        """f, and the part of it that is penalties and networks."""
        *Qs, S = state.memories
        fit = self.half_norm
        penalty = self.ridge * inner(state.H, state.H) / 2
        for i, (W, Q) in enumerate(zip(state.weights, Qs, strict=True)):
            fit = fit - precise_inner(Q, W) + precise_inner(gram(W), S) / 2
            sums = W.sum(axis=1, keepdims=True)
            penalty = penalty + self.sparsity * inner(sums, sums) / 2
            for (one, j), A in self.links.items():
                if one == i:  # every pair of different sets is met twice
                    penalty = penalty - inner(W, A @ state.weights[j]) / 2
        return fit + penalty, penalty + 0 * fit

    def dead(self, state: State) -> Array:
        """Rows of H without an entry > 0."""
        return np.sum(~state.used)

    def _sums(self, H: Array) -> tuple[Array, ...]:
        return (*(product_transposed(one, H) for one in self.sets), gram(H.mT))
