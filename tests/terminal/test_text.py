"""Text from anywhere is safe to show, and to open in a spreadsheet."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import deepnmf
from deepnmf.cli.main import main
from deepnmf.data import read
from deepnmf.models.storage import save
from deepnmf.terminal.text import one_line, original_cell, printable, safe_cell

SHOWN = {
    "plain": "plain",
    "two\nlines\tand a tab": "two\nlines\tand a tab",
    "\x1b[31mred\x1b[0m": "red",
    "\x1b]0;title\x07text": "text",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
    "\x1b(Bx": "(Bx",
    "\x9b2Jcleared": "2Jcleared",
    "over\rwritten\x08\x00": "overwritten",
    "turned \u202eround": "turned round",
    "half \ud800": "half ",
    "Größe 語 é 👍🏽": "Größe 語 é 👍🏽",
}


@pytest.mark.parametrize("text", SHOWN)
def test_what_is_shown_has_no_commands(text):
    assert printable(text) == SHOWN[text]


def test_one_line_is_short():
    assert one_line("a\n b\r\n\tc") == "a b c"
    assert len(one_line("x" * 1000)) == 200


CELLS = {
    "=1+1": "'=1+1", "+cmd": "'+cmd", "-cmd": "'-cmd", "@sum": "'@sum", "\tx": "'\tx",
    "\rx": "'\rx", "-1.5": "-1.5", "+3": "+3", "-inf": "-inf", "plain": "plain", "": "",
    "'quoted": "'quoted", "a=b": "a=b",
}  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
def test_no_cell_is_a_formula(cell):
    assert safe_cell(cell) == CELLS[cell]
    assert original_cell(safe_cell(cell)) == cell


def test_numbers_stay_numbers():
    assert safe_cell(-1.5) == -1.5
    assert original_cell(3) == 3


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_codes_can_be_opened_in_a_spreadsheet_and_read_again(suffix, tmp_path):
    names = ["=HYPERLINK(1)", "-2", "@b", "plain"]
    X = pd.DataFrame(np.random.default_rng(0).random((4, 5)), index=names)
    X.columns = ["+a", "b", "c", "d", "e"]
    X.to_csv(tmp_path / "x.csv")
    model = tmp_path / "model"
    deepnmf.dnmf(2, max_iter=3, tol=0, random_state=0).fit(X.to_numpy()).save(model)
    codes = tmp_path / f"codes{suffix}"
    assert main(["transform", str(model), str(tmp_path / "x.csv"), "-o", str(codes)]) == 0
    starts = {line[0] for line in codes.read_text().splitlines()[1:]}
    assert starts.isdisjoint("=@+")
    again = read(codes)
    assert [str(name) for name in again.sample_names] == names
    assert again.X.shape == (4, 2)


def test_info_of_a_model_learned_from_batches(capsys, tmp_path):
    model = deepnmf.dnmf(2, random_state=0).partial_fit(np.random.default_rng(0).random((6, 4)))
    model.save(tmp_path / "model")
    assert main(["info", str(tmp_path / "model")]) == 0
    assert "learned from 1 batch" in capsys.readouterr().out


def test_info_prints_no_escapes(capsys, tmp_path):
    fitted = deepnmf.dnmf(2, max_iter=3, tol=0).fit(np.random.default_rng(0).random((6, 4)))
    save(fitted, tmp_path / "model", {"model": "\x1b[31mred", "data": "a\x07b"})
    assert main(["info", str(tmp_path / "model")]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "red" in shown
