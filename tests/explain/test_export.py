"""A model as files: what is written can be read, and is what the tables say."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepnmf import DeepNMF
from deepnmf.data import read
from deepnmf.explain import codes_table, edges_table, parts_table, read_names, write_tables
from deepnmf.explain.export import FORMATS

QUICK: dict[str, Any] = {"max_iter": 4, "pretrain_iter": 4, "tol": 0, "random_state": 0}
EVIL = "=1+1},{"


@pytest.fixture
def X(low_rank):
    return low_rank.T


@pytest.fixture
def model(X):
    model = DeepNMF((5, 3), **QUICK).fit(X)
    model.part_names_, model.hidden_parts_ = [None, [EVIL, "feature", "sample"]], [[4], []]
    return model


def table_of(path):
    if path.suffix == ".csv":
        return pd.read_csv(path)
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_json(path)


@pytest.mark.parametrize("format", FORMATS)
def test_files_hold_the_tables(model, X, format, tmp_path):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    names = [EVIL, "a\nb", "\x1b[2Jc\ud800", *map(str, range(27))]
    samples = [f"@cell {row}" for row in range(40)]
    files = write_tables(model, tmp_path / "new" / "folder", X, names, samples, format=format)
    stems = [file.name.split(".")[0] for file in files]
    assert stems == [
        "parts", "top-features", "edges", "features-layer-1", "features-layer-2",
        "codes-layer-1", "codes-layer-2", "top-samples", "names", "README",
    ]  # fmt: skip
    tables = {stem: table_of(file) for stem, file in zip(stems[:8], files, strict=False)}
    safe = "'" if format == "csv" else ""
    wanted = parts_table(model, X, names)
    assert tables["parts"]["name"][0] == safe + EVIL
    for column in ("share", "mean_code", "cosine"):
        np.testing.assert_allclose(tables["parts"][column], wanted[column])
    np.testing.assert_allclose(tables["edges"]["weight"], edges_table(model)["weight"])
    codes = tables["codes-layer-2"]
    assert codes["sample"][0] == safe + "@cell 0"
    assert codes.columns.tolist() == ["sample", safe + EVIL, "feature", "sample (part 2)"]
    np.testing.assert_allclose(codes.iloc[:, 1:], codes_table(model, X), rtol=1e-6)
    features = tables["features-layer-1"]
    assert features["feature_name"][:3].tolist() == [safe + EVIL, "a\nb", "c"]
    np.testing.assert_allclose(features.iloc[:, 2:], model.basis(1)[:4].T)
    assert "part 4" not in features.columns
    top = tables["top-features"]
    assert set(top["part"][top["layer"] == 1]) == {0, 1, 2, 3}
    for (_, _part), rows in top.groupby(["layer", "part"]):
        assert (np.diff(rows["weight"]) <= 0).all()
    read_names(model, tmp_path / "new" / "folder" / "names.json")
    assert model.hidden_parts_ == [[4], []]


def test_the_page_describes_every_column(model, X, tmp_path):
    *files, _, readme = write_tables(model, tmp_path, X, count=3)
    text = readme.read_text()
    assert "5 parts in layer 1, 3 parts in layer 2" in text
    assert "Parts that are hidden are left out: 1." in text
    assert EVIL not in text
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## )", text, re.S | re.M))
    for file in files:
        described = re.findall(r"^\| (\S+|the others) \| ", sections[file.name], re.M)[2:]
        columns = table_of(file).columns.tolist()
        if "the others" in described:
            assert columns[: len(described) - 1] == described[:-1]
        else:
            assert columns == described
    counts = table_of(files[-1]).groupby(["layer", "part"])["rank"].max()
    assert counts.max() <= 3


def test_codes_can_be_read_as_samples(model, X, tmp_path):
    write_tables(model, tmp_path, X, sample_names=[f"=cell {row}" for row in range(40)])
    again = read(tmp_path / "codes-layer-2.csv")
    np.testing.assert_allclose(again.X, codes_table(model, X), rtol=1e-6)
    assert list(again.feature_names) == [EVIL, "feature", "sample (part 2)"]
    assert again.sample_names[0] == "=cell 0"


def test_without_samples_and_with_one_layer(X, tmp_path):
    model = DeepNMF(3, max_iter=4, tol=0, random_state=0).fit(X)
    files = write_tables(model, tmp_path, format="json")
    assert [file.name for file in files] == [
        "parts.json", "top-features.json", "features-layer-1.json", "names.json", "README.md",
    ]  # fmt: skip
    first = json.loads(files[0].read_text())[0]
    assert (first["made_of"], first["used"], first["support"]) == ("", None, None)


def test_wrong_arguments(model, tmp_path):
    with pytest.raises(ValueError, match="format must be one of"):
        write_tables(model, tmp_path / "x", format="xlsx")
    with pytest.raises(ValueError, match="count: 0"):
        write_tables(model, tmp_path / "x", count=0)
    assert not (tmp_path / "x").exists()
