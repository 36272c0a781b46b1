"""The laws of training, over the five linear models, depths, libraries and precisions."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf.core import linear
from deepnmf.core import passes as samples
from deepnmf.core.decode import basis_of, decode
from deepnmf.core.extrapolation import Extrapolated
from deepnmf.core.plan import Plan
from deepnmf.core.training import train
from deepnmf.links import Identity
from deepnmf.models.settings import plan_of
from deepnmf.penalties import SquaredL1, TopLayer
from tests.tables import DEEP, LENGTHS, SOLVERS, long, named

DEPTHS = [(6,), (10, 6), (14, 10, 6)]


def plan(model, sizes, strength=0.05, **settings) -> Plan:
    penalised = {"mu": strength, "lam": strength}
    takes = {
        deepnmf.dnmf: (),
        deepnmf.sdnmf_l: ("mu",),
        deepnmf.sdnmf_r: ("lam",),
        deepnmf.sdnmf_rl1: ("mu", "lam"),
        deepnmf.sdnmf_rl2: ("mu", "lam"),
    }[model]
    return plan_of(model(sizes, **{name: penalised[name] for name in takes}, **settings))


def rng_list(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def stages(history):
    """The records of each stage and layer, in order."""
    keys = dict.fromkeys((record["stage"], record["layer"]) for record in history)
    return [
        [record for record in history if (record["stage"], record["layer"]) == key] for key in keys
    ]


def until_kkt(share):
    """A callback that stops when the KKT residual is that share of the first one."""
    seen = []

    def reached(record, weights):
        seen.append(record["kkt"])
        return record["kkt"] <= share * seen[0]

    return reached


def objective(X, weights, H, plan: Plan) -> float:
    """f, straight from its formula in double precision."""
    weights = [np.asarray(W, dtype=np.float64) for W in weights]
    H = np.asarray(H, dtype=np.float64)
    fit = np.sum((X - decode(weights, plan.link, H)) ** 2) / 2
    penalty = sum(float(R.value(W)) for R, W in zip(plan.penalties_W, weights, strict=True))
    return float(fit + penalty + plan.penalties_H[-1].value(H))


@pytest.mark.parametrize("scaling", ["paper", "fixed"])
@pytest.mark.parametrize("sizes", DEPTHS, ids=len)
@pytest.mark.parametrize("model", DEEP, ids=named)
@pytest.mark.parametrize("length", long(LENGTHS, "full"))
def test_the_objective_never_rises(length, model, sizes, scaling, low_rank, place, dtype, library):
    # torch is slow where arrays are small
    sweeps = 200 if length == "full" or library == "numpy" else 80
    before = 50 if length == "full" else 30
    settings = plan(model, sizes, scaling=scaling, max_iter=sweeps, pretrain_iter=before, tol=0)
    trained = train(place(low_rank), settings, rng_list(0))
    rounding = 1e-12 if dtype == "float64" else 1e-5
    scale = np.sum(low_rank**2) / 2
    for records in stages(trained.history):
        values = np.array([record["objective"] for record in records])
        assert np.all(np.isfinite(values))
        # The codes of layer 1, which layer 2 fits, may be larger than X, and rounding with them.
        assert np.diff(values).max() <= rounding * scale
    assert trained.sweeps == sweeps
    assert min(float(W.min()) for W in trained.weights) >= 0
    # What is recorded is the objective.
    assert values[-1] == pytest.approx(
        objective(low_rank, trained.weights, trained.H, settings), abs=rounding * scale
    )


@pytest.mark.parametrize("solver", SOLVERS, ids=named)
def test_the_objective_never_rises_with_any_solver(solver, low_rank, place, dtype):
    settings = replace(plan(deepnmf.sdnmf_rl1, (10, 6), max_iter=40, tol=0), solver=solver)
    trained = train(place(low_rank), settings, rng_list(0))
    scale = np.sum(low_rank**2) / 2
    for records in stages(trained.history):
        values = np.array([record["objective"] for record in records])
        # The codes of layer 1, which layer 2 fits, may be larger than X, and rounding with them.
        assert np.diff(values).max() <= (1e-12 if dtype == "float64" else 1e-5) * scale


@pytest.mark.parametrize("scaling", ["paper", "fixed"])
@pytest.mark.parametrize("sizes", DEPTHS, ids=len)
@pytest.mark.parametrize("model", DEEP, ids=named)
def test_the_kkt_residual_falls(model, sizes, scaling, low_rank):
    # Without bounded level sets the penalty fades like 1/sweeps, and the residual with it.
    fading = scaling == "paper" and model in (deepnmf.sdnmf_l, deepnmf.sdnmf_r)
    settings = plan(
        model,
        sizes,
        scaling=scaling,
        strength=0.01 if fading else 0.05,
        max_iter=20000 if fading else 6000,
        pretrain_iter=0,  # one stage from the start on, so that residuals can be compared
        tol=0,
    )
    assert train(low_rank, settings, rng_list(0), until_kkt(1e-3)).reasons == "callback"


@pytest.mark.parametrize("model", long(DEEP, "sdnmf_r", "sdnmf_rl1", "sdnmf_rl2"), ids=named)
def test_the_kkt_residual_falls_everywhere(model, low_rank, place):
    settings = plan(model, (10, 6), scaling="fixed", max_iter=1000, pretrain_iter=0, tol=0)
    history = train(place(low_rank), settings, rng_list(0)).history
    assert history[-1]["kkt"] <= 1e-3 * history[0]["kkt"]


@pytest.mark.parametrize("model", [deepnmf.dnmf, deepnmf.sdnmf_rl1, deepnmf.sdnmf_rl2], ids=named)
def test_kkt_conditions_hold_at_the_end(model, low_rank):
    """Not by our own residual: gradients of f by their formula, F ≥ 0, ∇ ≥ 0 where F = 0."""
    settings = plan(model, (8, 6), strength=0.3, max_iter=2000, tol=0)
    trained = train(low_rank, settings, rng_list(0))
    (W1, W2), H = trained.weights, trained.H
    R = W1 @ W2 @ H - low_rank
    K1, K2 = settings.penalties_W
    gradients = [
        (W1, R @ (W2 @ H).T + K1.gradient(W1)),
        (W2, W1.T @ R @ H.T + K2.gradient(W2)),
        (H, (W1 @ W2).T @ R + settings.penalties_H[-1].gradient(H)),
    ]
    for F, gradient in gradients:
        assert np.minimum(gradient, 0).min() > -1e-2
        assert np.abs(gradient * F).max() < 1e-2


def test_torch_equals_numpy(low_rank, dtype):
    torch = pytest.importorskip("torch")
    X = low_rank.astype(dtype)
    settings = plan(deepnmf.sdnmf_rl2, (10, 6), max_iter=30, tol=0, solver="nesterov")
    ours = train(X, settings, rng_list(0))
    theirs = train(torch.from_numpy(X.copy()), settings, rng_list(0))
    rel = 1e-8 if dtype == "float64" else 1e-3
    assert theirs.history[-1]["objective"] == pytest.approx(ours.history[-1]["objective"], rel=rel)


@pytest.mark.parametrize("tol", [0, 1e-3])
@pytest.mark.parametrize("scaling", ["paper", "fixed"])
@pytest.mark.parametrize("model", DEEP, ids=named)
def test_a_stack_is_its_runs(model, scaling, tol, low_rank, rng, library):
    X = np.stack([low_rank, low_rank[::-1], rng.random(low_rank.shape)])
    settings = plan(model, (8, 6), scaling=scaling, max_iter=30, pretrain_iter=20, tol=tol)
    stack = X if library == "numpy" else pytest.importorskip("torch").from_numpy(X.copy())
    together = train(stack, settings, rng_list(1, 2, 3))
    for run, seed in enumerate((1, 2, 3)):
        alone = train(stack[run], settings, rng_list(seed))
        found = objective(X[run], [W[run] for W in together.weights], together.H[run], settings)
        assert found == pytest.approx(alone.history[-1]["objective"], rel=1e-6)


@pytest.mark.parametrize("sizes", [(20, 10), (40, 10), (30, 20, 10)], ids=str)
def test_depth_reaches_what_one_layer_can_fit_and_no_more(sizes, digits, best_single_layer):
    X = digits.T
    settings = plan(deepnmf.dnmf, sizes, max_iter=300, tol=0)
    trained = train(X, settings, rng_list(0))
    error = np.linalg.norm(X - decode(trained.weights, Identity(), trained.H))
    error /= np.linalg.norm(X)
    # Both may end in the same minimum, where rounding decides.
    assert (1 - 1e-12) * best_single_layer <= error <= 1.02 * best_single_layer
    layerwise = train(X, replace(settings, max_iter=0), rng_list(0))
    before = np.linalg.norm(X - decode(layerwise.weights, Identity(), layerwise.H))
    assert before / np.linalg.norm(X) > 1.05 * best_single_layer


@pytest.fixture(scope="module")
def best_single_layer(digits) -> float:
    """The best relative error of rank 10 on digits over several long single-layer fits."""
    X = digits.T
    errors = []
    for seed in range(6):
        start = {"start": "random"} if seed else {}
        fit = train(X, plan(deepnmf.dnmf, (10,), max_iter=500, tol=0, **start), rng_list(seed))
        errors.append(np.linalg.norm(X - fit.weights[0] @ fit.H) / np.linalg.norm(X))
    assert min(errors) == pytest.approx(0.3247, abs=5e-4)
    return min(errors)


def test_sparsity_fades_under_the_papers_scaling_and_stays_under_the_fixed_one(low_rank):
    penalties, zeros = {}, {}
    for scaling in ("paper", "fixed"):
        short, long = (
            train(
                low_rank,
                plan(deepnmf.sdnmf_l, (6,), 0.05, scaling=scaling, max_iter=n, tol=0),
                rng_list(0),
            )
            for n in (200, 4000)
        )
        penalties[scaling] = long.history[-1]["penalty"] / short.history[-1]["penalty"]
        zeros[scaling] = (np.mean(short.weights[0] == 0), np.mean(long.weights[0] == 0))
    assert penalties["paper"] < 0.2
    assert 0.95 < penalties["fixed"] < 1.05
    assert zeros["paper"][1] < zeros["paper"][0]
    assert zeros["fixed"][1] == pytest.approx(zeros["fixed"][0], abs=0.03)


@pytest.mark.parametrize("sizes", DEPTHS, ids=len)
def test_the_fixed_scale_is_where_it_should_be(sizes, low_rank, place, dtype):
    tolerance = 1e-10 if dtype == "float64" else 1e-4
    settings = {"scaling": "fixed", "max_iter": 10, "pretrain_iter": 5, "tol": 0}
    fitted = train(place(low_rank), plan(deepnmf.sdnmf_l, sizes, **settings), rng_list(0))
    rms = np.sqrt(np.mean(np.asarray(fitted.H, dtype=np.float64) ** 2, axis=1))
    np.testing.assert_allclose(rms[rms > 0], 1, rtol=max(tolerance, 1e-6))
    fitted = train(place(low_rank), plan(deepnmf.sdnmf_r, sizes, **settings), rng_list(0))
    for W in fitted.weights:
        norms = np.linalg.norm(np.asarray(W, dtype=np.float64), axis=0)
        np.testing.assert_allclose(norms[norms > 0], 1, rtol=max(tolerance, 1e-6))


@pytest.mark.parametrize("solver", ["nesterov", "coordinate"])
@pytest.mark.parametrize("sizes", DEPTHS, ids=len)
def test_a_sweep_touches_the_data_twice(sizes, solver, low_rank, monkeypatch):
    touched = []
    for name in ("transposed_product", "product_transposed"):
        real = getattr(samples, name)
        monkeypatch.setattr(
            samples, name, lambda *args, real=real: touched.append(1) or real(*args)
        )
    stage = plan(deepnmf.sdnmf_l, sizes, tol=0, solver=solver).full_stage(low_rank)
    sizes = (30, *sizes)
    weights = [np.ones(shape) for shape in itertools.pairwise(sizes)]
    factors = stage.begin(weights, np.ones((6, 40)))
    touched.clear()
    sweeps = 0
    for _ in range(8):
        swept = stage.sweep(factors)
        stage.objective(swept)
        # A sweep that looked ahead in vain is done again.
        rejected = isinstance(stage, Extrapolated) and swept.beta < factors.beta
        sweeps += 2 if rejected else 1
        factors = swept
    assert len(touched) == 2 * sweeps
    assert "product_transposed" not in vars(linear)


@pytest.mark.parametrize("model", DEEP, ids=named)
def test_sparse_data_equal_dense_data(model, low_rank):
    X = low_rank * (low_rank > 0.3)
    settings = plan(model, (8, 6), max_iter=20, pretrain_iter=10, tol=0, start="random")
    dense = train(X, settings, rng_list(0))
    sparse = train(scipy.sparse.csc_matrix(X), settings, rng_list(0))
    assert sparse.history[-1]["objective"] == pytest.approx(dense.history[-1]["objective"])
    np.testing.assert_allclose(
        settings.encode(scipy.sparse.csc_matrix(X), sparse.weights),
        settings.encode(X, dense.weights),
        atol=1e-5,
    )


@pytest.mark.parametrize("layer", [1, 2])
def test_encoding_solves_every_sample_to_the_end(layer, low_rank):
    from scipy.optimize import nnls

    settings = plan(deepnmf.sdnmf_r, (8, 4), strength=0.1, max_iter=50)
    trained = train(low_rank, settings, rng_list(0))
    H = settings.encode(low_rank, trained.weights[:layer])
    basis = basis_of(trained.weights[:layer], Identity())
    k = basis.shape[1]
    # ½‖x − Ψh‖² + ½ λ (1ᵀh)² is a least squares problem with one more row.
    stacked = np.vstack([basis, np.sqrt(0.1) * np.ones((1, k))])
    for j in range(low_rank.shape[1]):
        exact, _ = nnls(stacked, np.append(low_rank[:, j], 0))
        np.testing.assert_allclose(H[:, j], exact, atol=1e-4)


def test_a_penalty_of_the_top_layer_only(low_rank):
    settings = plan(deepnmf.sdnmf_rl1, (8, 6))
    assert [R.active for R in settings.penalties_H] == [False, True]
    assert [R.active for R in settings.penalties_W] == [True, True]
    everywhere = plan_of(deepnmf.DeepNMF((8, 6), penalty_H=SquaredL1(1)))
    assert [R.active for R in everywhere.penalties_H] == [True, True]
    assert TopLayer(SquaredL1(1)).penalty == SquaredL1(1)


def test_a_stopped_fit_keeps_what_it_has(low_rank):
    settings = plan(deepnmf.sdnmf_l, (8, 6), tol=0)
    seen = []

    def stop_in_pretraining(record, weights):
        seen.append(record)
        return len(seen) == 3

    trained = train(low_rank, settings, rng_list(0), stop_in_pretraining)
    assert len(trained.history) == 3
    assert trained.reasons == "callback"
    assert [W.shape for W in trained.weights] == [(30, 8), (8, 6)]
