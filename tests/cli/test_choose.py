"""Layers that are chosen and fits that agree, from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import deepnmf
from tests.models.test_choice import planted

FAST = ("--depth", "1", "--most", "5", "--repeats", "1", "--starts", "2")


@pytest.fixture
def three(tmp_path):
    """A file of samples with three parts."""
    path = tmp_path / "three.npy"
    np.save(path, planted(3))
    return path


def test_choose_writes_the_curve_the_choice_and_a_figure(call, three, tmp_path):
    folder = tmp_path / "out"
    code, out, err = call("choose", three, "-o", folder, *FAST)
    assert (code, err) == (0, "")
    assert out.startswith("layer_sizes=(3,)\nLayer 1: 3 parts.")
    names = {"choose.csv", "choose.json", "choose.png", "choose.svg"}
    assert {file.name for file in folder.iterdir()} == names
    for name in names:
        assert f"written  {folder / name}" in out
    answer = json.loads((folder / "choose.json").read_text())
    assert answer["layer_sizes"] == [3]
    assert [row["size"] for row in answer["candidates"]] == [1, 2, 3, 4, 5]
    rows = (folder / "choose.csv").read_text()
    code, again, _ = call("choose", three, "-o", folder, *FAST, "--json")
    assert code == 0
    assert json.loads(again) == answer
    assert (folder / "choose.csv").read_text() == rows


def test_fit_chooses_its_layers_and_says_why(call, three, tmp_path):
    target = tmp_path / "m.safetensors"
    code, out, err = call("fit", three, "-o", target, "--layers", "auto")
    assert (code, err) == (0, "")
    assert "sdnmf/l [3] on 150 samples" in out
    assert "Layer 1: 3 parts." in out
    model = deepnmf.load(target)
    assert model.choice_.layer_sizes == model.layer_sizes == (3,)
    shown = call("info", target)[1]
    assert "choice" in shown
    assert "Layer 1: 3 parts." in shown
    assert json.loads(call("info", target, "--json")[1])["choice"]["layer_sizes"] == [3]


@pytest.mark.parametrize("model", ["sdnmf/l", "semi-nmf"])
def test_fit_keeps_what_several_fits_agree_on(call, three, tmp_path, model):
    target = tmp_path / "m.safetensors"
    options = ("--model", model, "--layers", "3", "--consensus", "3", "--max-iter", "200")
    code, out, err = call("fit", three, "-o", target, *options)
    assert (code, err) == (0, "")
    assert "found in at least 80% of the fits" in out
    assert "status          consensus of 3 models." in out
    [support] = deepnmf.load(target).support_
    assert support.shape == (3,)
    assert json.loads(call("info", target, "--json")[1])["support"] == [support.tolist()]
    assert "support" in call("info", target)[1]
    summary = json.loads(call("fit", three, "-o", target, *options, "--json")[1])
    assert summary["support"] == out.splitlines()[1:2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("choose", "--most", "90"), "--most: 90 parts cannot be fitted"),
        (("choose", "--folds", "41"), "--folds: 41 folds of 40 features would leave some empty"),
        (("choose", "--budget", "2"), "--budget: 2 is not enough for one number of parts"),
    ],
)
def test_what_cannot_be_chosen_is_one_line(call, three, tmp_path, arguments, words):
    command, *options = arguments
    code, out, err = call(command, three, "-o", tmp_path / "out", *options)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("choose", "--model", "nenmf"), "--model nenmf: layers can be chosen for dnmf, sdnmf/l"),
        (("choose", "--model", "nmf"), "--model must be one of"),
        (("choose", "--set", "mu=-1"), "must be"),
        (("choose", "--set", "mu=1,2"), "--mu has one entry per layer"),
        (("choose", "--set", "layer_sizes=4"), "a choice does not use it; leave it out"),
        (("choose", "--set", "random_state=4"), "a choice does not use it; use --seed"),
        (("choose", "--budget", "soon"), "--budget: 'soon' is neither a number of fits"),
        (("choose", "--starts", "1"), "--starts: one fit has nothing to agree with"),
        (("fit", "--consensus", "3", "--start", "nnsvd"), "begin at random starts"),
        (("fit", "--layers", "auto", "--model", "semi-nmf"), "--layers auto with --model semi-nmf"),
        (("fit", "--layers", "auto", "--mu", "1,2"), "--layers auto: --mu has one entry per layer"),
        (("fit", "--consensus", "3", "--max-memory", "9MB"), "hold the samples in memory"),
        (("fit", "--consensus", "3", "--checkpoint", "c"), "a checkpoint holds one fit"),
    ],
)
def test_wrong_use_is_refused_before_any_work(call, three, tmp_path, arguments, words):
    command, *options = arguments
    code, out, err = call(command, three, "-o", tmp_path / "out", *options)
    assert (code, out) == (2, "")
    assert words in err
    assert not (tmp_path / "out").exists()
