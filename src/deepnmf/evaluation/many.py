"""Scores of many clusterings at once, from confusion matrices N (runs, classes, clusters).

The same scores as in `metrics`, in the same letters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, xlogy
from sklearn.preprocessing import normalize as to_unit_norm
from sklearn.utils import Bunch, check_random_state

from deepnmf.arrays import Array, namespace
from deepnmf.evaluation.clustering import check_protocol, summary
from deepnmf.evaluation.kmeans import greedy_trials, kmeans_many

AT_ONCE = 2e8
"""The most distances between samples and centres in memory at a time."""


def cluster_scores_many(
    Z: Array,
    y: ArrayLike,
    n_clusters: int | None = None,
    repeats: int = 10,
    normalize: str | None = None,
    random_state: int | np.random.RandomState | None = 0,
    start: str = "greedy",
) -> list[Bunch]:
    """`cluster_scores` for every Z[run] of a stack (runs, n_samples, k), where the stack lives.

    `y` is (n_samples,) for all runs, or (runs, n_samples). Records are like those of
    `cluster_scores`, from other random numbers.
    """
    values = scores_each_many(Z, y, n_clusters, repeats, normalize, random_state, start)
    clusters = len(np.unique(np.asarray(y))) if n_clusters is None else n_clusters
    return [
        summary({name: scores[:, run] for name, scores in values.items()}, clusters)
        for run in range(Z.shape[0])
    ]


def scores_each_many(
    Z: Array,
    y: ArrayLike,
    n_clusters: int | None = None,
    repeats: int = 10,
    normalize: str | None = None,
    random_state: int | np.random.RandomState | np.ndarray | None = 0,
    start: str = "greedy",
) -> dict[str, np.ndarray]:
    """Every score of every K-means run on a stack of codes, by name: (repeats, runs).

    `random_state` may also be the seeds themselves, an array (repeats, runs).
    """
    labels = np.asarray(y)
    labels = np.broadcast_to(labels, (Z.shape[0], labels.shape[-1])) if Z.ndim == 3 else labels
    if Z.ndim != 3 or labels.ndim != 2 or labels.shape != tuple(Z.shape[:2]):
        raise ValueError(
            "Z must be (runs, n_samples, k) and y (n_samples,) or (runs, n_samples), got shapes "
            f"{tuple(Z.shape)} and {np.shape(y)}."
        )
    classes, numbers = np.unique(labels, return_inverse=True)
    numbers = numbers.reshape(labels.shape)
    clusters = len(classes) if n_clusters is None else n_clusters
    check_protocol(Z.shape[1], clusters, repeats, normalize, start)
    if normalize == "l2":
        Z = _unit(Z)
    runs = Z.shape[0]
    if isinstance(random_state, np.ndarray):
        seeds = random_state
    else:
        random = check_random_state(random_state)
        seeds = random.randint(np.iinfo(np.int32).max, size=(repeats, runs))
    at_once = max(1, int(AT_ONCE / (runs * Z.shape[1] * clusters)))
    trials = 1 if start == "plain" else greedy_trials(clusters)
    batches: list[dict[str, np.ndarray]] = []
    for low in range(0, repeats, at_once):
        batch = seeds[low : low + at_once]
        stack = namespace(Z).concat([Z] * len(batch))
        predicted = kmeans_many(stack, clusters, batch.ravel(), trials)
        truth = np.concatenate([numbers] * len(batch))
        batches.append(scores_of(confusions(truth, predicted, len(classes), clusters)))
    return {
        name: np.concatenate([scores[name] for scores in batches]).reshape(repeats, runs)
        for name in batches[0]
    }


def confusions(y_true: np.ndarray, y_pred: np.ndarray, classes: int, clusters: int) -> np.ndarray:
    """N (runs, classes, clusters) from labels (runs, n_samples) that count from 0."""
    runs = y_true.shape[0]
    cell = (np.arange(runs)[:, None] * classes + y_true) * clusters + y_pred
    counts = np.bincount(cell.ravel(), minlength=runs * classes * clusters)
    return counts.reshape(runs, classes, clusters).astype(np.float64)


def scores_of(N: np.ndarray) -> dict[str, np.ndarray]:
    """Every score of every run, under the names of `METRICS`."""
    n = N.sum(axis=(1, 2))
    rows, columns = N.sum(axis=2), N.sum(axis=1)
    squares = np.sum(N**2, axis=(1, 2))
    rows_squared, columns_squared = np.sum(rows**2, axis=1), np.sum(columns**2, axis=1)
    entropies = (_entropy(rows, n) + _entropy(columns, n)) / 2
    information = (
        np.log(n)
        + (
            np.sum(xlogy(N, N), axis=(1, 2))
            - np.sum(xlogy(rows, rows), axis=1)
            - np.sum(xlogy(columns, columns), axis=1)
        )
        / n
    )
    information = np.maximum(information, 0)
    expected = _expected_information(rows, columns, n)
    nonempty = np.maximum(rows, 1)
    shares = np.where(rows > 0, N.max(axis=2) / nonempty, 0)
    matched = [N[run][linear_sum_assignment(N[run], maximize=True)].sum() for run in range(len(N))]
    # Pairs of samples that are together: in both, in either, and by chance.
    pairs, by_rows, by_columns, all_pairs = (
        (count - n) / 2 for count in (squares, rows_squared, columns_squared, n * n)
    )
    chance = by_rows * by_columns / np.maximum(all_pairs, 1)
    return {
        "nmi": _ratio(information, entropies),
        "naive_precision": shares.sum(axis=1) / np.sum(rows > 0, axis=1),
        "error_rate": np.maximum(rows_squared + columns_squared - 2 * squares, 0) ** 0.25,
        "ami": _ratio(information - expected, entropies - expected),
        "ari": _ratio(pairs - chance, (by_rows + by_columns) / 2 - chance),
        "accuracy": np.asarray(matched) / n,
    }


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above / below; 1 where both vanish, as for a single cluster of a single class."""
    tiny = np.abs(below) < 1e-12
    return np.where(tiny, 1.0, above / np.where(tiny, 1.0, below))


