"""Methods of several data sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from deepnmf.models.baselines import IntegrativeNMF, JointNMF, NsNMF
from deepnmf.models.storage import save

METHODS: dict[str, Any] = {
    "joint": JointNMF(4, random_state=0),
    "sparse joint": JointNMF(4, sparsity=0.1, ridge=0.1, random_state=0),
    "networks": JointNMF(
        4, sparsity=1.0, ridge=0.1, networks={(0, 1): np.eye(18, 12), (0, 0): np.ones((18, 18))},
        network_strength=0.01, random_state=0,
    ),
    "integrative": IntegrativeNMF(4, random_state=0),
}  # fmt: skip


@pytest.fixture
def sets(low_rank):
    X = low_rank.T
    return [X[:, :18].copy(), X[:, 18:].copy()]


@pytest.fixture(params=METHODS, ids=str)
def method(request):
    return clone(METHODS[request.param])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_objective_never_rises(method, sets, dtype):
    method.set_params(max_iter=100, tol=0).fit([one.astype(dtype) for one in sets])
    values = [record["objective"] for record in method.history_]
    slack = (1e-10 if dtype == "float64" else 1e-5) * sum(np.sum(one**2) for one in sets)
    assert (np.diff(values) <= slack).all()
    assert method.codes_.shape == (40, 4)
    assert method.codes_.dtype == dtype
    assert [method.components_[name].shape for name in (0, 1)] == [(4, 18), (4, 12)]


def test_a_sweep_moves_along_the_gradient_of_the_objective(method, sets, rng):
    """W_1 ← W_1 ∘ (above/below)ᵖ with below − above = ∂f/∂W_1, by finite differences."""
    names, data = method._opened(sets)
    problem = method._problem(names, data)
    state = problem.begin((rng.random((18, 4)), rng.random((12, 4))), rng.random((4, 40)))
    swept = problem.sweep(state)
    # The state in which W_1 was updated: the codes new, the weights old.
    codes = replace(swept, weights=state.weights)
    W, D = state.weights[0], rng.standard_normal((18, 4))

    def value(t):
        return float(problem.objective(replace(codes, weights=(W + t * D, state.weights[1])))[0])

    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    if isinstance(method, JointNMF):
        S, K = swept.memories[-1], swept.H
        below = W @ (S + method.sparsity)
        power = 2 if method.networks else 1
    else:
        K, V = swept.H + swept.memories[0], swept.memories[0]
        below = W @ (K @ K.T + method.strength * V @ V.T)
        power = 1
    above = below * (swept.weights[0] / W) ** power
    assert slope == pytest.approx(float(np.sum((below - above) * D)), rel=1e-4)


def test_of_one_data_set_it_is_nmf(low_rank):
    X = low_rank.T
    joint = JointNMF(5, max_iter=50, tol=0, random_state=3).fit([X])
    plain = NsNMF(5, theta=0.0, start="random", max_iter=50, tol=0, random_state=3).fit(X)
    np.testing.assert_allclose(joint.codes_, plain.codes_, rtol=1e-8)
    np.testing.assert_allclose(joint.components_[0], plain.components_, rtol=1e-8)


@pytest.mark.parametrize("shared", ["samples", "features"])
def test_without_penalties_it_is_nmf_of_all_together(sets, shared):
    whole = np.hstack(sets)
    given = {"a": sets[0], "b": sets[1]}
    if shared == "features":
        given = {"a": whole[:25], "b": whole[25:]}
    joint = JointNMF(5, shared=shared, max_iter=100, tol=0, random_state=0).fit(given)
    plain = NsNMF(5, theta=0.0, start="random", max_iter=100, tol=0, random_state=0)
    if shared == "features":
        plain.fit(whole.T)
        np.testing.assert_allclose(joint.components_, plain.codes_.T, rtol=1e-6, atol=1e-9)
        codes = np.vstack([joint.codes_["a"], joint.codes_["b"]])
        np.testing.assert_allclose(codes, plain.components_.T, rtol=1e-6, atol=1e-9)
        assert joint.transform(whole[:7]).shape == (7, 5)
    else:
        plain.fit(whole)
        np.testing.assert_allclose(joint.codes_, plain.codes_, rtol=1e-6, atol=1e-9)
        parts = np.hstack([joint.components_["a"], joint.components_["b"]])
        np.testing.assert_allclose(parts, plain.components_, rtol=1e-6, atol=1e-9)


def test_codes_of_new_samples(method, sets):
    Z = method.fit(sets).transform([one[:9] for one in sets])
    assert Z.shape == (9, 4)
    if isinstance(method, JointNMF):
        some = method.transform({1: sets[1][:9]})
        assert some.shape == (9, 4)
        if method.network_strength == 0:
            fitted = np.hstack([method.components_[0], method.components_[1]])
            whole = np.hstack(sets)[:9]
            here, there = (
                np.linalg.norm(whole - codes @ fitted) for codes in (Z, method.codes_[:9])
            )
            assert here <= 1.02 * there


def test_what_data_sets_do_not_share_goes_to_their_own_part(rng):
    """λ is the price of it: at a high one nothing is left, and it is JointNMF."""
    H, W = rng.random((60, 3)), [rng.random((3, 20)), rng.random((3, 25))]
    sets = [H @ W[0], H @ W[1]]
    weak, strong = (
        IntegrativeNMF(3, strength=strength, max_iter=2000, tol=0, random_state=0).fit(sets)
        for strength in (0.01, 1e6)
    )
    own = [sum(np.linalg.norm(V) for V in one.specific_.values()) for one in (weak, strong)]
    assert own[1] < 1e-2 * own[0]
    joint = JointNMF(3, max_iter=2000, tol=0, random_state=0).fit(sets)
    ends = [one.history_[-1]["objective"] / np.sum(sets[0] ** 2) for one in (strong, joint)]
    assert ends[0] < 1e-4
    assert ends[1] < 1e-4


def test_a_network_brings_its_features_together(rng):
    """Two features that nothing but the network joins end in the same parts."""
    blocks = np.kron(np.eye(2), np.ones((2, 15)))  # the features of two unrelated groups
    X = rng.random((50, 4)) @ (blocks * rng.random((4, 30)))
    A = np.zeros((30, 30))
    A[0, 20] = A[20, 0] = 1
    near = []
    joined: dict[str, Any] = {"networks": {("x", "x"): A}, "network_strength": 1.9}
    for network in ({}, joined):
        model = JointNMF(4, sparsity=2.0, ridge=1.0, max_iter=500, random_state=0, **network)
        model.fit({"x": X})
        first, second = model.components_["x"][:, 0], model.components_["x"][:, 20]
        near.append(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    assert near[1] > near[0] + 0.05


def test_sparse_sets(method, sets):
    sets = [np.where(one < 0.6, 0, one) for one in sets]
    dense = clone(method).set_params(max_iter=20, tol=0).fit(sets)
    sparse = clone(method).set_params(max_iter=20, tol=0)
    sparse.fit([scipy.sparse.csr_array(one) for one in sets])
    assert sparse.history_[-1]["objective"] == pytest.approx(dense.history_[-1]["objective"])


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (JointNMF(3), np.ones((4, 4)), "several data sets"),
        (JointNMF(3), [], "no data set"),
        (JointNMF(3), [np.ones((4, 4)), np.ones((5, 4))], "in common"),
        (JointNMF(3, shared="features"), [np.ones((4, 4)), np.ones((4, 5))], "in common"),
        (JointNMF(3), {"a": -np.ones((4, 4))}, "data set 'a'"),
        (JointNMF(3, networks={(0, 0): np.eye(4)}), [np.ones((4, 4))], "network_strength is 0"),
        (
            JointNMF(3, sparsity=0.5, ridge=0.5, networks={(0, 0): np.eye(4)}, network_strength=1),
            [np.ones((4, 4))],
            "spectral radius is 1",
        ),
        (
            JointNMF(3, sparsity=1, ridge=1, networks={(0, 7): np.eye(4)}, network_strength=1),
            [np.ones((4, 4))],
            "names no data sets",
        ),
        (
            JointNMF(3, sparsity=1, ridge=1, networks={(0, 0): np.eye(3)}, network_strength=1),
            [np.ones((4, 4))],
            "shape",
        ),
        (IntegrativeNMF(3, strength=-1), [np.ones((4, 4))], "≥ 0"),
        (IntegrativeNMF(3, shared="both"), [np.ones((4, 4))], "shared must be one of"),
    ],
)
def test_what_cannot_work_is_refused(model, given, message):
    with pytest.raises(ValueError, match=message):
        model.fit(given)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (JointNMF(3, sparsity=-1), "sparsity"),
        (JointNMF(3, shared="both"), "shared must be one of"),
        (IntegrativeNMF(3, strength=float("nan")), "strength"),
    ],
)
def test_settings_are_checked_without_data(model, message):
    with pytest.raises(ValueError, match=message):
        model.check()


def test_tensors_are_fitted_as_arrays(method, sets):
    torch = pytest.importorskip("torch")
    method.set_params(max_iter=5, tol=0)
    expected = method.fit(sets).codes_
    codes = method.fit([torch.from_numpy(data) for data in sets]).codes_
    np.testing.assert_array_equal(codes, expected)


def test_new_data_must_have_the_features_that_were_fitted(sets):
    few = [scipy.sparse.csr_array(one[:, :-1]) for one in sets]
    for model in (JointNMF(3, random_state=0), IntegrativeNMF(3, random_state=0)):
        model.set_params(max_iter=5, tol=0).fit(sets)
        with pytest.raises(ValueError, match="features"):
            model.transform(few)
    whole = np.hstack(sets)
    model = JointNMF(3, shared="features", max_iter=5, tol=0, random_state=0).fit(
        [whole[:20], whole[20:]]
    )
    with pytest.raises(ValueError, match="30 were fitted"):
        model.transform(scipy.sparse.csr_array(np.ones((2, 31))))
    with pytest.raises(ValueError, match="cannot be saved"):
        save(model, "nowhere.safetensors")


def test_codes_where_features_are_shared_have_the_penalty_of_training(sets):
    whole = np.hstack(sets)
    model = JointNMF(4, shared="features", sparsity=5.0, ridge=1.0, max_iter=3000, tol=0,
                     random_state=0).fit([whole[:25], whole[25:]])  # fmt: skip
    np.testing.assert_allclose(model.transform(whole[:25]), model.codes_[0], rtol=0.05, atol=0.02)
