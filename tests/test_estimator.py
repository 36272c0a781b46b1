from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

import deepnmf
from deepnmf import DeepNMF
from deepnmf.penalties import Ridge, SquaredL1
from deepnmf.solvers import ProjectedGradient
from deepnmf.starts import Given
from tests.tables import BRIEF, DEEP, DTYPES, SINGLE, each, long, named, pairs

PRESETS = [preset.__name__ for preset in (*DEEP, *SINGLE)]
QUICK: dict[str, Any] = {"max_iter": 15, "pretrain_iter": 10, "tol": 0, "random_state": 0}


@pytest.fixture
def X(low_rank):
    """40 samples of 30 features."""
    return low_rank.T.copy()


@BRIEF
@pytest.mark.filterwarnings("ignore:partial_fit. the first batch")  # their data are small
@pytest.mark.parametrize("model", long([DeepNMF, *DEEP, *SINGLE], *PRESETS), ids=named)
@pytest.mark.parametrize(
    "settings",
    [
        {"layer_sizes": (3, 2), "max_iter": 5, "pretrain_iter": 3, "tol": 0},
        pytest.param({"max_iter": 10, "pretrain_iter": 10, "tol": 0}, marks=pytest.mark.long),
        pytest.param({}, marks=pytest.mark.long),
    ],
    ids=["small", "few sweeps", "as they come"],
)
def test_scikit_learns_own_checks(model, settings):
    if model in SINGLE and "layer_sizes" in settings:
        settings = {**settings, "layer_sizes": 3}
    results = check_estimator(model(**settings), on_skip=None, on_fail="raise")
    assert len(results) > 40
    # What needs an array library that is not installed cannot be checked here; nothing else skips.
    skipped = [result["check_name"] for result in results if result["status"] != "passed"]
    assert set(skipped) <= {"check_array_api_input"}


@pairs("model,sizes,dtype", DEEP, [5, (5,), (8, 5), (10, 8, 5)], DTYPES)
def test_the_contract_of_a_fitted_model(model, sizes, dtype, X):
    X = X.astype(dtype)
    fitted = model(sizes, **QUICK)
    Z = fitted.fit_transform(X)
    widths = (30, *([sizes] if isinstance(sizes, int) else sizes))
    assert Z.shape == (40, 5)
    assert Z.dtype == X.dtype
    assert [W.shape for W in fitted.weights_] == list(itertools.pairwise(widths))
    assert all(W.dtype == X.dtype and W.min() >= 0 for W in fitted.weights_)
    assert fitted.components_.shape == (5, 30)
    assert fitted.n_features_in_ == 30
    assert fitted.n_iter_ <= 15
    assert isinstance(fitted.status_, str)
    keys = ["stage", "layer", "sweep", "objective", "penalty", "kkt", "dead", "seconds"]
    assert all(list(record) == keys for record in fitted.history_)
    stages = {record["stage"] for record in fitted.history_}
    assert stages == ({"finetune"} if len(widths) == 2 else {"pretrain", "finetune"})

    np.testing.assert_array_equal(Z, fitted.transform(X))
    last = fitted.history_[-1]
    rel = 1e-6 if dtype == "float64" else 1e-2
    fit = last["objective"] - last["penalty"]
    if len(widths) == 2:
        assert fitted.reconstruction_err_**2 / 2 == pytest.approx(fit, rel=rel)
    first = fitted.layer_errors_[0] * np.linalg.norm(X)
    assert first**2 / 2 <= fit * (1 + rel)
    error = np.linalg.norm(X - fitted.inverse_transform(Z))
    assert fitted.score(X) == pytest.approx(-(error**2) / 40, rel=rel)
    # Codes solved to the end are no worse than those that training left, and not far from them.
    assert error == pytest.approx(fitted.reconstruction_err_, rel=0.05)
    if model in (deepnmf.dnmf, deepnmf.sdnmf_l) and len(widths) == 2:
        assert error <= fitted.reconstruction_err_ * (1 + rel)
    for layer, width in enumerate(widths[1:], 1):
        codes = fitted.transform(X, layer=layer)
        assert codes.shape == (40, width)
        assert fitted.basis(layer).shape == (width, 30)
        np.testing.assert_allclose(
            fitted.inverse_transform(codes, layer=layer), codes @ fitted.basis(layer), rtol=1e-5
        )
    np.testing.assert_allclose(fitted.basis(), fitted.components_, rtol=1e-5)
    np.testing.assert_allclose(
        fitted.basis(len(widths) - 1).T,
        np.linalg.multi_dot(fitted.weights_) if len(widths) > 2 else fitted.weights_[0],
        rtol=1e-4,
    )


def test_a_lower_layer_codes_the_data_better(X):
    fitted = deepnmf.dnmf((10, 4), **QUICK).fit(X)
    errors = [
        np.linalg.norm(X - fitted.inverse_transform(fitted.transform(X, layer=layer), layer=layer))
        for layer in (1, 2)
    ]
    assert errors[0] < errors[1]


