"""The laws of training through a link, over links, depths and models."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import deepnmf
from deepnmf.arrays import gram
from deepnmf.core import nonlinear, refine
from deepnmf.core import passes as samples
from deepnmf.core.chain import Chain
from deepnmf.core.decode import decode
from deepnmf.core.line_search import Variable, step
from deepnmf.core.quartic import minimise_quartic
from deepnmf.core.revival import count_dead, revive
from deepnmf.core.training import train
from deepnmf.links import Root, Tanh
from deepnmf.penalties import Zero
from deepnmf.starts import Given
from tests import laws
from tests.laws import generators, objective, plan, put
from tests.tables import DEEP, LIBRARIES, NONLINEAR, SCALINGS, each, long, named, pairs

DEPTHS = [(8, 5), (10, 8, 5)]
SLOW = ("sdnmf_l", "sdnmf_r", "sdnmf_rl1", "sdnmf_rl2")


def random_chain(link, sizes, X, rng, place=np.asarray):
    """A point well inside, where every derivative exists."""
    widths = (X.shape[0], *sizes)
    weights = [place(rng.random(shape) / shape[1]) for shape in itertools.pairwise(widths)]
    H = place(0.1 + rng.random((sizes[-1], X.shape[1])))
    return Chain.forward(link, weights, H, gram(weights[0]), weights[0].T @ place(X))


@pairs("link,model,sizes,library", NONLINEAR, DEEP, DEPTHS, LIBRARIES)
def test_gradients_equal_finite_differences(link, model, sizes, library, rng):
    X = rng.random((6, 7))
    settings = plan(model, sizes, strength=0.3, link=link)
    chain = random_chain(link, sizes, X, rng, lambda array: put(np.asarray(array), library))
    weights = [np.asarray(W).copy() for W in chain.weights]
    H = np.asarray(chain.codes[-1]).copy()
    codes = Variable(len(sizes), True, settings.penalties_H[-1])
    laws.gradient_is_the_slope(
        lambda F: objective(X, weights, F, settings), H, codes.gradient(chain), rel=1e-6
    )
    for level in range(2, len(sizes) + 1):
        variable = Variable(level, False, settings.penalties_W[level - 1])

        def value(F, level=level):
            return objective(X, [*weights[: level - 1], F, *weights[level:]], H, settings)

        laws.gradient_is_the_slope(value, weights[level - 1], variable.gradient(chain), rel=1e-6)


@pairs("link,model,sizes,library,scaling", NONLINEAR, DEEP, DEPTHS, LIBRARIES, SCALINGS, full=True)
def test_the_objective_never_rises(full, link, model, sizes, library, scaling, low_rank):
    sweeps, before = (100, 50) if full else (30, 15)
    settings = plan(
        model, sizes, link=link, scaling=scaling, max_iter=sweeps, pretrain_iter=before, tol=0
    )
    trained = train(put(low_rank, library), settings, generators(0))
    slack = 1e-10 * np.sum(low_rank**2) / 2
    laws.objective_never_rises(trained.history, slack)
    assert trained.sweeps == sweeps
    assert min(float(W.min()) for W in trained.weights) >= 0
    if settings.layered:
        return
    found = objective(low_rank, trained.weights, trained.H, settings)
    assert trained.history[-1]["objective"] == pytest.approx(found, abs=slack)


@each("link,scaling,library", NONLINEAR, SCALINGS, LIBRARIES, full=True)
def test_single_precision(full, link, scaling, library, low_rank):
    exact, X = (put(low_rank.astype(dtype), library) for dtype in ("float64", "float32"))
    sweeps, before = (100, 100) if full else (40, 20)
    if full and scaling == "layers" and link.degree is not None:
        sweeps = 1000  # a plateau ends after 80 sweeps in double precision, later in single
    settings = plan(
        deepnmf.sdnmf_rl1, (8, 5), link=link, scaling=scaling, max_iter=sweeps,
        pretrain_iter=before, tol=0,
    )  # fmt: skip
    trained = train(X, settings, generators(0))
    laws.objective_never_rises(trained.history, 1e-6 * np.sum(low_rank**2) / 2)
    assert all(W.dtype == X.dtype for W in trained.weights)
    if link.degree is not None:
        double = train(exact, settings, generators(0)).history[-1]["objective"]
        assert trained.history[-1]["objective"] == pytest.approx(double, rel=5e-3)


@pytest.mark.parametrize("model", long(DEEP, *SLOW), ids=named)
def test_the_kkt_residual_falls(model, low_rank):
    settings = plan(model, (8, 5), link="root", scaling="fixed", max_iter=3000, tol=0)
    laws.kkt_residual_falls(low_rank, settings)


@pytest.mark.parametrize("link", NONLINEAR, ids=named)
def test_fine_tuning_gains_over_pre_training(link, low_rank):
    settings = plan(deepnmf.dnmf, (8, 5), link=link, max_iter=100, tol=0)
    before, after = (
        train(low_rank, replace(settings, max_iter=sweeps), generators(0)) for sweeps in (0, 100)
    )
    errors = [
        np.linalg.norm(low_rank - decode(fit.weights, link, fit.H)) for fit in (before, after)
    ]
    assert errors[1] < 0.8 * errors[0]


def test_a_square_fits_better_than_a_line(low_rank):
    """Through the root two layers can do what one linear layer of that rank cannot."""
    linear, root = (
        train(low_rank, plan(deepnmf.dnmf, (12, 3), max_iter=300, tol=0, link=link), generators(0))
        for link in ("identity", "root")
    )
    assert root.history[-1]["objective"] < 0.9 * linear.history[-1]["objective"]


@pairs("link,scaling,tol,library", NONLINEAR, SCALINGS, [0, 1e-3], LIBRARIES)
def test_a_stack_is_its_runs(link, scaling, tol, library, low_rank, rng):
    X = np.stack([low_rank, low_rank[::-1], rng.random(low_rank.shape)])
    settings = plan(
        deepnmf.sdnmf_rl1, (8, 5), link=link, scaling=scaling, max_iter=15, pretrain_iter=10,
        tol=tol,
    )  # fmt: skip
    # Armijo's rule can turn a rounding error into another path.
    laws.stack_is_its_runs(X, settings, library, rel=1e-5 if link.degree is not None else 1e-3)


@pytest.mark.parametrize("link", NONLINEAR, ids=named)
def test_sparse_data_equal_dense_data(link, low_rank):
    X = low_rank * (low_rank > 0.3)
    settings = plan(
        deepnmf.sdnmf_l, (8, 5), link=link, max_iter=10, pretrain_iter=10, tol=0, start="random"
    )
    # Armijo's rule can turn a rounding error into another path: compared before it has, and where
    # steps are exact, at the end.
    laws.sparse_is_dense(X, settings, sweeps=10 if link.degree is not None else 2, rel=1e-6)


@each("link,layer", NONLINEAR, [1, 2, 3], full=True)
def test_a_sample_is_encoded_by_itself(full, link, layer, low_rank):
    settings = plan(deepnmf.sdnmf_rl1, (10, 8, 5), link=link, max_iter=10, pretrain_iter=10)
    weights = train(low_rank, settings, generators(0)).weights
    samples = np.arange(40) if full else np.array([0, 17, 39])
    together = settings.encode(low_rank, weights[:layer])[:, samples]
    each_alone: Any = [settings.encode(low_rank[:, [j]], weights[:layer]) for j in samples]
    alone = np.hstack(each_alone)
    if link.expansion(together, together) is not None:
        np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-8)
    # Armijo's rule accepts or halves: a rounding error at the border moves codes, not their fit.
    errors, expected = (
        np.sum((low_rank[:, samples] - decode(weights[:layer], link, H)) ** 2, axis=0)
        for H in (together, alone)
    )
    np.testing.assert_allclose(errors, expected, rtol=1e-4, atol=1e-7)


def _value(h, weights, link, x):
    """½‖x − x̂‖² of one sample, and its gradient in h."""
    products: list[np.ndarray] = []
    codes = h
    for W in reversed(weights[1:]):
        products.insert(0, W @ codes)
        codes = link.decode(products[0])
    error = weights[0] @ codes - x
    slope = weights[0].T @ error
    for W, A in zip(weights[1:], products, strict=True):
        slope = W.T @ (slope * link.slope(A))
    return error @ error / 2, slope


BRIEFLY = {"max_iter": 20, "pretrain_iter": 20, "tol": 1e-4}


@pytest.mark.parametrize(
    ("samples", "trained"),
    [(40, BRIEFLY), *(pytest.param(400, how, marks=pytest.mark.long) for how in (BRIEFLY, {}))],
)
@pytest.mark.parametrize("sizes", [(16, 8), (20, 10, 5)])
@pytest.mark.parametrize("link", NONLINEAR, ids=named)
def test_encoding_leaves_nothing_to_gain(link, sizes, samples, trained, digits):
    X = digits[:samples]
    settings = plan(deepnmf.dnmf, sizes, link=link, objective="end_to_end", **trained)
    weights = train(digits[::5].T, settings, generators(0)).weights
    for x, h in zip(X, settings.encode(X.T, weights).T, strict=True):
        before, _ = _value(h, weights, link, x)
        better = minimize(
            _value, h, (weights, link, x), jac=True, method="L-BFGS-B",
            bounds=[(0, None)] * len(h), options={"ftol": 1e-14, "gtol": 1e-12},
        )  # fmt: skip
        assert better.fun > (1 - 1e-4) * before


def test_one_huge_entry_does_not_delay_encoding(low_rank, monkeypatch):
    rounds = itertools.count()
    tried = refine._round
    monkeypatch.setattr(refine, "_round", lambda *args: (next(rounds), tried(*args))[1])
    settings = plan(deepnmf.dnmf, (6, 5, 4, 3), link=Tanh(), max_iter=5, pretrain_iter=5)
    weights = train(low_rank, settings, generators(0)).weights
    X = low_rank[:, :12].copy()
    X[3, 5] = 1e12
    assert np.isfinite(settings.encode(X, weights)).all()
    assert next(rounds) < 600


def test_a_sweep_touches_the_data_twice(low_rank, monkeypatch):
    touched = []
    for module in (samples, nonlinear):
        for name in ("transposed_product", "product_transposed"):
            if hasattr(module, name):
                real = getattr(module, name)

                def counted(*args, real=real, **options):
                    touched.append(1)
                    return real(*args, **options)

                monkeypatch.setattr(module, name, counted)
    stage = plan(deepnmf.sdnmf_l, (8, 5), link="root").full_stage(low_rank)
    factors = stage.begin([np.ones((30, 8)), np.ones((8, 5))], np.ones((5, 40)))
    touched.clear()
    for _ in range(4):
        factors = stage.sweep(factors)
        stage.objective(factors)
    assert len(touched) == 8


def test_the_exact_line_search_is_exact(rng):
    c = tuple(rng.standard_normal((1, 200)) for _ in range(3))
    c = (-np.abs(c[0]), c[1], c[2], np.abs(rng.standard_normal((1, 200))))
    limit = rng.uniform(0.5, 4, (1, 200))
    t = minimise_quartic(c, limit)
    fine = np.linspace(0, 1, 4001)[:, None] * limit
    values = fine * (c[0] + fine * (c[1] + fine * (c[2] + fine * c[3])))
    found = t * (c[0] + t * (c[1] + t * (c[2] + t * c[3])))
    assert (t >= 0).all()
    assert (t <= limit).all()
    assert (found <= values.min(axis=0) + 1e-3 * np.abs(values.min(axis=0))).all()
    uphill = (np.ones((1, 3)), np.ones((1, 3)), np.ones((1, 3)), np.ones((1, 3)))
    assert not minimise_quartic(uphill, np.ones((1, 3))).any()


@pytest.mark.parametrize("codes", [True, False])
def test_the_exact_step_tells_the_truth_about_its_gradient(codes, rng):
    """What the step carries on (A, H̃_1, G) is what a fresh pass through the layers gives."""
    X = rng.random((6, 7))
    chain = random_chain(Root(), (8, 5), X, rng)
    moved = step(chain, Variable(2, codes, Zero()), None).chain
    fresh = Chain.forward(Root(), moved.weights, moved.codes[-1], moved.M, moved.P)
    np.testing.assert_allclose(moved.A[0], fresh.A[0], atol=1e-12)
    np.testing.assert_allclose(moved.codes[0], fresh.codes[0], atol=1e-12)
    np.testing.assert_allclose(moved.G, fresh.G, atol=1e-12)
    assert np.sum((moved.G + chain.G) * (moved.codes[0] - chain.codes[0])) < 0


@pytest.mark.parametrize("sizes", DEPTHS, ids=len)
def test_dead_units_are_counted_and_brought_back(sizes, rng):
    X = rng.random((6, 7))
    chain = random_chain(Root(), sizes, X, rng)
    level = len(sizes)
    W = np.array(chain.weights[level - 1])
    W[[1, 4]] = 0
    variable = Variable(level, False, Zero())
    chain = variable.moved(chain, W)
    assert count_dead(Root(), chain.weights, chain.codes[-1].max(axis=-1) > 0) == 2
    # Without help they have no gradient, ever.
    assert not variable.gradient(chain)[[1, 4]].any()
    back = revive(chain, variable)
    change = np.sum((chain.G + back.G) / 2 * (back.codes[0] - chain.codes[0]))
    assert change < 0
    assert count_dead(Root(), back.weights, back.codes[-1].max(axis=-1) > 0) < 2


def test_units_come_back_beside_one_that_is_of_no_use(rng):
    X = rng.random((6, 7))
    chain = random_chain(Root(), (8, 5), X, rng)
    W1, W2 = (np.array(W) for W in chain.weights)
    W1[:, 6] = 0
    W2[[1, 4, 6]] = 0
    chain = Chain.forward(Root(), [W1, W2], chain.codes[-1], gram(W1), W1.T @ X)
    assert count_dead(Root(), chain.weights, chain.codes[-1].max(axis=-1) > 0) == 3
    back = revive(chain, Variable(2, False, Zero()))
    assert count_dead(Root(), back.weights, back.codes[-1].max(axis=-1) > 0) == 1


def test_a_fit_brings_units_back(low_rank):
    """From weights with dead rows, whose gradient is zero: only revival can use them again."""
    first = deepnmf.dnmf((8, 5), link="root", random_state=0, max_iter=5, tol=0).fit(low_rank.T)
    W1, W2 = (W.copy() for W in first.weights_)
    W2[[0, 3]] = 0
    again = deepnmf.dnmf((8, 5), link="root", start=Given([W1, W2]), max_iter=5, tol=0).fit(
        low_rank.T
    )
    assert again.history_[-1]["dead"] == 0


def test_a_unit_that_nobody_needs_stays_dead(rng):
    W1, W2, H = np.eye(4), np.ones((4, 2)), rng.random((2, 9))
    W2[3] = 0
    X = W1 @ (W2 @ H) ** 2
    chain = Chain.forward(Root(), [W1, W2], H, gram(W1), W1.T @ X)
    assert revive(chain, Variable(2, False, Zero())) is chain


def test_dead_units_are_warned_of(rng):
    settings: dict[str, Any] = {"scaling": "paper", "random_state": 0, "max_iter": 20, "tol": 0}
    model = deepnmf.sdnmf_l((64, 16), mu=100.0, link="root", **settings)
    with pytest.warns(UserWarning, match=r"\d+ of 80 parts are dead.*Use smaller layers"):
        model.fit(rng.random((20, 3)))
    assert model.history_[-1]["dead"] > 8
