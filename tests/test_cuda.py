"""A real card, where there is one."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import deepnmf
from deepnmf import baselines
from deepnmf.arrays import fused_kernels
from deepnmf.arrays.cuda.graphs import Recorded
from deepnmf.data.dataset import Dataset
from deepnmf.evaluation import cluster_scores_many
from deepnmf.experiments import runner
from deepnmf.experiments.design import Experiment, Fit, Scoring
from deepnmf.experiments.rows import read
from deepnmf.models import many as stacks
from deepnmf.models.settings import plan_of
from deepnmf.penalties import SquaredL1, Zero
from deepnmf.solvers import Nesterov
from deepnmf.solvers.quadratic import codes_problem
from tests import laws
from tests.core.test_subproblems import SHAPES, placed, problems
from tests.models.test_choice import planted
from tests.tables import DEEP, LINKS, PENALTIES, named

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device is available to torch"
)


@pytest.mark.parametrize("link", LINKS, ids=named)
@pytest.mark.parametrize("model", DEEP, ids=named)
def test_the_card_equals_the_cpu(model, link, low_rank, dtype):
    X = low_rank.T.astype(dtype)
    settings = {"link": link, "max_iter": 10, "pretrain_iter": 10, "tol": 0, "random_state": 0}
    here = model((8, 5), **settings).fit(torch.from_numpy(X))
    there = model((8, 5), device="cuda", **settings).fit(X)
    assert isinstance(there.components_, np.ndarray)
    assert there.transform(X).shape == (40, 5)
    laws.same_until_searched(here, there, rel=1e-6 if dtype == "float64" else 5e-3)
    # Armijo's rule can turn a rounding error into another path, which in single precision ends
    # elsewhere; it goes down there as well.
    steady = link.degree is not None
    if steady or dtype == "float64":
        rel = (1e-6 if steady else 1e-4) if dtype == "float64" else 2e-2
        assert there.reconstruction_err_ == pytest.approx(here.reconstruction_err_, rel=rel)
        assert there.score(X) == pytest.approx(here.score(X), rel=2 * rel)
    else:
        laws.objective_never_rises(there.history_, 1e-5 * float(np.sum(X**2)) / 2)
    # With the same weights the codes are as good, wherever they are found.
    on_cpu = copy.deepcopy(there).set_params(device="cpu")
    assert on_cpu.score(X) == pytest.approx(
        there.score(X), rel=1e-6 if dtype == "float64" else 1e-3
    )


def test_matrices_too_large_to_count_do_without_the_kernels(low_rank, monkeypatch):
    X = low_rank.T.astype("float32")
    for link in ("identity", "root"):
        settings: dict[str, Any] = {
            "link": link,
            "max_iter": 10,
            "pretrain_iter": 10,
            "tol": 0,
            "random_state": 0,
        }
        model = deepnmf.sdnmf_l((8, 5), device="cuda", **settings)
        by_kernels = model.fit(X).reconstruction_err_
        with monkeypatch.context() as patch:
            patch.setattr("deepnmf.arrays.operations.COUNTED", 1)
            assert fused_kernels(torch.ones(2, 2, device="cuda")) is None
            assert model.fit(X).reconstruction_err_ == pytest.approx(by_kernels, rel=2e-2)


def test_tensors_stay_on_the_card(low_rank):
    X = torch.from_numpy(low_rank.T.copy()).cuda()
    fitted = deepnmf.sdnmf_l((8, 5), random_state=0, max_iter=5, tol=0).fit(X)
    Z = fitted.transform(X)
    assert Z.is_cuda
    assert fitted.weights_[0].is_cuda
    assert fitted.inverse_transform(Z).is_cuda
    assert fitted.set_params(device="cpu").transform(X).device.type == "cuda"


def test_a_fitted_model_moves_between_card_and_cpu(low_rank, tmp_path):
    X = low_rank.T
    fitted = deepnmf.sdnmf_l((8, 5), device="cuda", random_state=0, max_iter=5, tol=0).fit(X)
    fitted.save(tmp_path / "model.safetensors")
    loaded = deepnmf.load(tmp_path / "model.safetensors").set_params(device="cpu")
    np.testing.assert_allclose(loaded.transform(X), fitted.transform(X), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES, ids=named)
@pytest.mark.parametrize("shape", SHAPES)
def test_fused_steps_equal_the_plain_ones(shape, penalty, rng):
    """One kernel a step on the card, array operations on the CPU."""
    exact = problems(penalty, rng, stack=(2, 3))[shape]
    there = placed(exact, lambda array: torch.from_numpy(array.astype("float32")).cuda())
    same = exact
    if shape == "codes":
        # The kernels add the penalty of codes to the Gram matrix; so both have the same constant.
        K = exact.penalty.gradient(np.eye(5))
        same = codes_problem(exact.A + K, exact.C, Zero())
    here = exact.project(rng.random((2, 3, 5, 7)))
    for steps in (1, 2, 3, 10):
        F = torch.from_numpy(here.astype("float32")).cuda()
        found, memory, residual = Nesterov(max_steps=steps).update(there, F)
        here, _, expected = Nesterov(max_steps=steps).update(same, here)
        np.testing.assert_allclose(found.cpu().numpy(), here, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(residual.cpu().numpy(), expected, rtol=1e-2, atol=1e-5)
        # With what is remembered the constant is another bound: the end is the same.
        far = Nesterov(max_steps=500).update(there, found, memory).F.cpu().numpy().astype(float)
        assert (exact.value(far) <= exact.value(here) + 1e-4 * abs(exact.value(here))).all()
    exactly = Nesterov(max_steps=500).update(exact, here).F
    np.testing.assert_allclose(exact.value(far), exact.value(exactly), rtol=1e-3)
    again = Nesterov().update(there, found, memory).F
    assert torch.equal(again, Nesterov().update(there, found, memory).F)


STOPPING = (
    Nesterov(max_steps=60, tol=1e-2),
    Nesterov(max_steps=60, min_steps=10, tol=1e-2, sharpen=True, joint=True),
    Nesterov(max_steps=2, tol=1e-2),
)


@pytest.mark.parametrize("solver", STOPPING, ids=["each by itself", "jointly", "two steps"])
@pytest.mark.parametrize("shape", SHAPES)
def test_fused_steps_stop_where_the_plain_ones_do(shape, solver, rng):
    """The same goals, reached by the same problems in the same step."""
    exact = problems(SquaredL1(0.1), rng, stack=(2, 3))[shape]
    there = placed(exact, lambda array: torch.from_numpy(array.astype("float32")).cuda())
    if shape == "codes":
        exact = codes_problem(exact.A + SquaredL1(0.1).gradient(np.eye(5)), exact.C, Zero())
    here = exact.project(rng.random((2, 3, 5, 7)))
    F = torch.from_numpy(here.astype("float32")).cuda()
    pace = pace_there = None
    for _ in range(3):
        here, pace, _ = solver.update(exact, here, pace)
        F, pace_there, _ = solver.update(there, F, pace_there)
        np.testing.assert_allclose(F.cpu().numpy(), here, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(pace_there.goal.cpu().numpy(), pace.goal, rtol=1e-2)


def test_fused_steps_on_ragged_sizes(rng):
    """Neither samples nor parts need fill a tile."""
    for parts, samples in ((1, 1), (3, 130), (130, 3), (65, 257)):
        A = rng.random((parts + 4, parts))
        problem = codes_problem(A.T @ A, A.T @ rng.random((parts + 4, samples)), SquaredL1(0.1))
        H = rng.random((parts, samples))
        here = Nesterov(max_steps=500).update(problem, H).F
        there = placed(problem, lambda array: torch.from_numpy(array.astype("float32")).cuda())
        F = torch.from_numpy(H.astype("float32")).cuda()
        found = Nesterov(max_steps=500).update(there, F).F.cpu().numpy().astype(float)
        assert found.shape == H.shape
        assert float(problem.value(found)) == pytest.approx(float(problem.value(here)), rel=1e-3)


def test_a_card_that_is_not_the_current_one_gets_plain_operations(low_rank, monkeypatch):
    X = torch.from_numpy(low_rank.T.astype("float32")).cuda()
    settings: dict[str, Any] = {"max_iter": 10, "pretrain_iter": 10, "tol": 0, "random_state": 0}
    here = deepnmf.sdnmf_l((8, 5), **settings).fit(X)
    assert fused_kernels(X) is not None
    monkeypatch.setattr(torch.cuda, "current_device", lambda: X.device.index + 1)
    assert fused_kernels(X) is None
    there = deepnmf.sdnmf_l((8, 5), **settings).fit(X)
    assert there.reconstruction_err_ == pytest.approx(here.reconstruction_err_, rel=2e-2)


RECORDED = [
    *itertools.product(["paper"], DEEP, [(12,), (20, 8), (20, 12, 8)]),
    *itertools.product(["fixed"], [deepnmf.sdnmf_l], [(20, 8), (20, 12, 8)]),
]


@pytest.mark.parametrize(("scaling", "model", "sizes"), RECORDED)
def test_a_recorded_sweep_equals_a_launched_one(scaling, model, sizes, digits, rng):
    X = torch.from_numpy(digits[:300].astype("float32")).cuda().T
    settings = {"scaling": scaling, "objective": "end_to_end", "solver": "nesterov"}
    stage = plan_of(model(sizes, **settings)).full_stage(X)
    shapes = zip((64, *sizes[:-1]), sizes, strict=True)
    weights = [torch.from_numpy(rng.random(shape).astype("float32")).cuda() for shape in shapes]
    H = torch.from_numpy(rng.random((sizes[-1], 300)).astype("float32")).cuda()
    done = []

    def sweep(factors):
        done.append(factors)
        return stage.sweep(factors)

    assert stage.recordable
    recorded = Recorded(sweep)
    launched = played = stage.begin(weights, H)
    for _ in range(8):
        before, copy = played.H, played.H.clone()
        launched, played = stage.sweep(launched), recorded(played)
        assert torch.equal(before, copy)  # not written over
        expected, found = stage.objective(launched), stage.objective(played)
        assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-5)
        for one, other in zip(played.weights, launched.weights, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    assert len(done) == 4  # twice as usual, once on its stream, once to record


@pytest.mark.parametrize("sets", [1, 2])
def test_stacks_of_fixed_scale_equal_separate_fits(sets, digits):
    """The codes see a penalty of their own in every run, which the kernels add to the Gram
    matrix."""
    X = torch.from_numpy(digits.astype("float32")).cuda()
    data = [X[:1200], X[597:]][:sets]
    model = deepnmf.sdnmf_l((40, 16), scaling="fixed", max_iter=20, pretrain_iter=20, tol=0)
    for run, one in enumerate(deepnmf.fit_many(data, model, seeds=3)):
        alone = clone(model).set_params(random_state=run % 3).fit(data[run // 3])
        assert one.history_[-1]["objective"] == pytest.approx(
            alone.history_[-1]["objective"], rel=1e-4
        )


@pytest.mark.parametrize("link", ["identity", "root"])
def test_fit_many_equals_separate_fits(link, digits):
    X = torch.from_numpy(digits.astype("float32")).cuda()
    sets = [X[:1200], X[597:]]
    model = deepnmf.sdnmf_l((40, 16), link=link, max_iter=20, pretrain_iter=20, tol=0)
    models = deepnmf.fit_many(sets, model, seeds=3)
    codes = deepnmf.transform_many(models, sets)
    for run, one in enumerate(models):
        alone = clone(model).set_params(random_state=run % 3).fit(sets[run // 3])
        # Through a link, line searches can turn rounding into another path.
        assert one.history_[-1]["objective"] == pytest.approx(
            alone.history_[-1]["objective"], rel=1e-4 if link == "identity" else 1e-3
        )
        assert one.weights_[0].is_cuda
        found = one.transform(sets[run // 3])
        error = torch.linalg.norm(codes[run] - found) / torch.linalg.norm(found)
        assert float(error) < (1e-2 if link == "identity" else 5e-2)
    arrays = deepnmf.fit_many(digits[:1200], model.set_params(device="cuda"), seeds=2)
    assert isinstance(arrays[0].components_, np.ndarray)


@pytest.mark.parametrize("name", ["SemiNMF", "DeepSemiNMF", "NsNMF", "MultilayerNMF", "HoyerNMF"])
def test_fit_many_of_baselines_equals_separate_fits(name, digits):
    X = torch.from_numpy(digits.astype("float32")).cuda()
    sets = [X[:1200], X[597:]]
    model = getattr(baselines, name)(max_iter=20, tol=0)
    models = deepnmf.fit_many(sets, model, seeds=2)
    codes = deepnmf.transform_many(models, sets)
    for run, one in enumerate(models):
        alone = clone(model).set_params(random_state=run % 2).fit(sets[run // 2])
        end = alone.history_[-1]["objective"]
        assert one.history_[-1]["objective"] == pytest.approx(end, rel=1e-3)
        error = torch.linalg.norm(sets[run // 2] - one.inverse_transform(codes[run]))
        other = torch.linalg.norm(
            sets[run // 2] - alone.inverse_transform(alone.transform(sets[run // 2]))
        )
        assert float(error) == pytest.approx(float(other), rel=1e-2)


def test_a_stack_is_split_to_fit_the_card(digits, monkeypatch):
    X = torch.from_numpy(digits.astype("float32")).cuda()
    model = deepnmf.sdnmf_l((20, 8), max_iter=5, pretrain_iter=5, tol=0)
    whole = deepnmf.fit_many(X, model, seeds=5)
    one_run = stacks._bytes_per_run(model, X)
    monkeypatch.setattr(stacks, "free_on_cuda", lambda: int(2.6 * one_run))
    parts = deepnmf.fit_many(X, model, seeds=5)
    for one, other in zip(whole, parts, strict=True):
        assert one.history_[-1]["objective"] == pytest.approx(
            other.history_[-1]["objective"], rel=1e-4
        )


def test_tf32_ends_near_single_precision(digits):
    X = torch.from_numpy(digits.astype("float32")).cuda()
    ends = [
        deepnmf.sdnmf_l(40, max_iter=50, tol=0, random_state=0, solver=Nesterov(tf32=tf32))
        .fit(X)
        .reconstruction_err_
        ** 2
        for tf32 in (False, True)
    ]
    assert ends[1] == pytest.approx(ends[0], rel=5e-3)
    assert torch.backends.cuda.matmul.fp32_precision != "tf32"


def test_callbacks_are_refused_for_stacks(digits):
    X = torch.from_numpy(digits).cuda()
    with pytest.raises(ValueError, match="callback"):
        deepnmf.fit_many(X, deepnmf.dnmf(4, callback=print))
    with pytest.raises(ValueError, match='solver="nesterov"'):
        deepnmf.fit_many(X, deepnmf.dnmf(4, solver="coordinate"))


def test_kmeans_on_the_card_reaches_the_level_of_the_cpu(digits):
    y = digits.argmax(axis=1)
    Z = np.stack([digits, digits[:, ::-1]])
    here = cluster_scores_many(Z, y, n_clusters=10)
    there = cluster_scores_many(torch.from_numpy(Z.copy()).cuda(), y, n_clusters=10)
    for one, other in zip(here, there, strict=True):
        assert one.nmi == pytest.approx(other.nmi, abs=0.02)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_stack_has_the_stability_of_fits_one_by_one(rng, tmp_path):
    settings = {"max_iter": 5, "pretrain_iter": 5, "tol": 0, "solver": "nesterov"}
    starts: list[dict[str, object]] = [settings, {**settings, "start": "random"}]
    experiment = Experiment(
        name="study", title="", data="noise", normalize="none", dtype="float64", folds=2,
        first_folds=2, runs=3, kmeans=0, stability=True,
        fits=tuple(Fit("dnmf", (8, 5), options, (Scoring("DNMF"),)) for options in starts),
    )  # fmt: skip
    data = Dataset(X=rng.random((40, 12)), y=None, name="noise")
    paths = [
        runner.run(experiment, tmp_path / device, device, dataset=data)
        for device in ("cuda", "cpu")
    ]
    card, cpu = (_stabilities(path) for path in paths)
    assert card == pytest.approx(cpu, abs=1e-3)
    # With the rows of one fit lost, it resumes.
    lines = paths[0].read_text().splitlines(keepends=True)
    paths[0].write_text("".join(lines[:3] + lines[4:]))
    again = _stabilities(runner.run(experiment, paths[0], "cuda", dataset=data))
    assert again == pytest.approx(card, abs=1e-4)


def _stabilities(path: Path) -> np.ndarray:
    rows = read(path).sort_values(["fit", "fold", "seed"])
    return rows[["stability", "stability_lowest"]].to_numpy()


def test_a_choice_on_the_card_is_that_of_the_cpu():
    X = planted(3, 120, 30)
    settings: dict[str, Any] = {"depth": 1, "most": 5, "repeats": 1, "starts": 2}
    model = deepnmf.sdnmf_l(solver="nesterov")
    here = deepnmf.choose_layers(X, model, **settings)
    for choice in (
        deepnmf.choose_layers(X, model.set_params(device="cuda"), **settings),
        deepnmf.choose_layers(
            torch.from_numpy(X).cuda(), model.set_params(device=None), **settings
        ),
    ):
        assert choice.layer_sizes == here.layer_sizes == (3,)
        for own, other in zip(choice.layers[0].candidates, here.layers[0].candidates, strict=True):
            assert own.error == pytest.approx(other.error, rel=0.05)


def test_a_consensus_stays_on_the_card():
    X = torch.from_numpy(planted(3, 120, 30)).cuda()
    models = deepnmf.fit_many(X, deepnmf.dnmf((4, 2), start="random", max_iter=50), seeds=4)
    made = deepnmf.consensus(models, X)
    assert made.weights_[0].is_cuda
    assert made.transform(X).is_cuda
    assert [len(support) for support in made.support_] == [4, 2]
