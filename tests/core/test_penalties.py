from __future__ import annotations

import numpy as np
import pytest

from deepnmf.penalties import L1, Penalty, Ridge, RowRidge, SquaredL1, Zero
from tests import laws
from tests.tables import PENALTIES, named

ALL = [*PENALTIES, RowRidge(np.array([[0.1], [0.2], [0.3], [0.0], [0.5]]))]


@pytest.mark.parametrize("penalty", ALL, ids=named)
def test_gradient_equals_finite_differences(penalty: Penalty, rng):
    F = rng.random((5, 3))
    laws.gradient_is_the_slope(penalty.value, F, penalty.gradient(F), rel=1e-6)


@pytest.mark.parametrize("penalty", ALL, ids=named)
def test_the_value_has_a_quadratic_form_and_a_linear_term(penalty: Penalty, rng):
    F = rng.random((5, 3))
    value = pytest.approx(float(penalty.value(F)))
    form = np.sum(penalty.quadratic.columns(F))
    assert form + penalty.linear * np.sum(F) == value
    assert float(penalty.of_codes(F, F @ F.T)) == value


@pytest.mark.parametrize("penalty", ALL, ids=named)
def test_lipschitz_constant_is_the_norm_of_K(penalty: Penalty):
    K = np.broadcast_to(penalty.gradient(np.eye(5)) - penalty.linear, (5, 5))
    assert float(np.squeeze(penalty.lipschitz(5))) == pytest.approx(np.linalg.norm(K, 2))


def test_the_formulas_of_the_paper(rng):
    F = rng.random((5, 3))
    assert Zero().value(F) == 0
    assert SquaredL1(0.3).value(F) == pytest.approx(0.15 * np.sum(F.sum(axis=0) ** 2))
    assert L1(0.4).value(F) == pytest.approx(0.4 * np.sum(F))
    assert Ridge(0.7).value(F) == pytest.approx(0.35 * np.sum(F**2))


@pytest.mark.parametrize("strength", [-1, 10**400, float("nan"), float("inf"), "a lot", None, True])
@pytest.mark.parametrize("kind", [SquaredL1, L1, Ridge])
def test_a_strength_that_is_no_number_from_0_up_is_refused(kind, strength):
    with pytest.raises(ValueError, match=r"finite number ≥ 0"):
        kind(strength)


def test_a_large_whole_number_is_a_strength():
    torch = pytest.importorskip("torch")
    assert float(SquaredL1(10**20).value(torch.ones((2, 1)))) == pytest.approx(2e20)
