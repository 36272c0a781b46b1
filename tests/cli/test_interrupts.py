"""Ctrl-C, pressed for real."""

from __future__ import annotations

import signal

import pandas as pd
import pytest

from deepnmf.core.watch import Watch


def test_ctrl_c_ends_a_study_and_the_fit_it_interrupted_has_no_rows(call, data, tmp_path):
    """A real Ctrl-C in the middle of the third fit."""
    seen = []

    def press(record):
        seen.append(record)
        if len(seen) == 40:
            signal.raise_signal(signal.SIGINT)

    options = ("--layers", "8,5", "--models", "sdnmf/l", "--folds", "2", "--runs", "2", "--set")
    arguments = ("study", data, "-o", tmp_path, *options)
    few = ("max_iter=5", "--set", "pretrain_iter=5", "--set", "tol=0")
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
    assert sorted(again["relative_error"]) == sorted(uninterrupted["relative_error"])


def test_an_import_that_ctrl_c_interrupted_is_not_reported_as_a_bug(call, monkeypatch):
    def broken(path):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise AttributeError("module 'numba' has no attribute 'core'")

    monkeypatch.setattr("deepnmf.models.storage.load_stored", broken)
    code, _, err = call("info", "model.safetensors")
    assert (code, err) == (130, "error: interrupted; nothing was written.\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