def test_the_same_seed_gives_the_same_model(X):
    first, second = (deepnmf.sdnmf_l((8, 5), **QUICK).fit(X) for _ in range(2))
    other = deepnmf.sdnmf_l((8, 5), **{**QUICK, "random_state": 1}).fit(X)
    np.testing.assert_array_equal(first.components_, second.components_)
    assert not np.array_equal(first.components_, other.components_)


@each("model,kind", DEEP, ["csr_matrix", "csc_matrix", "csr_array", "csc_array", "coo_array"])
def test_sparse_data_without_densifying(model, kind, X, monkeypatch):
    X = X * (X > 0.4)
    settings = QUICK | {"start": "random"}
    dense = model((8, 5), **settings).fit(X)
    sparse = getattr(scipy.sparse, kind)(X)
    for flavour in (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, scipy.sparse.coo_matrix):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(flavour, name, pytest.fail)
    fitted = model((8, 5), **settings).fit(sparse)
    np.testing.assert_allclose(fitted.reconstruction_err_, dense.reconstruction_err_, rtol=1e-5)
    assert fitted.transform(sparse).shape == (40, 5)
    assert fitted.score(sparse) == pytest.approx(dense.score(X), rel=1e-4)


def test_torch_tensors_stay_where_they_live(X):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X)
    fitted = deepnmf.sdnmf_l((8, 5), **QUICK)
    Z = fitted.fit_transform(tensor)
    assert isinstance(Z, torch.Tensor)
    assert all(isinstance(W, torch.Tensor) for W in fitted.weights_)
    same = deepnmf.sdnmf_l((8, 5), solver="nesterov", **QUICK).fit(X)
    assert fitted.reconstruction_err_ == pytest.approx(same.reconstruction_err_, rel=1e-6)
    assert isinstance(fitted.inverse_transform(Z), torch.Tensor)
    with pytest.raises(ValueError, match="expecting 30 features"):
        fitted.transform(tensor[:, :5])
    with pytest.raises(ValueError, match=r"X\[2, 3\] = -1"):
        spoiled = tensor.clone()
        spoiled[2, 3] = -1
        fitted.fit(spoiled)


def test_pipelines_grids_and_clones(X):
    y = np.repeat([0, 1], 20)
    pipeline = make_pipeline(MinMaxScaler(), DeepNMF((8, 4), **QUICK), KMeans(2, n_init=1))
    assert pipeline.fit_predict(X, y).shape == (40,)
    grid = GridSearchCV(
        deepnmf.sdnmf_rl1((8, 4), max_iter=3, pretrain_iter=2, tol=0, random_state=0),
        {
            "layer_sizes": [(8, 4), (10, 8, 4), 4],
            "penalty_W": [None, SquaredL1(1e-2), Ridge(1e-2)],
            "solver": ["auto", ProjectedGradient()],
        },
        cv=2,
        error_score="raise",
    )
    assert grid.fit(X).best_score_ < 0
    copy = clone(deepnmf.sdnmf_rl2((8, 4), mu=0.5, lam=0.25))
    assert copy.penalty_W == SquaredL1(0.5)
    assert copy.penalty_H.penalty == Ridge(0.25)


def test_names_and_containers(X):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"gene {i}" for i in range(30)], index=np.arange(100, 140))
    model = deepnmf.sdnmf_l((8, 5), **QUICK).set_output(transform="pandas")
    Z = model.fit_transform(frame)
    assert list(Z.columns) == list(model.get_feature_names_out())
    assert list(Z.index) == list(frame.index)
    assert list(model.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="set_output"):
        model.transform(frame, layer=1)
    assert model.set_output(transform="default").transform(frame, layer=1).shape == (40, 8)


def test_callbacks_hear_every_record_and_can_stop(X):
    seen = []

    def callback(record):
        seen.append(record)
        return record["stage"] == "finetune" and record["sweep"] == 3

    model = deepnmf.sdnmf_l((8, 5), **QUICK, callback=callback).fit(X)
    assert seen == model.history_
    assert model.n_iter_ == 3
    assert len(seen) == 10 + 10 + 3
    assert "callback" in model.status_
    assert model.transform(X).shape == (40, 5)


def test_scikit_learns_callbacks(X):
    sklearn_callback = pytest.importorskip(
        "sklearn.callback", reason="scikit-learn before 1.9 has no callbacks"
    )

    class Recorder:
        def __init__(self):
            self.ended, self.scores, self.torn_down = [], [], False

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            self.torn_down = True

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
            self.ended.append(context.task_name)
            if context.task_name == "finetune":
                self.scores.append(fitted_estimator.score(X))
            return len(self.scores) == 4

    recorder = Recorder()
    assert isinstance(recorder, sklearn_callback.FitCallback)
    model = deepnmf.sdnmf_l((8, 5), **QUICK).set_callbacks(recorder)
    model.fit(X)
    assert recorder.torn_down
    assert recorder.ended == ["pretrain"] * 20 + ["finetune"] * 4 + ["fit"]
    assert recorder.scores[-1] > recorder.scores[0]
    assert model.n_iter_ == 4


