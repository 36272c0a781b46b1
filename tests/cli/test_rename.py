"""deepnmf rename: names from a file, and a file to fill in."""

from __future__ import annotations

import csv
import json

from deepnmf import load


def test_names_travel_through_a_file(call, model, tmp_path):
    file = tmp_path / "names.csv"
    before = model.read_bytes()
    code, out, err = call("rename", model, "--write", file, "--top", "3")
    assert (code, err) == (0, "")
    assert f"written  {file}  (13 parts). Fill in names, then: deepnmf rename {model}" in out
    assert model.read_bytes() == before
    rows = list(csv.DictReader(file.open().readlines()))
    assert len(rows[0]["features"].split(", ")) == 3
    file.write_text("layer,part,name,hidden\n2,0,oil,\n2,1,'=1+1,\n1,7,,yes\n")
    code, out, _ = call("rename", model, file)
    assert code == 0
    assert "changed  2 names; 2 of 13 parts have names, 1 are hidden" in out
    assert load(model).part_names_[1][:3] == ["oil", "=1+1", "part 2"]
    assert load(model).hidden_parts_ == [[7], []]
    # Everything else in the file is as before.
    old = tmp_path / "old"
    old.write_bytes(before)
    was, is_now = load(old), load(model)
    assert was.get_params() == is_now.get_params()
    assert was.history_ == is_now.history_
    assert json.loads(call("info", old, "--json")[1])["data"] == "data"


def test_another_file_and_json(call, model, tmp_path):
    file, other = tmp_path / "names.json", tmp_path / "other"
    file.write_text('[{"layer": 2, "part": 4, "name": "\\u001b[2Jbank"}]')
    before = model.read_bytes()
    code, out, _ = call("rename", model, file, "-o", other, "--json")
    assert code == 0
    assert json.loads(out) == {
        "changed": 1, "named": 1, "parts": 13, "hidden": 0, "output": str(other),
    }  # fmt: skip
    assert model.read_bytes() == before
    assert load(other).part_names_[1][4] == "bank"
    code, out, _ = call("rename", model, "--write", file, "--json")
    assert json.loads(out) == {"parts": 13, "output": str(file)}


def test_wrong_use_of_rename(call, model, tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('[{"layer": 2, "part": 4, "name": "bank"}]')
    bad.write_text('[{"layer": 3, "part": 4, "name": "bank"}]')
    before = model.read_bytes()
    for arguments, code, words in [
        ((model,), 2, "give a file of names to apply, or --write"),
        ((model, good, "--write", good), 2, "give a file of names to apply, or --write"),
        ((model, "--write", tmp_path / "n.json", "-o", model), 2, "--write changes no model"),
        ((model, "--write", tmp_path / "n.txt"), 2, "must end in .json"),
        ((model, "--write", tmp_path / "n.json", "--top", "0"), 2, "--top"),
        ((model, bad), 1, "row 1: layer is 3, and the model has 1 to 2"),
        ((model, tmp_path / "absent.json"), 1, "there is no such file of names"),
        ((model, model), 1, "ends in .json"),
        ((good, good), 1, "is not a deepnmf model file"),
        ((model, good, "-o", tmp_path / "no" / "m"), 1, "there is no folder"),
    ]:
        returned, out, err = call("rename", *arguments)
        assert (returned, out, err.count("\n")) == (code, "", 1), err
        assert words in err
    assert model.read_bytes() == before
