"""deepnmf export: the tables of a model as files."""

from __future__ import annotations

import json

from deepnmf import load
from tests.cli.conftest import FEW


def test_tables_are_written(call, model, data, tmp_path):
    fitted = load(model)
    fitted.part_names_ = [None, ["=HYPERLINK(1)", None, None, None, None]]
    fitted.save(model)
    folder = tmp_path / "tables"
    code, out, err = call("export", model, data, "-o", folder)
    assert (code, err) == (0, "")
    assert out.count("written  ") == 10
    assert {path.name for path in folder.iterdir()} >= {
        "README.md",
        "parts.csv",
        "codes-layer-2.csv",
    }
    assert "'=HYPERLINK(1)" in (folder / "parts.csv").read_text()
    files = json.loads(call("export", model, "-o", folder, "--format", "json", "--json")[1])[
        "files"
    ]
    assert f"{folder / 'parts.json'}" in files
    assert not any("codes" in file for file in files)


def test_wrong_use_of_export(call, model, data, tmp_path):
    for arguments, code, words in [
        ((model,), 2, "Missing option '-o'"),
        ((model, "-o", tmp_path / "t", "--format", "xlsx"), 2, "--format must be one of 'csv'"),
        ((model, "-o", data), 2, "is a file. Give a folder"),
        ((data, "-o", tmp_path / "t"), 1, "is not a deepnmf model file"),
        ((model, tmp_path / "absent", "-o", tmp_path / "t"), 1, "no data set of that name"),
        ((model, data, "-o", tmp_path / "t", "--top", "0"), 2, "--top"),
    ]:
        returned, out, err = call("export", *arguments)
        assert (returned, out, err.count("\n")) == (code, "", 1), err
        assert words in err
    assert not (tmp_path / "t").exists()


def test_features_are_pixels_where_samples_are_images(call, tmp_path):
    model = tmp_path / "m"
    assert call("fit", "digits", "-o", model, "--layers", "6,4", *FEW)[0] == 0
    assert call("export", model, "-o", tmp_path / "t")[0] == 0
    assert "pixel 7:3" in (tmp_path / "t" / "features-layer-1.csv").read_text()
