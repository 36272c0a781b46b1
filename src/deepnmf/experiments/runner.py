"""Runs an experiment: fits models, scores their codes, and writes a row for every score."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import normalize as to_unit_norm

from deepnmf.arrays import Array, squared_norm
from deepnmf.arrays.tensors import to_cuda
from deepnmf.data.dataset import Dataset
from deepnmf.data.datasets import DATASETS
from deepnmf.evaluation.many import scores_each_many
from deepnmf.evaluation.metrics import SCORES
from deepnmf.experiments.design import Experiment, Fit, Scoring
from deepnmf.experiments.rows import MEASURES, Plan, RowFile, planned, read
from deepnmf.experiments.stability import NAN, Stability, stabilities
from deepnmf.explain.measures import mean_sparseness, relative_error
from deepnmf.links import LINKS
from deepnmf.models.advice import complete
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.many import fit_many, stackable, transform_many
from deepnmf.samples.fingerprint import fingerprint
from deepnmf.samples.place import works_on_card
from deepnmf.starts import Given, Random
from deepnmf.version import __version__

Progress = Callable[[str, int, int], None]
"""Called after every fit with its key, how many fits are done, and how many there are."""


def run(
    experiment: Experiment,
    path: Path,
    device: str = "cpu",
    report: Progress | None = None,
    dataset: Dataset | None = None,
) -> Path:
    """Do the fits that have no rows at `path` yet, and append theirs. `rows_of` reads them again.

    Rows of other fits, or of the same fits in another setting, stay in the file and do not count.
    On a GPU all folds and seeds of a model are one stack, where the model can be stacked.
    """
    dataset = DATASETS[experiment.data][0]() if dataset is None else dataset
    X, y = _samples(experiment, dataset)
    if (y is None) != (experiment.kmeans == 0):
        raise ValueError(f"{experiment.name}: K-means is scored against labels; there are none.")
    folds = list(splits(experiment, X, y))
    plans = _plans(experiment, X, y)
    rows = RowFile(path, plans)
    total = sum(len(folds) * _seeds(experiment, fit) for fit in experiment.fits)
    for fit in experiment.fits:
        wanted = [
            (fold, seed)
            for fold in range(len(folds))
            for seed in range(_seeds(experiment, fit))
            if (fit.key, fold, seed) not in rows.done
        ]
        model = fit.estimator
        card = works_on_card(X, device)
        if "device" in model.get_params():
            model.set_params(device=device)
        work = _stacked if card and stackable(model) else _one_by_one
        job = Job(experiment, fit, model, X, y, folds)
        for fold, seed, result in work(job, wanted):
            setting = plans[fit.key].setting
            rows.append(_rows(experiment, fit, fold, seed, result, setting))
            if report is not None:
                report(fit.key, len(rows.done), total)
    return path


def rows_of(experiment: Experiment, path: Path, dataset: Dataset) -> pd.DataFrame:
    """The rows of an experiment with these data, out of all that the file has."""
    return planned(read(path), _plans(experiment, *_samples(experiment, dataset)))


def splits(
    experiment: Experiment, X: Array, y: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Training and test samples of the folds that are used; stratified where there are labels."""
    if experiment.first_folds == 0:
        everything = np.arange(X.shape[0])
        yield everything, everything
        return
    kind = KFold if y is None else StratifiedKFold
    folds = kind(experiment.folds, shuffle=True, random_state=0)
    yield from list(folds.split(np.zeros(X.shape[0]), y))[: experiment.first_folds]


def _samples(experiment: Experiment, dataset: Dataset) -> tuple[Array, np.ndarray | None]:
    """X and y as the models see them."""
    X = dataset.X.astype(experiment.dtype)
    y = None if dataset.y is None else np.asarray(dataset.y)
    if experiment.classes is not None and y is not None:
        chosen = np.isin(y, np.unique(y)[: experiment.classes])
        X, y = X[chosen], y[chosen]
    return (to_unit_norm(X) if experiment.normalize == "l2" else X), y


def _seeds(experiment: Experiment, fit: Fit) -> int:
    """How many different fits a fold has: one where all seeds give the same fit."""
    return 1 if fit.deterministic else experiment.runs


def _compares(experiment: Experiment) -> bool:
    """Whether stability is measured, which takes several fits."""
    return experiment.stability and experiment.runs > 1


def _repeats(experiment: Experiment, fit: Fit) -> int:
    """K-means runs per fit. Where one fit stands for all seeds it gets the runs of all of them; 1
    without labels."""
    if experiment.kmeans == 0:
        return 1
    return experiment.kmeans * experiment.runs // _seeds(experiment, fit)


