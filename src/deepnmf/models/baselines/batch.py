"""Integrative NMF of batches that share features (Welch et al. 2019, LIGER)."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Self

import numpy as np
import scipy.sparse

from deepnmf.arrays import (
    Array,
    added,
    epsilon,
    gram,
    inner,
    is_sparse,
    namespace,
    precise_inner,
    product_transposed,
    to_device,
    transposed_product,
)
from deepnmf.arrays.cpu.threads import one_blas_thread
from deepnmf.core.encoding import squared_error
from deepnmf.core.finite import checked_later, finite
from deepnmf.core.loop import descend
from deepnmf.core.passes import Sums, add_up, exact_solver, nonnegative_least_squares
from deepnmf.core.stage import Descent
from deepnmf.core.training import Run, Trained
from deepnmf.core.watch import Watch
from deepnmf.links import Identity
from deepnmf.models.baselines.base import CLOSE, SingleLayer, State, ratio
from deepnmf.models.settings import number
from deepnmf.penalties import Zero
from deepnmf.samples.base import Samples
from deepnmf.samples.open import open_samples
from deepnmf.solvers import Auto, Solver
from deepnmf.solvers.quadratic import Quadratic, codes_problem, weights_problem
from deepnmf.starts import Given, empty_codes


@dataclass(frozen=True)
class OwnParts:
    """What each batch adds to the shared parts."""

    names: tuple[Hashable, ...]
    """The batches, as they were named in `fit`."""
    parts: tuple[Any, ...]
    """V_bᵀ of every batch, (k, n_features): row j is what the batch adds to part j."""

    def of(self, name: Hashable) -> Any:
        """The own parts of a batch."""
        return self.parts[self.names.index(name)]

    def is_sound(self, features: int, size: int) -> bool:
        """Whether these can be the own parts of a model with so many features and parts."""
        return len(self.names) == len(self.parts) == len(set(self.names)) and all(
            getattr(V, "shape", None) == (size, features) and bool((V >= 0).all())
            and bool(np.isfinite(V).all())
            for V in self.parts
        )  # fmt: skip


class DuringFit:
    """What the model knows until a fit is over."""

    _batches: list[Hashable] | None = None
    """The batch of every sample."""
    _ended: tuple[tuple[Hashable, ...], tuple[Array, ...], Array] | None = None
    """How training ended: the names of the batches, their V_b, and ‖X − X̂‖² with them."""


@dataclass(eq=False, repr=False, kw_only=True)
class BatchNMF(DuringFit, SingleLayer):
    """Integrative NMF of batches: X_b ≈ (W + V_b) H_b, with W for all and a V_b for each.

        ½ Σ_b ‖X_b − (W + V_b) H_b‖² + ½ λ Σ_b ‖V_b H_b‖²,    all factors ≥ 0.

    Samples of all batches are made of the same parts W; V_b takes up how a batch differs, so that
    the codes do not have to. They can be compared between batches. The larger λ, the less may
    differ; λ → ∞, and a single batch, are plain NMF. H, every V_b and W are updated in turn by the
    solver of plain NMF, and no update raises the objective. (`IntegrativeNMF` with
    shared="features" has the same objective, for several matrices, with multiplicative updates.)

    Parameters
    ----------
    n_components : int, default=16
        The number of parts, k.
    strength : float, default=0.01
        λ, the price of what is not shared. Where batches differ much it must be low: at a high
        price, what only one batch has is cheaper in W, and the batch is in the codes.
    start, fill, max_iter, tol, callback, random_state : as in `DeepNMF`

    Attributes
    ----------
    components_ : array (k, n_features), the shared parts Wᵀ
    own_parts_ : OwnParts, the names of the batches and V_bᵀ of each; `own_parts_.of(name)`
    codes_ : array (n_samples, k), the codes at the end of training

    References
    ----------
    J. Welch et al., Single-cell multi-omic integration compares and contrasts features of brain
    cell identity, Cell 2019.
    """

    name = "batch-nmf"
    purpose = "integrative NMF: parts that batches share, and what each adds to them"
    strength: float = 0.01
    tol: float = 1e-6

    def _sizes(self) -> tuple[int, ...]:
        number("strength", self.strength)
        return super()._sizes()

    def fit(self, X: Any, y: Any = None, *, batches: Any = None) -> Self:
        """Learn from X (n_samples, n_features), dense or sparse, and the batch of every sample:
        `batches` (n_samples,), numbers or words. Without it there is one batch; y is ignored."""
        self._batches = None if batches is None else _labels(batches)
        try:
            return super().fit(X)
        finally:
            self._batches = self._ended = None

    def fit_transform(self, X: Any, y: Any = None, *, batches: Any = None) -> Array:
        """Learn, and return the codes of X (n_samples, k), as `transform` does."""
        return self.fit(X, batches=batches).transform(X, batches=batches)

    def transform(self, X: Any, layer: int | None = None, *, batches: Any = None) -> Array:
        """The codes of X (n_samples, k).

        With `batches`, the batch of every sample as in `fit`, each has its own parts. Samples of
        batches that were not fitted have none: leave `batches` out, and the shared parts alone
        describe them.
        """
        if batches is None:
            return super().transform(X, layer)
        self._fitted_layer(layer)
        labels = _labels(batches)
        new = [name for name in labels if name not in self.own_parts_.names]
        if new:
            known = ", ".join(map(repr, self.own_parts_.names)) or "none"
            raise ValueError(
                f"batches: {new[0]!r} was not fitted; these were: {known}. Leave batches out to "
                "encode samples by the shared parts alone."
            )
        with open_samples(X, self._needs(fitting=False)) as samples:
            return samples.encoded(
                partial(self._coded_in_batches, labels=labels), self._n_features_out
            )

    def knows(self, batches: Any) -> bool:
        """Whether all these batches were fitted."""
        return set(_labels(batches)) <= set(self.own_parts_.names)

    def _coded_in_batches(self, X: Array, labels: list[Hashable]) -> Array:
        order = Order.of(labels, int(X.shape[-1]))
        W, codes = to_device(self.weights_[0], X), []
        with one_blas_thread(), checked_later():
            for name, own in zip(order.names, order.places, strict=True):
                X_b, V = X[:, own], to_device(self.own_parts_.of(name), X).mT
                problem = codes_problem_of(X_b, W, V, float(self.strength))
                empty = empty_codes(X_b, W.shape[-1])
                codes.append(exact_solver(X).update(problem, empty).F)
            return finite(order.restored(codes), "the codes")

    def _train(self, X: Array, watch: Watch) -> Trained:
        n = int(X.shape[-1])
        order = Order.of([0] * n if self._batches is None else self._batches, n)
        sets = tuple(X[:, own] for own in order.places)
        given = isinstance(self.start, Given) or len(sets) == 1
        W, H = self._first(X if given else order.restored(_in_common(sets)), watch.generators)
        problem = InBatches(X, sets, float(self.strength), Auto())
        begun = problem.begin(W, [H[:, own] for own in order.places])
        ended = descend(problem, begun, self.tol, self.max_iter, watch, stage_name="finetune")
        state = ended.factors
        fit, penalty = problem.objective(state)
        names = () if self._batches is None else order.names
        Vs = tuple(batch.V for batch in state.memories)
        self._ended = (names, Vs[: len(names)], 2 * (fit - penalty))
        H = order.restored(problem.codes(state))
        return Trained(state.weights, H, watch.history, ended.sweeps, ended.reasons)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        return nonnegative_least_squares(X, weights[0], Zero())

    def _squared_error(self, X: Array, weights: Sequence[Array], H: Array) -> Any:
        """‖X − X̂‖²: of training with own parts, and otherwise with the shared parts alone."""
        if self._ended is None:
            return super()._squared_error(X, weights, H)
        return self._ended[2]

    def _keep(self, samples: Samples, run: Run, error: float, basis: Array) -> None:
        super()._keep(samples, run, error, basis)
        assert self._ended is not None
        names, Vs, _ = self._ended
        self.own_parts_ = OwnParts(names, tuple(samples.home(V).T for V in Vs))


@dataclass(frozen=True)
class Order:
    """The samples of every batch."""

    names: tuple[Hashable, ...]
    places: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, labels: Sequence[Hashable], samples: int) -> Order:
        if len(labels) != samples:
            raise ValueError(
                f"batches: {len(labels)} labels for {samples} samples. Give one per sample."
            )
        names = tuple(dict.fromkeys(labels))
        number = {name: place for place, name in enumerate(names)}
        of_sample = np.asarray([number[label] for label in labels])
        return cls(names, tuple(np.flatnonzero(of_sample == place) for place in range(len(names))))

    def restored(self, pieces: Sequence[Array]) -> Array:
        """Matrices (k, n_b), one per batch, as one in the order of the samples."""
        return _beside(pieces)[:, np.argsort(np.concatenate(self.places))]


@dataclass(frozen=True)
class Batch:
    """V_b, and the sums over the samples of batch b: S = H_b H_bᵀ and Q = X_b H_bᵀ."""

    V: Array
    sums: Sums


@dataclass(frozen=True)
class InBatches(Descent[State]):
    """½ Σ_b ‖X_b − (W + V_b) H_b‖² + ½ λ Σ_b ‖V_b H_b‖².

    H of a state has the samples batch by batch; its memories are the batches.
    """

    sets: tuple[Array, ...]
    strength: float
    solver: Solver
    monotone = True

    def begin(self, W: Array, codes: Sequence[Array]) -> State:
        """The factors that training starts from: nothing is own."""
        batches = tuple(Batch(0 * W, add_up(X, H)) for X, H in zip(self.sets, codes, strict=True))
        return self._state(W, codes, batches, 0.0)

    def codes(self, state: State) -> list[Array]:
        """H_b of every batch."""
        edges = np.cumsum([0, *(X.shape[-1] for X in self.sets)])
        return [state.H[:, low:high] for low, high in itertools.pairwise(edges)]

    def sweep(self, state: State) -> State:
        """H_b and V_b of every batch, then W."""
        (W,), codes, batches, residual = state.weights, self.codes(state), [], 0.0
        for place, (X, H) in enumerate(zip(self.sets, codes, strict=True)):
            V = state.memories[place].V
            codes[place], apart = self._update(codes_problem_of(X, W, V, self.strength), H)
            S, Q = sums = add_up(X, codes[place])
            residual = residual + apart
            if len(self.sets) > 1:  # a single batch has nothing that others lack
                problem = weights_problem(None, (1 + self.strength) * S, Q - W @ S, Zero())
                V, apart = self._update(problem, V)
                residual = residual + apart
            batches.append(Batch(V, sums))
        S = added(batch.sums.S for batch in batches)
        Q = added(batch.sums.Q - batch.V @ batch.sums.S for batch in batches)
        W, apart = self._update(weights_problem(None, S, Q, Zero()), W)
        return self._state(W, codes, tuple(batches), residual + apart)

    def objective(self, state: State) -> tuple[Array, Array]:
        """f, and the price of what is not shared."""
        (W,), batches = state.weights, state.memories
        fit, penalty, rounding = self.half_norm, 0.0 * self.half_norm, 0.0 * self.half_norm
        for batch in batches:
            S, Q = batch.sums
            U, square = W + batch.V, gram(W + batch.V)
            fit = fit - precise_inner(Q, U) + precise_inner(square, S) / 2
            penalty = penalty + self.strength * precise_inner(gram(batch.V), S) / 2
            rounding = rounding + epsilon(S) * inner(square, S)
        if bool(fit < CLOSE * rounding):
            triples = zip(self.sets, batches, self.codes(state), strict=True)
            fit = (
                added(squared_error(X, (W + batch.V,), Identity(), H) for X, batch, H in triples)
                / 2
            )
        return fit + penalty, penalty

    def _update(self, problem: Quadratic, F: Array) -> tuple[Array, Array]:
        """A factor after its update, and how far from stationary it was."""
        outcome = self.solver.update(problem, F)
        return outcome.F, inner(F, F) * outcome.residual

    def _state(
        self, W: Array, codes: Sequence[Array], batches: tuple[Batch, ...], residual: Any
    ) -> State:
        return State((W,), _beside(codes), residual + 0 * inner(W, W), None, batches)


def codes_problem_of(X: Array, W: Array, V: Array, strength: float) -> Quadratic:
    """H_b as a variable: ½‖X_b − (W + V_b) H_b‖² + ½ λ‖V_b H_b‖²."""
    U = W + V
    return codes_problem(gram(U) + strength * gram(V), transposed_product(U, X), Zero())


def _in_common(sets: Sequence[Array]) -> list[Array]:
    """What the batches have in common: each feature scaled down to the lowest of its means over the
    batches. A start from it spends no part on the differences between batches."""
    ones = [0 * empty_codes(X, 1) + 1 for X in sets]
    means = [product_transposed(X, one) / X.shape[-1] for X, one in zip(sets, ones, strict=True)]
    lowest = reduce(namespace(*means).minimum, means)
    return [_scaled(X, ratio(lowest, mean)) for X, mean in zip(sets, means, strict=True)]


def _scaled(X: Array, factors: Array) -> Array:
    """diag(factors) X, sparse if X is."""
    return X.multiply(factors).tocsc() if is_sparse(X) else factors * X


def _beside(pieces: Sequence[Array]) -> Array:
    """Matrices with the same rows, one beside the other."""
    if is_sparse(pieces[0]):
        return scipy.sparse.hstack(pieces).tocsc()
    return namespace(*pieces).concat(list(pieces), axis=-1)


def _labels(batches: Any) -> list[Hashable]:
    """The batch of every sample: a number or a word."""
    labels = np.asarray(batches)
    if labels.ndim != 1:
        raise ValueError(f"batches must have one label per sample, got shape {labels.shape}.")
    values = labels.tolist()
    missing = [place for place, value in enumerate(values) if value is None or value != value]
    if missing:
        raise ValueError(
            f"batches: no label for {len(missing)} of {len(values)} samples, the first is sample "
            f"{missing[0]}. Remove these samples, or give them a batch."
        )
    return [value if isinstance(value, int | str) else str(value) for value in values]
