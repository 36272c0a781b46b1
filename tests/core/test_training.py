"""The laws of training, over the five linear models, depths, libraries and precisions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf.core.decode import basis_of, decode
from deepnmf.core.extrapolation import Extrapolated
from deepnmf.core.scaling import balanced
from deepnmf.core.training import train
from deepnmf.links import Identity
from deepnmf.models.settings import plan_of
from deepnmf.penalties import SquaredL1, TopLayer
from deepnmf.solvers import Nesterov
from tests import laws
from tests.laws import generators, objective, plan
from tests.tables import DEEP, DTYPES, LIBRARIES, SCALINGS, SOLVERS, each, long, named, pairs

DEPTHS = [(6,), (10, 6), (14, 10, 6)]


@pairs("model,sizes,scaling,library,dtype", DEEP, DEPTHS, SCALINGS, LIBRARIES, DTYPES, full=True)
def test_the_objective_never_rises(full, model, sizes, scaling, library, dtype, low_rank, place):
    sweeps, before = (200, 50) if full else (60, 20)
    settings = plan(model, sizes, scaling=scaling, max_iter=sweeps, pretrain_iter=before, tol=0)
    trained = train(place(low_rank), settings, generators(0))
    # The codes of layer 1, which layer 2 fits, may be larger than X, and rounding with them.
    slack = (1e-12 if dtype == "float64" else 1e-5) * np.sum(low_rank**2) / 2
    laws.objective_never_rises(trained.history, slack)
    assert trained.sweeps == sweeps
    assert min(float(W.min()) for W in trained.weights) >= 0
    if settings.layered and len(sizes) > 1:
        return
    # What is recorded is the objective.
    found = objective(low_rank, trained.weights, trained.H, settings)
    assert trained.history[-1]["objective"] == pytest.approx(found, abs=slack)


@each("solver,library,dtype", SOLVERS, LIBRARIES, DTYPES, full=True)
def test_the_objective_never_rises_with_any_solver(full, solver, library, dtype, low_rank, place):
    sweeps, before = (40, 100) if full else (15, 5)
    settings = plan(deepnmf.sdnmf_rl1, (10, 6), max_iter=sweeps, pretrain_iter=before, tol=0)
    trained = train(place(low_rank), replace(settings, solver=solver), generators(0))
    slack = (1e-12 if dtype == "float64" else 1e-5) * np.sum(low_rank**2) / 2
    laws.objective_never_rises(trained.history, slack)


@pairs("model,sizes,scaling", DEEP, DEPTHS, SCALINGS)
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
    laws.kkt_residual_falls(low_rank, settings)


@each("model,library,dtype", DEEP, LIBRARIES, DTYPES, full=True)
def test_the_kkt_residual_falls_everywhere(full, model, library, dtype, low_rank, place):
    sweeps = 2000 if full else 1000
    settings = plan(model, (10, 6), scaling="fixed", max_iter=sweeps, pretrain_iter=0, tol=0)
    if not full:
        laws.kkt_residual_falls(place(low_rank), settings)
        return
    history = train(place(low_rank), settings, generators(0)).history
    assert history[-1]["kkt"] <= 1e-3 * history[0]["kkt"]


@pytest.mark.parametrize(
    "model",
    long([deepnmf.dnmf, deepnmf.sdnmf_rl1, deepnmf.sdnmf_rl2], "dnmf", "sdnmf_rl2"),
    ids=named,
)
def test_kkt_conditions_hold_at_the_end(model, low_rank):
    """Not by our own residual: gradients of f by their formula, F ≥ 0, ∇ ≥ 0 where F = 0."""
    settings = plan(model, (8, 6), strength=0.3, max_iter=2000, tol=0)
    trained = train(low_rank, settings, generators(0))
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


@pairs("model,scaling,dtype", DEEP, SCALINGS, DTYPES, full=True)
def test_torch_equals_numpy(full, model, scaling, dtype, low_rank):
    sweeps, before = (30, 20) if full else (12, 8)
    settings = plan(
        model, (10, 6), scaling=scaling, max_iter=sweeps, pretrain_iter=before, tol=0,
        solver="nesterov",
    )  # fmt: skip
    rel = 1e-8 if dtype == "float64" else 1e-3
    laws.torch_is_numpy(low_rank.astype(dtype), settings, rel)


@pairs("model,scaling,tol,library", DEEP, SCALINGS, [0, 1e-3], LIBRARIES, full=True)
def test_a_stack_is_its_runs(full, model, scaling, tol, library, low_rank, rng):
    X = np.stack([low_rank, low_rank[::-1], rng.random(low_rank.shape)])
    sweeps, before = (30, 20) if full else (15, 10)
    settings = plan(model, (8, 6), scaling=scaling, max_iter=sweeps, pretrain_iter=before, tol=tol)
    laws.stack_is_its_runs(X, settings, library, rel=1e-6)


@pytest.mark.parametrize("sizes", long([(20, 10), (40, 10), (30, 20, 10)], "(40, 10)"), ids=str)
def test_depth_reaches_what_one_layer_can_fit_and_no_more(sizes, digits, best_single_layer):
    X = digits.T
    settings = plan(deepnmf.dnmf, sizes, max_iter=300, tol=0)
    trained = train(X, settings, generators(0))
    error = np.linalg.norm(X - decode(trained.weights, Identity(), trained.H))
    error /= np.linalg.norm(X)
    # Both may end in the same minimum, where rounding decides.
    assert (1 - 1e-12) * best_single_layer <= error <= 1.02 * best_single_layer
    layerwise = train(X, replace(settings, max_iter=0), generators(0))
    before = np.linalg.norm(X - decode(layerwise.weights, Identity(), layerwise.H))
    assert before / np.linalg.norm(X) > 1.05 * best_single_layer


@pytest.fixture(scope="module")
def best_single_layer(digits) -> float:
    """The best relative error of rank 10 on digits over several long single-layer fits."""
    X = digits.T
    errors = []
    for seed in range(6):
        start: dict[str, Any] = {"start": "random"} if seed else {}
        fit = train(X, plan(deepnmf.dnmf, (10,), max_iter=500, tol=0, **start), generators(seed))
        errors.append(np.linalg.norm(X - fit.weights[0] @ fit.H) / np.linalg.norm(X))
    assert min(errors) == pytest.approx(0.3247, abs=5e-4)
    return float(min(errors))


@pytest.mark.long
def test_sparsity_fades_under_the_papers_scaling_and_stays_under_the_fixed_one(low_rank):
    penalties, zeros = {}, {}
    for scaling in ("paper", "fixed"):
        short, long = (
            train(
                low_rank,
                plan(deepnmf.sdnmf_l, (6,), 0.05, scaling=scaling, max_iter=n, tol=0),
                generators(0),
            )
            for n in (200, 4000)
        )
        penalties[scaling] = long.history[-1]["penalty"] / short.history[-1]["penalty"]
        zeros[scaling] = (np.mean(short.weights[0] == 0), np.mean(long.weights[0] == 0))
    assert penalties["paper"] < 0.2
    assert 0.95 < penalties["fixed"] < 1.05
    assert zeros["paper"][1] < zeros["paper"][0]
    assert zeros["fixed"][1] == pytest.approx(zeros["fixed"][0], abs=0.03)


@each("model,sizes,scaling,library,dtype", DEEP, DEPTHS, SCALINGS[1:], LIBRARIES, DTYPES)
def test_codes_come_out_in_one_scale(model, sizes, scaling, library, dtype, low_rank, place):
    """Rows of unit RMS. With an end-to-end loss and a penalty on the codes, it is the weights
    without a penalty that have a fixed scale."""
    settings = plan(model, sizes, scaling=scaling, max_iter=10, pretrain_iter=5, tol=0)
    fitted = train(place(low_rank), settings, generators(0))
    rtol = 1e-10 if dtype == "float64" else 1e-4
    if settings.layered or not settings.penalties_H[-1].active:
        rms = np.sqrt(np.mean(np.asarray(fitted.H, dtype=np.float64) ** 2, axis=1))
        np.testing.assert_allclose(rms[rms > 0], 1, rtol=rtol)
    elif model is deepnmf.sdnmf_r:
        for W in fitted.weights:
            norms = np.linalg.norm(np.asarray(W, dtype=np.float64), axis=0)
            np.testing.assert_allclose(norms[norms > 0], 1, rtol=rtol)


class Watched(np.ndarray):
    """An array that counts the operations that read it, or a view of it."""

    reads = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **settings):
        Watched.reads += 1
        plain = (np.asarray(one) if isinstance(one, Watched) else one for one in inputs)
        return getattr(ufunc, method)(*plain, **settings)


@pytest.mark.parametrize("solver", ["nesterov", "coordinate"])
@pytest.mark.parametrize("sizes", DEPTHS, ids=len)
def test_a_sweep_touches_the_data_twice(sizes, solver, low_rank):
    stage = plan(deepnmf.sdnmf_l, sizes, tol=0, solver=solver).full_stage(low_rank.view(Watched))
    weights = [np.ones(shape) for shape in itertools.pairwise((30, *sizes))]
    factors = stage.begin(weights, np.ones((6, 40)))
    Watched.reads = sweeps = 0
    for _ in range(8):
        swept = stage.sweep(factors)
        stage.objective(swept)
        # A sweep that looked ahead in vain is done again.
        rejected = isinstance(stage, Extrapolated) and swept.beta < factors.beta
        sweeps += 2 if rejected else 1
        factors = swept
    assert Watched.reads == 2 * sweeps


@pytest.mark.parametrize("model", DEEP, ids=named)
def test_sparse_data_equal_dense_data(model, low_rank):
    X = low_rank * (low_rank > 0.3)
    settings = plan(model, (8, 6), max_iter=20, pretrain_iter=10, tol=0, start="random")
    dense, sparse = laws.sparse_is_dense(X, settings, sweeps=20, rel=1e-6)
    np.testing.assert_allclose(
        settings.encode(scipy.sparse.csc_matrix(X), sparse.weights),
        settings.encode(X, dense.weights),
        atol=1e-5,
    )


@pytest.mark.parametrize("layer", [1, 2])
def test_encoding_solves_every_sample_to_the_end(layer, low_rank):
    from scipy.optimize import nnls

    settings = plan(deepnmf.sdnmf_r, (8, 4), strength=0.1, max_iter=50)
    trained = train(low_rank, settings, generators(0))
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

    trained = train(low_rank, settings, generators(0), stop_in_pretraining)
    assert len(trained.history) == 3
    assert trained.reasons == "callback"
    assert [W.shape for W in trained.weights] == [(30, 8), (8, 6)]


class Uphill(Nesterov):
    """A solver that goes wrong, as rounding can make any solver go."""

    def update(self, problem, F, memory=None):
        solved = super().update(problem, F, memory)
        return solved._replace(F=3 * solved.F)


@pytest.mark.parametrize("tol", [0, 1e-4])
def test_a_rise_is_discarded_and_is_not_convergence(tol, low_rank):
    settings = plan(deepnmf.dnmf, (5,), solver=Uphill(max_steps=3), tol=tol, max_iter=50)
    trained = train(low_rank, settings, generators(0))
    assert trained.only().reason == "stalled"
    error = np.linalg.norm(low_rank - decode(trained.weights, Identity(), trained.H)) ** 2 / 2
    assert error == pytest.approx(trained.history[-1]["objective"], rel=1e-10)
    assert len(trained.history) == trained.only().sweeps


class UphillInTheSecondRun(Nesterov):
    """A solver that goes wrong in one run of a stack of two."""

    def update(self, problem, F, memory=None):
        solved = super().update(problem, F, memory)
        return solved._replace(F=np.asarray([1.0, 3.0])[:, None, None] * solved.F)


def test_a_run_of_a_stack_stalls_alone(low_rank):
    settings = plan(deepnmf.dnmf, (5,), start="random", solver=Nesterov(max_steps=3), tol=0)
    settings = replace(settings, max_iter=8)
    X = np.stack([low_rank, low_rank])
    right = train(X, settings, generators(0, 1))
    assert list(right.reasons) == ["limit", "limit"]
    spoilt = replace(settings, solver=UphillInTheSecondRun(max_steps=3))
    runs = train(X, spoilt, generators(0, 1))
    assert list(runs.reasons) == ["limit", "stalled"]
    assert runs.sweeps[0] == 8
    assert runs.sweeps[1] < 8
    np.testing.assert_array_equal(runs.H[0], right.H[0])
    np.testing.assert_array_equal(runs.weights[0][0], right.weights[0][0])


def test_scales_that_run_off_are_brought_back():
    """Under the paper's scaling a penalty on W alone shrinks W, layer by layer."""
    X = (np.random.default_rng(85).random((33, 4)) < 0.1).astype(float)
    settings = plan(deepnmf.sdnmf_l, (2, 4, 2, 4), max_iter=200)
    trained = train(X.T, settings, generators(85))
    for _, records in itertools.groupby(trained.history, lambda r: (r["stage"], r["layer"])):
        values = [record["objective"] for record in records]
        assert (np.diff(values) <= 1e-12 * values[0]).all()
    assert trained.history[-1]["objective"] < 1.6
    assert trained.only().reason == "converged"


