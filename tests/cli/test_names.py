"""Names of parts on the command line."""

from __future__ import annotations

import csv
import json

import pytest

from deepnmf import load
from tests.cli.conftest import FEW

NAMES = ["=HYPERLINK(1)", "oil", "part 2", "<b>", "\u00e4"]


@pytest.fixture
def named(model):
    fitted = load(model)
    fitted.part_names_, fitted.hidden_parts_ = [None, NAMES], [[1, 2], []]
    fitted.save(model)
    return model


def test_codes_and_clusters_have_the_names(call, named, data, tmp_path):
    assert call("transform", named, data, "-o", tmp_path / "codes.csv")[0] == 0
    with (tmp_path / "codes.csv").open() as file:
        assert next(csv.reader(file)) == ["'=HYPERLINK(1)", *NAMES[1:]]
    assert call("transform", named, data, "--layer", "1", "-o", tmp_path / "codes.csv")[0] == 0
    with (tmp_path / "codes.csv").open() as file:
        assert next(csv.reader(file))[0] == "part 0"
    code, out, _ = call("cluster", named, data, "-o", tmp_path / "c.csv", "--clusters", "2")
    assert code == 0
    assert "oil " in out


def test_info_says_how_many_have_names(call, named, data, tmp_path):
    _, out, _ = call("info", named)
    assert "named parts           4\n" in out
    assert "hidden parts          2\n" in out
    record = json.loads(call("info", named, "--json")[1])
    assert record["part_names"] == [None, [*NAMES[:2], None, *NAMES[3:]]]
    assert record["hidden_parts"] == [[1, 2], []]
    assert call("fit", data, "-o", tmp_path / "plain", "--layers", "8,5", *FEW)[0] == 0
    assert "parts" not in call("info", tmp_path / "plain")[1].split("parameters")[0]
