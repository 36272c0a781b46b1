from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import _nmf

from deepnmf.starts import Nnsvd, Random, truncated_svd
from tests.tables import STARTS, named


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


@pytest.fixture
def exact_scikit_learn(monkeypatch):
    """scikit-learn's NNDSVD on the exact SVD instead of its randomized one."""

    def exact(X, k, **_):
        U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
        return U[:, :k], sigma[:k], Vt[:k]

    monkeypatch.setattr(_nmf, "_randomized_svd", exact)


@pytest.mark.parametrize(("fill", "init"), [("zero", "nndsvd"), ("mean", "nndsvda")])
@pytest.mark.parametrize("k", [1, 5, 20, 50])
@pytest.mark.usefixtures("exact_scikit_learn")
def test_nnsvd_equals_scikit_learns(digits, fill, init, k, library):
    X = digits[:300].T
    H_sk, W_sk = _nmf._initialize_nmf(X.T, k, init=init)
    X_placed = X if library == "numpy" else pytest.importorskip("torch").from_numpy(X.copy())
    W, H = Nnsvd(fill).factors(X_placed, k, generators(0))
    np.testing.assert_allclose(np.asarray(W), W_sk.T, atol=1e-6)
    np.testing.assert_allclose(np.asarray(H), H_sk.T, atol=1e-6)


@pytest.mark.parametrize("k", [1, 5, 10])
def test_nnsvd_is_near_scikit_learns_randomized_one(digits, k, place):
    X = digits.T
    H_sk, W_sk = _nmf._initialize_nmf(X.T, k, init="nndsvd", random_state=0)
    W, H = Nnsvd("zero").factors(place(X), k, generators(0))
    np.testing.assert_allclose(np.asarray(W), W_sk.T, atol=2e-2)
    np.testing.assert_allclose(np.asarray(H), H_sk.T, atol=2e-2)


@pytest.mark.parametrize("start", STARTS, ids=named)
@pytest.mark.parametrize("shape", [(12, 9), (9, 12)])
@pytest.mark.parametrize("k", [1, 6, 9, 15])
def test_any_rank_gives_factors_from_0_up(start, shape, k, place, rng):
    X = place(rng.random(shape))
    W, H = start.factors(X, k, generators(0))
    assert W.shape == (shape[0], k)
    assert H.shape == (k, shape[1])
    assert float(W.min()) >= 0
    assert float(H.min()) >= 0
    assert W.dtype == H.dtype == X.dtype
    # No part is dead from the start.
    assert float((W.sum(axis=0) * H.sum(axis=1)).min()) > 0


@pytest.mark.parametrize("start", STARTS, ids=named)
def test_a_stack_is_its_runs(start, place, rng):
    X = rng.random((2, 12, 9))
    W, H = start.factors(place(X), 5, generators(1, 2))
    for run, seed in enumerate((1, 2)):
        W_one, H_one = start.factors(place(X[run]), 5, generators(seed))
        np.testing.assert_allclose(
            np.asarray(W[run] @ H[run]), np.asarray(W_one @ H_one), rtol=1e-3
        )


@pytest.mark.parametrize("start", STARTS, ids=named)
def test_a_run_does_not_hang_on_the_ranks_of_others(start, place, rng):
    X = np.stack([rng.random((12, rank)) @ rng.random((rank, 30)) for rank in (3, 8, 12)])
    shared = generators(4)
    W, H = start.factors(place(X), 10, shared * 3)
    for run in range(3):
        alone = generators(4)
        W_alone, H_alone = start.factors(place(X[run]), 10, alone)
        np.testing.assert_allclose(np.asarray(W[run]), np.asarray(W_alone), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(H[run]), np.asarray(H_alone), rtol=1e-4, atol=1e-5)
        assert alone[0].bit_generator.state == shared[0].bit_generator.state


def test_fills_are_what_they_say(rng):
    X = rng.random((12, 9)) * (rng.random((12, 9)) < 0.5)
    zero = Nnsvd("zero").factors(X, 5, generators(0))[0]
    empty = zero == 0
    assert empty.any()
    fills: list[tuple[Any, float, float]] = [
        ("mean", X.mean(), X.mean()), (0.1, 0.1, 0.1), ("random", 0, X.mean())
    ]  # fmt: skip
    for fill, low, high in fills:
        W = Nnsvd(fill).factors(X, 5, generators(0))[0]
        np.testing.assert_array_equal(W[~empty], zero[~empty])
        assert W[empty].min() >= low - 1e-12
        assert W[empty].max() <= high + 1e-12


def test_beyond_the_rank_columns_are_at_the_scale_of_the_data(rng):
    X = rng.random((20, 2)) @ rng.random((2, 30))
    W, H = Nnsvd("zero").factors(X, 8, generators(0))
    rest = W[:, 2:] @ H[2:]
    assert 0.1 * X.mean() < rest.mean() < 10 * X.mean()


def test_random_has_the_best_common_scale(rng):
    X = rng.random((12, 9))
    W, H = Random().factors(X, 4, generators(0))
    best = np.sum(X * (W @ H)) / np.sum((W @ H) ** 2)
    assert best == pytest.approx(1)


def test_sparse_svd_equals_dense():
    X = scipy.sparse.random(60, 40, density=0.3, random_state=5, format="csc")
    U, sigma, Vt = truncated_svd(X, 6)
    U_dense, sigma_dense, Vt_dense = truncated_svd(X.toarray(), 6)
    np.testing.assert_allclose(sigma, sigma_dense, rtol=1e-4)
    np.testing.assert_allclose((U * sigma) @ Vt, (U_dense * sigma_dense) @ Vt_dense, atol=2e-2)


def test_all_zero_data_start_from_zero():
    W, H = Nnsvd().factors(np.zeros((4, 5)), 2, generators(0))
    assert not W.any()
    assert not H.any()


@pytest.mark.parametrize("fill", ["ones", -0.1, float("nan"), None, True])
def test_an_unknown_fill_is_refused(fill):
    with pytest.raises(ValueError, match="fill must be"):
        Nnsvd(fill)
    with pytest.raises(ValueError, match="fill must be"):
        Random.with_fill(fill)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 6e4), ("float64", 1e38)])
def test_a_fill_whose_products_overflow_is_refused(dtype, most, rng):
    X = rng.random((4, 5)).astype(dtype)
    Nnsvd(most).factors(X, 2, generators(0))
    with pytest.raises(ValueError, match=f"fill: .* too large for products in {dtype}"):
        Nnsvd(10 * most).factors(X, 2, generators(0))
