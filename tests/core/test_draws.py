from __future__ import annotations

import numpy as np
import pytest

from deepnmf.arrays.draws import draw


def test_a_stack_draws_what_its_runs_draw(place):
    like = place(np.zeros((2, 3, 4)))
    stack = draw("normal", (3, 4), [np.random.default_rng(s) for s in (1, 2)], like)
    for run, seed in enumerate((1, 2)):
        alone = draw("normal", (3, 4), [np.random.default_rng(seed)], like[run])
        np.testing.assert_array_equal(np.asarray(stack[run]), np.asarray(alone))


def test_one_generator_per_run():
    with pytest.raises(ValueError, match="one per run"):
        draw("normal", (3, 4), [np.random.default_rng(1)], np.zeros((2, 3, 4)))
