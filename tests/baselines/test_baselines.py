"""The compared methods: what all of them hold, and the law of each."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import deepnmf
from deepnmf.arrays.tensors import is_tensor
from deepnmf.core.decode import decode
from deepnmf.models.baselines import (
    L0NMF,
    BatchNMF,
    DeepSemiNMF,
    GraphNMF,
    HoyerNMF,
    MultilayerNMF,
    NsNMF,
    SemiNMF,
    SparseNMF,
    UpPropagationNMF,
    batch,
    constrained,
    l0,
    sparse,
)
from deepnmf.models.baselines.hoyer import sparseness, with_sparseness
from deepnmf.samples.open import open_samples
from deepnmf.solvers import Nesterov
from deepnmf.starts import Given
from tests import laws
from tests.tables import BRIEF, each, long

QUICK: dict[str, Any] = {"max_iter": 15, "tol": 0.0, "random_state": 0}
METHODS: dict[str, Any] = {
    "semi": SemiNMF(4, **QUICK),
    "deep semi": DeepSemiNMF((6, 4), pretrain_iter=10, **QUICK),
    "deep semi tanh": DeepSemiNMF((6, 4), link="tanh", pretrain_iter=10, **QUICK),
    "multilayer": MultilayerNMF((6, 4), **QUICK),
    "multilayer square": MultilayerNMF((6, 4), link="root", project_codes=True, **QUICK),
    "ns": NsNMF(4, **QUICK),
    "ns divergence": NsNMF(4, loss="kullback-leibler", **QUICK),
    "up-propagation": UpPropagationNMF((6, 4), **QUICK),
    "up-propagation square": UpPropagationNMF((6, 4), link="root", **QUICK),
    "up-propagation tanh": UpPropagationNMF((6, 4), link="tanh", **QUICK),
    "deep semi, one layer": DeepSemiNMF((4,), link="tanh", pretrain_iter=10, **QUICK),
    "hoyer parts": HoyerNMF(4, **QUICK),
    "hoyer codes": HoyerNMF(4, sparseness_W=None, sparseness_H=0.5, **QUICK),
    "sparse right": SparseNMF(4, **QUICK),
    "sparse left": SparseNMF(4, side="left", **QUICK),
    "l0 codes": L0NMF(4, nonzeros_H=2, **QUICK),
    "l0 parts": L0NMF(4, nonzeros_H=None, nonzeros_W=9, **QUICK),
    "graph": GraphNMF(4, strength=0.1, max_iter=15, random_state=0),
    "batch": BatchNMF(4, **QUICK),
}


@pytest.fixture(params=long(METHODS, "up-propagation tanh"))
def method(request):
    return clone(METHODS[request.param])


FIRST = {type(one): one for one in reversed(METHODS.values())}
"""One method per class: its first in the table."""


@parametrize_with_checks([clone(one).set_params(max_iter=5) for one in FIRST.values()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(
    [clone(one).set_params(max_iter=5) for one in METHODS.values() if one not in FIRST.values()]
)
def test_scikit_learns_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_objective_never_rises(method, X, dtype):
    method.set_params(max_iter=60).fit(X.astype(dtype))
    slack = (1e-10 if dtype == "float64" else 1e-5) * np.sum(X**2)
    laws.objective_never_rises(method.history_, slack)
    assert all(len(records) > 5 for records in laws.stages(method.history_))
    assert method.components_.dtype == dtype
    assert method.codes_.dtype == dtype


def test_the_fit_is_what_the_history_says(method, X):
    method.fit(X)
    last = method.history_[-1]
    weights, link = method._decoder(method.weights_)
    fitted = decode(weights, link, method.codes_.T).T
    error = np.linalg.norm(X - fitted)
    assert method.reconstruction_err_ == pytest.approx(error, rel=1e-8)
    fit = last["objective"] - last["penalty"]
    if method.get_params().get("loss") == "kullback-leibler":
        assert fit == pytest.approx(np.sum(X * np.log(X / fitted) - X + fitted), rel=1e-8)
    elif isinstance(method, MultilayerNMF):
        below = method.transform(X, layer=1)  # the last layer fits what the one below left
        assert 0 < fit < np.sum(below**2)
    else:
        assert fit == pytest.approx(error**2 / 2, rel=1e-8)


def test_codes_are_those_of_transform(method, X):
    Z = method.fit_transform(X)
    np.testing.assert_allclose(method.transform(X), Z, rtol=1e-6, atol=1e-9)
    alone = method.transform(X[7:8])
    np.testing.assert_allclose(alone, Z[7:8], rtol=1e-4, atol=1e-5)
    assert method.inverse_transform(Z).shape == X.shape
    # Codes of transform fit about as well as those of training; layer by layer, and for another
    # loss than the squared error, nothing says so.
    if not isinstance(method, MultilayerNMF) and not method.get_params().get("loss", "f") > "g":
        assert -method.score(X) * len(X) <= method.reconstruction_err_**2 * 1.2 + 1e-9


def test_tensors_equal_arrays(method, X, monkeypatch):
    """With one solver for both kinds of array: by itself each has its own."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(constrained, "Auto", Nesterov)
    monkeypatch.setattr(l0, "Auto", Nesterov)
    monkeypatch.setattr(batch, "Auto", Nesterov)
    monkeypatch.setattr(sparse, "Plan", partial(sparse.Plan, solver=Nesterov()))
    here = clone(method).fit(X)
    there = clone(method).fit(torch.from_numpy(X))
    assert is_tensor(there.components_)
    assert is_tensor(there.transform(torch.from_numpy(X)))
    assert there.reconstruction_err_ == pytest.approx(here.reconstruction_err_, rel=1e-6)


