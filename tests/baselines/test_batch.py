"""NMF of batches: shared parts, and what each batch adds to them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import silhouette_score

import deepnmf
from deepnmf.arrays.tensors import is_tensor
from deepnmf.evaluation import cluster_scores
from deepnmf.models.baselines import BatchNMF, IntegrativeNMF, batch
from deepnmf.solvers import Nesterov
from tests import laws
from tests.tables import BRIEF

QUICK: dict[str, Any] = {"max_iter": 15, "tol": 0.0, "random_state": 0}
BATCHES = np.asarray(["b", "a", "b", "c"] * 10)


@pytest.fixture
def X(low_rank):
    return np.ascontiguousarray(low_rank.T)


def quick(**settings):
    return BatchNMF(4, **QUICK | {"strength": 0.5} | settings)


@pytest.mark.parametrize("strength", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_objective_never_rises(strength, dtype, X):
    model = quick(strength=strength, max_iter=80).fit(X.astype(dtype), batches=BATCHES)
    slack = (1e-10 if dtype == "float64" else 1e-5) * np.sum(X**2)
    laws.objective_never_rises(model.history_, slack)
    assert model.own_parts_.names == ("b", "a", "c")
    arrays = [model.components_, model.codes_, *model.own_parts_.parts]
    assert all(array.dtype == dtype for array in arrays)
    assert [V.shape for V in model.own_parts_.parts] == [(4, 30)] * 3


def factors(model):
    """W, H and V_b of every sample's batch, features x samples."""
    W, H = model.components_.T, model.codes_.T
    return W, H, [V.T for V in model.own_parts_.parts]


def test_the_fit_is_what_the_history_says(X):
    model = quick().fit(X, batches=BATCHES)
    W, H, Vs = factors(model)
    fit = price = 0.0
    for name, V in zip(model.own_parts_.names, Vs, strict=True):
        own = name == BATCHES
        fit += np.sum((X[own].T - (W + V) @ H[:, own]) ** 2)
        price += 0.5 * np.sum((V @ H[:, own]) ** 2)
    assert model.reconstruction_err_ == pytest.approx(fit**0.5, rel=1e-8)
    assert model.history_[-1]["objective"] == pytest.approx((fit + price) / 2, rel=1e-8)
    assert model.history_[-1]["penalty"] == pytest.approx(price / 2, rel=1e-8)


def test_a_long_fit_ends_at_a_kkt_point(X):
    """g ≥ 0, and g = 0 where a factor is > 0, for the gradients of all factors."""
    model = quick(max_iter=6000).fit(X, batches=BATCHES)
    assert model.history_[-1]["kkt"] < 1e-5 * model.history_[0]["kkt"]
    W, H, Vs = factors(model)
    gradient_W = np.zeros_like(W)
    pairs = []
    for name, V in zip(model.own_parts_.names, Vs, strict=True):
        own = name == BATCHES
        rest = (W + V) @ H[:, own] - X[own].T
        gradient_W += rest @ H[:, own].T
        pairs.append((V, rest @ H[:, own].T + 0.5 * V @ H[:, own] @ H[:, own].T))
        pairs.append((H[:, own], (W + V).T @ rest + 0.5 * V.T @ V @ H[:, own]))
    for F, g in [*pairs, (W, gradient_W)]:
        size = np.abs(g).max() + np.abs(X).max()
        assert g.min() > -1e-3 * size
        assert np.abs(np.minimum(F / F.max(), g / size)).max() < 1e-3


def test_the_order_and_the_names_of_batches_do_not_matter(X):
    model = quick(start="random").fit(X, batches=BATCHES)
    other = quick(start="random").fit(X, batches=np.asarray([7, 3, 7, 5] * 10))
    assert other.own_parts_.names == (7, 3, 5)
    np.testing.assert_array_equal(other.components_, model.components_)
    order = np.argsort(BATCHES, kind="stable")
    sorted_ = quick(max_iter=3000).fit(X[order], batches=BATCHES[order])
    plain = quick(max_iter=3000).fit(X, batches=BATCHES)
    ends = [one.history_[-1]["objective"] for one in (sorted_, plain)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-2)


def test_a_single_batch_is_plain_nmf(X):
    plain = quick(max_iter=300).fit(X)
    single = quick(max_iter=300).fit(X, batches=np.zeros(40, int))
    np.testing.assert_array_equal(single.components_, plain.components_)
    assert plain.own_parts_.names == ()
    assert not single.own_parts_.of(0).any()
    nmf = deepnmf.nenmf(4, max_iter=300, tol=0, random_state=0).fit(X)
    assert plain.reconstruction_err_ == pytest.approx(nmf.reconstruction_err_, rel=2e-2)


def test_a_high_price_leaves_nothing_own(X):
    model = quick(strength=1e8, max_iter=200).fit(X, batches=BATCHES)
    plain = quick(max_iter=200).fit(X)
    assert max(V.max() for V in model.own_parts_.parts) < 1e-5
    assert model.reconstruction_err_ == pytest.approx(plain.reconstruction_err_, rel=1e-2)


def test_it_goes_below_multiplicative_updates(X):
    sets = {name: X[name == BATCHES] for name in "abc"}
    settings: dict[str, Any] = {"strength": 0.5, "max_iter": 300, "tol": 0, "random_state": 0}
    multiplicative = IntegrativeNMF(4, shared="features", **settings).fit(sets)
    model = BatchNMF(4, **settings).fit(X, batches=BATCHES)
    ends = [one.history_[-1]["objective"] for one in (model, multiplicative)]
    assert ends[0] < 1.02 * ends[1]


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_sparse_equals_dense(form, X):
    X = np.where(X < 0.4, 0, X)
    dense, sparse = (quick().fit(data, batches=BATCHES) for data in (X, form(X)))
    np.testing.assert_allclose(sparse.components_, dense.components_, rtol=1e-6, atol=1e-8)
    codes = [model.transform(data, batches=BATCHES) for model, data in ((dense, X),
             (sparse, form(X)))]  # fmt: skip
    np.testing.assert_allclose(codes[1], codes[0], rtol=1e-6, atol=1e-8)


