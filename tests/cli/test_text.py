"""Texts on the command line: fitted, and encoded with nothing but the model file."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import deepnmf
from deepnmf.data import read_texts
from deepnmf.files.tensors import TensorFile, open_tensors
from deepnmf.models.storage import ModelFileError, load_stored
from tests.cli.conftest import FEW
from tests.data.test_texts import HEADLINES

WORDS = (
    "oil", "bank", "wheat", "opec", "corn", "rates", "drought", "crude", "inflation", "harvest",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """60 documents of three classes."""
    rng = np.random.default_rng(0)
    root = tmp_path / "docs"
    for number in range(60):
        group = number % 3
        line = (
            rng.choice(HEADLINES[group * 3 : group * 3 + 2], 2).tolist()
            + rng.choice(WORDS, 2).tolist()
        )
        file = root / "abc"[group] / f"{number:02}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(" ".join(line))
    return root


@pytest.fixture
def model(call, folder, tmp_path):
    path = tmp_path / "texts.safetensors"
    code, _, err = call("fit", folder, "--text", "-o", path, "--layers", "6,3", "--seed", 1, *FEW)
    assert (code, err) == (0, "")
    return path


def test_a_model_of_texts_needs_nothing_else(call, folder, model, tmp_path):
    new, codes = tmp_path / "new", tmp_path / "codes.csv"
    new.mkdir()
    for number, line in enumerate(HEADLINES):
        (new / f"{number}.txt").write_text(line)
    for arguments in ((), ("--text",)):
        assert call("transform", model, new, *arguments, "-o", codes)[0] == 0
        written = pd.read_csv(codes, index_col=0)
        assert written.index[0] == "0.txt"
        loaded = deepnmf.load(model)
        X = read_texts(folder)[1].transform(HEADLINES).astype("float32")
        np.testing.assert_allclose(written, loaded.transform(X), rtol=1e-4, atol=1e-6)
        X = loaded.vectorizer_.transform(HEADLINES).astype("float32")
        np.testing.assert_allclose(written, loaded.transform(X), rtol=1e-4, atol=1e-6)
    (new / "0.txt").write_text("nothing that it knows")
    code, out, _ = call("transform", model, new, "-o", codes)
    assert (code, "note     1 of 8 texts have none of the words of the model" in out) == (0, True)


def test_the_other_commands_read_texts_too(call, folder, model, tmp_path):
    code, out, _ = call("evaluate", model, folder, "--json")
    assert (code, json.loads(out)["n_clusters"]) == (0, 3)
    assert call("cluster", model, folder, "-o", tmp_path / "c.csv")[0] == 0
    code, out, _ = call("info", model)
    words = len(load_stored(model).model.vectorizer_.words)
    assert f"reads                 text ({words} words)" in out
    code, out, _ = call("info", model, "--json")
    assert json.loads(out)["reads"] == f"text ({words} words)"
    page = tmp_path / "report.html"
    code, _, err = call("report", model, folder, "-o", page)
    assert code == 0 or "deepnmf[report]" in err
    if code == 0:
        assert "inflation" in page.read_text("utf-8")


def test_a_column_of_a_table_holds_the_texts(call, tmp_path):
    table, model, codes = (tmp_path / name for name in ("t.csv", "m.safetensors", "codes.npy"))
    frame = pd.DataFrame({"head": HEADLINES * 6, "kind": ["a", "b"] * 24, "other": "words"})
    frame.to_csv(table, index=False)
    code, _, err = call("fit", table, "--text", "-o", model, *FEW)
    assert code == 1
    assert "which column holds the documents? Name it: --text-column" in err
    settings = ("--text-column", "head", "--labels", "kind", "--layers", "4,2", *FEW)
    assert call("fit", table, *settings, "-o", model)[0] == 0
    assert call("transform", model, table, "-o", codes)[0] == 0
    assert np.load(codes).shape == (48, 2)
    code, out, _ = call("evaluate", model, table, "--json")
    assert (code, json.loads(out)["n_clusters"]) == (0, 2)


def test_options_of_texts_shape_the_vocabulary(call, folder, tmp_path):
    model, words = tmp_path / "m.safetensors", tmp_path / "stop.txt"
    words.write_text("oil\nopec\n")
    settings = ("--max-features", 8, "--min-df", 1, "--max-df", "0.9", "--stop-words", words)
    assert call("fit", folder, "--text", *settings, "-o", model, "--layers", "4", *FEW)[0] == 0
    kept = load_stored(model).model.vectorizer_.words
    assert len(kept) == 8
    assert not {"oil", "opec"} & set(kept)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--min-df", "2"), 2, "--min-df is about texts: give --text as well"),
        (("--text", "--max-memory", "1GB"), 2, "texts are read into memory"),
        (("--text", "--feature-names", "x"), 2, "the words are the names"),
        (("--text", "--min-df", "two"), 2, "--min-df must be a number of documents"),
        (("--text", "--min-df", "70"), 1, "in fewer than --min-df=70, 0 in more"),
        (("--text", "--text-column", "x"), 1, "No such"),
    ],
)
def test_what_does_not_go_together_is_refused(call, folder, tmp_path, arguments, code, words):
    if words == "No such":
        words, folder = "has no column 'x'", tmp_path / "t.csv"
        folder.write_text("text,n\na,1\n")
    got, _, err = call("fit", folder, *arguments, "-o", tmp_path / "m.safetensors")
    assert (got, err.count("\n")) == (code, 1)
    assert words in err


def test_a_model_of_numbers_reads_no_texts(call, data, tmp_path, folder):
    model = tmp_path / "m.safetensors"
    assert call("fit", data, "-o", model, "--layers", "8,5", *FEW)[0] == 0
    code, _, err = call("transform", model, folder, "--text", "-o", tmp_path / "c.csv")
    assert (code, "was not fitted to texts" in err) == (2, True)
    code, out, _ = call("info", model)
    assert "reads                 numbers" in out


def changed(path, **values):
    """The model file with another vocabulary, and checksums that fit."""
    tensors = TensorFile()
    with open_tensors(path, "deepnmf") as file:
        header = file.header
        for name in file:
            tensors.add_array(file[name].copy(), name)
    header["vectorizer"] = {**header["vectorizer"], **values}
    tensors.save(path, "deepnmf", header)


@pytest.mark.parametrize(
    "values",
    [{"words": ["a"], "idf": [1.0]}, {"words": 3}, {"idf": [1e999]}, {"rule": 7}, {"words": [[]]}],
)
def test_a_damaged_vocabulary_is_refused(model, values):
    changed(model, **values)
    with pytest.raises(ModelFileError, match="is not a deepnmf model file, or is cut short"):
        deepnmf.load(model)


def test_a_vocabulary_of_another_model_is_not_saved(model, tmp_path):
    loaded = deepnmf.load(model)
    kept = loaded.vectorizer_
    loaded.vectorizer_ = type(kept)(kept.words[:2], kept.idf[:2])
    with pytest.raises(ValueError, match="has 2 words"):
        loaded.save(tmp_path / "m.safetensors")
