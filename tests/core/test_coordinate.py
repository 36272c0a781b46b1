"""Coordinate descent: exact minima, the same ends as the paper's solver, any number of threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

import deepnmf
from deepnmf.core.training import train
from deepnmf.penalties import Penalty, Ridge, SquaredL1, Zero
from deepnmf.solvers import Auto, Coordinate, Nesterov, Solver
from deepnmf.solvers.quadratic import codes_problem, weights_problem
from deepnmf.starts import Given
from tests import laws
from tests.core.test_subproblems import SHAPES, problems
from tests.laws import generators, plan
from tests.tables import DEEP, PENALTIES, SCALINGS, each, named, some


def gram(rng, size, rows=None):
    A = rng.random((rows or size + 5, size))
    return A.T @ A


@pytest.mark.parametrize("parts", [1, 3, 4, 37, 64])
@pytest.mark.parametrize("samples", [1, 63, 64, 200])
def test_codes_are_nonnegative_least_squares(parts, samples, rng, dtype):
    W, X = rng.random((80, parts)), rng.random((80, samples))
    problem = codes_problem((W.T @ W).astype(dtype), (W.T @ X).astype(dtype), Zero())
    H = np.zeros((parts, samples), dtype)
    solved = Coordinate(max_passes=5000, tol=1e-20 if dtype == "float64" else 1e-13)
    found = solved.update(problem, H).F
    exact = np.stack([scipy.optimize.nnls(W, x)[0] for x in X.T], axis=1)
    atol = 1e-7 if dtype == "float64" else 2e-2
    np.testing.assert_allclose(found, exact, atol=atol)
    assert found.dtype == dtype
    assert (H == 0).all()


@pytest.mark.parametrize("samples", [1, 63, 200])
def test_codes_do_not_depend_on_their_order_in_memory(samples, rng, dtype):
    """What is aimed at, and where it begins, may lie row by row or sample by sample; codes lie as
    what is aimed at, row by row if that has no order."""
    A, C = gram(rng, 37).astype(dtype), (9 * rng.random((37, samples))).astype(dtype)
    H = rng.random((37, samples)).astype(dtype)
    expected = Coordinate(max_passes=20).update(codes_problem(A, C, Zero()), H).F
    for aim in (C, np.asfortranarray(C), np.repeat(C, 2, axis=1)[:, ::2]):
        for begin in (H, np.asfortranarray(H)):
            found = Coordinate(max_passes=20).update(codes_problem(A, aim, Zero()), begin).F
            np.testing.assert_array_equal(found, expected)
            assert found.flags.f_contiguous if aim.flags.f_contiguous else found.flags.c_contiguous


@pytest.mark.parametrize("scale", [0, 1e-6, 1, 1e6])
@pytest.mark.parametrize("mu", [1e-4, 0.3, 50.0])
def test_a_column_under_the_penalty_is_at_its_minimum(mu, scale, rng):
    """min ½ b‖w‖² − rᵀw + ½ μ (Σw)², w ≥ 0: s = Σw solves s = Σ P(r − μs)/b, found from the s of
    the column as it was, however far that is."""
    r, b = rng.normal(size=(40, 1)), 1.7
    problem = weights_problem(None, np.array([[b]]), r, SquaredL1(mu))
    w = Coordinate(max_passes=1).update(problem, scale * rng.random((40, 1))).F
    gradient = b * w - r + mu * w.sum()
    assert gradient[w > 0] == pytest.approx(np.zeros((w > 0).sum()), abs=1e-5 * abs(r).max())
    assert gradient[w == 0].min() >= -1e-5 * abs(r).max()


def test_a_column_in_the_unit_ball_is_at_its_minimum(rng):
    r = 5 * rng.normal(size=(40, 1))
    problem = weights_problem(None, np.array([[2.0]]), r, Zero(), unit_columns=True)
    w = Coordinate(max_passes=1).update(problem, np.zeros((40, 1))).F
    assert np.linalg.norm(w) == pytest.approx(1)
    np.testing.assert_allclose(w, np.maximum(r, 0) / np.linalg.norm(np.maximum(r, 0)))


def test_a_part_that_no_sample_uses_is_not_erased_at_once(rng):
    S = gram(rng, 4)
    S[2], S[:, 2] = 0, 0
    W = rng.random((30, 4))
    Q = rng.random((30, 4)) * (np.arange(4) != 2)
    found = Coordinate(max_passes=1).update(weights_problem(None, S, Q, SquaredL1(0.1)), W).F
    np.testing.assert_allclose(found[:, 2], W[:, 2] / 2)
    free = Coordinate(max_passes=1).update(weights_problem(None, S, Q, Zero()), W).F
    np.testing.assert_allclose(free[:, 2], W[:, 2])


@pytest.mark.parametrize("energy", [1e-20, 1e-40, 1e-80])
def test_a_part_far_below_its_penalty_does_not_rise(energy, rng):
    """Its minimum cannot be computed: rounding of the penalty is larger than its energy."""
    W, C = rng.random((50, 3)), rng.random((50, 3))
    B = energy * (np.eye(3) + 0.1)
    problem = weights_problem(None, B, energy**0.5 * C, SquaredL1(1e-3))
    after = Coordinate().update(problem, W).F
    assert float(problem.value(after)) <= float(problem.value(W))
    assert after.max() <= W.max()


@pytest.mark.parametrize("penalty", PENALTIES, ids=named)
def test_rows_come_in_groups(penalty, rng):
    """More columns than a group, whose rows meet in products."""
    problem = weights_problem(None, gram(rng, 70), rng.random((50, 70)) * 40, penalty)
    above = weights_problem(gram(rng, 50), gram(rng, 70), rng.random((50, 70)) * 900, penalty)
    for quadratic in (problem, above):
        W = rng.random((50, 70))
        far = Coordinate(max_passes=3000, tol=1e-18).update(quadratic, W).F
        near = Nesterov(max_steps=20000, tol=1e-10).update(quadratic, W).F
        assert float(quadratic.value(far)) == pytest.approx(float(quadratic.value(near)), rel=1e-6)


class Banded(Penalty):
    """K is no μ 11ᵀ + λ I."""

    def gradient(self, F):
        return np.arange(1, F.shape[-2] + 1)[:, None] * F / F.shape[-2]

    def lipschitz(self, rows):
        return 1.0


def test_what_is_not_covered_is_left_to_nesterov(rng):
    W = rng.random((6, 5))
    problem = weights_problem(None, gram(rng, 5), rng.random((6, 5)), Banded())
    np.testing.assert_array_equal(
        Coordinate().update(problem, W).F, Nesterov(max_steps=10).update(problem, W).F
    )
    codes = codes_problem(gram(rng, 6), rng.random((6, 9)), Banded())
    H = Coordinate(max_passes=3000, tol=1e-18).update(codes, rng.random((6, 9))).F
    near = Nesterov(max_steps=20000, tol=1e-10).update(codes, rng.random((6, 9))).F
    np.testing.assert_allclose(H, near, atol=1e-6)


def test_passes_stop_by_what_they_gain(rng):
    problem = codes_problem(np.eye(8), rng.random((8, 300)), Zero())
    H, work, _ = Coordinate(max_passes=50, tol=0.01).update(problem, np.zeros((8, 300)))
    assert work.passes == 2  # the second finds nothing more to gain
    np.testing.assert_allclose(H, problem.C)


def test_threads_do_not_change_a_result(rng, use_threads):
    A, C = gram(rng, 40), 30 * rng.random((40, 1000))
    problem = codes_problem(A, C, Ridge(0.1))
    results = []
    for number in (1, 2, 5):
        use_threads(number)
        results.append(Coordinate().update(problem, np.zeros((40, 1000))).F)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@some(
    "model,first",
    [(deepnmf.sdnmf_rl1, Coordinate())],
    DEEP,
    [Coordinate(), Nesterov()],
)
def test_coordinate_and_nesterov_agree_on_where_the_end_is(model, first, low_rank):
    """(From the same start they may end in different minima.)"""
    other = Nesterov() if isinstance(first, Coordinate) else Coordinate()
    settings = plan(
        model, (10, 6), strength=0.01, scaling="fixed", max_iter=3000, pretrain_iter=50, tol=0
    )
    laws.solvers_agree_on_the_end(low_rank, settings, first, other)


@pytest.mark.long
@pytest.mark.parametrize(
    "model", [preset for preset in DEEP if preset.__name__ != "dnmf"], ids=named
)
def test_coordinate_and_nesterov_meet_on_real_data(model, digits):
    """Run long from the same starts: the lowest ends of five are the same. (From one start they may
    end in different minima, up to 2% apart.)"""
    X = digits[:600].T
    settings = plan(
        model, (24, 10), strength=1e-3, scaling="fixed", start="random", max_iter=1,
        pretrain_iter=50, tol=0,
    )  # fmt: skip
    ends: dict[Solver, list[float]] = {Nesterov(): [], Coordinate(): []}
    for seed in range(5):
        begun = train(X, replace(settings, solver=Nesterov()), generators(seed))
        same = replace(settings, start=Given(begun.weights, begun.H.T), max_iter=1000)
        for solver, values in ends.items():
            ended = train(X, replace(same, solver=solver), generators(seed))
            values.append(ended.history[-1]["objective"])
    lowest, other = map(min, ends.values())
    assert lowest == pytest.approx(other, rel=5e-3)


@each("model,scaling", DEEP, SCALINGS)
def test_single_precision_ends_where_double_does(model, scaling, digits):
    """With a loss on every layer, after some sweeps: rounding can lead to another minimum."""
    X, sweeps = digits[:600].T, 20 if scaling == "layers" else 150
    settings = plan(model, (24, 10), scaling=scaling, max_iter=sweeps, pretrain_iter=30, tol=0)
    ends = [
        train(X.astype(dtype), settings, generators(0)).history[-1]["objective"]
        for dtype in ("float32", "float64")
    ]
    assert ends[0] == pytest.approx(ends[1], rel=5e-3)


@pytest.mark.parametrize("penalty", PENALTIES, ids=named)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_unit_that_hardly_anything_uses_stays_where_it_is(shape, penalty, rng):
    """Its curvature is below the rounding of everything else: a quotient of the two is noise."""
    problem = problems(penalty, rng)[shape]
    codes = problem.B is None
    small = np.ones(5 if codes else 7)
    small[2] = 1e-60
    shrunk = np.outer(small, small) * (problem.A if codes else problem.B)
    C = problem.C * (small[:, None] if codes else small)
    problem = replace(problem, C=C, **{"A" if codes else "B": shrunk})
    F = problem.project(rng.random((5, 7)))
    for _ in range(20):
        F, before = Coordinate().update(problem, F).F, problem.value(F)
        assert problem.value(F) <= before + 1e-12
        assert F.max() < 1e3


def test_extrapolation_saves_sweeps(digits):
    class Plain(Coordinate):
        def extrapolates(self, X, *, linear):
            return False

    settings = plan_of_one_layer()
    ahead = train(digits.T, replace(settings, solver=Coordinate()), generators(0))
    plain = train(digits.T, replace(settings, solver=Plain()), generators(0))
    goal = plain.history[-1]["objective"]
    reached = next(r["sweep"] for r in ahead.history if r["objective"] <= goal)
    assert reached < 0.75 * len(plain.history)


def plan_of_one_layer():
    return plan(deepnmf.dnmf, (16,), max_iter=80, tol=0)


def test_tensors_are_refused_by_name_and_taken_by_auto(low_rank):
    torch = pytest.importorskip("torch")
    X = torch.from_numpy(low_rank.T.copy())
    with pytest.raises(ValueError, match='solver="nesterov"'):
        deepnmf.dnmf(4, solver="coordinate").fit(X)
    settings = {"max_iter": 5, "tol": 0, "random_state": 0}
    fitted = deepnmf.dnmf(4, **settings).fit(X)
    same = deepnmf.dnmf(4, solver="nesterov", **settings).fit(X)
    assert fitted.reconstruction_err_ == same.reconstruction_err_
    assert Auto().extrapolates(low_rank, linear=True)
    assert not Auto().extrapolates(X, linear=True)
    assert Auto().extrapolates(X, linear=False)