def test_warnings_carry_advice_and_point_at_the_caller(X):
    with pytest.warns(ConvergenceWarning, match="raise max_iter") as caught:
        deepnmf.dnmf((8, 5), max_iter=2, pretrain_iter=2, random_state=0).fit(X)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        done = deepnmf.dnmf((8, 5), tol=1e-2, random_state=0).fit(X)
        assert done.status_.startswith("converged")
        deepnmf.dnmf((8, 5), max_iter=2, tol=0, random_state=0).fit(X)


def test_nothing_is_printed_unless_asked(X, capsys):
    deepnmf.sdnmf_l((8, 5), **QUICK).fit(X)
    assert capsys.readouterr() == ("", "")
    deepnmf.sdnmf_l((8, 5), **QUICK, verbose=True).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 35
    assert lines[0].startswith("pretrain 1    1  objective")


def test_a_given_start_is_a_warm_start(X):
    first = deepnmf.sdnmf_l((8, 5), **QUICK)
    Z = first.fit_transform(X)
    on = deepnmf.sdnmf_l((8, 5), **QUICK, start=Given(first.weights_, Z)).fit(X)
    assert {record["stage"] for record in on.history_} == {"finetune"}
    assert on.history_[0]["objective"] <= first.history_[-1]["objective"] * (1 + 1e-9)
    without_codes = deepnmf.sdnmf_l((8, 5), **QUICK, start=Given(first.weights_)).fit(X)
    assert without_codes.history_[0]["objective"] <= first.history_[-1]["objective"] * (1 + 1e-9)
    with pytest.raises(ValueError, match=r"shapes .* needed"):
        deepnmf.dnmf((9, 5), start=Given(first.weights_)).fit(X)
    with pytest.raises(ValueError, match="codes of shape"):
        deepnmf.dnmf((8, 5), start=Given(first.weights_, Z[:3])).fit(X)
    with pytest.raises(ValueError, match="W_2 has entries that are negative"):
        deepnmf.dnmf((8, 5), start=Given([first.weights_[0], -first.weights_[1]])).fit(X)


def test_strengths_per_layer(X):
    model = deepnmf.sdnmf_l((8, 5), mu=(0.0, 0.5), **QUICK)
    assert model.penalty_W == (SquaredL1(0.0), SquaredL1(0.5))
    assert model.fit(X).history_[-1]["penalty"] > 0
    with pytest.raises(ValueError, match="3 entries for 2 layers"):
        deepnmf.sdnmf_l((8, 5), mu=(1, 2, 3)).fit(X)


@pytest.mark.long
@pytest.mark.parametrize("preset", SINGLE, ids=named)
def test_single_layer_models_reach_scikit_learns_level(preset, digits):
    """From the same start, run long; where starts lead to several minima, the best of them."""
    from sklearn.decomposition import NMF

    def run(k, start):
        theirs = NMF(k, init="custom", max_iter=2000, tol=1e-7)
        theirs.fit_transform(digits, W=start[0].copy(), H=start[1].copy())
        ours = preset(k, start=Given([start[1].T], start[0])).fit(digits)
        return ours.reconstruction_err_**2, theirs.reconstruction_err_**2

    def random_start(seed, k):
        rng = np.random.default_rng(seed)
        W, H = rng.random((len(digits), k)), rng.random((k, digits.shape[1]))
        scale = np.sqrt(np.sum(digits * (W @ H)) / np.sum((W @ H) ** 2))
        return scale * W, scale * H

    for seed in range(3):
        ours, theirs = run(4, random_start(seed, 4))
        assert ours == pytest.approx(theirs, rel=5e-3)
    found = [run(8, random_start(seed, 8)) for seed in range(4)]
    assert min(ours for ours, _ in found) <= 1.005 * min(theirs for _, theirs in found)
    if preset is not deepnmf.nenmf:
        return
    for k in (4, 6):
        for seed in range(6):
            ours, theirs = run(k, random_start(seed, k))
            assert ours == pytest.approx(theirs, rel=5e-3)
    # At larger ranks the two may end in different minima, but ours is one: scikit-learn, going on
    # from where we end, finds nothing to gain.
    for seed in range(6):
        W, H = random_start(seed, 8)
        model = preset(8, start=Given([H.T], W))
        Z = model.fit_transform(digits)
        on = NMF(8, init="custom", max_iter=2000, tol=1e-7)
        on.fit_transform(digits, W=np.ascontiguousarray(Z), H=model.components_.copy())
        assert on.reconstruction_err_**2 >= 0.995 * model.reconstruction_err_**2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: deepnmf.sdnmf_l(4, lam=0.1), "sdnmf_l has no lam: sdnmf_r, sdnmf_rl1"),
        (lambda: deepnmf.dnmf(4, mu=0.1), "dnmf has no mu: sdnmf_l"),
        (lambda: deepnmf.sdnmf_r(4, penalty_H=None), "penalty_H is what makes this preset"),
        (lambda: deepnmf.nenmf(4, max_iters=3), "Did you mean 'max_iter'"),
        (lambda: deepnmf.dnmf(4, colour=3), "no option 'colour'. It takes layer_sizes, link, proj"),
    ],
)
def test_a_wrong_option_of_a_preset_is_named(make, words):
    with pytest.raises(TypeError, match=words):
        make()
