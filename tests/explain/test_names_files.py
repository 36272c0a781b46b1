"""Names in a file: written, edited by anyone, and read again."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from deepnmf import DeepNMF
from deepnmf.explain import names_files, read_names, write_names

QUICK: dict[str, Any] = {"max_iter": 4, "pretrain_iter": 4, "tol": 0, "random_state": 0}
HOSTILE = ["=1+1", "<script>alert(1)</script>", '"; a,b\n|c']
FORMATS = names_files.FORMATS
SEPARATORS = {".csv": ",", ".tsv": "\t"}


@pytest.fixture
def model(low_rank):
    return DeepNMF((4, 3), **QUICK).fit(low_rank.T)


def rewritten(path, records):
    """The file with these records."""
    if path.suffix == ".json":
        path.write_text(json.dumps(records))
        return
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names_files.COLUMNS, delimiter=SEPARATORS[path.suffix])
        writer.writeheader()
        writer.writerows(records)


@pytest.mark.parametrize("suffix", FORMATS)
def test_names_come_back_from_a_file(model, suffix, tmp_path):
    path = tmp_path / f"names{suffix}"
    model.part_names_, model.hidden_parts_ = [None, HOSTILE], [[2], []]
    wanted = [[*names] for names in model.part_names_]
    assert wanted[1][2] == '"; a,b |c'
    write_names(model, path, [f"=gene {number}" for number in range(30)], count=3)
    model.part_names_, model.hidden_parts_ = [None, None], [None, None]
    read_names(model, path)
    assert model.part_names_ == wanted
    assert model.hidden_parts_ == [[2], []]
    if suffix != ".json":
        with path.open() as file:
            rows = list(csv.reader(file, delimiter=SEPARATORS[suffix]))
        cells = [cell for row in rows for cell in row]
        assert not any(cell.startswith("=") for cell in cells)


def test_a_template_says_what_parts_are_about(model, tmp_path):
    path = tmp_path / "names.json"
    write_names(model, path, [f"word {number}" for number in range(30)], count=4)
    records = json.loads(path.read_text())
    assert [(record["layer"], record["part"]) for record in records] == [
        (2, 0), (2, 1), (2, 2), (1, 0), (1, 1), (1, 2), (1, 3),
    ]  # fmt: skip
    assert records[1]["name"] == "part 1"
    assert records[1]["hidden"] is False
    assert len(records[0]["features"]) == 4
    assert records[0]["features"][0].startswith("word ")
    assert len(path.read_text().splitlines()) == 9  # one per part


@pytest.mark.parametrize("suffix", FORMATS)
def test_some_names_and_empty_ones(model, suffix, tmp_path):
    path = tmp_path / f"names{suffix}"
    model.part_names_ = [None, ["oil", "bank", "rate"]]
    model.hidden_parts_ = [[0], [1]]
    rewritten(path, [{"layer": 2, "part": 0, "name": "bank", "hidden": "yes"},
                     {"layer": "2", "part": 1, "name": "  ", "hidden": ""}])  # fmt: skip
    read_names(model, path)
    assert model.part_names_[1] == ["bank", "part 1", "rate"]
    assert model.hidden_parts_ == [[0], [0]]


def test_tables_from_spreadsheets(model, tmp_path):
    path = tmp_path / "names.csv"
    path.write_bytes("\ufeffLayer; part ;NAME\r\n2;0;Öl\r\n".encode())
    read_names(model, path)
    assert model.part_names_[1] == ["Öl", "part 1", "part 2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"2": {"0": "oil"}}', "is not a list of records"),
        ("[1]", "is not a list of records"),
        ("[]", "has no names"),
        ('[{"layer": 2, "name": "oil"}]', "row 1 has no part"),
        ('[{"layer": 3, "part": 0, "name": "oil"}]', "row 1: layer is 3, and the model has 1 to 2"),
        ('[{"layer": 2, "part": 3, "name": "oil"}]', "row 1: part is 3, and the model has 0 to 2"),
        ('[{"layer": true, "part": 0, "name": "oil"}]', "layer is True"),
        ('[{"layer": 1e400, "part": 0, "name": "oil"}]', "layer is inf"),
        ('[{"layer": 2, "part": 0, "name": 7}]', "part 0 of layer 2 is 7, which is not text"),
        ('[{"layer": 2, "part": 0, "name": "part 1"}]', "parts 0 and 1 of layer 2 are both"),
        ('[{"layer": 2, "part": 0, "name": "a", "hidden": "maybe"}]', "'maybe'. Give yes"),
        ('[{"layer": 2, "part": 0, "name": "a", "hidden": 1}]', "hidden is 1. Give yes or no"),
        ('[{"layer": 2, "part": 0, "name": "a"}, {"layer": 2, "part": 0, "name": "b"}]',
         "row 2: part 0 of layer 2 has a row above"),
    ],
)  # fmt: skip
def test_wrong_files_say_what_and_change_nothing(model, text, words, tmp_path):
    path = tmp_path / "names.json"
    path.write_text(text)
    model.hidden_parts_ = [[1], []]
    with pytest.raises(ValueError, match=words) as problem:
        read_names(model, path)
    assert str(problem.value).startswith(f"{path}: ")
    assert "\n" not in str(problem.value)
    assert model.part_names_[1] == ["part 0", "part 1", "part 2"]
    assert model.hidden_parts_ == [[1], []]


def test_wrong_tables_and_places(model, tmp_path):
    path = tmp_path / "names.csv"
    for content, words in (
        (b"\xff\xfe\x00", "not text in UTF-8"),
        (b"", "has no names"),
        (b"part,name\n0,oil\n", "row 1 has no layer"),
        (b'layer,part,name\n2,0,"oil\n', "is not a table"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=words):
            read_names(model, path)
    for name, words in (("names.txt", "ends in .json"), ("a.csv", "no such")):
        with pytest.raises(ValueError, match=words):
            read_names(model, tmp_path / name)
    path.write_text("layer,part,name\n2,0\n")
    read_names(model, path)  # a row that ends early has no name
    assert model.part_names_[1][0] == "part 0"
    with pytest.raises(ValueError, match="ends in .json"):
        write_names(model, tmp_path / "names.xlsx")
