from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deepnmf.solvers.quadratic import Quadratic, codes_problem, weights_problem
from tests import laws
from tests.tables import DTYPES, LIBRARIES, PENALTIES, named, pairs


def problems(penalty, rng, stack=()):
    """The three shapes a factor's subproblem has, with a point each: H_l, W_1, W_l."""

    def gram(size):
        A = rng.random((*stack, size + 3, size))
        return np.swapaxes(A, -1, -2) @ A

    C = rng.random((*stack, 5, 7))
    return {
        "codes": codes_problem(gram(5), C, penalty),
        "first weights": weights_problem(None, gram(7), C, penalty),
        "weights above": weights_problem(gram(5), gram(7), C, penalty),
        "first unit columns": weights_problem(None, gram(7), C, penalty, unit_columns=True),
        "unit columns": weights_problem(gram(5), gram(7), C, penalty, unit_columns=True),
    }


SHAPES = ["codes", "first weights", "weights above", "first unit columns", "unit columns"]


def placed(problem: Quadratic, place) -> Quadratic:
    parts = {name: getattr(problem, name) for name in "ABC"}
    return replace(
        problem, **{name: None if part is None else place(part) for name, part in parts.items()}
    )


@pairs("penalty,shape,library,dtype", PENALTIES, SHAPES, LIBRARIES, DTYPES)
def test_gradient_equals_finite_differences(penalty, shape, library, dtype, place, rng):
    exact = problems(penalty, rng)[shape]
    F = rng.random((5, 7))
    gradient = placed(exact, place).gradient(place(F))
    rel = 1e-8 if dtype == "float64" else 1e-5
    laws.gradient_is_the_slope(exact.value, F, gradient, rel, step=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("penalty", PENALTIES, ids=named)
def test_change_is_the_difference_of_values(penalty, shape, rng):
    problem = problems(penalty, rng)[shape]
    F, G = rng.random((5, 7)), rng.random((5, 7))
    change = problem.change(F, problem.gradient(F), G, problem.gradient(G)).sum()
    assert change == pytest.approx(float(problem.value(G) - problem.value(F)), rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("penalty", PENALTIES, ids=named)
def test_lipschitz_constant_holds(penalty, shape, rng):
    problem = problems(penalty, rng)[shape]
    for _ in range(20):
        F, G = rng.standard_normal((2, 5, 7))
        difference = np.linalg.norm(problem.gradient(F) - problem.gradient(G))
        assert difference <= float(problem.lipschitz[0, 0]) * np.linalg.norm(F - G)


def test_projection_is_feasible_and_nearest(rng):
    problem = problems(PENALTIES[0], rng)["unit columns"]
    F = 2 * rng.standard_normal((5, 7))
    P = problem.project(F)
    assert P.min() >= 0
    assert np.linalg.norm(P, axis=0).max() <= 1 + 1e-12
    for _ in range(50):
        G = np.abs(rng.standard_normal((5, 7)))
        G /= np.maximum(1, np.linalg.norm(G, axis=0))
        # The angle condition of a projection on a convex set.
        assert np.sum((F - P) * (G - P)) <= 1e-12
