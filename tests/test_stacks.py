"""Many fits at once are the fits one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf import dnmf, fit_many, sdnmf_l, transform_many
from deepnmf.core.training import train
from deepnmf.models.many import _blocks
from deepnmf.models.settings import plan_of

QUICK: dict[str, Any] = {"max_iter": 6, "pretrain_iter": 5, "tol": 0}


@pytest.fixture
def X(low_rank):
    return low_rank.T


def test_one_model_a_seed_and_training_set(X):
    model = sdnmf_l((6, 4), **QUICK)
    sets = np.stack([X[:30], X[10:]])
    models = fit_many(sets, model, seeds=[3, 5])
    alone = [
        sdnmf_l((6, 4), random_state=seed, **QUICK).fit(data) for data in sets for seed in (3, 5)
    ]
    assert [one.random_state for one in models] == [3, 5, 3, 5]
    for one, other in zip(models, alone, strict=True):
        np.testing.assert_array_equal(one.components_, other.components_)
    assert not hasattr(model, "weights_")
    codes = transform_many(models, sets)
    assert codes.shape == (4, 30, 4)
    np.testing.assert_array_equal(codes[3], alone[3].transform(sets[1]))
    assert transform_many(models[:2], X).shape == (2, 40, 4)
    assert [len(fit_many(X, model, seeds=3)), len(fit_many([X, X], model, seeds=3))] == [3, 6]


def test_a_share_of_the_samples_is_drawn_by_the_seed(X):
    pandas = pytest.importorskip("pandas")
    model = dnmf(4, start="random", **QUICK)
    first, second = fit_many(X, model, seeds=[3, 5], share=0.8)
    [again] = fit_many(pandas.DataFrame(X).add_prefix("f"), model, seeds=[5], share=0.8)
    np.testing.assert_array_equal(second.components_, again.components_)
    assert list(again.feature_names_in_[:2]) == ["f0", "f1"]
    assert not np.allclose(first.components_, second.components_)
    [sparse] = fit_many(scipy.sparse.csr_array(X), model, seeds=[5], share=0.8)
    np.testing.assert_allclose(sparse.components_, second.components_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("X", "share", "words"),
    [
        (np.ones((9, 4)), 0.01, "is 0; give up to 1"),
        (np.ones((9, 4)), 1.5, "give up to 1"),
        (np.ones((9, 4)), "half", "not a number"),
        (np.ones((2, 9, 4)), 0.8, "X is several"),
    ],
)
def test_shares_that_cannot_be_drawn_are_refused(X, share, words):
    with pytest.raises(ValueError, match=words):
        fit_many(X, dnmf(2, **QUICK), share=share)


@pytest.mark.parametrize("link", ["identity", "root"])
@pytest.mark.parametrize("tol", [0, 1e-2])
def test_a_run_of_a_stack_has_its_own_history(X, link, tol):
    torch = pytest.importorskip("torch")
    settings = {"link": link, "max_iter": 12, "pretrain_iter": 10, "tol": tol}
    plan = plan_of(sdnmf_l((6, 4), solver="nesterov", **settings))
    data = torch.from_numpy(np.stack([[X.T, X.T], [X.T[::-1], X.T[::-1]]]))
    generators = [np.random.default_rng(seed) for seed in range(4)]
    for run, one in enumerate(train(data, plan, generators).runs()):
        alone = train(data.reshape(4, 30, 40)[run], plan, [np.random.default_rng(run)]).only()
        assert one.sweeps == alone.sweeps
        assert one.reason == alone.reason
        assert len(one.history) == len(alone.history)
        for mine, other in zip(one.history, alone.history, strict=True):
            assert list(mine) == list(other)
            assert mine["objective"] == pytest.approx(other["objective"], rel=1e-6)


@pytest.mark.parametrize("sets", [1, 3, 7])
@pytest.mark.parametrize("seeds", [1, 4, 20])
@pytest.mark.parametrize("at_once", [1, 3, 20, 55, 1000])
def test_blocks_cover_every_fit_once_and_fit_the_memory(sets, seeds, at_once):
    done = np.zeros((sets, seeds), int)
    for rows, columns in _blocks(sets, seeds, at_once):
        assert done[rows, columns].size <= at_once
        done[rows, columns] += 1
    assert (done == 1).all()


def test_what_cannot_be_is_refused(X):
    model = sdnmf_l((6, 4), **QUICK)
    with pytest.raises(ValueError, match="equal ones"):
        fit_many([X[:30], X], model)
    with pytest.raises(ValueError, match="seeds is empty"):
        fit_many(X, model, seeds=[])
    with pytest.raises(ValueError, match="seeds: 0 is too small"):
        fit_many(X, model, seeds=0)
    with pytest.raises(ValueError, match="3 models for 2 sets"):
        transform_many(fit_many(X, model, seeds=3), [X, X])
    with pytest.raises(ValueError, match="layer_sizes"):
        fit_many(X, deepnmf.DeepNMF((0,)))
