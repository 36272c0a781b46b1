"""Trees are short, add up, and can be read by programs and browsers."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from deepnmf import DeepNMF
from deepnmf.hierarchy import explain
from tests.explain.test_tables import by_hand
from tests.report.pages import with_support
from tests.test_hierarchy import leaves

QUICK: dict[str, Any] = {"max_iter": 6, "pretrain_iter": 6, "tol": 0, "random_state": 0}
EVIL = "<img src=x onerror=alert(1)>\x1b[2J\u202e"


@pytest.fixture(params=["identity", "root", "softplus"])
def deep(request, low_rank):
    scaling = {"scaling": "paper"} if request.param == "softplus" else {}
    return DeepNMF((9, 7, 4), link=request.param, **scaling, **QUICK).fit(low_rank.T)


def test_a_part_is_not_repeated_below_its_name():
    model = by_hand(np.array([[3.0, 0], [1, 0], [0, 4]]), np.array([[1.0, 0], [1, 1]]))
    assert str(explain(model, unit=0, feature_names=["a", "b", "c"])).splitlines() == [
        "part 0 of layer 2",
        "  1 × part 0 of layer 1  (50.0%)",
        "    a 37.5%, b 12.5%",
        "  1 × part 1 of layer 1  (50.0%)",
        "    c 50.0%",
    ]
    model.part_names_ = [["ab", None], ["all", None]]
    assert str(explain(model, unit=0)).splitlines()[:2] == [
        "all (part 0 of layer 2)",
        "  1 × ab  (50.0%)",
    ]
    assert str(explain(model)).splitlines()[:2] == ["all parts", "  1 × all  (66.7%)"]


def test_what_is_not_shown_is_counted_and_how_to_see_it():
    model = by_hand(np.ones((1000, 1)), np.ones((1, 5)))
    text = str(explain(model, top=2, features=3))
    assert text.splitlines()[-2:] == [
        "  … and 3 others  (60.0%)",
        "more: explain(…, top=None, features=None)",
    ]
    assert "feature 2 <0.1%, and 997 others 19.9%" in text
    assert len(str(explain(model, unit=1)).splitlines()) == 4
    assert "more" not in str(explain(model, top=None, features=None))


def test_three_layers_are_short_unless_asked(deep, low_rank):
    X = low_rank.T
    short = explain(deep, X, sample=0)
    assert {child.layer for node in short.children for child in node.children} == {2}
    leaf = short.children[0].children[0].children[0]
    assert leaf.layer == 0
    assert "depth=None" in str(short)
    assert "depth" not in str(explain(deep, X, sample=0, depth=3))
    assert len(str(short).splitlines()) <= 1 + 3 * (1 + 3 * 2 + 1) + 2


def test_features_below_the_lowest_layer_shown_add_up(deep, low_rank):
    X = low_rank.T
    for depth in (1, 2, None):
        tree = explain(deep, X, sample=3, top=None, features=None, depth=depth)
        np.testing.assert_allclose(leaves(tree, 30) + tree.offset, tree.decoded, atol=1e-8)
        for node in tree.children:
            below = sum(child.share for child in node.children)
            assert below + node.left_out == pytest.approx(node.share)
    part = explain(deep, unit=1, top=None, features=None, depth=1)
    np.testing.assert_allclose(leaves(part, 30) + part.offset, part.decoded, atol=1e-8)
    leaf = explain(deep, X, sample=3, depth=1).children[0]
    for feature in leaf.children:
        assert feature.weight * leaf.amount == pytest.approx(feature.amount)


def test_hidden_parts_are_among_the_others(deep, low_rank):
    whole = explain(deep, low_rank.T, top=None)
    first = whole.children[0].unit
    deep.hidden_parts_ = [None, None, [first]]
    tree = explain(deep, low_rank.T, top=None)
    assert first not in {node.unit for node in tree.children}
    assert tree.others == 1
    assert tree.left_out == pytest.approx(whole.children[0].share)
    assert explain(deep, unit=first).children[0].unit == first  # asked for


def test_json_holds_what_the_tree_holds(deep, low_rank):
    y = np.arange(40) % 2
    tree = explain(with_support(deep), low_rank.T, label=0, labels=y)
    record = json.loads(tree.to_json())
    assert record == json.loads(json.dumps(tree.to_dict(), allow_nan=False))
    assert record["subject"] == "class 0"
    node, wanted = record["children"][0], tree.children[0]
    assert (node["unit"], node["share"], node["others"]) == (
        wanted.unit,
        wanted.share,
        wanted.others,
    )
    assert node["support"] == wanted.support
    assert node["children"][0]["children"][0]["name"].startswith("feature ")
    assert [unit["unit"] for unit in record["distinct"]] == [unit.unit for unit in tree.distinct]
    same = explain(deep, np.ones((4, 30)), label=0, labels=[0, 0, 1, 1]).to_json(indent=1)
    assert "Infinity" not in same


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.depth = [], 0

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.depth += 1

    def handle_endtag(self, tag):
        self.depth -= 1


def test_a_notebook_shows_it_and_runs_nothing(deep):
    deep.part_names_ = [None, None, [EVIL, None, None, None]]
    names = [EVIL] * 30
    tree = explain(deep, feature_names=names, top=None)
    page = Elements()
    page.feed(tree._repr_html_())
    assert page.depth == 0
    assert {tag for tag, _ in page.found} == {"style", "div", "b", "details", "summary"}
    assert {key for _, attributes in page.found for key in attributes} <= {"class", "open"}
    text = str(tree)
    assert not re.search("[\x1b\u202e]", text + tree._repr_html_())
    assert "<img src=x" in text


def test_long_lists_of_features_are_wrapped():
    model = by_hand(np.ones((40, 1)))
    names = [f"a rather long name {number}" for number in range(40)]
    lines = str(explain(model, unit=0, feature_names=names, features=None)).splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= 112
