"""One contract for all models: registry, decoders, and penalties that are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import deepnmf
from deepnmf import baselines
from deepnmf.explain.decoding import decoder
from deepnmf.hierarchy import explain
from deepnmf.models.base import Factorization, MatrixFactorization
from deepnmf.models.registry import BASELINES, MODELS
from deepnmf.penalties import L1, Penalty, Ridge, SquaredL1
from deepnmf.solvers import Coordinate, Nesterov, ProjectedGradient

QUICK: dict[str, Any] = {"max_iter": 30, "pretrain_iter": 20, "tol": 0, "random_state": 0}


@pytest.fixture
def X(low_rank):
    return low_rank.T


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_a_factorization_with_a_name_and_a_purpose(name):
    model = MODELS[name]
    assert isinstance(model.estimator({}), Factorization)
    assert model.name == name
    assert model.purpose


def test_the_public_baselines_are_those_of_the_registry():
    assert [getattr(baselines, name) for name in baselines.__all__] == list(BASELINES)


SINGLE = [kind for kind in BASELINES if issubclass(kind, MatrixFactorization)]


@pytest.mark.parametrize("kind", SINGLE, ids=lambda kind: kind.__name__)
def test_the_decoder_decodes_as_the_model_does(kind, X):
    model = kind(max_iter=3, tol=0, random_state=0)
    sizes = "layer_sizes" if "layer_sizes" in model.get_params() else "n_components"
    model.set_params(**{sizes: (6, 4) if sizes == "layer_sizes" else 4}).fit(X)
    weights, link = decoder(model)
    H: Any = np.eye(4)
    for W in reversed(weights[1:]):
        H = link.decode(W @ H)
    np.testing.assert_allclose((weights[0] @ H).T, model.components_, rtol=1e-6, atol=1e-9)


def test_up_propagation_through_the_root_is_explained_as_it_decodes(X):
    model = baselines.UpPropagationNMF((6, 4), link="root", max_iter=5, tol=0, random_state=0).fit(
        X
    )
    tree = explain(model, X, sample=2)
    Z = model.transform(X[2:3])
    np.testing.assert_allclose(tree.decoded, model.inverse_transform(Z)[0], rtol=1e-6)


class TestL1:
    """R(F) = λ Σ F, the penalty with a linear term."""

    def test_its_value_and_gradient(self, rng):
        F = rng.random((5, 3))
        assert float(L1(0.3).value(F)) == pytest.approx(0.3 * F.sum())
        np.testing.assert_allclose(L1(0.3).gradient(F) + 0 * F, 0.3)

    @pytest.mark.filterwarnings("ignore:.* parts are dead")
    @pytest.mark.parametrize("side", ["penalty_W", "penalty_H"])
    @pytest.mark.parametrize("link", ["identity", "root", "tanh"])
    def test_no_sweep_raises_the_objective(self, side, link, X):
        settings = {side: L1(0.05), "link": link, "scaling": "paper", **QUICK}
        model = deepnmf.DeepNMF((8, 4), **settings).fit(X)
        for stage in ("pretrain", "finetune"):
            for layer in (None, 1, 2):
                values = [
                    record["objective"] for record in model.history_
                    if (record["stage"], record["layer"]) == (stage, layer)
                ]  # fmt: skip
                assert np.all(np.diff(values) <= 1e-10 * np.abs(values[:-1]))
        last = model.history_[-1]
        fit = last["objective"] - last["penalty"]
        assert 2 * fit == pytest.approx(model.reconstruction_err_**2, rel=1e-6)

    def test_solvers_meet(self, X):
        both: dict[str, Any] = {"penalty_W": Ridge(0.1), "penalty_H": L1(0.2)}
        ends = [
            deepnmf.DeepNMF(4, **both, solver=solver, max_iter=2000, tol=1e-12, random_state=0)
            .fit(X)
            .history_[-1]["objective"]
            for solver in (Coordinate(), Nesterov(), ProjectedGradient())
        ]
        assert ends == pytest.approx([ends[0]] * 3, rel=1e-4)

    def test_codes_are_those_of_the_optimality_conditions(self, X):
        penalties: dict[str, Any] = {"penalty_H": L1(0.2), "penalty_W": Ridge(0.1)}
        model = deepnmf.DeepNMF(4, scaling="paper", **penalties, **QUICK).fit(X)
        H, W = model.transform(X).T, model.weights_[0]
        gradient = W.T @ (W @ H - X.T) + 0.2
        assert np.abs(gradient[H > 0]).max() < 1e-6
        assert gradient[H == 0].min() > -1e-6

    def test_blocks_are_as_one_piece(self, X):
        both: dict[str, Any] = {"penalty_W": L1(0.05), "penalty_H": L1(0.05), "scaling": "paper"}
        model = deepnmf.DeepNMF((8, 4), **both, **QUICK)
        blocked = model.fit([X[:15], X[15:]]).history_[-1]
        together = model.fit(X).history_[-1]
        assert blocked["objective"] == pytest.approx(together["objective"], rel=1e-6)
        assert blocked["penalty"] == pytest.approx(together["penalty"], rel=1e-5)

    def test_more_of_it_is_sparser(self, X):
        zeros = [
            (deepnmf.DeepNMF(4, penalty_H=L1(lam), scaling="fixed", **QUICK).fit_transform(X) == 0)
            .mean()
            for lam in (1e-3, 0.3, 1.0)
        ]  # fmt: skip
        assert zeros[0] < zeros[1] < zeros[2]

    def test_it_is_refused_where_the_degree_matters(self, X):
        model = deepnmf.DeepNMF((8, 4), penalty_W=(None, L1(0.1)), objective="end_to_end")
        with pytest.raises(ValueError, match="linear penalty .L1.*SquaredL1"):
            model.fit(X)
        model.set_params(penalty_H=Ridge(0.1), **QUICK).fit(X)

    def test_models_with_it_are_saved(self, X, tmp_path):
        model = deepnmf.DeepNMF(4, penalty_H=L1(0.2), **QUICK).fit(X)
        model.save(tmp_path / "l1.safetensors")
        again = deepnmf.load(tmp_path / "l1.safetensors")
        assert again.penalty_H == L1(0.2)
        np.testing.assert_array_equal(again.transform(X), model.transform(X))


@dataclass(frozen=True)
class Logarithm(Penalty):
    """R(F) = λ Σ log(1 + F): not a quadratic form."""

    strength: float = 0.1

    def gradient(self, F):
        return self.strength / (1 + F)

    def lipschitz(self, rows):
        return self.strength


class Short(SquaredL1):
    def lipschitz(self, rows):
        return 0.1 * super().lipschitz(rows)


@pytest.mark.parametrize(
    ("penalty", "message"),
    [(Logarithm(), "not linear in F"), (Short(0.1), "steps would be too long")],
    ids=["logarithm", "short"],
)
@pytest.mark.parametrize("side", ["penalty_W", "penalty_H"])
def test_a_broken_penalty_is_refused_before_the_first_sweep(penalty, message, side, X):
    heard: list[Any] = []
    model = deepnmf.DeepNMF((8, 4), **{side: penalty}, callback=heard.append, random_state=0)
    with pytest.raises(ValueError, match=f"{side} of layer 1: .*{message}"):
        model.fit(X)
    assert heard == []


def test_a_link_that_carries_no_signs_is_refused_by_deep_semi_nmf(X):
    with pytest.raises(ValueError, match='Root is for nonnegative weights.*"tanh"'):
        baselines.DeepSemiNMF((6, 4), link="root").fit(X)
