"""Names of features from a file, and labels from a column of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from deepnmf.data import read, read_names
from deepnmf.data.dataset import DataError

TABLE = """id,height,kind,width
a,1,oak,2
b,3,elm,4
c,5,oak,6
"""


def test_a_column_of_a_table_holds_the_labels(tmp_path):
    path = tmp_path / "trees.csv"
    path.write_text(TABLE)
    data = read(path, labels="kind")
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y.tolist() == ["oak", "elm", "oak"]
    assert data.feature_names.tolist() == ["height", "width"]
    assert data.sample_names.tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match=r"'kind' holds text.*one column labels \(--labels\)"):
        read(path)
    with pytest.raises(DataError, match=r"no column 'sort'.*id, height, kind, width\.$"):
        read(path, labels="sort")


def test_labels_in_the_first_column_and_in_numbers(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("class,a,b\n0,1,2\n1,3,4\n")
    data = read(path, labels="class")
    assert (data.X.tolist(), data.y.tolist()) == ([[1, 2], [3, 4]], [0, 1])
    assert data.sample_names is None
    path.write_text("class,a,b\nx,1,2\n,3,4\n")
    with pytest.raises(
        DataError, match=r"class: no label for 1 of 2 samples, the first is sample 1"
    ):
        read(path, labels="class")
    path.write_text("1,2\n3,4\n")
    with pytest.raises(DataError, match=r"no column 'class'"):
        read(path, labels="class")


def test_every_kind_of_table_gives_the_same_samples_and_labels(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"height": [1.0, 3], "kind": ["oak", "elm"], "width": [2.0, 4]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.tsv", "a.csv.gz", "a.parquet"):
        data = read(tmp_path / name, labels="kind")
        assert data.X.tolist() == [[1, 2], [3, 4]]
        assert data.y.tolist() == ["oak", "elm"]
        assert data.feature_names.tolist() == ["height", "width"]
    np.save(tmp_path / "a.npy", np.eye(2))
    with pytest.raises(DataError, match=r"a\.npy: has no column 'kind' for the labels\. It has no"):
        read(tmp_path / "a.npy", labels="kind")


WORDS = ["bank", "=oil", "wheat"]


@pytest.fixture(params=[".mtx", ".npz", ".npy"])
def counts(request, tmp_path):
    """A file of counts of three words, which has no names."""
    X = scipy.sparse.csr_matrix(np.arange(6.0).reshape(2, 3))
    path = tmp_path / f"counts{request.param}"
    if request.param == ".mtx":
        scipy.io.mmwrite(path, X)
    elif request.param == ".npz":
        scipy.sparse.save_npz(path, X)
    else:
        np.save(path, X.toarray())
    return path


def test_words_come_from_a_file_of_names(counts, tmp_path):
    files = {name: tmp_path / f"words{name}" for name in (".txt", ".csv", ".tsv", ".npy")}
    files[".txt"].write_text("\n".join(WORDS) + "\n")
    files[".csv"].write_text("bank,7\n'=oil,8\nwheat,9\n")
    files[".tsv"].write_text("bank\tnoun\n=oil\tnoun\nwheat\tnoun\n")
    np.save(files[".npy"], np.array(WORDS))
    for file in files.values():
        assert read(counts, feature_names=file).feature_names.tolist() == WORDS


def test_names_that_do_not_fit_are_refused(counts, tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("word\n" + "\n".join(WORDS))
    with pytest.raises(
        DataError, match=r"4 names for 3 features\. Remove the first line if 'word'"
    ):
        read(counts, feature_names=file)
    file.write_text("bank\noil\nbank\n")
    with pytest.raises(DataError, match=r"'bank' is name 1 and name 3"):
        read_names(file)
    file.write_text("")
    with pytest.raises(DataError, match="holds no names"):
        read_names(file)
    packed = tmp_path / "words.txt.gz"
    packed.write_bytes(b"\x1f\x8b damaged")
    with pytest.raises(DataError, match=r"names are read from \.npy, \.txt, \.csv or \.tsv"):
        read_names(packed)
    file.write_bytes(b"caf\xe9\n")
    with pytest.raises(DataError, match=r"not text in UTF-8 \(byte 3 is 0xe9\)"):
        read_names(file)
