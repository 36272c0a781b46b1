"""Labels on the command line: from files, by name, from the data."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import FEW


def test_evaluate_with_labels_from_a_file(call, data, model, tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(["a", "b"] * 20))
    code, out, _ = call("evaluate", model, data, "--labels", labels)
    assert code == 0
    assert "2 clusters on 40 codes" in out
    code, _, err = call("evaluate", model, data)
    assert (code, err) == (
        1,
        f"error: {data}: comes without labels; give them with --labels FILE.\n",
    )
    labels.write_text("a\nb\n")
    code, _, err = call("evaluate", model, data, "--labels", labels)
    assert (code, err) == (1, f"error: {labels}: holds 2 labels for 40 samples.\n")


def test_labels_are_matched_by_the_names_of_the_samples(call, tmp_path, low_rank):
    names = [f"s{place}" for place in range(40)]
    kinds = ["a", "b", "b", "c"] * 10
    table, labels, model = tmp_path / "x.csv", tmp_path / "y.csv", tmp_path / "m.safetensors"
    pd.DataFrame(low_rank.T, index=names).to_csv(table)
    assert call("fit", table, "-o", model, "--layers", "8,5", *FEW)[0] == 0
    scores = []
    for order in (range(40), range(39, -1, -1)):
        rows = [f"{names[place]},{kinds[place]}" for place in order]
        labels.write_text("\n".join(["sample,label", *rows]))
        code, out, _ = call("evaluate", model, table, "--labels", labels, "--json")
        assert code == 0
        scores.append(json.loads(out))
    assert scores[0] == scores[1]
    labels.write_text(labels.read_text().replace("s7,", "other,"))
    code, _, err = call("evaluate", model, table, "--labels", labels)
    assert code == 1
    assert "has no label for 's7', one of 1 samples" in err
    labels.write_text("\n".join(["label", *["a"] * 40]))
    code, _, err = call("evaluate", model, table, "--labels", labels)
    assert code == 1
    assert "all labels are 'a', so there is nothing to score." in err


def test_a_column_of_labels_is_no_feature_from_the_fit_on(call, low_rank, tmp_path):
    table, model, codes = (tmp_path / name for name in ("x.csv", "m.safetensors", "codes.csv"))
    frame = pd.DataFrame(low_rank.T).rename(columns=str).rename(columns=lambda name: f"f{name}")
    frame.insert(3, "kind", ["oak", "elm"] * 20)
    frame.to_csv(table, index=False)
    code, _, err = call("fit", table, "-o", model)
    assert (code, "'kind' holds text" in err) == (1, True)
    assert call("fit", table, "--labels", "kind", "-o", model, "--layers", "8,5", *FEW)[0] == 0
    assert call("transform", model, table, "-o", codes)[0] == 0
    assert pd.read_csv(codes).shape == (40, 5)
    code, out, _ = call("evaluate", model, table, "--json")
    assert (code, json.loads(out)["n_clusters"]) == (0, 2)
    other = tmp_path / "other.txt"
    other.write_text("\n".join("abcd" * 10))
    code, out, _ = call("evaluate", model, table, "--labels", other, "--json")
    assert (code, json.loads(out)["n_clusters"]) == (0, 4)
    table.write_text(frame.drop(columns="kind").to_csv(index=False))
    code, _, err = call("fit", table, "--labels", "kind", "-o", model)
    assert (code, err) == (1, f"error: --labels: {table} has no column 'kind'.\n")


def test_names_of_features_are_kept_in_the_model(call, data, tmp_path):
    words, model = tmp_path / "words.txt", tmp_path / "m.safetensors"
    words.write_text("\n".join(f"word{number}" for number in range(30)))
    arguments = ("--feature-names", words, "--layers", "8,5", *FEW)
    assert call("fit", data, "-o", model, *arguments)[0] == 0
    from deepnmf.models.storage import load_stored

    assert load_stored(model).notes["feature_names"][3] == "word3"
    words.write_text("one\n")
    code, _, err = call("fit", data, "-o", model, *arguments)
    assert (code, err) == (1, f"error: {words}: holds 1 names for 30 features.\n")


def test_labels_from_a_column_of_the_data(call, low_rank, model, tmp_path):
    h5py = pytest.importorskip("h5py")
    cells = tmp_path / "cells.h5ad"
    with h5py.File(cells, "w") as file:
        file["X"] = low_rank.T
        file["obs/_index"] = [f"cell {place}" for place in range(40)]
        file["obs/batch"] = np.arange(40) % 4
        file["obs/type/categories"] = ["B", "T"]
        file["obs/type/codes"] = np.arange(40) % 2
        file["obs/gaps/categories"] = ["B", "T"]
        file["obs/gaps/codes"] = np.arange(40) % 2 - np.equal(np.arange(40), 6)
    for column, clusters in (("batch", 4), ("type", 2)):
        code, out, _ = call("evaluate", model, cells, "--labels", column, "--json")
        assert code == 0
        assert json.loads(out)["n_clusters"] == clusters
    code, _, err = call("evaluate", model, cells, "--labels", "gaps")
    assert code == 1
    assert "gaps: no label for 1 of 40 samples, the first is sample 6." in err
    _, _, err = call("evaluate", model, cells)
    assert "give them with --labels FILE or a column, one of batch, gaps, type." in err
    code, _, err = call("evaluate", model, cells, "--labels", "cell_type")
    assert code == 1
    assert "the data have no such column. They have batch, gaps, type." in err
