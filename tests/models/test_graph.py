"""A graph of the samples in the model: neighbours get similar codes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.optimize import minimize
from sklearn.preprocessing import normalize

import deepnmf
from deepnmf.core.graph import Graph, normalised
from deepnmf.models.neighborhood import row_keys, unit_of
from deepnmf.neighbors import neighbor_graph
from deepnmf.neighbors import search as searching
from tests.tables import long

pytestmark = pytest.mark.filterwarnings("ignore:stopped at max_iter")

SETTINGS: dict[str, Any] = {"random_state": 0, "max_iter": 200, "pretrain_iter": 20}
MODELS: dict[str, Any] = {
    "layers": lambda **s: deepnmf.sdnmf_l((12, 6), **s),
    "layers, codes penalised": lambda **s: deepnmf.sdnmf_rl1((12, 6), **s),
    "layers, root": lambda **s: deepnmf.sdnmf_l((12, 6), link="root", **s),
    "three layers": lambda **s: deepnmf.sdnmf_l((14, 10, 6), **s),
    "one layer": lambda **s: deepnmf.sdnmf_l(6, **s),
    "nesterov": lambda **s: deepnmf.sdnmf_l((12, 6), solver="nesterov", **s),
    "end to end": lambda **s: deepnmf.dnmf((12, 6), objective="end_to_end", **s),
    "end to end, penalised": lambda **s: deepnmf.sdnmf_rl2((12, 6), objective="end_to_end", **s),
    "end to end, root": lambda **s: deepnmf.dnmf((12, 6), link="root", objective="end_to_end", **s),
}
SLOW = (
    "layers, codes penalised", "three layers", "nesterov", "end to end, penalised",
    "end to end, root",
)  # fmt: skip
ALL = long(MODELS, *SLOW)


@pytest.fixture(scope="module")
def X(digits):
    return normalize(digits[:240])


def ring(n: int) -> scipy.sparse.csr_array:
    """Every sample is next to two others."""
    ones = np.ones(n)
    A = scipy.sparse.diags_array([ones[1:], ones[1:], ones[:1], ones[:1]],
                                 offsets=[1, -1, n - 1, 1 - n])  # fmt: skip
    return scipy.sparse.csr_array(A)


def roughness(model: Any, codes: np.ndarray) -> float:
    """tr(H L Hᵀ)/‖H‖² on the graph of the model."""
    S = model.graph_.graph
    return float(np.sum(codes * (codes - S @ codes)) / np.sum(codes**2))


@pytest.mark.parametrize("graph", ["codes", "data", "matrix"])
@pytest.mark.parametrize("name", ALL)
def test_the_objective_does_not_rise_on_a_graph(name, graph, X):
    given = ring(len(X)) if graph == "matrix" else graph
    model = MODELS[name](graph=given, tol=0, **(SETTINGS | {"max_iter": 60})).fit(X)
    f = np.array([one["objective"] for one in model.history_ if one["stage"] == "finetune"])
    rises = np.flatnonzero(np.diff(f) > 1e-9 * f[1:])
    # A new graph is a new objective. There are four with graph="codes": none, and three graphs.
    assert len(rises) <= (3 if graph == "codes" else 0)
    assert model.reason_ == "limit"


@pytest.mark.parametrize("name", ALL)
def test_neighbours_get_similar_codes(name, X):
    model = MODELS[name](graph="data", **SETTINGS).fit(X)
    alone = MODELS[name](**SETTINGS).fit(X)
    assert roughness(model, model.graph_.codes) < 0.7 * roughness(model, alone.transform(X))


@pytest.mark.parametrize("name", MODELS)
def test_no_strength_is_no_graph(name, X):
    few = SETTINGS | {"max_iter": 5, "tol": 0}
    model = MODELS[name](graph="codes", graph_strength=0, **few).fit(X)
    alone = MODELS[name](**few).fit(X)
    for W, other in zip(model.weights_, alone.weights_, strict=True):
        np.testing.assert_array_equal(W, other)
    assert not hasattr(model, "graph_")


@pytest.mark.parametrize("graph", ["codes", "data", "matrix"])
@pytest.mark.parametrize("name", ALL)
def test_transform_gives_the_codes_of_training(name, graph, X):
    """Each code of training is the minimum of its own problem beside its neighbours."""
    given = ring(len(X)) if graph == "matrix" else graph
    model = MODELS[name](graph=given, **(SETTINGS | {"max_iter": 1500, "tol": 1e-9}))
    with np.errstate(all="raise"):
        Z = model.fit_transform(X)
    trained = model.graph_.codes
    assert np.linalg.norm(Z - trained) < 2e-3 * np.linalg.norm(trained)
    # Whatever the order of the samples, and beside new ones.
    mixed = np.concatenate([X[::-1][:50], np.roll(X[:20], 1, axis=1)])
    np.testing.assert_allclose(model.transform(mixed)[:50], Z[::-1][:50], rtol=1e-5, atol=1e-7)


def test_a_new_sample_is_the_minimum_beside_its_neighbours(X, digits):
    """min_{h ≥ 0} ½‖x − Wh‖² + ½ g Σ_j a_j ‖h − h_j‖² over its nearest samples, by L-BFGS-B;
    a_j ∝ exp(−d_j²/s²)."""
    model = deepnmf.dnmf(6, graph="data", graph_strength=0.5, **SETTINGS).fit(X)
    new = normalize(digits[300:320])
    Z, near, W = model.transform(new), model.graph_, model.weights_[0]
    unit = np.linalg.norm(W, axis=0)  # weights of unit norm, as in training
    for x, z in zip(new, Z, strict=True):
        nearest = np.argsort(-(X @ x))[:10]
        d = np.linalg.norm(X[nearest] - x, axis=1)
        a = np.exp(-(d**2) / max(d[1], d.mean() / 4) ** 2)
        a = a / a.sum()
        h_j = near.codes[nearest] * unit

        def cost(h, x=x, h_j=h_j, a=a):
            r, apart = W / unit @ h - x, h - h_j
            value = r @ r / 2 + near.weight / 2 * a @ np.sum(apart**2, axis=1)
            return value, (W / unit).T @ r + near.weight * a @ apart

        best = minimize(cost, z * unit, jac=True, method="L-BFGS-B", bounds=[(0, None)] * 6,
                        options={"ftol": 1e-15, "gtol": 1e-12})  # fmt: skip
        assert cost(z * unit)[0] <= best.fun * (1 + 1e-9)


def test_new_samples_lie_beside_their_neighbours(digits):
    """The codes of new samples are as near to their class as those of training."""
    from sklearn.datasets import load_digits

    y = load_digits().target
    X = normalize(digits)
    model = deepnmf.sdnmf_l((32, 16), graph="codes", random_state=0).fit(X[:1200])
    Z = normalize(model.transform(X))
    near = np.argmax(Z[1200:] @ Z[:1200].T, axis=1)
    assert np.mean(y[:1200][near] == y[1200:]) > 0.9


def test_blocks_are_encoded_as_one_piece(X):
    model = deepnmf.sdnmf_l((12, 6), graph="codes", **SETTINGS).fit(X)
    parts = model.transform([X[:70], X[70:]])
    np.testing.assert_allclose(parts, model.transform(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("graph", ["codes", "data"])
def test_sparse_samples_equal_dense_ones(graph, X):
    few = SETTINGS | {"max_iter": 30, "tol": 0, "start": "random"}
    new = X[:60].clip(0.05)
    dense = deepnmf.sdnmf_l((12, 6), graph=graph, **few).fit(X)
    sparse = deepnmf.sdnmf_l((12, 6), graph=graph, **few).fit(scipy.sparse.csr_array(X))
    np.testing.assert_array_equal(dense.graph_.keys, sparse.graph_.keys)
    ends = (model.history_[-1]["objective"] for model in (dense, sparse))
    assert next(ends) == pytest.approx(next(ends), rel=1e-6)
    np.testing.assert_allclose(sparse.transform(X), dense.transform(X), rtol=1e-3, atol=1e-4)
    codes = sparse.transform(scipy.sparse.csr_array(new))
    np.testing.assert_allclose(codes, dense.transform(new), rtol=1e-3, atol=1e-4)


def test_tensors_equal_arrays(X):
    few = SETTINGS | {"max_iter": 20, "tol": 0, "solver": "nesterov", "start": "random"}
    for graph in ("data", "matrix"):
        given = ring(len(X)) if graph == "matrix" else graph
        array = deepnmf.sdnmf_l((12, 6), graph=given, **few).fit(X)
        tensor = deepnmf.sdnmf_l((12, 6), graph=given, **few).fit(torch.tensor(X))
        ends = (model.history_[-1]["objective"] for model in (array, tensor))
        assert next(ends) == pytest.approx(next(ends), rel=1e-6)
        codes = tensor.transform(torch.tensor(X[:50])).numpy()
        np.testing.assert_allclose(codes, array.transform(X[:50]), rtol=1e-4, atol=1e-6)


def test_a_stack_is_its_runs(X):
    """Every run of a stack has a graph of its own."""
    from deepnmf.core.training import train

    data = np.stack([X.T, X[::-1].T])
    model = deepnmf.sdnmf_l((12, 6), graph="codes", **(SETTINGS | {"max_iter": 80}))
    generators = partial(np.random.default_rng, 0)
    stack = train(data, model._plan(), [generators(), generators()])
    for run, own in zip(stack.runs(), data, strict=True):
        alone = train(own, model._plan(), [generators()]).only()
        assert run.history[-1]["objective"] == pytest.approx(
            alone.history[-1]["objective"], rel=1e-4
        )
        assert abs(run.near.S - alone.near.S).sum() <= 0.02 * alone.near.S.sum()


@pytest.mark.parametrize("unit", [2.0**10, 2.0**-150])
def test_units_do_not_matter(unit, X):
    few = SETTINGS | {"max_iter": 40, "tol": 0}
    own = deepnmf.sdnmf_l((12, 6), graph="codes", **few).fit(X)
    other = deepnmf.sdnmf_l((12, 6), graph="codes", **few).fit(unit * X)
    np.testing.assert_array_equal(own.transform(X), other.transform(unit * X))


@pytest.mark.parametrize("kind", ["dense", "sparse", "tensor"])
def test_samples_that_are_0_take_no_place_of_a_neighbour(kind, rng):
    """Very sparse samples are far from one another, and no nearer to one that is 0."""
    X = scipy.sparse.random_array((80, 200), density=0.02, rng=rng).toarray()
    X[:30] = 0
    given = {"dense": X, "sparse": scipy.sparse.csr_array(X), "tensor": torch.tensor(X)}[kind]
    A = neighbor_graph(given, 5).toarray()
    assert not A[:30].any()
    np.testing.assert_array_equal(A[30:, 30:], neighbor_graph(given[30:], 5).toarray())
    assert not neighbor_graph(0 * given, 5).nnz
    if kind != "tensor":
        few = SETTINGS | {"max_iter": 40, "tol": 0}
        model = deepnmf.sdnmf_l((12, 6), graph="data", **few).fit(given)
        alone = deepnmf.sdnmf_l((12, 6), graph="data", **few).fit(given[30:])
        new = scipy.sparse.random_array((20, 200), density=0.05, rng=rng)
        assert (model.graph_.beside(new.T, None)[:, :30]).nnz == 0
        nearest = model.graph_.beside(new.T, None)[:, 30:]
        np.testing.assert_array_equal(nearest.toarray(),
                                      alone.graph_.beside(new.T, None).toarray())  # fmt: skip


def test_equal_samples_keep_their_own_neighbours(X):
    twice = np.concatenate([X, X[:5]])
    model = deepnmf.sdnmf_l((12, 6), graph=ring(245), **(SETTINGS | {"max_iter": 1500}))
    Z = model.fit_transform(twice)
    assert np.linalg.norm(Z - model.graph_.codes) < 5e-3 * np.linalg.norm(Z)


def test_every_graph_gets_sweeps(X):
    for graph in ("codes", "data"):
        model = deepnmf.sdnmf_l((12, 6), graph=graph, **(SETTINGS | {"max_iter": 12})).fit(X)
        plain = deepnmf.sdnmf_l((12, 6), **(SETTINGS | {"max_iter": 12})).fit(X)
        assert model.n_iter_ == 12
        assert np.abs(model.weights_[-1] - plain.weights_[-1]).max() > 0
    untrained = deepnmf.sdnmf_l((12, 6), graph="codes", **(SETTINGS | {"max_iter": 0})).fit(X)
    assert not hasattr(untrained, "graph_")


def test_what_is_learned_later_knows_no_neighbours_of_before(X):
    model = deepnmf.sdnmf_l((12, 6), graph="codes", **SETTINGS).fit(X)
    model.set_params(graph=None).partial_fit(X[:100])
    assert not hasattr(model, "graph_")
    models = deepnmf.fit_many(
        X, deepnmf.sdnmf_l((12, 6), graph="codes", **SETTINGS, start="random"), seeds=2
    )
    assert deepnmf.consensus(models, X).graph is None
    with pytest.raises(ValueError, match="share draws samples, and a graph that is a matrix"):
        deepnmf.fit_many(X, deepnmf.sdnmf_l((12, 6), graph=ring(240)), seeds=2, share=0.8)


def test_the_penalty_is_the_laplacian_of_the_graph(rng):
    A = scipy.sparse.csr_array(np.triu(rng.random((9, 9)) < 0.4, 1).astype(float))
    A = scipy.sparse.csr_array(A + A.T)
    A = scipy.sparse.block_diag([A, np.zeros((1, 1))])  # and a sample without neighbours
    H = rng.random((3, 10))
    graph = Graph.of(normalised(A), H, np.full((1, 1), 0.7))
    dense = A.toarray()
    d = np.sqrt(np.maximum(dense.sum(axis=1), 1e-300))
    pairs = dense * np.sum((H[:, :, None] / d[:, None] - H[:, None, :] / d[None, :]) ** 2, axis=0)
    assert float(graph.value(H)) == pytest.approx(0.7 * pairs[:9, :9].sum() / 4)
    order = rng.permutation(10)
    mixed = Graph.of(normalised(A.tocsr()[order][:, order]), H, graph.weight)
    assert float(mixed.value(H[:, order])) == pytest.approx(float(graph.value(H)))
    # The bound is above the penalty, and touches it where it was made.
    pull = graph.pull(H)

    def bound(F):
        return 0.5 * pull.strength.item() * np.sum(F**2) - np.sum(pull.target * F)

    for F in rng.random((5, 3, 10)):
        rise = float(graph.value(F) - graph.value(H))
        assert rise <= bound(F) - bound(H) + 1e-12


def test_a_model_is_the_same_after_a_file(X, digits, tmp_path):
    for graph in ("codes", "data"):
        model = deepnmf.sdnmf_l((12, 6), graph=graph, **SETTINGS).fit(X)
        model.save(tmp_path / "model.safetensors")
        again = deepnmf.load(tmp_path / "model.safetensors")
        both = np.concatenate([X[:30], normalize(digits[300:330])])
        np.testing.assert_array_equal(again.transform(both), model.transform(both))
    model.save(tmp_path / "small.safetensors", samples=False)
    alone = deepnmf.load(tmp_path / "small.safetensors")
    assert not hasattr(alone, "graph_")
    assert np.abs(alone.transform(X) - model.transform(X)).max() > 0.1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"graph": "neighbours"}, "graph must be one of 'codes', 'data', or a matrix"),
        ({"graph": np.ones((3, 3))}, r"graph: of shape \(3, 3\), but there are 240 samples"),
        ({"graph": -ring(240)}, "graph: has negative entries"),
        ({"graph": ring(240) * np.nan}, "graph: has entries that are NaN or infinite"),
        ({"graph": scipy.sparse.triu(ring(240))}, "graph: is not symmetric"),
        ({"graph": object()}, "graph: must be a matrix of real numbers"),
        ({"graph": "codes", "neighbors": 240}, "neighbors: 240 of the other samples"),
        ({"graph": "codes", "neighbors": 0}, "neighbors: 0 is too small"),
        ({"graph": "codes", "graph_strength": -1}, "graph_strength: -1 must be a finite number"),
        ({"graph": "codes", "link": "tanh"}, "graph: through Tanh codes can become small"),
        ({"graph": "codes", "scaling": "paper"}, 'graph: with scaling="paper"'),
        ({"graph": "codes", "objective": "end_to_end"}, "take the scale of the last W"),
        ({"graph": "codes", "checkpoint": "fit.checkpoint"}, "checkpoint: a fit with a graph"),
    ],
)
def test_what_cannot_be_a_graph_is_refused(settings, words, X):
    with pytest.raises(ValueError, match=words):
        deepnmf.sdnmf_l((12, 6), **(SETTINGS | settings)).fit(X)


def test_blocks_and_batches_have_no_graph(X):
    model = deepnmf.sdnmf_l((12, 6), graph="codes", max_memory="100kB", **SETTINGS)
    for given in (X, [X[:100], X[100:]]):
        with pytest.raises(ValueError, match="max_memory: a graph ties samples of all blocks"):
            model.fit(given)
    model.set_params(max_memory=None)
    with pytest.raises(ValueError, match="a graph ties samples of all blocks together. Load X"):
        model.fit([X[:100], X[100:]])
    with pytest.raises(ValueError, match="a graph needs all samples at once"):
        model.partial_fit(X)


def test_samples_without_a_neighbour_stay_by_themselves(X):
    """One that is 0, and one that the graph does not reach."""
    given = ring(len(X)).tolil()
    given[7], given[:, 7] = 0, 0
    model = deepnmf.sdnmf_l((12, 6), graph=given, **SETTINGS)
    Z = model.fit_transform(X)
    assert np.linalg.norm(Z - model.graph_.codes) < 1e-2 * np.linalg.norm(Z)
    assert not model.transform(np.zeros((1, 64))).any()
    empty = np.concatenate([X, np.zeros((1, 64))])
    Z = deepnmf.sdnmf_l((12, 6), graph="codes", **SETTINGS).fit_transform(empty)
    assert not Z[-1].any()
    assert np.isfinite(Z).all()


def test_samples_are_known_by_their_entries(rng):
    X = rng.random((40, 30)) * (rng.random((40, 30)) < 0.5)
    keys = row_keys(X.T, 1.0)
    assert len(set(keys.tolist())) == 40
    np.testing.assert_array_equal(row_keys(X.astype(np.float32).T, 1.0), keys)
    np.testing.assert_array_equal(row_keys(scipy.sparse.csr_array(X).T, 1.0), keys)
    np.testing.assert_array_equal(row_keys(X[::-1].T, 1.0), keys[::-1])
    np.testing.assert_array_equal(row_keys(torch.tensor(X).T, 1.0), keys)
    for scale in (2.0**-160, 2.0**160):
        np.testing.assert_array_equal(row_keys(scale * X.T, unit_of(scale * X.T)),
                                      row_keys(X.T, unit_of(X.T)))  # fmt: skip


def test_all_searches_find_the_same(rng):
    Z = rng.random((300, 8))
    exact = neighbor_graph(Z, 5).toarray()
    unit = normalize(Z)
    d = np.linalg.norm(unit[:, None] - unit[None], axis=2) + 9 * np.eye(300)
    places = np.argsort(d, axis=1)[:, :5]
    near = np.take_along_axis(d, places, axis=1)
    s = np.maximum(near[:, 1], near.mean(axis=1) / 4)
    A = np.zeros((300, 300))
    weights = np.exp(-(near**2) / (s[:, None] * s[places])).clip(0.01)
    np.put_along_axis(A, places, weights, axis=1)
    np.testing.assert_allclose(exact, (A + A.T) / 2, rtol=1e-9)
    for other in (torch.tensor(Z), scipy.sparse.csr_array(Z)):
        np.testing.assert_allclose(neighbor_graph(other, 5).toarray(), exact, rtol=1e-9)


def test_the_order_of_samples_does_not_matter(X, rng):
    """Samples in another order have the same graph, objective and codes."""
    order = rng.permutation(len(X))
    A = neighbor_graph(X, 10)
    np.testing.assert_allclose(
        neighbor_graph(X[order], 10).toarray(), A[order][:, order].toarray(), rtol=1e-9, atol=1e-12
    )
    few = SETTINGS | {"max_iter": 40, "tol": 0}
    start = deepnmf.starts.Given(deepnmf.sdnmf_l((12, 6), **few).fit(X).weights_)
    own, mixed = (
        deepnmf.sdnmf_l((12, 6), graph="codes", start=start, **few).fit(data)
        for data in (X, X[order])
    )
    assert mixed.history_[-1]["objective"] == pytest.approx(own.history_[-1]["objective"], rel=1e-6)
    np.testing.assert_allclose(mixed.graph_.codes, own.graph_.codes[order], rtol=1e-3, atol=1e-4)


def test_equal_samples_have_a_graph(rng):
    """Weights are finite where the nearest samples are equal, and all of them can be."""
    Z = np.concatenate([np.tile(rng.random(8), (7, 1)), rng.random((20, 8))])
    for samples in (Z, Z[:7]):
        A = neighbor_graph(samples, 3)
        assert np.isfinite(A.data).all()
        assert (A.sum(axis=1) > 0).all()
    assert (
        neighbor_graph(2.0**-300 * Z, 3).toarray().tobytes()
        == neighbor_graph(Z, 3).toarray().tobytes()
    )


@pytest.mark.long
def test_many_samples_are_searched_approximately(rng, monkeypatch):
    """Few neighbours are missed, and the same ones every time."""
    pytest.importorskip("pynndescent")
    Z = rng.random((300, 8))
    exact = neighbor_graph(Z, 5)
    monkeypatch.setattr(searching, "EXACT", 100)
    near = neighbor_graph(Z, 5)
    assert near.multiply(exact).nnz > 0.98 * exact.nnz
    assert abs(near - exact).sum() < 0.05 * exact.sum()
    assert (neighbor_graph(Z, 5) != near).nnz == 0