@BRIEF
@each("name,tol", [name for name in METHODS if METHODS[name].stacks], [0.0, 1e-2])
def test_a_run_of_a_stack_is_the_run_by_itself(name, tol, X):
    torch = pytest.importorskip("torch")
    method = clone(METHODS[name]).set_params(tol=tol, max_iter=40)
    sets = [torch.from_numpy(X[:30].copy()), torch.from_numpy(X[10:].copy())]
    data = torch.stack([one.T for one in sets])[:, None].repeat(1, 2, 1, 1)
    models = [[clone(method).set_params(random_state=seed) for seed in (3, 5)] for _ in sets]
    generators = [one._generator() for one in models[0]] * 2
    opened = [open_samples(one, method._needs(fitting=True)) for one in sets]
    method._fit_stack(data, generators, models, opened)
    alone = [
        [clone(one).fit(one_set) for one in row] for row, one_set in zip(models, sets, strict=True)
    ]
    weights = [
        torch.stack([torch.stack([one.weights_[level] for one in row]) for row in models])
        for level in range(len(models[0][0].weights_))
    ]
    codes = method._encode_stack(data, weights, models, len(weights))
    # Searched steps turn rounding into another path.
    searching = name == "deep semi tanh"
    rtol = 1e-3 if searching else 1e-6
    for place in np.ndindex(2, 2):
        mine, other = models[place[0]][place[1]], alone[place[0]][place[1]]
        assert mine.n_iter_ == other.n_iter_
        assert mine.status_ == other.status_
        assert mine.reconstruction_err_ == pytest.approx(other.reconstruction_err_, rel=rtol)
        found = [record["objective"] for record in mine.history_]
        np.testing.assert_allclose(found, [r["objective"] for r in other.history_], rtol=rtol)
        if not searching:
            np.testing.assert_allclose(codes[place].T, other.transform(sets[place[0]]), atol=1e-4)


def test_sparse_equals_dense(method, X):
    X = np.where(X < 0.2, 0, X)
    dense = clone(method).fit(X)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_matrix):
        if not method.takes_sparse:
            with pytest.raises(TypeError, match="[Ss]parse"):
                clone(method).fit(kind(X))
            continue
        sparse = clone(method).fit(kind(X))
        assert sparse.reconstruction_err_ == pytest.approx(dense.reconstruction_err_, rel=1e-5)
        np.testing.assert_allclose(
            sparse.transform(kind(X)), sparse.transform(X), rtol=1e-5, atol=1e-7
        )


def test_saved_and_loaded_is_the_same(method, X, tmp_path):
    laws.loaded_is_saved(method.fit(X), X, tmp_path / "model.safetensors")


