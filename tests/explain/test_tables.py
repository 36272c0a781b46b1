"""Tables of parts: what is in them is what the model says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from deepnmf import DeepNMF
from deepnmf.baselines import SemiNMF
from deepnmf.explain import (
    codes_table,
    edges_table,
    parts_table,
    rankings,
    tables,
    top_features,
    top_samples,
)
from deepnmf.hierarchy import explain
from tests.report.pages import with_support

QUICK: dict[str, Any] = {"max_iter": 6, "pretrain_iter": 6, "tol": 0, "random_state": 0}
WORDS = ["oil", "wheat", "bank", "rate"]


def by_hand(*weights, **settings):
    """A model with these weights."""
    sizes = tuple(W.shape[1] for W in weights)
    model = DeepNMF(sizes, **settings)
    model.weights_ = [np.asarray(W, dtype=float) for W in weights]
    model.n_features_in_, model.history_, model.n_iter_ = len(weights[0]), [], 0
    model.status_ = model.reason_ = "converged"
    return model


@pytest.fixture
def tiny():
    """Two parts of four words: p(w|0) = (½, ¼, ¼, 0), p(w|1) = (0, ¼, ¼, ½)."""
    return by_hand(np.array([[2.0, 0], [1, 2], [1, 2], [0, 4]]))


@pytest.fixture
def X(low_rank):
    return low_rank.T


@pytest.fixture(params=["identity", "root", "softplus"])
def model(X, request):
    scaling = {"scaling": "paper"} if request.param == "softplus" else {}
    return DeepNMF((6, 4), link=request.param, **scaling, **QUICK).fit(X)


def test_weights_rank_features(tiny):
    table = top_features(tiny, 0, feature_names=WORDS)
    assert list(table.columns) == list(rankings.FEATURE_COLUMNS)
    assert table["feature_name"].tolist() == ["oil", "wheat", "bank"]
    assert table["weight"].tolist() == table["score"].tolist() == [2, 1, 1]
    assert table["share"].tolist() == [0.5, 0.25, 0.25]
    assert table["rank"].tolist() == [1, 2, 3]
    assert top_features(tiny, feature_names=WORDS, count=1)["feature_name"].tolist() == [
        "oil",
        "rate",
    ]
    assert top_features(tiny, 1)["feature_name"][0] == "feature 3"


@pytest.mark.parametrize("lam", [0, 0.6, 1])
def test_relevance_by_hand(tiny, lam):
    # The parts weigh 4 and 8, so p(w) = (2, 3, 3, 4)/12.
    table = top_features(tiny, 1, feature_names=WORDS, by="relevance", lam=lam)
    p, frequency = np.array([0.25, 0.25, 0.5]), np.array([3, 3, 4]) / 12
    wanted = lam * np.log(p) + (1 - lam) * np.log(p / frequency)
    order = np.argsort(-wanted, kind="stable")
    np.testing.assert_allclose(table["score"], wanted[order])
    assert table["feature"].tolist() == (order + 1).tolist()
    # With data, p(w) is their share of each word.
    X = np.array([[1.0, 6, 1, 0], [0, 2, 0, 2]])
    for data in (X, scipy.sparse.csr_array(X), pd.DataFrame(X, columns=WORDS)):
        table = top_features(tiny, 0, by="relevance", lam=lam, X=data).set_index("feature")
        assert table["score"][0] == pytest.approx(np.log(0.5) - (1 - lam) * np.log(1 / 12))
        assert table["score"][1] == pytest.approx(np.log(0.25) - (1 - lam) * np.log(8 / 12))


def test_relevance_of_a_feature_that_the_data_lack(tiny):
    X = np.array([[0.0, 3, 1, 4]])
    table = top_features(tiny, 0, by="relevance", lam=0, X=X).set_index("feature")
    assert table["score"][0] == pytest.approx(np.log(0.5 / (1 / 8)))  # as rare as the rarest


def test_specificity_by_hand(tiny):
    table = top_features(tiny, 0, feature_names=WORDS, by="specificity")
    assert dict(zip(table["feature_name"], table["score"], strict=True)) == {
        "oil": 0.5,  # no other part has it
        "wheat": 0,  # the other has as much
        "bank": 0,
    }
    three = rankings.specificity(np.array([[0.6, 0.4], [0.2, 0.8], [0.3, 0.7]]))
    np.testing.assert_allclose(three[:, 0], [0.6 * 0.3 / 0.9, 0.2 * -0.4 / 0.8, 0.3 * -0.3 / 0.9])
    assert rankings.specificity(np.array([[0.7, 0.3]])).tolist() == [[0.7, 0.3]]


def test_a_marker_is_found_before_a_common_feature():
    W = np.array([[5.0, 5, 5], [3, 0, 0], [0, 3, 0], [0, 0, 3]])
    model = by_hand(W)
    for part in range(3):
        assert top_features(model, part, by="weight")["feature"][0] == 0
        assert top_features(model, part, by="specificity")["feature"][0] == part + 1
        assert top_features(model, part, by="relevance", lam=0.3)["feature"][0] == part + 1


def test_parts_of_any_sign_rank_by_size(X):
    signed = X - X.mean()
    table = top_features(SemiNMF(3, max_iter=5, tol=0).fit(signed), 0)
    assert (np.diff(table["score"]) <= 0).all()
    np.testing.assert_allclose(table["score"], table["weight"].abs())


def test_weights_are_those_of_the_basis(model):
    for layer in (1, 2):
        zero = model.inverse_transform(np.zeros((1, len(model.basis(layer)))), layer)
        table = top_features(model, layer=layer, count=None)
        P = model.basis(layer) - zero
        np.testing.assert_allclose(table["weight"], P[table["part"], table["feature"]], atol=1e-10)
        assert table.groupby("part")["share"].sum().to_numpy() == pytest.approx(1)


def test_samples_by_hand():
    model = by_hand(np.array([[1.0, 0], [0, 1]]))
    X = np.array([[3.0, 3], [0, 1], [2, 0]])
    frame = pd.DataFrame(X, index=["a", "b", "c"])
    table = top_samples(model, frame, 0)
    assert list(table.columns) == list(rankings.SAMPLE_COLUMNS)
    assert table["sample_name"].tolist() == ["a", "c"]  # b has none of it
    np.testing.assert_allclose(table["code"], [3, 2], rtol=1e-6)
    np.testing.assert_allclose(table["share"], [0.5, 1], rtol=1e-6)
    assert top_samples(model, X, 0, by="share")["sample"].tolist() == [2, 0]
    assert top_samples(model, X, count=1)["sample"].tolist() == [0, 0]
    assert top_samples(model, X, 0, sample_names="xyz")["sample_name"].tolist() == ["x", "z"]


def test_shares_of_samples_are_those_of_the_tree(model, X):
    table = top_samples(model, X, layer=2, count=None)
    tree = explain(model, X, sample=7, top=None)
    wanted = {node.unit: node.share for node in tree.children}
    own = table[table["sample"] == 7]
    assert dict(zip(own["part"], own["share"], strict=True)) == pytest.approx(wanted)


def test_one_row_per_part(model, X):
    table = parts_table(model, X)
    assert list(table.columns) == list(tables.PARTS_COLUMNS)
    assert table["layer"].tolist() == [2] * 4 + [1] * 6
    assert table.groupby("layer")["share"].sum().to_numpy() == pytest.approx(1)
    Z = model.transform(X)
    top = table[table["layer"] == 2]
    np.testing.assert_allclose(top["mean_code"], Z.mean(0))
    np.testing.assert_allclose(top["used"], (Z != 0).mean(0))
    first = top_features(model, 0)["feature_name"].tolist()
    assert top["features"][0] == ", ".join(first)
    blind = parts_table(model)
    assert blind["used"].isna().all()
    assert blind.groupby("layer")["share"].sum().to_numpy() == pytest.approx(1)
    assert table["support"].isna().all()
    assert parts_table(with_support(model))["support"].notna().all()


def test_the_nearest_part_and_dead_ones():
    W = np.array([[1.0, 2, 0, 0], [1, 2, 1, 0], [0, 0, 3, 0]])
    table = parts_table(by_hand(W))
    assert table["nearest"].tolist()[:2] == [1, 0]
    assert table["cosine"][0] == pytest.approx(1)
    assert table["nearest"].isna().tolist() == [False, False, False, True]
    assert table["dead"].tolist() == [False, False, False, True]
    assert parts_table(by_hand(W[:, :1]))["nearest"].isna().all()


def test_edges_are_the_weights_and_their_shares_add_up(model):
    table = edges_table(model)
    assert list(table.columns) == list(tables.EDGES_COLUMNS)
    W = model.weights_[1]
    np.testing.assert_allclose(table["weight"], W[table["below"], table["part"]])
    assert len(table) == (W != 0).sum()
    assert table.groupby("part")["share"].sum().to_numpy() == pytest.approx(1)
    for part, rows in table.groupby("part"):
        wanted = {
            node.unit: node.share
            for node in explain(model, unit=part, top=None).children[0].children
        }
        assert dict(zip(rows["below"], rows["share"], strict=True)) == pytest.approx(wanted)
        assert (np.diff(rows["share"]) <= 1e-12).all()
    assert list(edges_table(by_hand(np.ones((3, 2)))).columns) == list(tables.EDGES_COLUMNS)


def test_codes_are_those_of_transform(model, X):
    frame = pd.DataFrame(X, index=[f"text {row}" for row in range(40)])
    for layer in (1, 2):
        table = codes_table(model, frame.to_numpy(), layer, frame.index)
        np.testing.assert_array_equal(table.to_numpy(), model.transform(X, layer))
        assert table.index.tolist() == frame.index.tolist()
    assert codes_table(model, X).index.tolist() == list(range(40))
    assert codes_table(model.set_output(transform="pandas"), X).shape == (40, 4)
    assert top_samples(model, X, layer=1, count=1).shape[0] == 6


def test_names_and_hidden_parts(model, X):
    model.part_names_ = [None, ["oil", None, "harvest", "bank"]]
    model.hidden_parts_ = [[2], [1]]
    table = parts_table(model, X)
    assert table["name"][:3].tolist() == ["oil", "harvest", "bank"]
    assert not ((table["layer"] == 1) & (table["part"] == 2)).any()
    assert not table["hidden"].any()
    everything = parts_table(model, X, hidden=True)
    assert everything["hidden"].sum() == 2
    assert codes_table(model, X).columns.tolist() == ["oil", "harvest", "bank"]
    assert codes_table(model, X, hidden=True).shape == (40, 4)
    edges = edges_table(model)
    assert set(edges["name"]) == {"oil", "harvest", "bank"}
    assert 2 not in set(edges["below"])
    assert set(top_features(model)["part"]) == {0, 2, 3}
    assert top_features(model, "harvest")["part"].unique().tolist() == [2]
    assert top_features(model, 1)["name"].unique().tolist() == ["part 1"]  # asked for
    assert top_samples(model, X, "bank")["name"].unique().tolist() == ["bank"]
    model.hidden_parts_ = [list(range(6)), list(range(4))]
    for empty in (parts_table(model, X), edges_table(model), top_features(model)):
        assert len(empty) == 0
    assert codes_table(model, X).shape == (40, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"part": 4}, "part: 4, but layer 2 has 4 parts: 0 to 3"),
        ({"part": "oil"}, "no part of layer 2 is named 'oil'"),
        ({"part": True}, "part: True"),
        ({"layer": 3}, "layers 1 to 2"),
        ({"by": "size"}, "by must be one of"),
        ({"lam": 2}, "lam: 2 must be between 0 and 1"),
        ({"lam": -1}, "lam"),
        ({"count": 0}, "count: 0"),
        ({"feature_names": ["a"]}, "1 given for 30 features"),
        ({"by": "relevance", "X": np.ones((2, 3))}, r"its shape is \(2, 3\), and the model has 30"),
    ],
)
def test_wrong_arguments_say_what_and_what_instead(X, arguments, words):
    model = DeepNMF((6, 4), **QUICK).fit(X)
    with pytest.raises(ValueError, match=words):
        top_features(model, **arguments)
    with pytest.raises(ValueError, match="layer 1 are made of features"):
        edges_table(model, 1)
    with pytest.raises(ValueError, match="2 given for 40 samples"):
        codes_table(model, X, sample_names=["a", "b"])


def test_shares_of_three_layers_add_up(X):
    model = DeepNMF((8, 5, 3), **QUICK).fit(X)
    table = edges_table(model)
    sums = table.groupby(["layer", "part"])["share"].sum()
    assert sums.to_numpy() == pytest.approx(1)
    assert table["layer"].unique().tolist() == [3, 2]
    pairs = list(itertools.pairwise(parts_table(model, X)["layer"]))
    assert all(first >= second for first, second in pairs)
