"""The presets: their strengths as parameters, and options that they do not have."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import deepnmf
from deepnmf.models.settings import plan_of

STRONG = [
    ("sdnmf_l", {"mu": 0.5}),
    ("sdnmf_l", {"mu": (0.5, 0.25)}),
    ("sdnmf_r", {"lam": 0.5}),
    ("sdnmf_rl1", {"mu": (1.0, 2.0), "lam": 0.5}),
    ("sdnmf_rl2", {"mu": 0.1, "lam": 0.5}),
    ("sdnmf_rl2", {"mu": 0.1, "lam": (0.0, 0.5)}),
]


@pytest.mark.parametrize(("preset", "strengths"), STRONG, ids=str)
def test_strengths_can_be_read_and_set(preset, strengths):
    make = getattr(deepnmf, preset)
    made = make((6, 3), **strengths)
    assert {name: made.get_params()[name] for name in strengths} == strengths
    changed = clone(make((6, 3))).set_params(**strengths)
    assert plan_of(changed) == plan_of(made)
    assert plan_of(clone(changed)) == plan_of(made)


def test_a_model_without_a_penalty_has_no_strength():
    assert not {"mu", "lam"} & set(deepnmf.dnmf(3).get_params())
    with pytest.raises(ValueError, match="mu: this model has no penalty on W. Use sdnmf_l"):
        deepnmf.dnmf(3).set_params(mu=1)
    with pytest.raises(ValueError, match="lam: this model has no penalty on codes. Use sdnmf_r"):
        deepnmf.sdnmf_l(3).set_params(lam=1)
    with pytest.raises(ValueError, match="mu has 3 entries for 2 layers"):
        deepnmf.sdnmf_l((4, 2), mu=[1, 2]).set_params(mu=[1, 2, 3])


@pytest.mark.filterwarnings("ignore:stopped at max_iter")
def test_a_grid_searches_over_strengths(rng):
    X = rng.random((30, 3)) @ rng.random((3, 10))
    model = deepnmf.sdnmf_l(3, random_state=0, max_iter=20)
    grid = GridSearchCV(model, {"mu": [1e-6, 1.0]}, cv=2).fit(X)
    assert grid.best_params_ == {"mu": 1e-6}
    assert np.ptp(grid.cv_results_["mean_test_score"]) > 0


def test_options_that_a_preset_does_not_have():
    with pytest.raises(TypeError, match="give the number of parts in each layer as layer_sizes"):
        deepnmf.sdnmf_l(n_components=12)
    with pytest.raises(TypeError, match="It takes layer_sizes, mu, lam, link"):
        deepnmf.sdnmf_rl1(12, nonsense=1)
    with pytest.raises(TypeError, match="sdnmf_l has no lam: sdnmf_r"):
        deepnmf.sdnmf_l(12, lam=1)
