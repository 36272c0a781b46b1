"""The clustering protocol of the paper: K-means on the codes, several times, scored."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize as to_unit_norm
from sklearn.utils import Bunch, check_random_state

from deepnmf.arrays import Array
from deepnmf.evaluation.kmeans import kmeans_many
from deepnmf.evaluation.metrics import METRICS


def cluster_scores(
    Z: Array,
    y: ArrayLike,
    n_clusters: int | None = None,
    repeats: int = 10,
    normalize: str | None = None,
    random_state: int | np.random.RandomState | None = 0,
    start: str = "greedy",
) -> Bunch:
    """Cluster codes Z (n_samples, k) with K-means and score them against the classes y.

    K-means runs `repeats` times, each from one K-means++ start, with as many clusters as classes
    unless `n_clusters` is given. `normalize="l2"` scales every code to unit norm first: the norm of
    a code often depends on something else than the class (the lighting of a photograph, the length
    of a text), while its direction shows the class.

    `start="greedy"` is K-means++ as in scikit-learn, which takes the best of several candidates for
    each centre; "plain" is K-means++ as published, and as in the paper: scores are lower.

    Returns a record with the mean of each score under its name (nmi, naive_precision,
    error_rate, ami, ari, accuracy) and its standard deviation under name_std.
    """
    values = scores_each(Z, y, n_clusters, repeats, normalize, random_state, start)
    clusters = len(np.unique(np.asarray(y))) if n_clusters is None else n_clusters
    return summary(values, clusters)


def scores_each(
    Z: Array,
    y: ArrayLike,
    n_clusters: int | None = None,
    repeats: int = 10,
    normalize: str | None = None,
    random_state: int | np.random.RandomState | None = 0,
    start: str = "greedy",
) -> dict[str, np.ndarray]:
    """Every score of every K-means run, by name: (repeats,). Arguments as in `cluster_scores`."""
    Z = np.asarray(Z.cpu() if hasattr(Z, "cpu") else Z)
    y = np.asarray(y)
    if Z.ndim != 2 or y.ndim != 1 or len(Z) != len(y):
        raise ValueError(
            f"Z must be (n_samples, k) and y (n_samples,), got shapes {Z.shape} and {y.shape}."
        )
    clusters = len(np.unique(y)) if n_clusters is None else n_clusters
    check_protocol(len(Z), clusters, repeats, normalize, start)
    if normalize == "l2":
        Z = to_unit_norm(Z)
    seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=repeats)
    runs: dict[str, list[float]] = {name: [] for name in METRICS}
    for seed in seeds:
        if start == "plain":
            predicted = kmeans_many(Z[None], clusters, [seed])[0]
        else:
            predicted = KMeans(clusters, n_init=1, random_state=seed).fit_predict(Z)
        for name, metric in METRICS.items():
            runs[name].append(metric(y, predicted))
    return {name: np.asarray(values) for name, values in runs.items()}


def check_protocol(
    samples: int, clusters: int, repeats: int, normalize: str | None, start: str
) -> None:
    """Refuse what K-means cannot do."""
    if start not in ("greedy", "plain"):
        raise ValueError(f'start must be "greedy" or "plain", got {start!r}.')
    if normalize not in (None, "l2"):
        raise ValueError(f'normalize must be None or "l2", got {normalize!r}.')
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}.")
    if clusters > samples:
        raise ValueError(f"{clusters} clusters for {samples} samples: use fewer clusters.")


def summary(values: dict[str, np.ndarray], clusters: int) -> Bunch:
    """The mean and standard deviation of every score."""
    record = Bunch(n_clusters=clusters, repeats=len(next(iter(values.values()))))
    for name, scores in values.items():
        record[name] = float(np.mean(scores))
        record[f"{name}_std"] = float(np.std(scores))
    return record
