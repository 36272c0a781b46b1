"""`partial_fit`: batches, one after the other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from tests.tables import DEEP, LINKS, named

QUICK = {"pretrain_iter": 20, "max_iter": 40, "tol": 0, "random_state": 0}


def batches(X, size):
    return [X[low : low + size] for low in range(0, X.shape[0], size)]


@pytest.mark.parametrize(
    ("preset", "link"),
    [(preset, LINKS[0]) for preset in DEEP]
    + [(deepnmf.sdnmf_l, LINKS[1])]
    + [
        pytest.param(preset, LINKS[1], marks=pytest.mark.long)
        for preset in DEEP
        if preset is not deepnmf.sdnmf_l
    ]
    + [pytest.param(deepnmf.sdnmf_l, link, marks=pytest.mark.long) for link in LINKS[2:]],
    ids=named,
)
def test_a_stream_comes_near_the_fit(preset, link, digits):
    """Some rounds over all batches, held-out samples: not far above `fit`, far below the first."""
    train, held_out = digits[:600], digits[600:800]
    whole = preset((20, 8), link=link, **QUICK).fit(train)
    model = preset((20, 8), link=link, **QUICK).partial_fit(train[:150])
    first = model.score(held_out)
    for _ in range(4):
        for batch in batches(train, 150):
            model.partial_fit(batch, forget=0.9)
    # Through softplus a second layer may have nothing to learn, and batches end where they began.
    near = {"Softplus": 1.6, "Tanh": 1.3, "Sigmoid": 1.3}.get(type(link).__name__, 1.15)
    assert model.score(held_out) >= near * whole.score(held_out)
    assert model.score(held_out) >= first
    assert model.n_iter_ == len(model.history_) == 17
    assert all(float(W.min()) >= 0 for W in model.weights_)


def test_forgetting_nothing_keeps_the_sums_of_all_samples(digits):
    """With frozen weights the sums of batches would be those of the whole: so they are for the
    weights that the last batch found, up to what they moved since."""
    model = deepnmf.dnmf(12, **QUICK)
    for batch in batches(digits[:900], 300) * 8:
        model.partial_fit(batch, forget=1.0)
    assert model._stream.samples == 8 * 900
    H = model.transform(digits[:900]).T
    np.testing.assert_allclose(
        model._stream.sums.S / 8, H @ H.T, rtol=0.2, atol=0.05 * np.trace(H @ H.T)
    )


def test_what_is_forgotten_has_no_weight(digits):
    """forget=0: only the last batch counts, whatever came before it."""
    model = (
        deepnmf.dnmf(6, **QUICK).partial_fit(digits[:300]).partial_fit(digits[300:600], forget=0)
    )
    np.testing.assert_allclose(model._stream.samples, 300)
    H = deepnmf.dnmf(6, **QUICK).partial_fit(digits[:300]).transform(digits[300:600]).T
    np.testing.assert_allclose(model._stream.sums.S, H @ H.T, rtol=1e-6, atol=1e-8)


def test_sparse_and_float32_batches(digits):
    dense = deepnmf.sdnmf_l((12, 6), **QUICK)
    rare = deepnmf.sdnmf_l((12, 6), **QUICK)
    for batch in batches(digits[:600].astype(np.float32), 200):
        dense.partial_fit(batch)
        rare.partial_fit(scipy.sparse.csr_array(batch))
    assert dense.weights_[0].dtype == np.float32
    assert rare.score(digits) == pytest.approx(dense.score(digits), rel=0.05)


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
    for forget in (-0.1, 1.1, "much", float("nan")):
        with pytest.raises(ValueError, match="forget"):
            model.partial_fit(digits, forget=forget)
    with pytest.raises(ValueError, match='scaling="fixed"'):
        deepnmf.sdnmf_l((12, 6), scaling="fixed").partial_fit(digits)
    with pytest.raises(ValueError, match="one batch in memory"):
        model.partial_fit([digits, digits])
    with pytest.raises(ValueError, match="project_codes"):
        deepnmf.dnmf((12, 6), link="tanh", project_codes=True).partial_fit(digits)
    model.partial_fit(digits)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(digits[:, :-1])


def test_a_small_first_batch_is_warned_of(digits):
    with pytest.warns(UserWarning, match="5 samples for 12 parts"):
        model = deepnmf.dnmf((12, 6), **QUICK).partial_fit(digits[:5])
    assert model.status_.startswith("learned from 1 batch:")
