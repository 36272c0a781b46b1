"""`choose_layers` finds planted layers, and says the same whatever X is stored as."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from sklearn.base import clone

from deepnmf import DeepNMF, choose_layers, dnmf, fit_many, load, nenmf, sdnmf_l
from deepnmf.baselines import SemiNMF
from deepnmf.models.choice import FileLedger
from deepnmf.models.choice.holdout import held_out_errors, holdouts
from deepnmf.models.choice.record import compared, smallest_good, worth_having
from deepnmf.models.choice.search import BudgetSpentError, search
from deepnmf.starts import Given
from tests.tables import BRIEF

ALONE = {"depth": 1, "starts": 0}


def planted(k, n=150, m=40, noise=0.1, seed=0):
    """X = HW plus noise, with k parts, most of whose codes are 0."""
    rng = np.random.default_rng(seed)
    H = rng.gamma(1.0, 1.0, (n, k)) * (rng.random((n, k)) < 0.4)
    X = H @ rng.gamma(1.0, 1.0, (k, m))
    return np.maximum(X + noise * X.std() * rng.standard_normal(X.shape), 0)


def hierarchy(seed=0, n=150, m=60):
    """Nine parts of disjoint features that vary by themselves, made of four parts above."""
    rng = np.random.default_rng(seed)
    W1, W2 = np.zeros((m, 9)), np.zeros((9, 4))
    for part, group in enumerate(np.array_split(rng.permutation(m), 9)):
        W1[group, part] = rng.uniform(0.5, 1.5, len(group))
    owners = [(0,), (1,), (2,), (3,), (0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]
    for part, owner in enumerate(owners):
        W2[part, list(owner)] = rng.uniform(0.5, 1.5, len(owner))
    H = W2 @ rng.gamma(0.5, 1.0, (4, n))
    H = H + 0.5 * H.mean(axis=1, keepdims=True) * rng.gamma(0.5, 2.0, H.shape)
    X = W1 @ H
    return np.maximum(X + 0.02 * X.std() * rng.standard_normal(X.shape), 0).T


@pytest.mark.parametrize("k", [2, 5])
def test_planted_numbers_of_parts_are_found(k):
    choice = choose_layers(planted(k), depth=1, starts=0, repeats=1)
    assert choice.layer_sizes == (k,)
    assert choice.layers[0].candidate(k).above_best <= choice.layers[0].candidate(1).above_best


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [2, 3, 5, 8, 12])
def test_planted_numbers_of_parts_are_found_in_more_data(k, seed):
    assert choose_layers(planted(k, 400, 80, seed=seed), **ALONE).layer_sizes == (k,)


@pytest.mark.long
def test_a_planted_hierarchy_is_found():
    choice = choose_layers(hierarchy(), starts=0, most=11)
    assert choice.layer_sizes == (9, 4)
    assert len(choice.layers) == 2  # four parts are few enough


@pytest.mark.long
def test_a_layer_that_needs_most_parts_of_the_one_below_does_not_help():
    choice = choose_layers(planted(8), starts=0, most=9, repeats=1)
    assert choice.layer_sizes == (8,)
    assert not choice.layers[1].helps
    assert "Layer 2 does not help" in str(choice)
    asked = choose_layers(planted(8), starts=0, most=9, repeats=1, depth=2)
    assert len(asked.layer_sizes) == 2


@pytest.mark.long
def test_the_answer_does_not_depend_on_units_or_storage():
    X, few = planted(3), {**ALONE, "most": 5, "repeats": 1}
    plain = choose_layers(X, **few)
    assert choose_layers(1024 * X, **few).layer_sizes == (3,)
    assert choose_layers([X[:70], X[70:]], **few) == plain
    sparse = choose_layers(scipy.sparse.csr_array(X), **few)
    assert sparse.layer_sizes == plain.layer_sizes
    for size in (1, 2, 3):  # further parts describe noise, and depend on rounding
        own, other = (choice.layers[0].candidate(size).error for choice in (plain, sparse))
        assert own == pytest.approx(other, rel=1e-4)
    assert choose_layers(X, **few) == plain


@pytest.mark.long
def test_tensors_can_be_chosen_for():
    torch = pytest.importorskip("torch")
    X = torch.from_numpy(planted(3))
    assert choose_layers(X, depth=1, most=5, starts=0, repeats=1).layer_sizes == (3,)


@pytest.mark.parametrize("shape", [(30, 12), (9, 40), (200, 7)])
def test_hold_outs_cover_every_row_once_and_leave_their_columns_out(shape):
    for folds in (2, 3):
        cuts = holdouts(shape, folds, repeats=2, seed=0)
        assert len({(len(cut.other_rows), len(cut.other_columns)) for cut in cuts}) == 1
        for cut in cuts:
            assert not set(cut.rows) & set(cut.other_rows)
            assert not set(cut.columns) & set(cut.other_columns)
        held = np.concatenate([cut.rows for cut in cuts[:folds]])
        assert len(set(held)) == len(held) == shape[0] // folds * folds


def test_held_out_errors_are_those_of_their_definition():
    X = planted(3, 60, 30)
    cuts = holdouts(X.shape, 3, 1, 0)
    model = dnmf((3,), max_iter=50, tol=0)
    for cut, error in zip(cuts, held_out_errors(X, cuts, model, seed=7), strict=True):
        D = X[np.ix_(cut.other_rows, cut.other_columns)]
        fitted = clone(model).set_params(random_state=7).fit(D)
        B = X[np.ix_(cut.rows, cut.other_columns)]
        C = X[np.ix_(cut.other_rows, cut.columns)]
        A = X[np.ix_(cut.rows, cut.columns)]
        H_A = np.array([scipy.optimize.nnls(fitted.components_.T, b)[0] for b in B])
        H = fitted.transform(D)
        W_A = np.array([scipy.optimize.nnls(H, c)[0] for c in C.T]).T
        expected = np.sum((A - H_A @ W_A) ** 2) / np.sum(A**2)
        assert error == pytest.approx(expected, rel=1e-4)


def test_parts_without_noise_are_predicted():
    X = planted(3, noise=0)
    errors = list(held_out_errors(X, holdouts(X.shape, 3, 1, 0), dnmf((3,), tol=1e-9), 0))
    assert max(errors) < 1e-4


@pytest.mark.parametrize(
    ("errors", "size"),
    [
        ({1: [9, 9.1], 2: [5, 5.1], 3: [1, 1.1], 4: [1, 1.1], 8: [1, 1.1]}, 3),
        ({1: [9, 9.1], 2: [5, 5.1], 3: [1.1, 1.1], 4: [1, 1.2], 8: [2, 2.1]}, 3),
        ({1: [9, 9], 2: [5, 5], 4: [1, 1], 8: [0.9, 0.9]}, 4),
        ({1: [9, 9], 2: [7, 7], 4: [4, 4], 8: [0.5, 0.5]}, 8),
        ({1: [9, 9], 2: [5, 5], 4: [0.5, 0.5], 5: [0.1, 0.1]}, 5),
        ({1: [1, 1], 2: [1.1, 1.3], 3: [1.2, 1.4]}, 1),
    ],
    ids=["flat", "one standard error", "idle parts", "all earn", "little is left", "one"],
)
def test_the_smallest_good_size(errors, size):
    assert smallest_good(compared(errors)) == size


def test_a_layer_must_sum_up_the_one_below():
    errors = compared({1: [9.0, 9.2], 4: [1, 1], 6: [1.5, 1.6]})
    assert worth_having(errors, 4, below=8)
    assert not worth_having(errors, 4, below=7)
    assert not worth_having(errors, 1, below=8)


@pytest.mark.parametrize("most", [1, 2, 7, 12, 13, 40, 200])
@pytest.mark.parametrize("true", [1, 2, 5, 11, 30])
def test_search_ends_at_a_size_whose_neighbours_were_tried(true, most):
    tried = []

    def measure(size):
        tried.append(size)
        error = max(true - size, 0) + 0.001 * max(size - true, 0)
        return [error, error + 1e-6 * size]

    errors, stopped = search(measure, most)
    size = smallest_good(compared(errors))
    assert stopped == ""
    assert len(tried) == len(set(tried))
    assert size == min(true, most)
    assert {max(1, size - 1), min(most, size + 1)} <= set(tried)


def test_search_keeps_what_it_knows_when_the_budget_is_spent():
    def measure(size):
        if size > 4:
            raise BudgetSpentError("enough")
        return [1 / size, 1.1 / size]

    errors, stopped = search(measure, 40)
    assert sorted(errors) == [1, 2, 4]
    assert stopped == "enough"


def test_stability_and_support_are_measured(tmp_path):
    X = planted(3)
    choice = choose_layers(X, depth=1, most=5, starts=3, repeats=1)
    stable = choice.layers[0].candidate(3).stability
    assert stable is not None
    assert 0.95 < stable <= 1
    assert choice.support is not None
    assert np.min(choice.support.parts[0]) >= 2 / 3
    assert choice.support.edges == ()
    assert "Layer 1: 3 of 3 parts are found in at least 80% of the fits." in str(choice)
    deep = choose_layers(hierarchy(n=80), starts=2, depth=2, most=5, repeats=1)
    assert deep.support is not None
    assert [len(parts) for parts in deep.support.parts] == list(deep.layer_sizes)
    assert np.shape(deep.support.edges[0]) == deep.layer_sizes


@pytest.mark.long
def test_a_choice_resumes_from_its_file(tmp_path):
    X, settings = planted(3), {"depth": 1, "most": 5, "starts": 2, "repeats": 1}
    path, fits = tmp_path / "choose.csv", []
    whole = choose_layers(X, ledger=FileLedger(path), **settings)
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    path.write_text("".join(lines[:10]) + lines[10][:9])  # cut off in the middle of a row
    again = choose_layers(
        X, ledger=FileLedger(path), progress=lambda _, n: fits.append(n), **settings
    )
    assert again == whole
    assert path.read_text() == text
    assert 0 < fits[-1] < len(lines)
    done = []
    choose_layers(X, ledger=FileLedger(path), progress=lambda _, n: done.append(n), **settings)
    assert set(done) == {0}
    other = choose_layers(X + 1, ledger=FileLedger(path), **settings)
    assert other != whole
    assert path.read_text().startswith(text)


@pytest.mark.long
def test_other_limits_in_the_same_file_change_nothing(tmp_path):
    X, path = hierarchy(n=60), tmp_path / "choose.csv"
    few = {"repeats": 1, "starts": 2}
    for limits in ({"depth": 2, "most": 5}, {"depth": 2, "most": 4}, {"depth": 1, "most": 3}):
        kept = choose_layers(X, ledger=path, **few, **limits)
        assert kept == choose_layers(X, **few, **limits)


@pytest.mark.parametrize(
    "row",
    ["x,,error,1,0,nan", "x,,error,1,0,-5", "x,,error,1,0,inf", "x,,error,1,0,1,2", "x,,no,1,0,1",
     "x,,error,1.5,0,1", "x,,error"],
)  # fmt: skip
def test_a_damaged_file_is_refused(row, tmp_path):
    path = tmp_path / "choose.csv"
    path.write_text(f"setting,sizes,kind,first,second,value\n{row}\n")
    with pytest.raises(ValueError, match="is not a file of numbers of a choice"):
        choose_layers(planted(2), ledger=path, **ALONE)


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "choose.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is not a file of numbers of a choice"):
        choose_layers(planted(2), ledger=FileLedger(path), **ALONE)
    assert path.read_text() == "a,b\n1,2\n"


def test_a_budget_ends_the_search(tmp_path):
    fits = []
    choice = choose_layers(
        planted(8), depth=1, budget=40, progress=lambda _, n: fits.append(n), starts=0
    )
    assert fits[-1] <= 40
    assert choice.layers[0].stopped == "the budget of 40 fits is used up"
    assert "The search ended early: the budget of 40 fits is used up." in str(choice)
    assert choose_layers(planted(3), budget="0.001s", **ALONE).layers[0].stopped


@pytest.mark.parametrize("budget", [7, 30, 35, 36, 40, 43])
def test_wherever_a_budget_ends_there_is_an_answer(budget):
    X = planted(4, 60, 30)
    choice = choose_layers(X, depth=2, most=5, repeats=1, starts=2, budget=budget)
    assert choice.layers[-1].stopped == f"the budget of {budget} fits is used up"
    assert len(choice.layer_sizes) == len(choice.layers)


def test_ctrl_c_between_layers_is_not_lost(monkeypatch):
    """The fit whose codes the next layer is chosen for keeps what it has: that is too little."""
    learned, all_samples = DeepNMF.fit, 60

    def fit(self, X, y=None):
        if X.shape[0] == all_samples:
            self.callback = lambda _: os.kill(os.getpid(), signal.SIGINT)
        return learned(self, X, y)

    monkeypatch.setattr(DeepNMF, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        choose_layers(planted(4, all_samples, 30), depth=2, most=5, repeats=1, starts=0)


@pytest.mark.parametrize(
    ("X", "settings", "words"),
    [
        (np.ones((2, 9)), {}, "X is 2 x 9; at least 3 samples"),
        (np.ones((9, 2)), {}, "X is 9 x 2; at least 3 samples and 3 features"),
        (np.ones((9, 9)), {"folds": 10}, "10 folds of 9 samples would leave some empty"),
        (np.ones((20, 9)), {"folds": 10}, "10 folds of 9 features would leave some empty"),
        (np.ones((9, 9)), {"folds": 1}, "folds: 1 is too small"),
        (np.ones((9, 9)), {"starts": 1}, "one fit has nothing to agree with"),
        (np.ones((9, 9)), {"most": 1}, "most: 1 is too small"),
        (np.ones((9, 9)), {"most": 9}, "most: 9 parts cannot be fitted .* Give at most 6"),
        (np.ones((9, 9)), {"budget": 3}, "3 is not enough for one number of parts"),
        (np.ones((9, 9)), {"budget": "soon"}, "'soon' is neither a number of fits"),
        (np.ones((9, 9)), {"depth": 0}, "depth: 0 is too small"),
        (np.zeros((9, 9)), {}, "all entries of X are 0"),
        (np.ones((9, 9)), {"random_state": 2**32}, "random_state is too large"),
        (np.ones((9, 9)), {"progress": 3}, "progress must be a function"),
        (-np.ones((9, 9)), {}, "Negative values in data"),
        (np.ones((9, 9)), {"model": SemiNMF()}, "must be a DeepNMF or a preset"),
        (np.ones((9, 9)), {"model": dnmf((3, 2), layer_weights=[0.1])}, "layer_weights has one"),
        (np.ones((9, 9)), {"model": sdnmf_l((3, 2), mu=[0.1, 0.2])}, "penalty_W has one entry per"),
    ],
)
def test_what_cannot_be_chosen_is_refused(X, settings, words):
    with pytest.raises(ValueError, match=words):
        choose_layers(X, **settings)


@pytest.mark.long
@BRIEF
def test_auto_is_the_model_of_the_chosen_layers(tmp_path):
    X = planted(2, 30, 6)
    auto = sdnmf_l("auto", random_state=0).fit(X)
    assert auto.choice_ == choose_layers(X, sdnmf_l(), starts=0)
    plain = sdnmf_l(auto.choice_.layer_sizes, random_state=0).fit(X)
    for W, other in zip(auto.weights_, plain.weights_, strict=True):
        np.testing.assert_array_equal(W, other)
    auto.save(tmp_path / "auto.safetensors")
    again = load(tmp_path / "auto.safetensors")
    assert again.layer_sizes == "auto"
    assert again.choice_ == auto.choice_
    np.testing.assert_array_equal(again.transform(X), auto.transform(X))
    with pytest.raises(ValueError, match="X"):
        auto.fit(np.full((9, 9), np.nan))
    assert auto.choice_ == again.choice_
    np.testing.assert_array_equal(again.transform(X), auto.transform(X))
    assert not hasattr(auto.set_params(layer_sizes=(3,)).fit(X), "choice_")


@BRIEF
@pytest.mark.long
def test_auto_continues_from_its_checkpoint(tmp_path):
    X = planted(2, 30, 6)
    first = sdnmf_l("auto", random_state=0, checkpoint=tmp_path / "c").fit(X)
    again = sdnmf_l("auto", random_state=0, checkpoint=tmp_path / "c").fit(X)
    np.testing.assert_array_equal(first.components_, again.components_)


def test_a_fitted_model_whose_layers_were_given_cannot_become_auto():
    X = planted(2, 30, 6)
    model = dnmf((3, 2), max_iter=5, tol=0).fit(X).set_params(layer_sizes="auto")
    with pytest.raises(ValueError, match="no layers were chosen when this model was fitted"):
        model.transform(X)
    with pytest.raises(ValueError, match="needs many samples at once"):
        model.partial_fit(X)


@BRIEF
@pytest.mark.long
def test_output_as_frames_changes_nothing():
    pd = pytest.importorskip("pandas")
    X = planted(2, 30, 6)
    frame = pd.DataFrame(X, columns=[f"f{place}" for place in range(6)])
    auto = sdnmf_l("auto", random_state=0).set_output(transform="pandas").fit(frame)
    assert auto.choice_ == choose_layers(X, starts=0)
    assert list(auto.transform(frame).columns) == ["deepnmf0", "deepnmf1"]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda X: fit_many(X, sdnmf_l("auto"), 2), "each fit could choose other sizes"),
        (lambda X: sdnmf_l("auto").partial_fit(X), "needs many samples at once"),
        (lambda X: DeepNMF("auto", start=Given([np.ones((4, 2))])).fit(X), "given start fixes"),
        (lambda X: DeepNMF("automatic").fit(X), "layer_sizes: 'automatic' is not a whole number"),
        (lambda X: nenmf("auto").fit(X), "nenmf has one layer"),
    ],
)
def test_where_layers_cannot_be_chosen_it_says_so(use, words):
    with pytest.raises(ValueError, match=words):
        use(np.ones((9, 4)))


def test_a_choice_shows_what_was_tried():
    choice = choose_layers(planted(3), depth=1, most=6, starts=0, repeats=1)
    assert str(choice).splitlines()[:2] == [
        "layer_sizes=(3,)",
        "Layer 1: 3 parts. This number predicts best."
        if choice.layers[0].best.size == 3
        else "Layer 1: 3 parts. " + choice.layers[0].sentences()[0].partition(". ")[2],
    ]
    table = choice.table()
    assert [row["size"] for row in table] == [1, 2, 3, 4, 5, 6]
    assert [row["size"] for row in table if row["chosen"]] == [3]
    assert choice.to_dict()["layer_sizes"] == [3]
    assert choice._repr_html_().count("<tr") == 7
