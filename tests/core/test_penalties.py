from __future__ import annotations

import numpy as np
import pytest

from deepnmf.penalties import Penalty, Ridge, RowRidge, SquaredL1, Zero
from tests.tables import PENALTIES, named

ALL = [*PENALTIES, RowRidge(np.array([[0.1], [0.2], [0.3], [0.0], [0.5]]))]


@pytest.mark.parametrize("penalty", ALL, ids=named)
def test_gradient_equals_finite_differences(penalty: Penalty, rng):
    F, step = rng.random((5, 3)), 1e-6
    gradient = np.broadcast_to(penalty.gradient(F), F.shape)
    for i, j in np.ndindex(F.shape):
        up, down = F.copy(), F.copy()
        up[i, j] += step
        down[i, j] -= step
        slope = (penalty.value(up) - penalty.value(down)) / (2 * step)
        assert gradient[i, j] == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("penalty", ALL, ids=named)
def test_value_by_column_and_from_the_gram_matrix(penalty: Penalty, rng):
    F = rng.random((5, 3))
    assert np.sum(penalty.columns(F)) == pytest.approx(float(penalty.value(F)))
    assert float(penalty.of_codes(F, F @ F.T)) == pytest.approx(float(penalty.value(F)))


@pytest.mark.parametrize("penalty", ALL, ids=named)
def test_lipschitz_constant_is_the_norm_of_K(penalty: Penalty):
    K = np.broadcast_to(penalty.gradient(np.eye(5)), (5, 5))
    assert float(np.squeeze(penalty.lipschitz(5))) == pytest.approx(np.linalg.norm(K, 2))


def test_the_formulas_of_the_paper(rng):
    F = rng.random((5, 3))
    assert Zero().value(F) == 0
    assert SquaredL1(0.3).value(F) == pytest.approx(0.15 * np.sum(F.sum(axis=0) ** 2))
    assert Ridge(0.7).value(F) == pytest.approx(0.35 * np.sum(F**2))


@pytest.mark.parametrize("strength", [-1, float("nan"), float("inf"), "a lot", None, True])
@pytest.mark.parametrize("kind", [SquaredL1, Ridge])
def test_a_strength_that_is_no_number_from_0_up_is_refused(kind, strength):
    with pytest.raises(ValueError, match=r"finite number ≥ 0"):
        kind(strength)
