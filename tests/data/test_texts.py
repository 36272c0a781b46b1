"""Documents become rows of tf-idf, and the vocabulary makes rows of further documents."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from deepnmf.data import Vectorizer, documents, read, read_texts, texts
from deepnmf.data.dataset import DataError

HEADLINES = """
oil prices rise as opec cuts crude output
crude oil output falls and opec meets on prices
opec ministers agree on lower crude output
bank lifts interest rates to slow inflation
interest rates rise and the central bank sees inflation
inflation slows and the bank cuts rates
wheat harvest falls after drought
wheat and corn exports fall after the drought
""".strip().splitlines()
EVERY = {"min_df": 1, "max_df": 1.0, "stop_words": None}


@pytest.fixture
def folder(tmp_path):
    """Eight documents in two sub-folders, and files that are none."""
    root = tmp_path / "docs"
    for number, line in enumerate(HEADLINES):
        file = root / ("money" if number in (3, 4, 5) else "goods") / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(line)
    (root / "picture.png").write_bytes(b"\x89PNG\0")
    (root / ".hidden.txt").write_bytes(b"\0")
    return root


def dense(X):
    return np.asarray(X.todense())


@pytest.mark.parametrize(
    "settings", [EVERY, {}, {"min_df": 2, "max_df": 4}, {"min_df": 0.3, "max_df": 1.0}]
)
def test_the_rows_are_those_of_scikit_learn(tmp_path, settings):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(HEADLINES))
    data, vectorizer = read_texts(path, **settings)
    asked = {"min_df": 2, "max_df": 0.5, "stop_words": "english", **settings}
    oracle = TfidfVectorizer(token_pattern=texts.WORD.pattern, **asked)
    expected = oracle.fit_transform(HEADLINES)
    assert data.feature_names.tolist() == oracle.get_feature_names_out().tolist()
    np.testing.assert_allclose(dense(data.X), dense(expected), rtol=1e-12)
    new = ["opec wants higher oil prices", "nothing known"]
    np.testing.assert_allclose(
        dense(vectorizer.transform(new)), dense(oracle.transform(new)), rtol=1e-12
    )


def test_the_most_frequent_words_are_kept(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("a b c\nbee bee cat\nbee cat dog eel\n")
    _, vectorizer = read_texts(path, max_features=2, **EVERY)
    assert vectorizer.words == ("bee", "cat")


def test_a_folder_a_file_and_a_table_are_the_same_documents(folder, tmp_path):
    of_folder, vectorizer = read_texts(folder)
    assert of_folder.sample_names[0] == "goods/0.txt"
    assert of_folder.y.tolist() == ["goods"] * 5 + ["money"] * 3
    order = [int(name.split("/")[1].split(".")[0]) for name in of_folder.sample_names]
    lines = tmp_path / "lines.txt"
    lines.write_text("\n\n".join(HEADLINES[number] for number in order))
    of_lines, same = read_texts(lines)
    assert same == vectorizer
    assert (of_lines.X != of_folder.X).nnz == 0
    assert of_lines.sample_names.tolist()[:2] == ["line 1", "line 3"]
    table = tmp_path / "table.csv"
    frame = pd.DataFrame({
        "id": [f"d{number}" for number in order],
        "text": [HEADLINES[number] for number in order],
        "kind": of_folder.y,
        "year": 1987,
    })  # fmt: skip
    frame.to_csv(table, index=False)
    of_table, same = read_texts(table)
    assert same == vectorizer
    assert (of_table.X != of_folder.X).nnz == 0
    assert of_table.sample_names[0] == "d0"
    assert of_table.columns["kind"].tolist() == of_folder.y.tolist()
    assert (vectorizer.read(table).X != of_table.X).nnz == 0
    assert read_texts(table, column="text")[1] == vectorizer


def test_the_blocks_do_not_matter(folder, monkeypatch):
    whole, vectorizer = read_texts(folder)
    monkeypatch.setattr(texts, "BLOCK", 3)
    parts, same = read_texts(folder)
    assert same == vectorizer
    assert (parts.X != whole.X).nnz == 0
    assert vectorizer.transform([]).shape == (0, len(vectorizer.words))


def test_the_vocabulary_is_the_same_after_a_round_trip(folder):
    _, vectorizer = read_texts(folder)
    assert Vectorizer.from_dict(vectorizer.to_dict()) == vectorizer


@pytest.mark.parametrize(
    "changed",
    [
        {"rule": 2}, {"rule": None}, {"words": "ab"}, {"words": ["a", 1]}, {"words": []},
        {"words": ["a", "a"]}, {"idf": [1.0]}, {"idf": [1.0, float("nan")]}, {"idf": [1.0, -1]},
        {"idf": [1.0, True]}, {"idf": [1.0, float("inf")]}, {"idf": "ab"},
    ],
)  # fmt: skip
def test_a_record_that_is_no_vocabulary_is_refused(changed):
    record = {"rule": 1, "words": ["a", "b"], "idf": [1.0, 2.0]}
    assert Vectorizer.from_dict(record).words == ("a", "b")
    with pytest.raises(ValueError, match=r"vocabulary|words|idf"):
        Vectorizer.from_dict({**record, **changed})


def test_words():
    assert texts.words_of("It's 1987: OPEC's 13th_meeting, naïve cafe\u0301!") == [
        "it", "opec", "naïve", "café",
    ]  # fmt: skip
    assert texts.words_of("x" * 41 + " " + "y" * 40) == ["y" * 40]


def hostile(path):
    """Paths that hold no texts, and what is said of them."""
    (path / "empty").mkdir()
    (path / "binary").mkdir()
    (path / "binary" / "a.txt").write_bytes(b"abc\0def")
    (path / "latin").mkdir()
    (path / "latin" / "a.txt").write_bytes("café".encode("latin-1"))
    (path / "nothing.txt").write_text("\n \n")
    (path / "zero.txt").write_bytes(b"fine\n\0\0\n")
    (path / "latin.txt").write_bytes(b"fine\nna\xefve\n")
    (path / "rare.txt").write_text("oil tanker\nwheat field\n")
    (path / "two.csv").write_text("title,words,n\na,b,1\nc,d,2\n")
    (path / "empty.csv").write_text("")
    (path / "header.csv").write_text("text\n")
    (path / "quote.csv").write_text('text,n\n"abc,1\n')
    (path / "cut.csv.gz").write_bytes(gzip.compress(b"text,n\n" + bytes(range(65, 91)) * 9)[:-20])
    (path / "plain.csv.gz").write_bytes(b"text,n\na,1\n")
    (path / "no.parquet").write_bytes(b"PAR1PAR1")
    (path / "latin.csv").write_bytes(b"text,n\nna\xefve,1\n")
    return {
        "empty": "holds no texts (.txt",
        "binary": "is not text (byte 3 is 0)",
        "latin": "is not text in UTF-8 (byte 3 is 0xe9)",
        "nothing.txt": "is empty",
        "zero.txt": "line 2: is not text (byte 0 is 0)",
        "latin.txt": "line 2: is not text in UTF-8 (byte 2 is 0xef)",
        "rare.txt": "no words are left of 4 in 2 documents (4 in fewer than min_df=2, 0",
        "two.csv": "which column holds the documents? Name it: --text-column, or column= in",
        "empty.csv": "is empty",
        "header.csv": "has no rows",
        "quote.csv": "could not be read as a table",
        "latin.csv": "could not be read as a table",
        "cut.csv.gz": "could not be read as a table",
        "plain.csv.gz": "could not be read as a table",
        "no.parquet": "could not be read as a table",
    }


def test_what_is_no_text_is_refused_in_one_line(tmp_path):
    pytest.importorskip("pyarrow")
    for name, words in hostile(tmp_path).items():
        with pytest.raises(DataError) as caught:
            read_texts(tmp_path / name)
        message = str(caught.value)
        assert message.startswith(str(tmp_path / name))
        assert words in message
        assert "\n" not in message
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        read_texts(tmp_path / "absent")
    with pytest.raises(DataError, match=r"has no column 'body'\. Its columns are title, words, n"):
        read_texts(tmp_path / "two.csv", column="body")
    with pytest.raises(DataError, match="is no table"):
        read_texts(tmp_path / "rare.txt", column="body")


def test_who_forgets_that_these_are_texts_is_told(folder, tmp_path):
    (tmp_path / "lines.txt").write_text("oil prices")
    (folder / "picture.png").unlink()
    for path in (folder, tmp_path / "lines.txt"):
        with pytest.raises(DataError, match="For texts, give --text, or use read_texts"):
            read(path)


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match="a pipe or device"):
        read_texts(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match="holds no texts"):
        read_texts(tmp_path)


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LINE", 1000)
    path = tmp_path / "lines.txt"
    path.write_text("short\n" + "long " * 1000)
    with pytest.raises(DataError, match="line 2 has more than"):
        read_texts(path)


def test_texts_that_do_not_fit_into_memory_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "docs"
    path.mkdir()
    (path / "a.txt").write_text("word " * 5000)
    monkeypatch.setenv("DEEPNMF_READ_LIMIT", "100kB")
    with pytest.raises(DataError, match=r"a\.txt: its data take"):
        read_texts(path)
    (path / "a.txt").write_text(" ".join(f"w{number}" for number in range(500)))
    with pytest.raises(DataError, match=r"docs: its data take"):
        read_texts(path)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(["some words that are everywhere"] * 2000))
    with pytest.raises(DataError, match=r"lines\.txt: its data take"):
        read_texts(lines, **EVERY)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_df": -1}, "min_df must be"), ({"max_df": 1.5}, "max_df must be"),
        ({"min_df": "2"}, "min_df must be"), ({"max_features": 0}, "max_features must be"),
        ({"stop_words": "klingon"}, "stop_words must be"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(folder, settings, words):
    with pytest.raises(ValueError, match=words):
        read_texts(folder, **settings)


def test_what_is_no_list_of_texts_is_refused(folder):
    _, vectorizer = read_texts(folder)
    with pytest.raises(ValueError, match="is a single text"):
        vectorizer.transform("oil")
    with pytest.raises(ValueError, match="text 1 is a NoneType"):
        vectorizer.transform(["oil", None])
