"""`consensus`: the parts that several fits agree on, and how many of them do."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from deepnmf import consensus, dnmf, fit_many, load, nenmf, sdnmf_l, sdnmf_r
from deepnmf.baselines import JointNMF, SemiNMF
from deepnmf.evaluation.matching import grouped, matched
from deepnmf.links import LINKS
from deepnmf.models.advice import Advice
from deepnmf.models.registry import MODELS
from tests.tables import BRIEF, DEAD

pytestmark = [BRIEF, DEAD, pytest.mark.filterwarnings("ignore:.*have the same parts")]
FEW = {"max_iter": 60, "pretrain_iter": 20, "start": "random"}


@pytest.fixture(scope="module")
def planted():
    """X = HW with six parts of few features, and W."""
    rng = np.random.default_rng(0)
    W = rng.gamma(1.0, 1.0, (6, 30)) * (rng.random((6, 30)) < 0.3)
    H = rng.gamma(1.0, 1.0, (200, 6)) * (rng.random((200, 6)) < 0.4)
    X = H @ W
    return np.maximum(X + 0.05 * X.std() * rng.standard_normal(X.shape), 0), W


@pytest.fixture(scope="module")
def deep(planted):
    return fit_many(planted[0], sdnmf_l((6, 3), **FEW, tol=0), seeds=4)


def reordered(model, layer, order):
    """The same model with the parts of a layer in another order."""
    other = copy.deepcopy(model)
    other.weights_[layer - 1] = other.weights_[layer - 1][:, order]
    if layer < len(other.weights_):
        other.weights_[layer] = other.weights_[layer][order]
    return other


@pytest.mark.parametrize("link", ["identity", *(name for name in LINKS if name != "identity")])
def test_models_that_differ_in_the_order_of_parts_are_their_consensus(planted, link):
    first = dnmf((6, 3), link=link, **{**FEW, "max_iter": 20}, random_state=0).fit(planted[0])
    second = reordered(reordered(first, 1, [3, 1, 0, 5, 4, 2]), 2, [2, 0, 1])
    made = consensus([first, second])
    for support in (*made.support_, *(edges[edges > 0] for edges in made.edge_support_)):
        assert (support == 1).all()
    for layer in (1, 2):
        match, alike = matched(first.basis(layer), made.basis(layer))
        assert sorted(match) == list(range(len(match)))
        assert alike.min() > 1 - 1e-6


def test_one_bad_fit_changes_support_and_little_else(planted, deep):
    bad = copy.deepcopy(deep[0])
    rng = np.random.default_rng(1)
    bad.weights_[0][:, :2] = rng.gamma(0.1, 1.0, (30, 2))
    made = consensus([*[deep[0]] * 4, bad])
    match, alike = matched(deep[0].basis(1), made.basis(1))
    assert alike.min() > 1 - 1e-6
    assert made.support_[0][match] == pytest.approx([0.8, 0.8, 1, 1, 1, 1])


def test_parts_with_the_most_support_come_first(deep):
    for support in consensus(deep).support_:
        assert (np.diff(support) <= 0).all()


def test_the_consensus_is_nearer_to_the_truth_than_its_fits(planted):
    X, W = planted
    models = fit_many(X, dnmf(9, max_iter=100, start="random"), seeds=8, share=0.8)
    made = consensus(models, X)

    def near(model):
        return matched(W, model.components_)[1].mean()

    assert near(made) > np.median([near(model) for model in models])
    match = matched(W, made.components_)[0]
    surplus = np.delete(made.support_[0], match)
    assert np.median(made.support_[0][match]) >= np.median(surplus) + 0.3


def test_codes_are_computed_again(planted, deep):
    X = planted[0]
    made = consensus(deep, X)
    for layer in (1, 2):
        rms = np.sqrt(np.mean(np.square(made.transform(X, layer)), axis=0))
        assert rms == pytest.approx(np.ones(len(rms)), rel=0.02)
    left = X - made.inverse_transform(made.transform(X))
    assert made.reconstruction_err_ == pytest.approx(np.linalg.norm(left), rel=1e-6)
    sparse = consensus(deep, scipy.sparse.csr_array(X))
    assert sparse.reconstruction_err_ == pytest.approx(made.reconstruction_err_, rel=1e-6)
    assert np.isnan(consensus(deep).reconstruction_err_)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if not model.several])
def test_every_model_has_a_consensus(planted, name, tmp_path):
    X, model = planted[0][:60], MODELS[name]
    sizes = 4 if model.one_layer else (4, 2)
    random = {"start": "random"} if "start" in model.options else {}
    few = {"layer_sizes": sizes, "max_iter": 15, **random}
    models = fit_many(X, model.estimator(few), seeds=3)
    made = consensus(models, X)
    assert type(made) is type(models[0])
    assert [W.shape for W in made.weights_] == [W.shape for W in models[0].weights_]
    assert [len(support) for support in made.support_] == [W.shape[1] for W in made.weights_]
    assert all(((support > 0) & (support <= 1)).all() for support in made.support_)
    made.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.transform(X), made.transform(X))
    for ours, theirs in zip(
        [*made.support_, *made.edge_support_], [*again.support_, *again.edge_support_], strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_tensors_have_a_consensus(planted):
    torch = pytest.importorskip("torch")
    X = torch.from_numpy(planted[0])
    made = consensus(fit_many(X, dnmf((6, 3), **FEW), seeds=3), X)
    assert isinstance(made.transform(X), torch.Tensor)
    assert [len(support) for support in made.support_] == [6, 3]


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_model_that_learns_again_has_no_support(planted, deep, learn):
    made = consensus(deep)
    getattr(made, learn)(planted[0])
    assert not hasattr(made, "support_")
    assert not hasattr(made, "edge_support_")


def test_edges_are_supported_where_the_upper_part_is_made_of_the_lower(deep):
    made = consensus([deep[0], reordered(deep[0], 2, [1, 2, 0])])
    for lower, upper in zip(*np.nonzero(made.edge_support_[0] == 1), strict=True):
        assert made.weights_[1][lower, upper] > 0
    assert (made.edge_support_[0].sum(axis=0) >= 1).all()


def test_fits_that_began_at_the_same_place_say_nothing(planted):
    models = fit_many(planted[0], dnmf(6, fill="zero", max_iter=30), seeds=3)
    with pytest.warns(Advice, match="support says nothing"):
        consensus(models)


def unfitted(X):
    return [sdnmf_l((6, 3)), sdnmf_l((6, 3))]


@pytest.mark.parametrize(
    ("models", "error", "words"),
    [
        (lambda _: [], ValueError, "several fitted models are needed to agree, got 0"),
        (lambda X: dnmf(3, **FEW).fit(X), ValueError, "are needed to agree, got 1"),
        (unfitted, NotFittedError, "not fitted"),
        (lambda _: ["a", "b"], ValueError, "'a' is not a model of one matrix"),
        (lambda _: [JointNMF(), JointNMF()], ValueError, "is not a model of one matrix"),
        (
            lambda X: [dnmf(k, **FEW).fit(X) for k in (3, 4)],
            ValueError,
            "of different kinds or sizes, DeepNMF .* Give models of one kind",
        ),
        (
            lambda X: [nenmf(3, max_iter=9).fit(X), SemiNMF(3).fit(X)],
            ValueError,
            "of different kinds or sizes, DeepNMF .* and SemiNMF",
        ),
        (
            lambda X: [make(3, **FEW).fit(X) for make in (sdnmf_l, sdnmf_r)],
            ValueError,
            "the models differ in penalty_H",
        ),
    ],
)
def test_models_that_cannot_be_compared_are_refused(planted, models, error, words):
    with pytest.raises(error, match=words):
        consensus(models(planted[0]))


def test_other_names_of_features_are_refused(planted):
    pd = pytest.importorskip("pandas")
    models = [
        dnmf(3, **FEW).fit(pd.DataFrame(planted[0], columns=[f"{letter}{i}" for i in range(30)]))
        for letter in "ab"
    ]
    with pytest.raises(ValueError, match="other names of features"):
        consensus(models)
    assert list(consensus([models[0]] * 2).feature_names_in_[:2]) == ["a0", "a1"]


@pytest.mark.long
def test_models_that_chose_their_layers_have_a_consensus(planted):
    X = planted[0][:30, :6]
    models = [sdnmf_l("auto", random_state=0, max_iter=20, tol=0).fit(X) for _ in range(2)]
    made = consensus(models, X)
    assert made.layer_sizes == models[0].choice_.layer_sizes
    assert made.transform(X).shape == (30, made.layer_sizes[-1])


def test_groups_hold_each_part_once():
    rng = np.random.default_rng(0)
    parts = rng.gamma(0.3, 1.0, (5, 40))
    sets = [rng.permuted(parts, axis=1) if s == 3 else rng.permutation(parts) for s in range(6)]
    members = grouped(sets)
    assert members.shape == (5, 6)
    for own in members.T:
        named = own[own >= 0]
        assert len(set(named)) == len(named)
    for group in members:
        same = [sets[s][group[s]] for s in range(6) if s != 3]
        assert all((one == same[0]).all() for one in same)