def test_balancing_changes_no_bit_of_a_product(rng):
    W, H = 1e-9 * rng.random((6, 3)), 1e9 * rng.random((3, 5))
    W_balanced, H_balanced = balanced(W, H)
    assert (W_balanced @ H_balanced == W @ H).all()
    assert 0.1 < H_balanced.max() / W_balanced.max() < 10
    near = balanced(W, W.T)
    assert near[0] is W, "factors of about the same size stay as they are"


def test_in_single_precision_only_the_measured_objective_rises(digits):
    """Rounding moves the sums that the objective is measured by. The factors end at their best."""
    X = digits.T.astype(np.float32)
    settings = plan(deepnmf.dnmf, (8,), tol=0)
    stage = settings.full_stage(X)
    W, H = settings.start.factors(X, 8, generators(0))
    factors = stage.begin((W,), H)
    measured, true = [], []
    for _ in range(200):
        factors = stage.sweep(factors)
        (W,), H = factors.weights, factors.H
        measured.append(float(stage.objective(factors)[0]))
        true.append(np.sum((digits.T - W.astype(float) @ H.astype(float)) ** 2) / 2)
    assert np.diff(measured).max() > 2e-7 * true[-1]
    assert np.diff(true).max() < 1e-7 * true[-1]
    assert true[-1] <= min(true) * (1 + 1e-10)