def test_tensors_equal_arrays(X, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(batch, "Auto", Nesterov)
    here = quick().fit(X, batches=BATCHES)
    there = quick().fit(torch.from_numpy(X), batches=BATCHES)
    assert all(is_tensor(V) for V in there.own_parts_.parts)
    np.testing.assert_allclose(there.components_.numpy(), here.components_, rtol=1e-5, atol=1e-7)
    Z = there.transform(torch.from_numpy(X), batches=BATCHES)
    np.testing.assert_allclose(Z.numpy(), here.transform(X, batches=BATCHES), rtol=1e-4, atol=1e-5)


def test_codes_are_those_of_training_with_the_batches(X):
    model = quick(max_iter=3000)
    Z = model.fit_transform(X, batches=BATCHES)
    np.testing.assert_allclose(Z, model.codes_, rtol=1e-3, atol=1e-4)
    some = model.transform(X[5:9], batches=BATCHES[5:9])
    np.testing.assert_allclose(some, Z[5:9], rtol=1e-5, atol=1e-7)
    shared = model.transform(X)
    error = np.sum((X - shared @ model.components_) ** 2)
    assert error <= np.sum((X - Z @ model.components_) ** 2)
    assert -model.score(X) * 40 == pytest.approx(error)


@pytest.mark.parametrize("batches", [BATCHES, [3, 1, 3, 2] * 10, None])
def test_saved_and_loaded_it_is_the_same(batches, X, tmp_path):
    model = quick().fit(X, batches=batches)
    model.save(tmp_path / "model.safetensors")
    again: Any = deepnmf.load(tmp_path / "model.safetensors")
    assert again.own_parts_.names == model.own_parts_.names
    for ours, theirs in zip(model.own_parts_.parts, again.own_parts_.parts, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(
        again.transform(X, batches=batches), model.transform(X, batches=batches)
    )


class Planted(NamedTuple):
    """Samples of two batches with shared and own parts."""

    X: np.ndarray
    labels: np.ndarray
    batches: np.ndarray
    W: np.ndarray


def planted(seed: int) -> Planted:
    """5 types of samples, each with a part of 30 features; and for each batch 35 features that
    every sample of it has as well."""
    rng, n, k = np.random.default_rng(seed), 300, 5
    W = np.zeros((200, k))
    for part in range(k):
        W[25 * part : 25 * part + 30, part] = rng.uniform(0.5, 1.5, 30)
    sets, labels = [], []
    for low in (130, 165):
        V = np.zeros((200, k))
        V[low : low + 35] = 0.7 * rng.uniform(0.2, 1, (35, 1)) * rng.uniform(0.7, 1.3, (1, k))
        kinds = rng.integers(k, size=n)
        H = 0.15 * rng.random((n, k))
        H[np.arange(n), kinds] += rng.uniform(0.7, 1.3, n)
        sets.append(H @ (W + V).T + 0.02 * rng.random((n, 200)))
        labels.append(kinds)
    return Planted(np.vstack(sets), np.concatenate(labels), np.repeat(["a", "b"], n), W)


def least_cosine(parts: np.ndarray, W: np.ndarray) -> float:
    """The least cosine of a planted part and the part that it is matched with."""
    cosines = (W / np.linalg.norm(W, axis=0)).T @ (
        parts / np.linalg.norm(parts, axis=1, keepdims=True)
    ).T
    return float(cosines[linear_sum_assignment(-cosines)].min())


@pytest.mark.parametrize("seed", [0, 1, 2])
@BRIEF
def test_shared_parts_are_found_and_the_batch_is_not_in_the_codes(seed):
    data = planted(seed)
    model = BatchNMF(5, strength=0.1, random_state=0)
    Z = model.fit_transform(data.X, batches=data.batches)
    assert least_cosine(model.components_, data.W) >= 0.95
    assert silhouette_score(Z, data.batches) <= 0.05
    assert cluster_scores(Z, data.labels, n_clusters=5, random_state=0).nmi > 0.95
    own = model.own_parts_.of("a").sum(axis=0)
    assert own[130:165].min() > 2 * own[165:].max()
    # Plain NMF mixes the batch into its parts or, with more parts, into its codes.
    plain = deepnmf.nenmf(5, random_state=0).fit(data.X)
    assert least_cosine(plain.components_, data.W) < 0.9
    wider = deepnmf.nenmf(7, random_state=0).fit_transform(data.X)
    assert silhouette_score(wider, data.batches) > 0.1


@pytest.mark.parametrize(
    ("settings", "batches", "message"),
    [
        ({}, BATCHES[:-1], "39 labels for 40 samples"),
        ({}, BATCHES[:, None], "one label per sample, got shape"),
        ({}, [None, "a"] * 20, "no label for 20 of 40 samples, the first is sample 0"),
        ({}, [1.0, np.nan] * 20, "no label for 20 of 40 samples, the first is sample 1"),
        ({"strength": -1}, BATCHES, "strength"),
    ],
)
def test_what_cannot_work_is_refused(settings, batches, message, X):
    model = quick(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X, batches=batches)
    assert not hasattr(model, "weights_")


def test_samples_of_other_batches_are_refused(X):
    model = quick().fit(X, batches=BATCHES)
    with pytest.raises(
        ValueError, match="batches: 'd' was not fitted; these were: 'b', 'a', 'c'. L"
    ):
        model.transform(X, batches=["d"] * 40)
