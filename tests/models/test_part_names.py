"""Names of parts: checked, kept, forgotten by a new fit."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from deepnmf import DeepNMF, load
from deepnmf.baselines import SemiNMF
from deepnmf.models import storage
from deepnmf.models.storage import ModelFileError
from tests.test_stored import FOLDER

QUICK: dict[str, Any] = {"max_iter": 4, "pretrain_iter": 4, "tol": 0, "random_state": 0}
TOPICS = ["oil", "harvest", "bank"]


@pytest.fixture
def X(low_rank):
    return low_rank.T


@pytest.fixture
def model(X):
    return DeepNMF((5, 3), **QUICK).fit(X)


def test_parts_have_numbers_until_they_have_names(model):
    assert model.part_names_ == [[f"part {part}" for part in range(size)] for size in (5, 3)]
    assert model.hidden_parts_ == [[], []]
    assert list(model.get_feature_names_out()) == ["deepnmf0", "deepnmf1", "deepnmf2"]
    model.part_names_ = [None, TOPICS]
    assert model.part_names_ == [[f"part {part}" for part in range(5)], TOPICS]
    model.part_names_ = [None, ("oil", None, np.str_("bank"))]
    assert model.part_names_[1] == ["oil", "part 1", "bank"]
    assert all(type(name) is str for name in model.part_names_[1])


def test_an_unfitted_model_has_no_names(X):
    model = DeepNMF((5, 3), **QUICK)
    assert not hasattr(model, "part_names_")
    with pytest.raises(NotFittedError):
        model.part_names_ = [None, TOPICS]


def test_columns_of_codes_have_the_names(model, X):
    model.part_names_[1][0] = "oil"  # in place
    assert list(model.get_feature_names_out()) == ["oil", "part 1", "part 2"]
    frame = model.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == ["oil", "part 1", "part 2"]


def test_only_a_new_fit_forgets_names(model, X, tmp_path):
    model.part_names_, model.hidden_parts_ = [None, TOPICS], [[4, 1, 4], None]
    assert model.hidden_parts_ == [[1, 4], []]
    again: list[Any] = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    model.save(tmp_path / "model")
    for one in (*again, load(tmp_path / "model")):
        assert (one.part_names_, one.hidden_parts_) == (model.part_names_, model.hidden_parts_)
    assert not hasattr(clone(model), "part_names_")
    before = dict(vars(model))
    model.transform(X)
    assert vars(model).keys() == before.keys()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.partial_fit(X)
    assert model.part_names_[1] == TOPICS  # the same parts, a little further
    model.fit(X)
    assert model.part_names_[1] == ["part 0", "part 1", "part 2"]
    assert model.hidden_parts_ == [[], []]


def test_compared_methods_have_names(X, tmp_path):
    model = SemiNMF(3, max_iter=4, tol=0).fit(X)
    model.part_names_ = [TOPICS]
    model.save(tmp_path / "model")
    assert list(load(tmp_path / "model").get_feature_names_out()) == TOPICS


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("oil", "give one list of names per layer, got 'oil'"),
        ({1: TOPICS}, "give one list of names per layer"),
        ([TOPICS], "1 lists for 2 layers"),
        ([None, TOPICS[:2]], "2 names for the 3 parts of layer 2"),
        ([None, "abc"], "give one list of names per layer"),
        ([None, ["oil", 7, "bank"]], "part 1 of layer 2 is 7, which is not text"),
        ([None, ["oil", "bank", "oil"]], "parts 0 and 2 of layer 2 are both named 'oil'"),
        ([None, ["oil", "o\x07il", "bank"]], "parts 0 and 1 of layer 2 are both named 'oil'"),
        ([None, ["oil", " \n", "bank"]], "part 1 of layer 2 is empty"),
        ([None, ["oil", "x" * 201, "bank"]], "has 201 characters. Give at most 200"),
    ],
)
def test_wrong_names_are_refused(model, names, words):
    model.part_names_ = [None, TOPICS]
    with pytest.raises(ValueError, match=words) as problem:
        model.part_names_ = names
    assert str(problem.value).startswith("part_names_: ")
    assert "\n" not in str(problem.value)
    assert model.part_names_[1] == TOPICS


@pytest.mark.parametrize("parts", [[[5], []], [[-1], []], [[True], []], [["1"], []], [[1.0], []]])
def test_wrong_hidden_parts_are_refused(model, parts):
    with pytest.raises(ValueError, match="layer 1 has no part .* It has parts 0 to 4"):
        model.hidden_parts_ = parts
    with pytest.raises(ValueError, match="1 lists for 2 layers"):
        model.hidden_parts_ = [[]]


def test_names_changed_in_place_are_checked_when_they_are_used(model, tmp_path):
    model.part_names_[1][0] = "\x1b[2Joil\u202e"
    assert model.get_feature_names_out()[0] == "oil"
    model.part_names_[1][1] = "oil"
    for use in (model.get_feature_names_out, lambda: model.save(tmp_path / "model")):
        with pytest.raises(ValueError, match="both named 'oil'"):
            use()


def test_files_from_before_there_were_names_load():
    old = load(FOLDER / "deep.safetensors")
    assert old.part_names_[1] == [f"part {part}" for part in range(6)]
    assert old.hidden_parts_ == [[], []]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("part_names", "oil"),
        ("part_names", [["a"], TOPICS]),
        ("part_names", [None, TOPICS]),
        ("part_names", [list("abcde"), ["oil", "oil", "bank"]]),
        ("part_names", [list("abcde"), ["oil", "\x1b[2J", "bank"]]),
        ("part_names", [list("abcde"), ["oil\x07", "harvest", "bank"]]),
        ("part_names", {"1": TOPICS}),
        ("hidden_parts", [[0], [3]]),
        ("hidden_parts", [[0], [True]]),
        ("hidden_parts", [None, []]),
        ("hidden_parts", 7),
    ],
)
def test_hostile_headers_are_refused(model, tmp_path, monkeypatch, name, value):
    good = {"part_names": [list("abcde"), TOPICS], "hidden_parts": [[0], [2]]}
    monkeypatch.setattr(storage, "_shown_parts", lambda _: good)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").part_names_[1] == TOPICS
    monkeypatch.setattr(storage, "_shown_parts", lambda _: good | {name: value})
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="damaged") as problem:
        load(tmp_path / "model")
    assert "\n" not in str(problem.value)
