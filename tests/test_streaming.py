"""`partial_fit`: batches, one after the other."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from tests.tables import DEEP, LINKS, NONLINEAR, each, mode, named

QUICK: dict[str, Any] = {"pretrain_iter": 20, "max_iter": 40, "tol": 0, "random_state": 0}
PAPER: dict[str, Any] = {"scaling": "paper", **QUICK}


def batches(X, size):
    return [X[low : low + size] for low in range(0, X.shape[0], size)]


@pytest.mark.filterwarnings("ignore:.* parts are dead")
@pytest.mark.parametrize(
    ("preset", "link"),
    [(preset, LINKS[0]) for preset in DEEP]
    + [(deepnmf.sdnmf_l, NONLINEAR[0])]
    + [
        pytest.param(preset, NONLINEAR[0], marks=pytest.mark.long)
        for preset in DEEP
        if preset is not deepnmf.sdnmf_l
    ]
    + [pytest.param(deepnmf.sdnmf_l, link, marks=pytest.mark.long) for link in NONLINEAR[1:]],
    ids=named,
)
def test_a_stream_comes_near_the_fit(preset, link, digits):
    """On held-out samples, three rounds over all batches close more than half of the gap between
    the first batch and a fit of all of them."""
    samples, held_out = digits[:300], digits[600:700]
    fit = preset((12, 6), link=link, **PAPER).fit(samples).score(held_out)
    model = preset((12, 6), link=link, **PAPER).partial_fit(samples[:100])
    first = model.score(held_out)
    assert first < fit
    for batch in batches(samples, 100) * 3:
        model.partial_fit(batch, forget=0.9)
    assert model.score(held_out) - first > (fit - first) / 2
    assert model.n_iter_ == len(model.history_) == 10
    assert all(float(W.min()) >= 0 for W in model.weights_)


@pytest.mark.parametrize("forget", [0.0, 0.6, 1.0])
def test_the_sums_of_the_past_fade_and_the_batch_is_added(forget, digits):
    """S ← ρ S + H Hᵀ, Q ← ρ Q + X Hᵀ and n ← ρ n + (samples), H being the codes of the batch for
    the weights as they are. The new weights fit these sums no worse than the old ones."""
    model = deepnmf.dnmf(6, **PAPER).partial_fit(digits[:300])
    for low in (300, 500, 700):
        batch = digits[low : low + 200]
        H, (W,), past = model.transform(batch).T, model.weights_, model._stream
        stream = model.partial_fit(batch, forget=forget)._stream
        np.testing.assert_allclose(stream.sums.S, forget * past.sums.S + H @ H.T, rtol=1e-10)
        np.testing.assert_allclose(stream.sums.Q, forget * past.sums.Q + batch.T @ H.T, rtol=1e-10)
        assert stream.samples == pytest.approx(forget * past.samples + 200)
        errors = [
            np.sum((F.T @ F) * stream.sums.S) / 2 - np.sum(F * stream.sums.Q)
            for F in (W, model.weights_[0])
        ]
        assert errors[1] < errors[0]


def test_weights_above_a_link_move_by_the_share_of_the_batch(digits):
    """100 samples after 300: a quarter of the step that they take where the past is forgotten."""
    model = deepnmf.sdnmf_l((12, 6), link="root", **PAPER).partial_fit(digits[:300])
    whole_step, step = (
        copy.deepcopy(model).partial_fit(digits[300:400], forget=forget).weights_[1]
        - model.weights_[1]
        for forget in (0.0, 1.0)
    )
    assert np.linalg.norm(whole_step) > 1e-3 * np.linalg.norm(model.weights_[1])
    np.testing.assert_allclose(step, whole_step / 4, rtol=1e-9, atol=1e-12)


def test_sparse_and_float32_batches(digits):
    dense = deepnmf.sdnmf_l((12, 6), **QUICK)
    rare = deepnmf.sdnmf_l((12, 6), **QUICK)
    for batch in batches(digits[:600].astype(np.float32), 200):
        dense.partial_fit(batch)
        rare.partial_fit(scipy.sparse.csr_array(batch))
    assert dense.weights_[0].dtype == np.float32
    assert rare.score(digits) == pytest.approx(dense.score(digits), rel=1e-4)


@each("model,link", DEEP, ["identity", "root"])
def test_a_loss_on_every_layer_learns_from_batches(model, link, digits):
    """The sums of all layers fade; batches of a data set come near to a fit of all of it."""
    settings: dict[str, Any] = {"link": link, **mode("layers"), **QUICK}
    stream = model((12, 6), **settings)
    for _ in range(3):
        for batch in batches(digits[:900], 300):
            stream.partial_fit(batch, forget=1.0)
    assert stream._stream.samples == 2700
    assert len(stream._stream.sums.S) == 2
    whole = model((12, 6), **settings).fit(digits[:900])
    once = model((12, 6), **settings).partial_fit(digits[:300])
    held_out = digits[900:]
    assert stream.score(held_out) > once.score(held_out)
    assert stream.score(held_out) > 1.15 * whole.score(held_out)
    rms = np.sqrt(np.mean(stream.transform(digits[:900]) ** 2, axis=0))
    assert np.median(rms) == pytest.approx(1, rel=0.2)


def test_fit_begins_anew_and_a_fitted_model_learns_on(digits):
    model = deepnmf.dnmf((12, 6), **QUICK)
    expected = deepnmf.dnmf((12, 6), **QUICK).fit(digits[:300]).weights_
    model.partial_fit(digits[300:600]).fit(digits[:300])
    for W, V in zip(model.weights_, expected, strict=True):
        np.testing.assert_array_equal(W, V)
    before = model.score(digits[600:900])
    assert model.partial_fit(digits[600:900]).score(digits[600:900]) >= before
    assert len(model.history_) == 1


def test_what_cannot_be_learned_by_batches_is_refused(digits):
    model = deepnmf.sdnmf_l((12, 6), **QUICK)
    wrong: list[Any] = [-0.1, 1.1, "much", float("nan")]
    for forget in wrong:
        with pytest.raises(ValueError, match="forget"):
            model.partial_fit(digits, forget=forget)
    with pytest.raises(ValueError, match='scaling="fixed"'):
        deepnmf.sdnmf_l((12, 6), **mode("fixed")).partial_fit(digits)
    with pytest.raises(ValueError, match="one batch in memory"):
        model.partial_fit([digits, digits])
    with pytest.raises(ValueError, match="project_codes"):
        deepnmf.dnmf((12, 6), link="tanh", project_codes=True, scaling="paper").partial_fit(digits)
    model.partial_fit(digits)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(digits[:, :-1])


def test_a_small_first_batch_is_warned_of(digits):
    with pytest.warns(UserWarning, match="5 samples for 12 parts"):
        model = deepnmf.dnmf((12, 6), **QUICK).partial_fit(digits[:5])
    assert model.status_.startswith("learned from 1 batch:")
