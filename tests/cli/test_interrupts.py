"""Ctrl-C, pressed for real."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys

import pandas as pd
import pytest

from deepnmf import load
from deepnmf.core.watch import Watch
from deepnmf.models import storage
from tests.cli.conftest import FEW


def test_ctrl_c_ends_a_study_and_the_fit_it_interrupted_has_no_rows(call, data, tmp_path):
    """A real Ctrl-C in the middle of the third fit. Those of each fold come after two others, from
    random starts; all have 15 records."""
    seen = []

    def press(record):
        seen.append(record)
        if len(seen) == 100:
            signal.raise_signal(signal.SIGINT)

    options = ("--layers", "8,5", "--models", "sdnmf/l", "--folds", "2", "--runs", "2", "--set")
    arguments = ("study", data, "-o", tmp_path, *options)
    few = ("max_iter=5", "--set", "pretrain_iter=5", "--set", "tol=0", "--set", "scaling=paper")
    with pytest.MonkeyPatch.context() as patch:
        note = Watch.note
        patch.setattr(Watch, "note", lambda self, r, w: (note(self, r, w), press(r))[0])
        code, _, err = call(*arguments, *few)
    assert code == 130
    path = tmp_path / "study.csv"
    assert err == f"error: interrupted; 2 fits are in {path}: run it again to resume.\n"
    assert len(pd.read_csv(path)) == 2
    assert call(*arguments, *few)[0] == 0
    again = pd.read_csv(path)
    assert len(again) == 4
    other = tmp_path / "other"
    assert call("study", data, "-o", other, *options, *few)[0] == 0
    uninterrupted = pd.read_csv(other / "study.csv")
    for measure in ("relative_error", "stability", "stability_lowest"):
        assert sorted(again[measure]) == sorted(uninterrupted[measure])


def test_an_import_that_ctrl_c_interrupted_is_not_reported_as_a_bug(call, monkeypatch):
    def broken(path):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise AttributeError("module 'numba' has no attribute 'core'")

    monkeypatch.setattr("deepnmf.models.storage.load_stored", broken)
    code, _, err = call("info", "model.safetensors")
    assert (code, err) == (130, "error: interrupted; nothing was written.\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_import_that_fails_after_an_interrupted_fit_is_not_reported_as_a_bug(
    call, data, tmp_path, monkeypatch
):
    """The fit has acted on Ctrl-C, and then something that it left half imported is needed."""

    def broken(*arguments):
        raise AttributeError("module 'numba.core.types' has no attribute 'misc'")

    note = Watch.note
    monkeypatch.setattr(Watch, "note", lambda *given: (note(*given), press())[0])
    monkeypatch.setattr(storage, "write_model", broken)
    code, _, err = call("fit", data, "-o", tmp_path / "m", "--layers", "8,5", *FEW)
    assert (code, err) == (130, "error: interrupted; nothing was written.\n")


def press(dropped=False):
    """Press Ctrl-C. Python drops a KeyboardInterrupt in some places."""
    with contextlib.suppress(KeyboardInterrupt) if dropped else contextlib.nullcontext():
        signal.raise_signal(signal.SIGINT)


def pressing(function, *, first, dropped=False):
    """The function, with Ctrl-C pressed before or after it."""

    def pressed(*arguments):
        if first:
            press(dropped)
        result = function(*arguments)
        if not first:
            press(dropped)
        return result

    return pressed


@pytest.mark.parametrize("first", [True, False])
def test_ctrl_c_that_python_dropped_is_not_lost(call, model, data, tmp_path, monkeypatch, first):
    slow = pressing(storage.load_stored, first=first, dropped=True)
    monkeypatch.setattr(storage, "load_stored", slow)
    codes = tmp_path / "codes.npy"
    code, out, err = call("transform", model, data, "-o", codes)
    assert (code, out) == (130, "")
    assert err == f"error: interrupted; written: {codes}.\n"
    code, out, err = call("info", model, "--json")
    assert (code, out, err) == (130, "", "error: interrupted; nothing was written.\n")


@pytest.mark.parametrize("first", [True, False])
def test_ctrl_c_while_the_model_is_written_waits(call, data, tmp_path, monkeypatch, first):
    monkeypatch.setattr(storage, "write_model", pressing(storage.write_model, first=first))
    target = tmp_path / "m.safetensors"
    code, out, err = call("fit", data, "-o", target, "--layers", "8,5", *FEW)
    assert (code, out) == (130, "")
    assert err == f"error: interrupted; written: {target}.\n"
    assert load(target).reason_ == "limit"


def test_an_unfinished_model_does_not_replace_another(call, model, data, tmp_path, monkeypatch):
    old, note = model.read_bytes(), Watch.note
    monkeypatch.setattr(Watch, "note", lambda *given: (note(*given), press())[0])
    code, out, err = call("fit", data, "-o", model, "--layers", "8,5", *FEW, "--json")
    beside = tmp_path / "model.unfinished.safetensors"
    assert code == 130
    assert err.startswith(
        f"error: interrupted; the unfinished model is in {beside}, and {model} is"
    )
    assert err.count("\n") == 1
    assert json.loads(out)["file"] == str(beside)
    assert model.read_bytes() == old
    assert load(beside).reason_ == "interrupted"


def test_an_interrupted_exec_does_not_change_the_exit_code(tmp_path):
    """dataclasses and namedtuples are made by exec while modules are imported."""
    code = """
from deepnmf.cli import commands
def execute(arguments):
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        return 130
commands.execute = execute
import runpy
runpy.run_module("deepnmf")
"""
    (tmp_path / "entry.py").write_text(code)
    command = [sys.executable, "-m", "entry"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")