def test_a_callback_stops_a_fit(method, X):
    method.set_params(callback=lambda record: record["sweep"] == 3).fit(X)
    assert len(method.history_) == 3
    assert "callback" in method.status_


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NsNMF(4, theta=1.5), "between 0"),
        (NsNMF(4, loss="l2"), "loss must be one of"),
        (HoyerNMF(4, sparseness_W=1.0), "between 0 and 1"),
        (L0NMF(4, nonzeros_H=0), "at least 1"),
        (SparseNMF(4, side="up"), "side must be one of"),
        (SparseNMF(4, beta=-1), "≥ 0"),
        (GraphNMF(4, graph=np.eye(3)), "40 samples"),
        (GraphNMF(4, graph=-np.eye(40)), "negative"),
        (GraphNMF(4, graph=np.full((40, 40), np.nan)), "NaN"),
        (GraphNMF(4, graph=0.5), "must be a matrix .* got a float"),
        (GraphNMF(4, graph=np.ones((40, 40), complex)), "must be a matrix"),
        (GraphNMF(4, graph=np.triu(np.ones((40, 40)))), "symmetric"),
        (DeepSemiNMF((6, 4), link="root"), "any sign"),
        (MultilayerNMF((6, 4), theta=(0.1,)), "one per layer"),
        (MultilayerNMF((6, 4), start=Given([np.ones((30, 6))])), "cannot be given"),  # type: ignore[arg-type]
        (NsNMF(4, start=Given([np.ones((30, 3))], np.ones((40, 3)))), "needed"),
        (NsNMF(4, start=Given([-np.ones((30, 4))], np.ones((40, 4)))), "W has entries"),
        (SemiNMF(4, start=Given([np.ones((30, 4))], -np.ones((40, 4)))), "codes has entries"),
        (NsNMF(0), "at least 1"),
        (UpPropagationNMF(()), "empty"),
        (SemiNMF(4, callback=cast(Any, 3)), "callback"),
    ],
)
def test_what_cannot_work_is_refused(model, message, X):
    with pytest.raises(ValueError, match=message):
        model.fit(X)


