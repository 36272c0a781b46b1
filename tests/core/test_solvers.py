from __future__ import annotations

import numpy as np
import pytest

from deepnmf.solvers import Coordinate, Nesterov, ProjectedGradient
from tests.core.test_subproblems import SHAPES, placed, problems
from tests.tables import DTYPES, LIBRARIES, PENALTIES, SOLVERS, each, pairs


@pytest.mark.parametrize(
    ("solver", "settings", "needed"),
    [
        (Coordinate, {"max_passes": 0}, "max_passes must be a whole number ≥ 1, got 0"),
        (Coordinate, {"max_passes": 2.5}, "max_passes must be a whole number ≥ 1, got 2.5"),
        (Coordinate, {"tol": float("nan")}, "tol must be a number ≥ 0 and < 1, got nan"),
        (Nesterov, {"max_steps": -1}, "max_steps must be a whole number ≥ 1, got -1"),
        (Nesterov, {"max_steps": 5, "min_steps": 50}, "from 0 to max_steps = 5, got 50"),
        (Nesterov, {"tol": -1.0}, "tol must be a number ≥ 0 and < 1, got -1.0"),
        (ProjectedGradient, {"max_steps": 0}, "max_steps must be a whole number ≥ 1, got 0"),
        (ProjectedGradient, {"max_trials": True}, "max_trials must be a whole number ≥ 1"),
        (ProjectedGradient, {"beta": 1.0}, "beta must be a number between 0 and 1, got 1.0"),
    ],
)
def test_settings_that_cannot_work_are_refused(solver, settings, needed):
    with pytest.raises(ValueError, match=needed):
        solver(**settings)


@pairs("solver,penalty,shape,library,dtype", SOLVERS, PENALTIES, SHAPES, LIBRARIES, DTYPES)
def test_an_update_never_raises_the_objective(solver, penalty, shape, library, dtype, place, rng):
    exact = problems(penalty, rng)[shape]
    problem = placed(exact, place)
    F = problem.project(place(rng.random((5, 7))))
    memory = None
    rounding = 0 if dtype == "float64" else 1e-5
    for _ in range(30):
        before = exact.value(np.asarray(F, dtype=np.float64))
        F, memory, _ = solver.update(problem, F, memory)
        after = exact.value(np.asarray(F, dtype=np.float64))
        assert float(F.min()) >= 0
        assert after <= before + 1e-12 * abs(before) + rounding * abs(before)


@each("penalty,shape,library,dtype", PENALTIES, SHAPES, LIBRARIES, DTYPES)
def test_solvers_meet(penalty, shape, library, dtype, place, rng):
    problem = placed(problems(penalty, rng)[shape], place)
    F = problem.project(place(rng.random((5, 7))))
    tol = 1e-10 if dtype == "float64" else 1e-6
    solvers = [Nesterov(max_steps=20000, tol=tol), ProjectedGradient(20000, tol=tol)]
    if library == "numpy":
        solvers.append(Coordinate(max_passes=20000, tol=tol * tol))
    found = []
    for solver in solvers:
        solved, _, at_start = solver.update(problem, F)
        left = float(solver.update(problem, solved).residual)
        assert left <= (1e-14 if dtype == "float64" else 1e-7) * float(at_start)
        found.append(float(problem.value(solved)))
    assert found == pytest.approx(found[:1] * len(found), rel=1e-9 if dtype == "float64" else 1e-5)


@pairs("solver,shape,library,dtype", SOLVERS, SHAPES, LIBRARIES, DTYPES)
def test_a_stack_is_its_runs(solver, shape, library, dtype, place, rng):
    stacked = problems(PENALTIES[1], rng, stack=(3,))[shape]
    F = rng.random((3, 5, 7))
    together = np.asarray(solver.update(placed(stacked, place), place(F)).F)
    for run in range(3):
        alone = placed(stacked, lambda array, run=run: place(array[run]))
        single = np.asarray(solver.update(alone, place(F[run])).F)
        value = float(alone.value(place(together[run])))
        # The number of steps of a stack may follow its slowest run: never worse for the others.
        assert value <= float(alone.value(place(single))) + 1e-4 * abs(value)


def test_a_column_of_codes_is_solved_by_itself(rng):
    problem = problems(PENALTIES[1], rng)["codes"]
    solver = Nesterov(max_steps=500, tol=1e-8)
    F = np.zeros((5, 7))
    together = solver.update(problem, F).F
    for column in range(7):
        one = type(problem)(
            C=problem.C[:, [column]], A=problem.A, penalty=problem.penalty, by_column=True
        )
        alone = solver.update(one, F[:, [column]]).F
        np.testing.assert_allclose(together[:, [column]], alone, rtol=1e-7, atol=1e-12)


def test_the_residual_is_zero_exactly_at_a_solution(rng):
    A = np.array([[2.0, 0.5], [0.5, 1.0]])
    H = np.array([[1.0, 0.0], [3.0, 0.0]])
    # C = A H keeps the first column stationary; −1 keeps the second at its bound.
    C = A @ H - np.array([[0.0, 1.0], [0.0, 1.0]])
    problem = type(problems(PENALTIES[0], rng)["codes"])(C=C, A=A, by_column=True)
    assert Nesterov().update(problem, H).residual == 0
    assert Nesterov().update(problem, H + 0.1).residual > 0


def test_acceleration_reaches_its_rate(rng):
    """After k steps q(F_k) − q* ≤ 2 LC ‖F_0 − F*‖² / (k + 1)² (Beck and Teboulle)."""
    problem = problems(PENALTIES[0], rng)["codes"]
    start = np.zeros((5, 7))
    best = Nesterov(max_steps=50000, tol=1e-13).update(problem, start).F
    bound = 2 * float(problem.lipschitz[0, 0]) * np.sum(best**2)
    for steps in (5, 10, 20, 40, 80):
        reached = Nesterov(max_steps=steps).update(problem, start).F
        assert float(problem.value(reached) - problem.value(best)) <= bound / (steps + 1) ** 2