def _plans(experiment: Experiment, X: Array, y: np.ndarray | None) -> dict[str, Plan]:
    """The setting and the number of rows of each fit.

    The setting says what the rows depend on besides the model. What is too long for it, the entries
    of X, the labels and the scorings, has a checksum in it.
    """
    folds = f"{experiment.folds} folds" if experiment.first_folds else "nothing held out"
    kmeans = f"{experiment.kmeans} K-means runs, {experiment.kmeans_start} starts"
    kinds = [
        f"{experiment.data}: {X.shape[0]} x {X.shape[1]}", experiment.dtype, folds,
        f"{experiment.runs} seeds", kmeans if experiment.kmeans else "no labels",
    ]  # fmt: skip
    entries = f"{fingerprint(X.T)} {None if y is None else y.tolist()}"
    stability = "from random starts" if _compares(experiment) else False
    plans = {}
    for fit in experiment.fits:
        scorings = [(row.name, row.project, row.normalize, row.group) for row in fit.scorings]
        checksum = zlib.crc32(f"{entries} {stability} {scorings}".encode())
        setting = ", ".join([*kinds, f"checksum {checksum:08x}"])
        plans[fit.key] = Plan(setting, _repeats(experiment, fit) * len(fit.scorings))
    return plans


@dataclass(frozen=True)
class Job:
    """A model to be fitted to folds of samples."""

    experiment: Experiment
    fit: Fit
    model: MatrixFactorization
    X: Array
    y: np.ndarray | None
    folds: list[tuple[np.ndarray, np.ndarray]]

    @property
    def seeds(self) -> range:
        """The seeds of each fold."""
        return range(_seeds(self.experiment, self.fit))

    @property
    def compares(self) -> bool:
        """Whether stability is measured. It takes several fits that differ."""
        return _compares(self.experiment) and not isinstance(self.fit.start, Given)

    @property
    def from_random(self) -> MatrixFactorization | None:
        """The model from random starts, if stability is measured and its own start is another."""
        if not self.compares or isinstance(self.fit.start, Random):
            return None
        return clone(self.model).set_params(start="random")

    @property
    def runs(self) -> range:
        """The seeds of fits from random starts."""
        return range(self.experiment.runs)

    def by_seed(self, models: Sequence[MatrixFactorization]) -> list[Stability]:
        """The stability of each fit. One fit that stands for all seeds gets the mean."""
        each = stabilities(models)
        return each if len(self.seeds) > 1 else [Stability(*np.mean(each, axis=0).tolist())]


@dataclass(frozen=True)
class Result:
    """What is measured of one fit."""

    objective: float
    relative_error: float
    seconds: float
    held_out_error: float
    sparsity_parts: float
    sparsity_codes: float
    stability: float = NAN
    stability_lowest: float = NAN
    scores: Sequence[Mapping[str, np.ndarray]] = ()
    """For each scoring, the scores of the K-means runs by name."""


Done = Iterator[tuple[int, int, Result]]
"""Fold, seed, and what was measured."""


def _one_by_one(job: Job, wanted: list[tuple[int, int]]) -> Done:
    for fold in sorted({fold for fold, _ in wanted}):
        train, test = (job.X[samples] for samples in job.folds[fold])
        labels = None if job.y is None else job.y[job.folds[fold][1]][None]
        other = job.from_random
        done: dict[int, tuple[MatrixFactorization, Array, float]] = {}
        similar = [Stability()] * len(job.seeds)
        if other is not None:
            similar = job.by_seed([_fitted(other, seed, train) for seed in job.runs])
        elif job.compares:
            done = {seed: _timed(job.model, seed, train, test) for seed in job.seeds}
            similar = job.by_seed([fitted for fitted, _, _ in done.values()])
        for seed in [seed for seed in job.seeds if (fold, seed) in wanted]:
            fit = done[seed] if seed in done else _timed(job.model, seed, train, test)
            fitted, Z, seconds = fit
            scores = _scores(job.experiment, job.fit, Z[None], labels, [(fold, seed)])
            result = _measure(fitted, train, Z, test, seconds)
            yield fold, seed, _completed(result, similar[seed], _of_run(scores, 0))


def _timed(
    model: MatrixFactorization, seed: int, train: Array, test: Array
) -> tuple[MatrixFactorization, Array, float]:
    """The model fitted from this seed, the codes of the samples held out, and the seconds taken."""
    began = time.perf_counter()
    fitted = _fitted(model, seed, train)
    Z = np.asarray(fitted.transform(test))
    return fitted, Z, time.perf_counter() - began


def _fitted(model: MatrixFactorization, seed: int, X: Array) -> MatrixFactorization:
    return complete(clone(model).set_params(random_state=seed).fit(X))


def _stacked(job: Job, wanted: list[tuple[int, int]]) -> Done:
    """All fits as stacks, one stack for the folds of each size."""
    sizes: dict[int, list[int]] = {}
    for fold in sorted({fold for fold, _ in wanted}):
        sizes.setdefault(len(job.folds[fold][0]), []).append(fold)
    for same_size in sizes.values():
        yield from _stack_of(job, same_size, wanted)


