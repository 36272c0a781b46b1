"""What methods of several data sets share."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse

from deepnmf.arrays import Array, Data, added, namespace, squared_norm
from deepnmf.arrays.cpu.threads import one_blas_thread
from deepnmf.arrays.tensors import is_tensor, to_numpy
from deepnmf.core.finite import checked_later, finite
from deepnmf.core.loop import descend
from deepnmf.core.stage import Descent
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.models.base import Callback, Factorization, Seed
from deepnmf.models.baselines.base import State, layer_start
from deepnmf.models.settings import MOST, one_of, whole_number
from deepnmf.samples.base import Needs
from deepnmf.samples.open import open_samples
from deepnmf.starts import Start

SHARED = ("samples", "features")
Several = Sequence[Any] | Mapping[Any, Any]
"""Matrices in a list, or by name in a dict."""


@dataclass(eq=False, repr=False, kw_only=True)
class SeveralSets(Factorization):
    """A model of several data sets: a list or dict of matrices that have all their samples in
    common (shared="samples"), or all their features (shared="features").

    Attributes
    ----------
    names_ : list, the names (or places) of the data sets
    codes_ : array (n_samples, k), or a dict with one per data set where features are shared
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
    def _problem(self, names: list[Hashable], sets: tuple[Array, ...]) -> SharedCodes:
        """What is minimised over the factors of these (m_i, n) matrices."""

    def check(self) -> None:
        super().check()
        whole_number("n_components", self.n_components, least=1, most=MOST)
        one_of("shared", self.shared, SHARED)
        layer_start(self.start, self.fill)

    def fit(self, X: Several, y: Any = None) -> Self:
        """Learn from a list or dict of matrices (n_samples_i, n_features_i); y is ignored."""
        self.check()
        names, sets = self._opened(X)
        problem = self._problem(names, sets)
        start = layer_start(self.start, self.fill)
        with checked_later():
            W, H = start.factors(_stacked(sets), int(self.n_components), [self._generator()])
        callback = self.callback
        watch = Watch(None if callback is None else lambda record, _: bool(callback(record)))
        rows = np.cumsum([0, *(matrix.shape[0] for matrix in sets)])
        weights = tuple(W[low:high] for low, high in itertools.pairwise(rows))
        with one_blas_thread(), checked_later():
            ended = descend(
                problem, problem.begin(weights, H), self.tol, self.max_iter, watch,
                stage_name="finetune",
            )  # fmt: skip
        for factor in (*ended.factors.weights, ended.factors.H):
            finite(factor, "the factors")
        self._keep(names, ended.factors)
        self._keep_story(
            Trained(self.weights_, H, watch.history, ended.sweeps, ended.reasons).only()
        )
        return self

    def fit_transform(self, X: Several, y: Any = None) -> Any:
        """Learn, and return `codes_`."""
        return self.fit(X).codes_

    def _keep(self, names: list[Hashable], state: State) -> None:
        """Set the fitted attributes of the factors."""
        self.names_, self.weights_ = names, state.weights
        by_name = dict(zip(names, state.weights, strict=True))
        if self.shared == "samples":
            self.codes_ = state.H.T
            self.components_ = {name: W.T for name, W in by_name.items()}
        else:
            self.codes_, self.components_ = by_name, state.H

    def _opened(self, X: Several) -> tuple[list[Hashable], tuple[Array, ...]]:
        """The names, and the data sets as (m_i, n) NumPy or sparse matrices with n shared."""
        whom = type(self).__name__
        if isinstance(X, Mapping):
            names, matrices = list(X), list(X.values())
        elif isinstance(X, list | tuple):
            names, matrices = list(range(len(X))), list(X)
        else:
            raise ValueError(
                f"{whom} takes several data sets: a list or dict of matrices, such as "
                '{"genes": G, "methylation": M}; for one matrix use [X].'
            )
        if not matrices:
            raise ValueError(f"{whom}: no data set was given.")
        sets: list[Data] = []
        for name, matrix in zip(names, matrices, strict=True):
            needs = Needs(whom=f"{whom} (data set {name!r})")
            with open_samples(matrix, needs) as samples:
                data = to_numpy(samples.data) if is_tensor(samples.data) else samples.data
            sets.append(data if self.shared == "samples" else data.T)
        if len({data.shape[1] for data in sets}) != 1:
            shapes = {name: matrix.shape for name, matrix in zip(names, matrices, strict=True)}
            raise ValueError(
                f'{whom}: shared="{self.shared}", but the data sets do not have the same '
                f"{self.shared}: shapes {shapes}. Keep those they have in common."
            )
        if len({data.dtype for data in sets}) != 1:
            sets = [data.astype(np.float64) for data in sets]
        return names, tuple(sets)

    def _bases(self, names: list[Hashable], sets: Sequence[Array]) -> list[Array]:
        """The fitted W_i (m_i, k) of these data sets, whose samples are shared."""
        bases = []
        for name, data in zip(names, sets, strict=True):
            if name not in self.names_:
                raise ValueError(
                    f"transform: data set {name!r} was not fitted; {self.names_} were."
                )
            W = self.components_[name].T
            if W.shape[0] != data.shape[0]:
                raise ValueError(
                    f"transform: data set {name!r} has {data.shape[0]} features, {W.shape[0]} were "
                    "fitted."
                )
            bases.append(W)
        return bases


@dataclass(frozen=True)
class SharedCodes(Descent):
    """A loss of several X_i (m_i, n) that share codes H (k, n)."""

    sets: tuple[Array, ...]

    @abstractmethod
    def begin(self, weights: Sequence[Array], H: Array) -> State:
        """The factors that training starts from."""

    @cached_property
    def half_norm(self) -> Array:
        """½ Σ_i ‖X_i‖²."""
        return added(squared_norm(X) for X in self.sets) / 2

    def dead(self, state: State) -> Array:
        """The number of rows of H without an entry > 0."""
        return np.sum(~state.used)


def _stacked(sets: Sequence[Array]) -> Array:
    """The features of all sets, one set below the other."""
    if len(sets) == 1:
        return sets[0]
    if any(scipy.sparse.issparse(data) for data in sets):
        return scipy.sparse.csr_array(
            scipy.sparse.vstack([scipy.sparse.csr_array(data) for data in sets])
        )
    return namespace(*sets).concat(sets)
