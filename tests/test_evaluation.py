from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnmf.evaluation import (
    accuracy,
    ami,
    ari,
    cluster_scores,
    error_rate,
    naive_precision,
    nmi,
)
from deepnmf.evaluation.many import confusions, scores_of
from deepnmf.evaluation.metrics import METRICS, SCORES

labels = st.integers(2, 40).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, 5), min_size=n, max_size=n) for _ in "ab"))
)


@given(labels)
def test_error_rate_equals_the_indicator_matrices(pair):
    y, z = (np.asarray(labels) for labels in pair)
    together = (y[:, None] == y).astype(float)
    predicted = (z[:, None] == z).astype(float)
    assert error_rate(y, z) == pytest.approx(
        np.sqrt(np.linalg.norm(together - predicted)), abs=1e-6
    )


@given(labels)
def test_nmi_equals_its_formula(pair):
    y, z = pair
    n = len(y)

    def entropy(values):
        return -sum(p * math.log(p) for p in (values.count(v) / n for v in dict.fromkeys(values)))

    both = list(zip(y, z, strict=True))
    mutual = entropy(y) + entropy(z) - entropy(both)
    mean = (entropy(y) + entropy(z)) / 2
    assert nmi(y, z) == pytest.approx(mutual / mean if mean > 0 else 1, abs=1e-6)


@given(labels)
def test_scores_do_not_depend_on_names(pair):
    y, z = (np.asarray(labels) for labels in pair)
    names = np.array(["f", "c", "a", "e", "b", "d"])
    for score in (nmi, naive_precision, error_rate, accuracy, ami, ari):
        assert score(names[y], names[::-1][z]) == pytest.approx(score(y, z), abs=1e-9)


def test_known_values():
    y = [0, 0, 0, 1, 1, 1]
    assert naive_precision(y, [0, 0, 1, 2, 2, 2]) == pytest.approx((2 / 3 + 1) / 2)
    assert naive_precision(y, [0] * 6) == 1
    assert accuracy(y, [1, 1, 0, 0, 0, 0]) == pytest.approx(5 / 6)
    assert accuracy(y, [0] * 6) == pytest.approx(0.5)
    assert error_rate(y, y) == 0
    assert error_rate(y, [0] * 6) == pytest.approx(18**0.25)
    for score in (nmi, ami, ari):
        assert score(y, [5, 5, 5, 2, 2, 2]) == pytest.approx(1)


def test_large_inputs_need_no_square_matrix():
    y = np.arange(2_000_000) % 10
    assert error_rate(y, y) == 0


def test_bad_labels_are_refused():
    with pytest.raises(ValueError, match="same length"):
        nmi([0, 1], [0, 1, 2])
    with pytest.raises(ValueError, match="not empty"):
        error_rate([], [])


def test_cluster_scores(rng):
    y = np.repeat(np.arange(4), 25)
    centres = 10 * np.eye(4)[y]
    Z = centres + rng.random((100, 4))
    scores = cluster_scores(Z, y, repeats=5)
    assert scores.n_clusters == 4
    assert scores["nmi"] == scores.nmi > 0.8
    assert set(scores) >= {"nmi", "nmi_std", "naive_precision", "error_rate", "ami", "ari"}
    assert scores == cluster_scores(Z, y, repeats=5)
    # The length of a code hides the class, its direction shows it.
    stretched = Z * rng.uniform(0.01, 10, (100, 1))
    assert cluster_scores(stretched, y, normalize="l2").nmi > cluster_scores(stretched, y).nmi


def test_cluster_scores_refuses_what_it_cannot_do(rng):
    Z, y = rng.random((10, 3)), np.arange(10) % 2
    with pytest.raises(ValueError, match="normalize must be"):
        cluster_scores(Z, y, normalize="l1")
    with pytest.raises(ValueError, match="shapes"):
        cluster_scores(Z, y[:5])
    with pytest.raises(ValueError, match="11 clusters for 10 samples"):
        cluster_scores(Z, y, n_clusters=11)
    with pytest.raises(ValueError, match="repeats"):
        cluster_scores(Z, y, repeats=0)


def test_every_score_has_one_name_and_one_label():
    y = np.arange(12).reshape(1, 12) % 3
    assert list(SCORES) == list(METRICS) == list(scores_of(confusions(y, y, 3, 3)))
    assert len(set(SCORES.values())) == len(SCORES)
    assert set(SCORES) < set(cluster_scores(np.eye(12), y[0], repeats=1))


def test_scores_need_neither_experiments_nor_reports():
    code = (
        "import sys; import deepnmf.evaluation.metrics;"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('deepnmf.')};"
        "sys.exit(', '.join(rooms & {'experiments', 'report', 'cli'}) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
