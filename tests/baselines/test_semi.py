"""Semi-NMF and Deep Semi-NMF: weights of any sign."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from deepnmf.models.baselines import DeepSemiNMF, NsNMF, SemiNMF, deep_semi, semi
from tests.baselines.test_baselines import METHODS


def test_semi_nmf_takes_negative_data_and_its_weights_are_the_best(X):
    signed = X - X.mean()
    model = SemiNMF(5, max_iter=100, tol=0, random_state=0).fit(signed)
    best = np.linalg.lstsq(model.codes_, signed, rcond=None)[0]
    np.testing.assert_allclose(model.components_, best, rtol=1e-6, atol=1e-8)
    assert (model.codes_ >= 0).all()
    assert (model.weights_[0] < 0).any()
    with pytest.raises(ValueError, match="Negative"):
        NsNMF(4).fit(signed)


@pytest.mark.parametrize("rank", [3, 9])
@pytest.mark.parametrize("name", [name for name in METHODS if "semi" in name])
def test_weights_of_any_sign_are_found_in_the_span_of_few_samples(name, rank, rng, monkeypatch):
    """More features than samples, who may not even be independent: the same fit as on all rows."""
    X = rng.standard_normal((9, rank)) @ rng.standard_normal((rank, 50))
    short = clone(METHODS[name]).fit(X)
    for module in (semi, deep_semi):
        monkeypatch.setattr(module, "in_span", lambda data: (None, data))
    full = clone(METHODS[name]).fit(X)
    for one, other in zip(short.history_, full.history_, strict=True):
        assert one["objective"] == pytest.approx(other["objective"], rel=1e-6, abs=1e-9)
    assert short.weights_[0].shape == (50, short.weights_[0].shape[1])
    np.testing.assert_allclose(
        short.inverse_transform(short.codes_), full.inverse_transform(full.codes_), atol=1e-5
    )


def test_the_span_of_few_samples(rng, place):
    X = place(rng.standard_normal((2, 3, 50, 9)))
    Q, R = semi.in_span(X)
    assert R.shape == (2, 3, 9, 9)
    np.testing.assert_allclose(np.asarray(Q @ R), np.asarray(X), atol=1e-5)
    np.testing.assert_allclose(np.asarray(Q.mT @ Q), np.tile(np.eye(9), (2, 3, 1, 1)), atol=1e-5)
    assert semi.in_span(X[..., :17, :])[0] is None  # hardly more: nothing to gain


def test_deep_semi_nmf_is_no_better_than_the_best_of_its_rank(X):
    model = DeepSemiNMF((8, 5), pretrain_iter=100, max_iter=300, tol=0, random_state=0).fit(X)
    best = np.sqrt(np.sum(np.linalg.svd(X, compute_uv=False)[5:] ** 2))
    assert best * (1 - 1e-9) <= model.reconstruction_err_ <= 1.15 * best
    before = [r["objective"] for r in model.history_ if r["stage"] == "finetune"]
    assert before[-1] < before[0]


@pytest.mark.filterwarnings("ignore:stopped after sweep")
@pytest.mark.parametrize("scale", [1.0, 1e18])
@pytest.mark.parametrize("seed", range(3))
def test_more_parts_than_the_data_have(scale, seed):
    """Weights are not unique then, and cancel: HHᵀ keeps its sign all the same, and no sweep
    raises the objective above rounding."""
    X = scale * np.random.default_rng(seed).integers(1, 9, (3, 5))
    settings = {"pretrain_iter": 2, "max_iter": 4, "tol": 0, "random_state": 31}
    model = DeepSemiNMF((8, 7, 3), **settings).fit(X)
    tuned = [row["objective"] for row in model.history_ if row["stage"] == "finetune"]
    assert tuned
    assert np.diff(tuned, prepend=tuned[0]).max() <= 1e-12 * np.sum(X * X)


def test_any_tolerance_that_is_a_number_will_do(X):
    torch = pytest.importorskip("torch")
    model = SemiNMF(4, tol=10**20, random_state=0).fit(torch.from_numpy(X))
    assert model.reason_ == "converged"
