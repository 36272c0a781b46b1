"""Messages on the command line name options, not parameters of Python."""

from __future__ import annotations

import pytest

from deepnmf.cli.options import in_options
from tests.cli.conftest import FEW

WRONG = {
    ("--layers", "0"): "error: --layers: 0 is too small",
    ("--mu", "1,2,3"): "error: --mu has 3 entries for 2 layers",
    ("--max-iter", "-1"): "error: --max-iter: -1 is too small",
    ("--tol", "-1"): "error: --tol: -1.0 must be",
    ("--link", "foo"): "'softplus', got 'foo'.",
    ("--start", "foo"): "error: --start must be one of 'nnsvd', 'random', got 'foo'.",
    ("--max-memory", "foo"): "error: --max-memory: 'foo'",
    ("--checkpoint", "nowhere/c"): "error: --checkpoint: the folder nowhere does not exist",
    ("--fill", "--json"): "error: --fill needs a value, and is followed by --json.",
    ("--checkpoint", "--seed", "0"): "error: --checkpoint needs a value",
    ("--model", "ns-nmf", "--project-codes"): "error: --project-codes: ns-nmf has no such option",
}


@pytest.mark.parametrize("options", WRONG, ids=" ".join)
def test_the_option_is_named(options, call, data, tmp_path):
    code, out, err = call("fit", data, "-o", tmp_path / "m", *options)
    assert code in (1, 2)
    assert out == ""
    assert WRONG[options] in err


def test_the_status_names_options(call, data, tmp_path):
    out = call("fit", data, "-o", tmp_path / "m", "--layers", "8,5", *FEW)[1]
    assert "stopped at --max-iter 5, still falling by" in out
    assert "(--tol 1e-06): raise --max-iter, or --tol if" in out
    out = call("fit", data, "-o", tmp_path / "m", "--layers", "4", "--max-iter", "1")[1]
    assert "stopped at --max-iter 1 (--tol 1e-06): raise --max-iter" in out


def test_what_fit_warns_of_is_shown(call, data, tmp_path):
    out = call("fit", data, "-o", tmp_path / "m", "--layers", "5,8", *FEW)[1]
    assert "advice          --layers: layer 2 is wider than layer 1 (8 parts over 5)" in out
    out = call("fit", data, "-o", tmp_path / "m", "--layers", "8,5", *FEW)[1]
    assert "advice" not in out


def test_words_that_are_no_parameters_stay():
    for text in ("the fit begins at the start of the link", "atol, toll and --tol 3"):
        assert in_options(text) == text
    given = 'device="cuda": use device="auto" or "cpu".'
    assert in_options(given) == '--device cuda: use --device auto or "cpu".'


def test_a_study_says_how_many_folds_there_can_be(call, data, tmp_path):
    (tmp_path / "labels").write_text("a\nb\n" * 20)
    study = ("study", data, "-o", tmp_path / "s")
    for more, words in (
        (("--folds", "41"), "has 40 samples; give at most 40 folds"),
        (("--folds", "21", "--labels", tmp_path / "labels"), "no class of more than 20 samples"),
    ):
        code, _, err = call(*study, *more)
        assert code == 2
        assert words in err