def _entropy(counts: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.log(n) - np.sum(xlogy(counts, counts), axis=1) / n


def _expected_information(rows: np.ndarray, columns: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The mean mutual information of clusterings with these sizes (Vinh, Epps and Bailey):

        Σ_ij Σ_c (c/n) log(n c / (a_i b_j)) P(c),    P hypergeometric with a_i, b_j, n.

    A term depends on the sizes alone, and few sizes occur, so each pair is computed once.
    """
    expected = np.empty(len(n))
    terms: dict[tuple[float, float, float], float] = {}
    for run, total in enumerate(n):
        sizes_a, times_a = np.unique(rows[run], return_counts=True)
        sizes_b, times_b = np.unique(columns[run], return_counts=True)
        value = 0.0
        for a, times in zip(sizes_a, times_a, strict=True):
            for b, again in zip(sizes_b, times_b, strict=True):
                if (a, b, total) not in terms:
                    terms[a, b, total] = _term(a, b, total)
                value += times * again * terms[a, b, total]
        expected[run] = value
    return expected


def _term(a: float, b: float, n: float) -> float:
    c = np.arange(max(1.0, a + b - n), min(a, b) + 1)
    if not len(c):
        return 0.0
    log_p = (
        gammaln(a + 1) + gammaln(b + 1) + gammaln(n - a + 1) + gammaln(n - b + 1)
        - gammaln(n + 1) - gammaln(c + 1) - gammaln(a - c + 1) - gammaln(b - c + 1)
        - gammaln(n - a - b + c + 1)
    )  # fmt: skip
    return float(np.sum(c / n * np.log(n * c / (a * b)) * np.exp(log_p)))


def _unit(Z: Array) -> Array:
    """Codes scaled to unit norm; codes of zeros stay zero."""
    if isinstance(Z, np.ndarray):
        return to_unit_norm(Z.reshape(-1, Z.shape[-1])).reshape(Z.shape)
    xp = namespace(Z)
    norms = xp.sqrt(xp.sum(Z * Z, axis=-1, keepdims=True))
    return Z / xp.where(norms > 0, norms, xp.ones_like(norms))
