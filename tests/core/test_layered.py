"""The laws of a loss on every layer."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import deepnmf
from deepnmf.arrays import to_device
from deepnmf.core.layer_codes import encode_layers, split_rows, unit_weights
from deepnmf.core.layered import LayeredStage
from deepnmf.links import Identity, Link
from deepnmf.penalties import L1, SquaredL1, Zero
from deepnmf.solvers import Coordinate, Nesterov
from tests.laws import gradient_is_the_slope, strengths
from tests.tables import DEEP, LINKS, each, mode

SIZES = (8, 5, 3)
DECODING = 0.4
"""What the error of X̂ counts in linear models."""
LAYERS: dict[str, Any] = mode("layers")


def stage_of(X, link, solver, penalty_W, penalty_H):
    each_layer = len(SIZES)
    return LayeredStage.of(
        X, (penalty_W,) * each_layer, (penalty_H,) * each_layer, solver, link, (1.0, 0.5, 0.3),
        DECODING if link.linear else 0.0, rescaled=False,
    )  # fmt: skip


def random_factors(stage, rng):
    weights = [rng.random(shape) for shape in itertools.pairwise((30, *SIZES))]
    return stage.begin(weights, None)


def decoding_costs(X, factors, penalty_W) -> list[float]:
    """What X̂ costs in a linear model: its error, and the penalty of the parts of every layer."""
    H, costs = np.asarray(factors.codes)[-SIZES[-1] :], list[float]()
    for W, a in zip(reversed(factors.weights), reversed(factors.importance), strict=True):
        costs.insert(0, a.item() * np.sum(penalty_W.columns(W) * np.sum(H * H, axis=1)))
        H = W @ H
    return [DECODING * cost for cost in (np.sum((X - H) ** 2) / 2, *costs)]


def value(X, link: Link, factors, penalty_W, penalty_H) -> float:
    """f, straight from its formula."""
    codes = split_rows(np.asarray(factors.codes), factors.weights)
    below, f = X, 0.0
    for layer, W in enumerate(factors.weights):
        last = layer + 1 == len(SIZES)
        H = codes[layer] if last else link.decode(codes[layer])
        a = factors.importance[layer].item()
        penalty = np.sum(penalty_W.columns(W) * np.sum(H * H, axis=1)) + float(penalty_H.value(H))
        f += a * (np.sum((below - W @ H) ** 2) / 2 + penalty)
        below = codes[layer]
    if link.linear:
        f += sum(decoding_costs(X, factors, penalty_W))
    return f


PENALTIES = [(Zero(), Zero()), (SquaredL1(0.02), Zero()), (Zero(), SquaredL1(0.02)),
             (SquaredL1(0.02), L1(0.05))]  # fmt: skip


POWERS = [link for link in LINKS if link.degree is not None]


@each("link,solver,penalties", POWERS, [Coordinate(), Nesterov()], PENALTIES)
def test_the_objective_is_its_formula_and_no_sweep_raises_it(
    link, solver, penalties, low_rank, rng
):
    stage = stage_of(low_rank, link, solver, *penalties)
    factors = random_factors(stage, rng)
    values = []
    for _ in range(20):
        factors = stage.sweep(factors)
        values.append(float(stage.objective(factors)[0]))
        assert values[-1] == pytest.approx(value(low_rank, link, factors, *penalties), rel=1e-9)
    assert np.diff(values).max() <= 1e-12 * values[0]
    assert values[-1] < values[0]


@pytest.mark.parametrize("link", POWERS, ids=str)
def test_parts_have_unit_norm(link, low_rank, rng):
    stage = stage_of(low_rank, link, Coordinate(), SquaredL1(0.02), Zero())
    factors = random_factors(stage, rng)
    for _ in range(5):
        factors = stage.sweep(factors)
    for W in factors.weights:
        np.testing.assert_allclose(np.linalg.norm(W, axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("link", POWERS, ids=str)
def test_thecost_of_growth_bounds_the_change(link, low_rank, rng):
    """Multiply rows of H_l, bring all weights back to unit norm: f rises by no more than said."""
    stage = stage_of(low_rank, link, Coordinate(), SquaredL1(0.02), SquaredL1(0.01))
    factors = random_factors(stage, rng)
    before = value(low_rank, link, factors, SquaredL1(0.02), SquaredL1(0.01))
    for layer, size in enumerate(SIZES):
        cost = stage.updates.cost_of_growth(factors, layer)[:, 0]
        for c in (rng.uniform(0.5, 1.5, size), 1 + 1e-6 * rng.standard_normal(size)):
            weights = [*factors.weights]
            weights[layer] = weights[layer] * c
            moved = stage.updates.unit(
                type(factors)(**{**vars_of(factors), "weights": tuple(weights)}), factors.weights
            )
            # What W_l itself would gain or lose is not part of the cost.
            grown = value(low_rank, link, moved, SquaredL1(0.02), SquaredL1(0.01))
            own = own_layer(low_rank, link, moved, layer) - own_layer(
                low_rank, link, factors, layer
            )
            bound = 0.5 * np.sum(cost * (c * c - 1))
            assert grown - before - own <= bound + 1e-9 * before


def vars_of(factors):
    return {name: getattr(factors, name) for name in factors.__dataclass_fields__}


def own_layer(X, link, factors, layer):
    """What W_l changes itself: the loss of a layer and the penalty of its weights, and the error of
    X̂ with the penalties of the weights up to W_l."""
    codes = split_rows(np.asarray(factors.codes), factors.weights)
    last = layer + 1 == len(SIZES)
    H = codes[layer] if last else link.decode(codes[layer])
    W, below = factors.weights[layer], X if layer == 0 else codes[layer - 1]
    penalty = np.sum(SquaredL1(0.02).columns(W) * np.sum(H * H, axis=1))
    own = factors.importance[layer].item() * (np.sum((below - W @ H) ** 2) / 2 + penalty)
    if link.linear:
        own += sum(decoding_costs(X, factors, SquaredL1(0.02))[: layer + 2])
    return own


def test_codes_of_linear_models_are_solved_to_the_end(low_rank, rng):
    """The codes of all layers of a sample minimise one convex function; L-BFGS-B finds no lower."""
    weights, _ = unit_weights(
        [rng.random(shape) for shape in itertools.pairwise((30, *SIZES))], Identity()
    )
    importance = [np.full((1, 1), a) for a in (1.0, 0.5, 0.3)]
    penalties = (SquaredL1(0.02),) * 3, (SquaredL1(0.01),) * 3
    codes = [
        encode_layers(low_rank, weights, importance, Identity(), *penalties, DECODING, layer)
        for layer in (1, 2, 3)
    ]
    edges = np.cumsum([0, *SIZES])

    def cost(z, x):
        h = [z[low:high] for low, high in itertools.pairwise(edges)]
        f, gradient, below = 0.0, np.zeros_like(z), x
        for layer, W in enumerate(weights):
            a, slot = importance[layer].item(), slice(edges[layer], edges[layer + 1])
            r = W @ h[layer] - below
            ridge = 2 * penalties[0][layer].columns(W)[0]
            f += a * (r @ r + ridge @ h[layer] ** 2 + 0.01 * h[layer].sum() ** 2) / 2
            gradient[slot] += a * (W.T @ r + ridge * h[layer] + 0.01 * h[layer].sum())
            if layer:
                gradient[edges[layer - 1] : edges[layer]] -= a * r
            below = h[layer]
        decoded, T = h[-1], np.eye(SIZES[-1])
        for layer in reversed(range(len(SIZES))):
            W, a = weights[layer], importance[layer].item()
            ridge = DECODING * a * 2 * penalties[0][layer].columns(W)[0]
            f += ridge @ decoded**2 / 2
            gradient[edges[-2] :] += T.T @ (ridge * decoded)
            decoded, T = W @ decoded, W @ T
        gradient[edges[-2] :] += DECODING * (T.T @ (decoded - x))
        f += DECODING * np.sum((decoded - x) ** 2) / 2
        return f, gradient

    for sample in range(0, 40, 8):
        z = np.concatenate([H[:, sample] for H in codes])
        x = low_rank[:, sample]
        gradient_is_the_slope(partial(first_cost, cost, x), z + 0.1, cost(z + 0.1, x)[1], 1e-6)
        better = minimize(cost, z, (x,), jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(z))
        assert cost(z, x)[0] <= better.fun * (1 + 1e-8) + 1e-12


def first_cost(cost, x, z):
    return cost(z, x)[0]


@each("model,link", DEEP, ["identity", "root"])
def test_transform_gives_the_codes_of_training(model, link, digits):
    """At a minimum, and layer by layer: what decodes to the codes of the layer below."""
    X = digits[:200]
    fitted = model((12, 6), link=link, max_iter=300, tol=0, random_state=0, **LAYERS)
    Z = fitted.fit_transform(X)
    np.testing.assert_allclose(fitted.transform(X), Z, rtol=1e-6, atol=1e-9)
    first = fitted.transform(X, layer=1)
    error = np.linalg.norm(X - fitted.inverse_transform(first, layer=1)) / np.linalg.norm(X)
    assert error == pytest.approx(fitted.layer_errors_[0], rel=2e-2)
    whole = np.linalg.norm(X - fitted.inverse_transform(Z))
    assert whole == pytest.approx(fitted.reconstruction_err_, rel=2e-2)


@pytest.mark.parametrize(
    ("sizes", "starts"),
    [
        ((8, 4), 1),
        *(pytest.param(sizes, 10, marks=pytest.mark.long) for sizes in ((8, 4), (10, 6, 3))),
    ],
)
@pytest.mark.parametrize("link", ["identity", "root"])
def test_a_default_fit_leaves_little_to_gain(link, sizes, starts, digits):
    """L-BFGS-B over all factors, from where a fit ends, lowers f by less than 1% (medians)."""
    X, gains = digits[::5], []
    for seed in range(starts):
        model = deepnmf.sdnmf_l(sizes, link=link, start="random", random_state=seed).fit(X)
        weights, codes = in_unit_norm(model, X)
        shapes = [F.shape for F in (*weights, *codes)]
        places = np.cumsum([0, *map(np.prod, shapes)])

        def f(flat, model=model, shapes=shapes, places=places):
            pieces = itertools.pairwise(places)
            variable = torch.tensor(flat, requires_grad=True)
            pairs = zip(pieces, shapes, strict=True)
            factors = [variable[low:high].reshape(shape) for (low, high), shape in pairs]
            cost = cost_of_all_layers(model, torch.tensor(X.T), factors)
            cost.backward()
            return cost.item(), variable.grad.numpy()

        ended = np.concatenate([F.ravel() for F in (*weights, *codes)])
        assert f(ended)[0] == pytest.approx(model.history_[-1]["objective"], rel=1e-3)
        better = minimize(
            f, ended, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(ended),
            options={"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-10, "maxcor": 20},
        )  # fmt: skip
        gains.append(1 - better.fun / f(ended)[0])
    assert np.median(gains) < 0.01


def in_unit_norm(model, X):
    """The weights of a fitted model with columns of unit norm, and U_1 … U_{L−1} and H_L."""
    degree, below, weights, codes = model._plan().link.degree, 1, [], []
    for layer, W in enumerate(model.weights_, 1):
        W = below * W
        norms = np.linalg.norm(W, axis=0)
        power = 1 if layer == len(model.weights_) else 1 / degree
        weights.append(W / norms)
        codes.append((norms[:, None] * model.transform(X, layer=layer).T) ** power)
        below = norms[:, None] ** power
    return weights, codes


def cost_of_all_layers(model, X, factors):
    """f of SDNMF/L from its formula, in torch, for columns of W of any norm."""
    plan, depth = model._plan(), len(model.weights_)
    weights = [V / V.norm(dim=0) for V in factors[:depth]]
    U, below, cost = factors[depth:], X, 0
    for layer, (W, a) in enumerate(zip(weights, model.loss_weights_, strict=True)):
        H = U[layer] ** (plan.link.degree if layer + 1 < depth else 1)
        energy = plan.penalties_W[layer].strength / 2 * W.sum(0) ** 2 @ (H**2).sum(1)
        cost = cost + a * (((below - W @ H) ** 2).sum() / 2 + energy)
        below = U[layer]
    if not plan.link.linear:
        return cost
    decoded = U[-1]
    for layer in reversed(range(depth)):
        W, a = weights[layer], model.loss_weights_[layer]
        energy = plan.penalties_W[layer].strength / 2 * W.sum(0) ** 2 @ (decoded**2).sum(1)
        cost, decoded = cost + plan.decoding * a * energy, W @ decoded
    return cost + plan.decoding * ((X - decoded) ** 2).sum() / 2


@each("model,scaling,link", DEEP, ["fixed", "layers"], ["identity", "root"])
def test_strengths_have_no_units(model, scaling, link, digits):
    """Data in other units, or every sample twice: the same parts up to scale, the same codes."""
    X = digits[:120]
    settings: dict[str, Any] = {"max_iter": 8, "pretrain_iter": 4, "tol": 0, "fill": "mean"}
    settings |= {"link": link, "random_state": 0, **mode(scaling), **strengths(model, 1e-5)}
    sizes = (8, 5)
    fitted = model(sizes, **settings).fit(X)
    others = {"2^20": 2.0**20 * X, "2^-20": 2.0**-20 * X, "1000": 1000.0 * X,
              "twice": np.concatenate([X, X])}  # fmt: skip
    for name, other in others.items():
        refitted = model(sizes, **settings).fit(other)
        exact = name.startswith("2^") and link != "root"  # a root of 2^20 σ² is rounded
        rel = 1e-12 if exact else 1e-6
        for W, V in zip(fitted.weights_, refitted.weights_, strict=True):
            norms = [np.linalg.norm(F, axis=0) for F in (W, V)]
            W, V = (F / np.where(norm > 0, norm, 1) for F, norm in zip((W, V), norms, strict=True))
            np.testing.assert_allclose(V, W, rtol=rel, atol=rel, err_msg=name)


def test_a_loss_on_every_layer_needs_fixed_scales(digits):
    with pytest.raises(ValueError, match='objective="layers" needs scaling="fixed"'):
        deepnmf.dnmf((8, 4), objective="layers", scaling="paper").fit(digits)
    with pytest.raises(ValueError, match="penalty_W of layer 1.*SquaredL1"):
        deepnmf.DeepNMF((8, 4), penalty_W=L1(0.1), **LAYERS).fit(digits)
    with pytest.raises(ValueError, match='links that are powers.*Tanh.*objective="end_to_end"'):
        deepnmf.dnmf((8, 4), link="tanh", **LAYERS).fit(digits)
    for wrong in ((1.0, 1.0), 0, -1, "much"):
        with pytest.raises(ValueError, match="layer_weights"):
            deepnmf.dnmf((8, 4), layer_weights=wrong, **LAYERS).fit(digits)


def test_a_dead_part_can_come_back(low_rank):
    """A part that no sample uses keeps its direction."""
    stage = stage_of(low_rank, Identity(), Coordinate(), SquaredL1(0.02), Zero())
    factors = random_factors(stage, np.random.default_rng(0))
    codes = np.array(factors.codes)
    codes[0] = 0
    swept = stage.sweep(type(factors)(**{**vars_of(factors), "codes": codes}))
    assert np.linalg.norm(swept.weights[0][:, 0]) == pytest.approx(1)
    assert split_rows(np.asarray(swept.codes), swept.weights)[0][0].max() > 0


@pytest.mark.filterwarnings("ignore:.* parts are dead")
@pytest.mark.parametrize("link", ["identity", "root"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_more_parts_than_features(link, dtype):
    """Parts with almost no energy may grow a lot; the others must not vanish beside them."""
    for seed in range(4):
        X = np.random.default_rng(seed).random((10, 6))
        X[X < 0.6] = 0
        model = deepnmf.sdnmf_l((64, 16), link=link, max_iter=10, tol=0, random_state=0, **LAYERS)
        assert model.fit(X.astype(dtype)).reason_ == "limit"


def test_a_planted_hierarchy_is_found_and_stopping_does_not_decide():
    rng = np.random.default_rng(0)
    W1 = np.kron(np.eye(6), np.ones((5, 1))) * rng.uniform(0.5, 1.5, (30, 6))
    W2 = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]) * rng.uniform(0.5, 1.5, (6, 2))
    H1 = W2 @ rng.gamma(0.5, 1, (2, 300))
    H1 = H1 * rng.gamma(2, 0.5, H1.shape)
    X = to_device(W1 @ H1 + 0.01 * rng.random((30, 300)), H1).T
    fits = [
        deepnmf.sdnmf_l((6, 2), max_iter=n, tol=0, random_state=0, **LAYERS).fit(X)
        for n in (60, 600)
    ]
    for fit in fits:
        first, second = matched(W1, fit.weights_[0])
        assert first > 0.98
        norms = np.linalg.norm(fit.weights_[0], axis=0)[:, None]
        assert matched(W2, (norms * fit.weights_[1])[second])[0] > 0.95
        assert len(set(second)) == 6
    assert matched(fits[0].weights_[0], fits[1].weights_[0])[0] > 0.9999


def matched(A, B):
    from scipy.optimize import linear_sum_assignment

    A, B = (np.asarray(F) / np.linalg.norm(F, axis=0) for F in (A, B))
    rows, columns = linear_sum_assignment(-(A.T @ B))
    return (A.T @ B)[rows, columns].mean(), columns


@pytest.mark.parametrize("link", ["identity", "root"])
def test_codes_of_training_samples_have_unit_rms_at_every_layer(link, digits):
    X = digits[:300]
    model = deepnmf.sdnmf_l((16, 8), link=link, random_state=0).fit(X)
    for layer in (1, 2):
        Z = model.transform(X, layer=layer)
        np.testing.assert_allclose(np.sqrt(np.mean(Z**2, axis=0)), 1, atol=0.02)
