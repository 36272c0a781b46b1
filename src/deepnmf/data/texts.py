"""Texts as rows of tf-idf, and the vocabulary that makes rows of further texts."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from deepnmf.data.dataset import DataError, Dataset
from deepnmf.data.documents import Documents, find_documents
from deepnmf.data.limits import check_bytes
from deepnmf.data.readers import READERS

if TYPE_CHECKING:
    from deepnmf.arrays import Data

WORD = re.compile(r"\b[^\W\d_]\w{1,39}\b")
"""A word: two to forty letters, digits and underscores, of which the first is a letter."""
RULE = 1
"""How texts become words. A file of another rule is refused."""
MAX_FEATURES = 20_000
BLOCK, LETTERS = 500, 10_000_000
"""How many documents are counted at a time, and about how many letters."""
COUNTED = 300
"""About how many bytes it takes to count one word, and"""
ENTRY = 24
"""one entry of a sparse matrix, while its blocks are joined."""


@dataclass(frozen=True)
class Vectorizer:
    """Texts as rows of tf-idf.

    x_j = n_j idf_j / ‖n ∘ idf‖, where n_j counts word j in the text, and
    idf_j = log((1 + texts) / (1 + texts with word j)) + 1.

    Words are in lower case. They have two to forty letters or digits, the first of them a letter;
    words that are not in `words` do not count.
    """

    words: tuple[str, ...]
    idf: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.words or len(set(self.words)) != len(self.words):
            raise ValueError("the words are none, or one of them stands twice")
        if len(self.idf) != len(self.words) or not all(
            math.isfinite(value) and value > 0 for value in self.idf
        ):
            raise ValueError(f"idf is not {len(self.words)} numbers > 0")

    def transform(self, texts: Iterable[str]) -> Data:
        """Texts as rows of unit norm (sparse); zeros for a text without any of the words."""
        return self._rows(texts, Path("texts"))

    def read(self, path: str | Path, column: str | None = None) -> Dataset:
        """The documents of a folder, file or table as `read_texts` reads them, in these words."""
        return self._dataset(find_documents(path, column))

    def _dataset(self, documents: Documents) -> Dataset:
        return Dataset(
            self._rows(documents.texts(), documents.path),
            documents.labels,
            feature_names=np.asarray(self.words, dtype=object),
            sample_names=documents.names,
            columns=documents.columns,
            name=documents.path.name.split(".")[0],
        )

    def _rows(self, texts: Iterable[str], path: Path) -> Data:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.preprocessing import normalize

        place = {word: number for number, word in enumerate(self.words)}
        counter = CountVectorizer(analyzer=words_of, vocabulary=place, dtype=np.float64)
        blocks, entries = [], 0
        for block in _blocks(texts):
            counts = scipy.sparse.csr_matrix(counter.transform(block))
            entries += counts.nnz
            check_bytes(path, float(ENTRY) * entries)
            counts.data *= np.asarray(self.idf)[counts.indices]
            blocks.append(normalize(counts, copy=False))
        if not blocks:
            return scipy.sparse.csr_matrix((0, len(self.words)))
        return scipy.sparse.vstack(blocks, format="csr")

    def to_dict(self) -> dict[str, Any]:
        """What a model file holds of it."""
        return {"rule": RULE, "words": list(self.words), "idf": list(self.idf)}

    @classmethod
    def from_dict(cls, record: Any) -> Vectorizer:
        """The vectorizer of a model file; a ValueError for what is none."""
        if not isinstance(record, Mapping) or record.get("rule") != RULE:
            raise ValueError("its vocabulary is of a kind that this version does not read")
        words, idf = record.get("words"), record.get("idf")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("the words of its vocabulary are not texts")
        if not isinstance(idf, list) or not all(type(value) in (int, float) for value in idf):
            raise ValueError("the idf of its vocabulary are not numbers")
        return cls(tuple(words), tuple(float(value) for value in idf))


def read_texts(
    path: str | Path,
    *,
    column: str | None = None,
    max_features: int | None = MAX_FEATURES,
    min_df: int | float = 2,
    max_df: int | float = 0.5,
    stop_words: str | Sequence[str] | None = "english",
) -> tuple[Dataset, Vectorizer]:
    """Documents as rows of tf-idf with unit norm, and the vectorizer for further documents.

    `path` is a folder of text files (.txt, .text, .md, .rst or without an extension; the names of
    sub-folders are the labels), a .csv, .tsv or .parquet table with a document per row, or another
    file with a document per line; all in UTF-8. `column` names the column of the table, if more
    than one holds text; the others become `columns`.

    The vocabulary has the `max_features` most frequent of the words that at least `min_df` and at
    most `max_df` documents have (numbers of documents, or shares), and that are no `stop_words`:
    "english", a list, or None.

    Documents are read twice, one by one, and not kept: memory grows with the distinct
    words and with the entries of X, up to half of the memory (DEEPNMF_READ_LIMIT).
    """
    documents = find_documents(path, column)
    vectorizer = _learned(documents, max_features, min_df, max_df, _stop_words(stop_words))
    return vectorizer._dataset(documents), vectorizer


def is_text(path: str | Path) -> bool:
    """Whether this can be read as texts, and not as a matrix of numbers: a folder, a table, or a
    file of an extension that no other reader knows."""
    path = Path(path)
    if path.is_dir():
        return path.suffix.lower() != ".zarr"
    numbers = [ending for ending in READERS if not ending.startswith((".csv", ".tsv", ".parquet"))]
    return not path.name.lower().endswith(tuple(numbers))


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    return WORD.findall(unicodedata.normalize("NFC", text).lower())


def _learned(
    documents: Documents,
    max_features: int | None,
    min_df: int | float,
    max_df: int | float,
    stop_words: frozenset[str],
) -> Vectorizer:
    """The vocabulary of documents."""
    if max_features is not None and max_features < 1:
        raise ValueError(f"max_features must be a number ≥ 1 or None, got {max_features}.")
    total, holders, frequency = 0, Counter[str](), Counter[str]()
    for block in _blocks(documents.texts()):
        for text in block:
            words = [word for word in words_of(text) if word not in stop_words]
            frequency.update(words)
            holders.update(set(words))
        total += len(block)
        check_bytes(documents.path, float(COUNTED) * len(holders))
    low, high = _count("min_df", min_df, total), _count("max_df", max_df, total)
    kept = sorted(word for word, count in holders.items() if low <= count <= high)
    if not kept:
        rare = sum(count < low for count in holders.values())
        raise DataError(
            f"{documents.path}: no words are left of {len(holders)} in {total} documents ({rare} "
            f"in fewer than min_df={min_df}, {len(holders) - rare} in more than max_df={max_df}). "
            "Give more documents, or min_df=1 and max_df=1.0."
        )
    if max_features is not None:
        kept = sorted(sorted(kept, key=lambda word: -frequency[word])[:max_features])
    idf = tuple(math.log((1 + total) / (1 + holders[word])) + 1 for word in kept)
    return Vectorizer(tuple(kept), idf)


def _count(name: str, value: int | float, total: int) -> float:
    """A number of documents: a whole number, or a share of all."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or value < 0 or (isinstance(value, float) and not value <= 1):
        raise ValueError(
            f"{name} must be a number of documents (2) or a share of them (0.5), got {value!r}."
        )
    return value * total if isinstance(value, float) else value


def _stop_words(stop_words: str | Sequence[str] | None) -> frozenset[str]:
    if stop_words is None:
        return frozenset()
    if stop_words == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    if isinstance(stop_words, str):
        raise ValueError(f'stop_words must be "english", a list or None, got {stop_words!r}.')
    return frozenset(word.lower() for word in stop_words)


def _checked(texts: Iterable[str]) -> Iterator[str]:
    if isinstance(texts, str):
        raise ValueError("texts must be a list of texts, and is a single text: put it in a list.")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"text {number} is a {type(text).__name__}, not a text.")
        yield text


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    letters = 0
    for text in _checked(texts):
        block.append(text)
        letters += len(text)
        if len(block) == BLOCK or letters > LETTERS:
            yield block
            block, letters = [], 0
    if block:
        yield block
