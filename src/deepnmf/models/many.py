"""Many fits at once: seeds and training sets of equal shape, as one stack on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from deepnmf.arrays import Array, namespace, repeated, to_device
from deepnmf.arrays.tensors import free_on_cuda
from deepnmf.models.advice import complete
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.settings import AUTO, number, whole_number
from deepnmf.samples.memory import InMemory
from deepnmf.samples.open import open_samples
from deepnmf.samples.place import works_on_card

Model = TypeVar("Model", bound=MatrixFactorization)
BySet = Sequence[Sequence[MatrixFactorization]]
"""Models by training set and seed."""


def stackable(model: Any) -> bool:
    """Whether `fit_many` can fit copies of this model as one stack."""
    return isinstance(model, MatrixFactorization) and model.stacks


def fit_many(
    X: Any, model: Model, seeds: int | Sequence[int] = 10, *, share: float = 1.0
) -> list[Model]:
    """Fit copies of a model, one per seed, and per training set where X is a stack of them.

    Parameters
    ----------
    X : array (n_samples, n_features), or a stack of training sets (n_sets, n_samples, n_features)
        A stack may also be a list of arrays of equal shape.
    model : DeepNMF, or an estimator of `deepnmf.baselines`
        The model to copy. It is not fitted itself.
    seeds : int or sequence of int, default=10
        The `random_state` of each fit; a number n stands for 0 … n − 1.
    share : float, default=1.0
        Below 1, each fit learns from this share of the samples only, drawn by its seed. Parts that
        such fits have in common do not depend on single samples.

    Returns
    -------
    models : list of fitted models: all seeds of the first training set, then of the second, …

    On a CUDA device (tensors on it, or a model with `device`), the fits run together in stacks that
    fit its memory, and each gives the same model as a fit of its own, up to rounding. On a CPU, and
    for baselines that cannot be stacked, they run one by one. Ctrl-C ends them all: it raises
    KeyboardInterrupt.
    """
    model.check()
    if getattr(model, "checkpoint", None) is not None:
        raise ValueError(
            "fit_many: a checkpoint holds one fit, and these are many. Set checkpoint=None, or fit "
            "the models one by one, each with its own path."
        )
    if getattr(model, "layer_sizes", None) == AUTO:
        raise ValueError(
            'fit_many: with layer_sizes="auto" each fit could choose other sizes. Choose once, '
            "choose_layers(X, model), and give its layer_sizes."
        )
    sets, numbers = _sets(X), _seeds(seeds)
    if share != 1:
        if len(sets) > 1:
            raise ValueError("fit_many: share draws from one set of samples, and X is several.")
        if not isinstance(getattr(model, "graph", None), str | None):
            raise ValueError(
                "fit_many: share draws samples, and a graph that is a matrix is of all of them. "
                'Leave one out, or use graph="codes" or "data".'
            )
        return _fit_shares(sets[0], model, numbers, share)
    if not (stackable(model) and works_on_card(sets[0], model.device)):
        return [
            complete(clone(model).set_params(random_state=seed).fit(data))
            for data in sets
            for seed in numbers
        ]
    fitted = [[clone(model).set_params(random_state=seed) for seed in numbers] for _ in sets]
    return _fit_stacks(sets, fitted)


def _fit_shares(X: Any, model: Model, seeds: Sequence[int], share: float) -> list[Model]:
    """One fit per seed, each to its own share of the samples."""
    fitted = [clone(model).set_params(random_state=seed) for seed in seeds]
    with open_samples(X, fitted[0]._needs(fitting=True)) as samples:
        n = samples.data.shape[-1]
        size = round(number("share", share) * n)
        if not 0 < size <= n:
            raise ValueError(f"share: {share:g} of {n} samples is {size}; give up to 1.")
        draws = [np.random.default_rng([seed, n]).choice(n, size, replace=False) for seed in seeds]
        if stackable(model) and works_on_card(X, model.device):
            sets = [samples.some(np.sort(draw)) for draw in draws]
            _fit_stacks(sets, [[one] for one in fitted])
        else:
            for one, draw in zip(fitted, draws, strict=True):
                complete(one.fit(samples.some(np.sort(draw))))
        if samples.feature_names is not None:
            for one in fitted:
                one.feature_names_in_ = samples.feature_names
    return fitted


def _fit_stacks(sets: list[Any], fitted: list[list[Model]]) -> list[Model]:
    """Fit models[set][seed] on a card, in stacks that fit its memory."""
    first = fitted[0][0]
    if first.callback is not None:
        raise ValueError(
            "fit_many: a callback follows one fit, and a stack has many. Set callback=None, or fit "
            "the models one by one."
        )
    checked = [_opened(models[0], X, fitting=True) for models, X in zip(fitted, sets, strict=True)]
    at_once = max(1, int(0.8 * free_on_cuda() / _bytes_per_run(first, checked[0].X)))
    for some_sets, some_seeds in _blocks(len(sets), len(fitted[0]), at_once):
        some = [models[some_seeds] for models in fitted[some_sets]]
        _fit_stack(some, checked[some_sets])
        complete(some[0][0])
    return [model for models in fitted for model in models]


def transform_many(
    models: Sequence[MatrixFactorization], X: Any, layer: int | None = None
) -> Array:
    """Codes (n_models, n_samples, k) of X by each of these fitted models, which are of one class.

    X is (n_samples, n_features) for all models, or a stack (n_sets, n_samples, n_features). The
    models are then in the order of `fit_many`: those of the first set, then of the second, …
    """
    sets = _sets(X)
    each, rest = divmod(len(models), len(sets))
    if not models or rest:
        raise ValueError(
            f"transform_many: {len(models)} models for {len(sets)} sets of samples; give one set, "
            "or the same number of models for each."
        )
    rows = [models[index * each : (index + 1) * each] for index in range(len(sets))]
    first = models[0]
    if not (stackable(first) and works_on_card(sets[0], first.device)):
        codes = [
            model.transform(X, layer) for row, X in zip(rows, sets, strict=True) for model in row
        ]
        return namespace(codes[0]).stack(codes)
    layer = first._fitted_layer(layer)
    checked = [_opened(row[0], X, fitting=False) for row, X in zip(rows, sets, strict=True)]
    blocks = []
    at_once = max(1, int(0.8 * free_on_cuda() / _bytes_per_run(first, checked[0].X)))
    for some_sets, some_models in _blocks(len(sets), each, at_once):
        chosen = [row[some_models] for row in rows[some_sets]]
        data = _stacked(checked[some_sets], len(chosen[0]))
        stack = namespace(data).stack
        weights = [
            stack(
                [stack([to_device(model.weights_[level], data) for model in row]) for row in chosen]
            )
            for level in range(len(first.weights_))
        ]
        H = first._encode_stack(data, weights, chosen, layer)
        blocks.append(checked[0].home(H.mT.reshape(-1, H.shape[-1], H.shape[-2])))
    return namespace(blocks[0]).concat(blocks)


def _opened(model: MatrixFactorization, X: Any, *, fitting: bool) -> InMemory:
    """A training set, checked."""
    samples = open_samples(X, model._needs(fitting=fitting))
    if not isinstance(samples, InMemory):
        raise ValueError(
            "fit_many: a stack on a GPU needs arrays in memory. Fit the models one by one."
        )
    return samples


def _stacked(sets: Sequence[InMemory], models: int) -> Array:
    """The sets as the core works on them, (sets, models, m, n)."""
    placed = [samples.placed() for samples in sets]
    return repeated(namespace(placed[0]).stack(placed), models)


def _fit_stack(fitted: BySet, sets: list[InMemory]) -> None:
    """Fit models[set][seed] as one stack of shape (sets, seeds)."""
    first = fitted[0][0]
    generators = [model._generator() for models in fitted for model in models]
    first._fit_stack(_stacked(sets, len(fitted[0])), generators, fitted, sets)


def _sets(X: Any) -> list[Any]:
    """The training sets."""
    if isinstance(X, list | tuple) and len(X) and getattr(X[0], "ndim", 0) == 2:
        sets = list(X)
    elif getattr(X, "ndim", 2) == 3:
        sets = [X[index] for index in range(X.shape[0])]
    else:
        return [X]
    shapes = {tuple(data.shape) for data in sets}
    if len(shapes) != 1:
        raise ValueError(
            f"fit_many: the training sets have shapes {sorted(shapes)}; a stack needs equal ones. "
            "Cut them to equal size, or call fit_many for each."
        )
    return sets


def _seeds(seeds: Any) -> list[int]:
    numbers = range(whole_number("seeds", seeds, least=1)) if np.ndim(seeds) == 0 else seeds
    if not len(numbers):
        raise ValueError("seeds is empty: give at least one seed, or a number of seeds.")
    return [whole_number("seeds", seed, least=0) for seed in numbers]


def _bytes_per_run(model: MatrixFactorization, X: Array) -> int:
    """A generous estimate of the memory that one run of a stack needs: its factors in the widest
    layer, and the arrays of a step."""
    n, m = X.shape
    widest = max(model._sizes())
    entries = model.footprint * widest * n + 10 * max(m, widest) * widest
    return int(entries * (8 if "64" in str(X.dtype) else 4))


def _blocks(sets: int, seeds: int, at_once: int) -> Iterator[tuple[slice, slice]]:
    """All pairs of a set and a seed, in rectangles of at most `at_once` pairs."""
    if at_once >= seeds:
        step = at_once // seeds
        for low in range(0, sets, step):
            yield slice(low, low + step), slice(0, seeds)
        return
    for index in range(sets):
        for low in range(0, seeds, at_once):
            yield slice(index, index + 1), slice(low, low + at_once)