@pytest.mark.parametrize(
    "model",
    [
        NsNMF(5, theta=0.0),
        GraphNMF(5, strength=0.0, tol=0.0),
        UpPropagationNMF((5,)),
        MultilayerNMF((5,), theta=0.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_without_its_own_part_it_is_nmf_by_multiplicative_updates(model, X):
    W, H = start_of(model, X)
    other = NMF(5, init="custom", solver="mu", max_iter=30, tol=0)
    codes = other.fit_transform(X, W=H.T.copy(), H=W.T.copy())
    model = clone(model).set_params(max_iter=30, tol=0, random_state=0)
    if "start" in model.get_params() and not isinstance(model, MultilayerNMF):
        model.set_params(start=Given([W], H.T))
    model.fit(X)
    np.testing.assert_allclose(
        model.codes_ @ model.components_, codes @ other.components_, rtol=1e-6, atol=1e-8
    )


def start_of(model, X):
    begun = clone(model).set_params(max_iter=0, random_state=0).fit(X)
    return begun.weights_[0], begun.codes_.T


@pytest.mark.parametrize("sizes", [(16, 6), (16, 10, 6)])
def test_up_propagation_trains_through_the_root(sizes, digits):
    """Every sweep lowers the objective, to well below where the linear model ends."""
    X = digits[:400]
    settings: dict[str, Any] = {"max_iter": 150, "tol": 1e-6, "random_state": 0}
    ends = {}
    for link in ("identity", "root"):
        with pytest.warns(ConvergenceWarning, match="max_iter=150"):
            model = UpPropagationNMF(sizes, link=link, **settings).fit(X)
        values = laws.objectives(model.history_)
        assert len(values) == 150
        assert (np.diff(values) < 0).all()
        ends[link] = values[-1]
    assert ends["root"] < 0.97 * ends["identity"]


def test_smoothing_makes_sparse(digits):
    zeros = [
        np.mean(
            NsNMF(12, theta=theta, max_iter=200, tol=0, random_state=0).fit(digits).codes_ < 1e-3
        )
        for theta in (0.0, 0.7)
    ]
    assert zeros[1] > zeros[0] + 0.1


@pytest.mark.parametrize("wanted", long([0.2, 0.5, 0.8, 0.95], "0.5", "0.8"))
def test_hoyers_sparseness_is_reached(wanted, digits):
    model = HoyerNMF(10, sparseness_W=wanted, sparseness_H=0.6, max_iter=30, tol=0, random_state=0)
    model.fit(digits[:300])
    np.testing.assert_allclose(sparseness(model.weights_[0]), wanted, atol=1e-3)
    np.testing.assert_allclose(sparseness(model.codes_.T), 0.6, atol=1e-3)
    np.testing.assert_allclose(sparseness(model.transform(digits[:50]).T), 0.6, atol=1e-3)


def test_the_projection_on_a_sparseness_does_not_depend_on_the_scale(rng):
    F = rng.random((6, 9))
    F[:, 0] = 1
    expected = with_sparseness(F, 0.6)
    for scale in (2.0**-130, 2.0**130):
        np.testing.assert_array_equal(with_sparseness(scale * F, 0.6), scale * expected)


def test_the_projection_on_a_sparseness_is_the_nearest_point(rng):
    x = rng.standard_normal((8, 1))
    nearest = with_sparseness(x, 0.6)
    tried = with_sparseness(rng.standard_normal((8, 20000)), 0.6)
    unit = tried / np.linalg.norm(tried, axis=0)
    best = unit * np.maximum(x.T @ unit, 0)
    assert np.linalg.norm(x - nearest) <= np.linalg.norm(x - best, axis=0).min() + 1e-9


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("wanted", [0.3, 0.7, 0.95])
def test_equal_entries_can_have_any_sparseness(wanted, dtype):
    F = np.stack([np.ones(9), np.r_[np.ones(7), 0, 0], np.full(9, 1e-3)], axis=1).astype(dtype)
    np.testing.assert_allclose(sparseness(with_sparseness(F, wanted)), wanted, rtol=1e-3)


@pytest.mark.parametrize("X", [np.full((6, 8), 2.0), np.eye(5)[:, [0, 0, 1, 2, 2]]])
def test_hoyer_never_rises_on_equal_entries(X):
    model = HoyerNMF(1, max_iter=5, tol=0, random_state=0).fit(X)
    assert np.diff(laws.objectives(model.history_)).max() <= 1e-9 * np.sum(X**2)


def test_deep_semi_is_never_worse_than_nothing(rng):
    X = 1e48 * rng.random((5, 40))
    model = DeepSemiNMF((7, 7), link="sigmoid", pretrain_iter=1, max_iter=4, random_state=0).fit(X)
    assert model.reconstruction_err_ <= np.linalg.norm(X)


def test_up_propagation_measures_close_fits_in_single_precision():
    X = np.full((900, 2), 5.8, "float32")
    model = UpPropagationNMF((1, 2, 3), max_iter=5, tol=0, random_state=21).fit(X)
    measured = model.history_[-1]["objective"]
    np.testing.assert_allclose(measured, model.reconstruction_err_**2 / 2, atol=1e-6 * X.size)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_bound_on_nonzeros_is_held_exactly(count, digits):
    model = L0NMF(10, nonzeros_H=count, nonzeros_W=20, max_iter=15, tol=0, random_state=0)
    model.fit(digits[:300])
    assert ((model.codes_ > 0).sum(axis=1) <= count).all()
    assert ((model.weights_[0] > 0).sum(axis=0) <= 20).all()
    assert ((model.transform(digits[:80]) > 0).sum(axis=1) <= count).all()


def test_few_nonzeros_fit_better_than_cutting_codes_off(digits):
    X = digits[:400]
    model = L0NMF(16, nonzeros_H=3, max_iter=40, tol=0, random_state=0).fit(X)
    plain = deepnmf.dnmf(16, tol=1e-3, random_state=0).fit(X)
    Z = plain.transform(X)
    cut = np.where(np.argsort(np.argsort(-Z, axis=1), axis=1) < 3, Z, 0)
    error = np.linalg.norm(X - cut @ plain.components_)
    assert model.reconstruction_err_ < 0.9 * error


@pytest.mark.parametrize("side", long(["right", "left"], "left"))
def test_sparse_nmf_ends_at_a_kkt_point_of_its_objective(side, X):
    model = SparseNMF(5, side=side, beta=0.1, eta=0.5, max_iter=4000, tol=0, random_state=0).fit(X)
    W, H = model.weights_[0], model.codes_.T
    sparse, smooth = (H, W) if side == "right" else (W.T, H)
    value = (
        np.linalg.norm(X.T - W @ H) ** 2
        + 0.5 * np.linalg.norm(smooth) ** 2
        + 0.1 * np.sum(sparse.sum(axis=0) ** 2)
    ) / 2
    assert model.history_[-1]["objective"] == pytest.approx(value, rel=1e-9)
    assert model.history_[-1]["kkt"] <= 1e-4 * model.history_[0]["kkt"]


def test_codes_of_a_divergence_minimise_it(X):
    model = NsNMF(4, loss="kullback-leibler", max_iter=300, tol=0, random_state=0).fit(X)
    Z = model.transform(X)

    def divergence(codes):
        fitted = model.inverse_transform(codes)
        return np.sum(X * np.log(X / fitted) - X + fitted)

    assert divergence(Z) <= divergence(model.codes_) * (1 + 1e-4)
    # Its stopping does not depend on the units of X.
    for unit in (1.0, 1e4):
        one = NsNMF(4, loss="kullback-leibler", random_state=0).fit((unit * X).astype("float32"))
        assert one.n_iter_ > 30


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ill_conditioned_codes_do_not_spoil_the_weights(dtype, rng):
    """Rows of H of very different size, and two that are almost the same."""
    H = rng.random((6, 200)) * 10.0 ** -np.arange(6)[:, None]
    H[5] = H[4] * (1 + 1e-3 * rng.random(200))
    W = rng.standard_normal((30, 6)) / np.sqrt(np.sum(H**2, axis=1))
    X = (W @ H).T.astype(dtype)
    model = SemiNMF(6, start=Given([W], H.T), max_iter=0).fit(X)
    error = np.linalg.norm(X - model.codes_ @ model.components_) / np.linalg.norm(X)
    assert error < (2e-3 if dtype == "float32" else 1e-8)


def test_a_samples_sparse_code_does_not_depend_on_the_others(digits):
    model = L0NMF(16, nonzeros_H=4, max_iter=10, tol=0, random_state=0).fit(digits[:200])
    Z = model.transform(digits[:60])
    for low in (0, 7, 30):
        np.testing.assert_allclose(
            model.transform(digits[low : low + 3]), Z[low : low + 3], rtol=1e-3, atol=1e-5
        )


def test_neighbours_in_the_graph_get_near_codes(digits):
    X = digits[:400]
    roughness = []
    for strength in (0.0, 10.0):
        model = GraphNMF(10, strength=strength, max_iter=100, random_state=0).fit(X)
        Z = model.codes_ / np.linalg.norm(model.codes_, axis=1, keepdims=True)
        A = model._graph(X.T)
        rows, columns = A.nonzero()
        roughness.append(np.mean(np.sum((Z[rows] - Z[columns]) ** 2, axis=1)))
    assert roughness[1] < 0.5 * roughness[0]


def test_graph_nmf_encodes_beside_neighbours(digits):
    """Codes of training stay about where they were, and new ones are at their minimum."""
    X = digits[:200]
    model = GraphNMF(8, strength=5.0, max_iter=1000, tol=0, random_state=0).fit(X)
    Z = model.transform(X)
    cosines = np.sum(Z * model.codes_, axis=1) / np.linalg.norm(Z, axis=1)
    assert np.median(cosines / np.linalg.norm(model.codes_, axis=1)) > 0.99
    A, W = model.graph_.graph, model.weights_[0]
    new = digits[300:310]
    for x, z in zip(new, model.transform(new), strict=True):
        near = model.codes_[np.argsort(np.sum((X - x) ** 2, axis=1))[:5]]
        slope = W.T @ (W @ z - x) + 5 * (5 * z - near.sum(axis=0))
        size = np.abs(W.T @ x).max()
        assert np.abs(slope[z > 0]).max(initial=0) < 1e-6 * size
        assert slope[z == 0].min(initial=0) > -1e-6 * size
    assert (A != A.T).nnz == 0
