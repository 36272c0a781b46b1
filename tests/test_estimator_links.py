"""The estimator with a link between its layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.utils.estimator_checks import check_estimator

import deepnmf
from tests import laws
from tests.tables import DEEP, NONLINEAR, named, some

QUICK: dict[str, Any] = {"max_iter": 15, "pretrain_iter": 10, "tol": 0, "random_state": 0}


@pytest.fixture
def X(low_rank):
    """40 samples of 30 features."""
    return low_rank.T.copy()


@pytest.mark.filterwarnings("ignore:project_codes")
@pytest.mark.filterwarnings("ignore:.* parts are dead")
@some("link,model", [*zip(NONLINEAR, DEEP[1:], strict=True)], NONLINEAR, DEEP, full=True)
def test_nonlinear_models(full, link, model, X, tmp_path):
    X, sizes = (X, (10, 8, 5)) if full else (X[:5], (6, 4, 3))
    plain, projected = (
        model(sizes, link=link, project_codes=project, scaling="paper", **QUICK)
        for project in (False, True)
    )
    H, Z = plain.fit_transform(X), projected.fit_transform(X)
    # What g keeps of the codes, which for some links is less than all, comes back.
    kept = np.clip(H / projected.code_scale_, *link.domain)
    np.testing.assert_allclose(Z, link.project(kept), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(link.decode(Z), kept, rtol=1e-6, atol=1e-9)
    if link.domain[0] == 0:
        np.testing.assert_allclose(kept, H / projected.code_scale_)
    for fitted, codes in ((plain, H), (projected, Z)):
        np.testing.assert_array_equal(codes, fitted.transform(X))
        last = fitted.history_[-1]
        squared = 2 * (last["objective"] - last["penalty"])
        assert fitted.reconstruction_err_**2 == pytest.approx(squared)
        if fitted is plain or link.domain[0] == 0:
            error = np.linalg.norm(X - fitted.inverse_transform(codes))
            assert fitted.score(X) == pytest.approx(-(error**2) / len(X))
        np.testing.assert_allclose(fitted.components_, fitted.inverse_transform(np.eye(sizes[-1])))
        for layer, width in enumerate(sizes, 1):
            of_layer = fitted.transform(X, layer=layer)
            assert of_layer.shape == (len(X), width)
            assert (of_layer >= 0).all()
            assert fitted.inverse_transform(of_layer, layer=layer).shape == X.shape
        unit = np.eye(sizes[1])
        np.testing.assert_allclose(fitted.basis(2), fitted.inverse_transform(unit, layer=2))
        W1, W2 = fitted.weights_[:2]
        np.testing.assert_allclose(fitted.basis(2), (W1 @ link.decode(W2)).T)
        laws.loaded_is_saved(fitted, X, tmp_path / "model.safetensors")


def test_square_two_is_the_root_of_square_one(X):
    one, two = (
        deepnmf.sdnmf_l((8, 5), link="root", project_codes=project, **QUICK).fit_transform(X)
        for project in (False, True)
    )
    np.testing.assert_allclose(two, np.sqrt(one))


def test_codes_that_a_link_cannot_decode_are_refused(X):
    model = deepnmf.sdnmf_l((8, 5), link="root", **QUICK).fit(X)
    Z = model.transform(X)
    Z[3, 1] = -0.5
    with pytest.raises(ValueError, match=r"Z\[3, 1\] = -0.5 is not a code of layer 2.*Root"):
        model.inverse_transform(Z)
    Z[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"Z\[3, 1\] = nan"):
        model.inverse_transform(Z)


@pytest.mark.filterwarnings("ignore:.* parts are dead")
@pytest.mark.parametrize("link", NONLINEAR, ids=named)
def test_sparse_data_through_a_link_without_densifying(link, X, monkeypatch):
    X = X * (X > 0.4)
    settings = QUICK | {"start": "random", "link": link}
    dense = deepnmf.sdnmf_l((8, 5), **settings).fit(X)
    sparse = scipy.sparse.csr_matrix(X)
    for flavour in (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, scipy.sparse.coo_matrix):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(flavour, name, pytest.fail)
    fitted = deepnmf.sdnmf_l((8, 5), **settings).fit(sparse)
    assert fitted.reconstruction_err_ == pytest.approx(dense.reconstruction_err_, rel=1e-4)


@pytest.mark.filterwarnings("ignore:.* parts are dead")
@pytest.mark.filterwarnings("ignore:partial_fit. the first batch")  # their data are small
@pytest.mark.long
def test_scikit_learns_own_checks_through_a_link():
    model = deepnmf.sdnmf_l(link="root", max_iter=10, pretrain_iter=10, tol=0)
    results = check_estimator(model, on_skip=None, on_fail="raise")
    skipped = [result["check_name"] for result in results if result["status"] != "passed"]
    assert set(skipped) <= {"check_array_api_input"}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_objective_is_that_of_codes_that_have_become_tiny(rng):
    """A strong penalty shrinks the codes by many orders of magnitude in one sweep."""
    for seed in range(20):
        X = rng.random((40, 5))
        model = deepnmf.sdnmf_r(
            (3, 1), link="root", lam=1e4, start="random", max_iter=3, pretrain_iter=2, tol=0,
            random_state=seed,
        )  # fmt: skip
        last = model.fit(X).history_[-1]
        expected = model.reconstruction_err_**2 / 2 + last["penalty"]
        assert last["objective"] == pytest.approx(expected, rel=1e-9)