def _stack_of(job: Job, some: list[int], wanted: list[tuple[int, int]]) -> Done:
    X, y, folds = job.X, job.y, job.folds
    chosen = {seed for fold, seed in wanted if fold in some}
    all_seeds = job.compares and job.from_random is None
    seeds = [seed for seed in job.seeds if all_seeds or seed in chosen]
    began = time.perf_counter()
    sets = [to_cuda(X[folds[fold][0]]) for fold in some]
    held_out = [to_cuda(X[folds[fold][1]]) for fold in some]
    models = [complete(model) for model in fit_many(sets, job.model, seeds=seeds)]
    codes = transform_many(models, held_out)
    seconds = (time.perf_counter() - began) / len(models)
    labels = None
    if y is not None:
        labels = np.repeat(np.stack([y[folds[fold][1]] for fold in some]), len(seeds), axis=0)
    runs = [(fold, seed) for fold in some for seed in seeds]
    scores = _scores(job.experiment, job.fit, codes, labels, runs)
    similar = _stabilities_of_stack(job, models, sets)
    for place, (fold, seed) in enumerate(runs):
        if (fold, seed) in wanted:
            row = place // len(seeds)
            result = _measure(models[place], sets[row], codes[place], held_out[row], seconds)
            yield fold, seed, _completed(result, similar[row][seed], _of_run(scores, place))


def _stabilities_of_stack(
    job: Job, models: Sequence[MatrixFactorization], sets: list[Array]
) -> list[list[Stability]]:
    """By training set and seed. `models` are the fits themselves, all seeds of each set in turn."""
    each = len(job.seeds)
    if not job.compares:
        return [[Stability()] * each for _ in sets]
    if job.from_random is not None:
        models = [complete(model) for model in fit_many(sets, job.from_random, seeds=job.runs)]
        each = len(job.runs)
    return [job.by_seed(models[low : low + each]) for low in range(0, len(models), each)]


def _completed(
    result: Result, similar: Stability, scores: Sequence[Mapping[str, np.ndarray]]
) -> Result:
    return replace(result, stability=similar.top, stability_lowest=similar.lowest, scores=scores)


def _scores(
    experiment: Experiment,
    fit: Fit,
    codes: Array,
    labels: np.ndarray | None,
    runs: list[tuple[int, int]],
) -> list[dict[str, np.ndarray]]:
    """For each scoring, the scores of codes (runs, n, k) by name: (repeats, runs).

    The same codes have the same scores on every machine. Without labels, scores are NaN.
    """
    repeats = _repeats(experiment, fit)
    if labels is None:
        missing = np.full((repeats, len(runs)), np.nan)
        return [dict.fromkeys(SCORES, missing) for _ in fit.scorings]
    draws = np.stack([_draws(fold, seed, repeats) for fold, seed in runs], axis=1)
    return [
        scores_each_many(
            _codes(fit, scoring, codes), labels, repeats=repeats, normalize=scoring.normalize,
            random_state=draws, start=experiment.kmeans_start,
        )
        for scoring in fit.scorings
    ]  # fmt: skip


def _of_run(scores: Sequence[Mapping[str, np.ndarray]], run: int) -> list[Mapping[str, np.ndarray]]:
    """The scores of one run out of scores (repeats, runs)."""
    return [{name: values[:, run] for name, values in table.items()} for table in scores]


def _draws(fold: int, seed: int, count: int) -> np.ndarray:
    """The seeds of K-means for a fit. They do not depend on what else is fitted."""
    return np.random.SeedSequence([fold, seed]).generate_state(count) % 2**31


def _measure(
    fitted: MatrixFactorization, X: Array, Z: Array, held_out: Array, seconds: float
) -> Result:
    """Measures of the fit itself, of its training samples X, and of the samples held out."""
    norm = float(squared_norm(X)) ** 0.5
    return Result(
        objective=fitted.history_[-1]["objective"] if fitted.history_ else float("nan"),
        relative_error=fitted.reconstruction_err_ / norm if norm else 0.0,
        seconds=seconds,
        held_out_error=relative_error(fitted, Z, held_out),
        sparsity_parts=mean_sparseness(fitted.components_),
        sparsity_codes=mean_sparseness(Z),
    )


def _codes(fit: Fit, scoring: Scoring, Z: Array) -> Array:
    """The codes that K-means gets."""
    if not scoring.project:
        return Z
    link = LINKS[str(fit.options.get("link", "identity"))]()
    return link.project(Z / link.scale(Z))


def _rows(
    experiment: Experiment, fit: Fit, fold: int, seed: int, result: Result, setting: str
) -> list[dict[str, str | int]]:
    rows = []
    for scoring, scores in zip(fit.scorings, result.scores, strict=True):
        for repeat in range(_repeats(experiment, fit)):
            row: dict[str, str | int] = {
                "experiment": experiment.name, "fit": fit.key, "fold": fold, "seed": seed,
                "name": scoring.name, "group": scoring.group, "repeat": repeat,
                "objective": f"{result.objective:.6g}",
                "relative_error": f"{result.relative_error:.5f}",
                "seconds": f"{result.seconds:.2f}", "version": __version__,
                "setting": setting,
            }  # fmt: skip
            row |= {name: f"{scores[name][repeat]:.5f}" for name in SCORES}
            row |= {name: f"{getattr(result, name):.5f}" for name in MEASURES}
            rows.append(row)
    return rows
