"""Many clusterings at once: the same as one by one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans, kmeans_plusplus

from deepnmf.evaluation import cluster_scores, cluster_scores_many
from deepnmf.evaluation.kmeans import greedy_trials, kmeans_many
from deepnmf.evaluation.many import confusions, scores_of
from deepnmf.evaluation.metrics import METRICS


@pytest.mark.parametrize("samples", [12, 100, 408])
def test_scores_of_a_stack_are_those_of_its_runs(samples, rng):
    true = rng.integers(0, 7, (6, samples))
    noise = rng.integers(0, 9, (6, samples))
    pred = np.where(rng.random((6, samples)) < np.linspace(0, 1, 6)[:, None], true, noise)
    pred[-1] = 0
    stacked = scores_of(confusions(true, pred, 7, 9))
    for name, metric in METRICS.items():
        alone = [metric(true[run], pred[run]) for run in range(6)]
        np.testing.assert_allclose(stacked[name], alone, rtol=1e-9, atol=1e-9, err_msg=name)


def test_one_cluster_of_one_class_is_perfect():
    labels = np.zeros((1, 5), dtype=int)
    stacked = scores_of(confusions(labels, labels, 1, 1))
    for name, metric in METRICS.items():
        assert stacked[name][0] == pytest.approx(metric(labels[0], labels[0])), name


def test_kmeans_reaches_scikit_learns_level(digits, place):
    codes = place(np.stack([digits] * 10))
    labels = kmeans_many(codes, 10, range(10))
    again = kmeans_many(codes[:3], 10, range(3))
    np.testing.assert_array_equal(labels[:3], again)

    def inertia(found):
        parts = [digits[found == cluster] for cluster in np.unique(found)]
        return sum(np.sum((part - part.mean(axis=0)) ** 2) for part in parts)

    ours = np.mean([inertia(found) for found in labels])
    theirs = np.mean(
        [KMeans(10, n_init=1, random_state=seed).fit(digits).inertia_ for seed in range(10)]
    )
    assert ours < 1.02 * theirs
    assert all(len(np.unique(found)) == 10 for found in labels)


def test_clusters_are_never_left_empty(place):
    points = np.repeat(np.eye(4), 5, axis=0)
    labels = kmeans_many(place(np.stack([points, points])), 4, [0, 1])
    assert all(len(np.unique(found)) == 4 for found in labels)


def test_more_clusters_than_distinct_samples(place):
    points = np.repeat(np.eye(2), 5, axis=0)
    assert kmeans_many(place(points[None]), 4, [0]).shape == (1, 10)


def test_cluster_scores_of_a_stack(digits, place):
    y = (digits @ np.arange(64) > np.median(digits @ np.arange(64))).astype(int)
    Z = digits[:, :20]
    [record] = cluster_scores_many(place(Z[None]), y, n_clusters=10, normalize="l2")
    alone = cluster_scores(Z, y, n_clusters=10, normalize="l2")
    assert set(record) == set(alone)
    for name in ("nmi", "ari", "accuracy"):
        spread = 4 * (record[f"{name}_std"] + alone[f"{name}_std"]) / 10**0.5 + 0.01
        assert abs(record[name] - alone[name]) < spread


def test_what_does_not_fit_is_refused(digits):
    with pytest.raises(ValueError, match="runs, n_samples, k"):
        cluster_scores_many(digits, np.zeros(1797))
    with pytest.raises(ValueError, match="one per set"):
        kmeans_many(digits[None], 10, [0, 1])
    with pytest.raises(ValueError, match="use fewer clusters"):
        cluster_scores_many(digits[None, :5], np.arange(5), n_clusters=6)


@pytest.mark.parametrize("trials", [1, greedy_trials(60)], ids=["plain", "greedy"])
def test_clusters_are_as_good_as_scikit_learns(trials):
    """With the same kind of start. Where clusters are tight the start decides: plain K-means++
    leaves more of them merged than greedy."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(60), 6)
    Z = rng.random((60, 5))[truth] + 0.01 * rng.random((360, 5))

    def merged(found):
        return 60 - len({tuple(np.unique(found[truth == one])) for one in range(60)})

    ours = np.mean([merged(one) for one in kmeans_many(np.stack([Z] * 80), 60, range(80), trials)])
    theirs = {}
    for count in (1, greedy_trials(60)):
        ends = []
        for seed in range(80):
            first, _ = kmeans_plusplus(Z, 60, random_state=seed, n_local_trials=count)
            ends.append(merged(KMeans(60, init=first, n_init=1).fit_predict(Z)))
        theirs[count] = np.mean(ends)
    assert theirs[1] > 2 * theirs[greedy_trials(60)]
    assert ours == pytest.approx(theirs[trials], rel=0.25)
