"""Data: the named data sets of the paper, and readers of users' files."""

from deepnmf.data.dataset import Dataset
from deepnmf.data.datasets import (
    load_digits,
    load_orl,
    load_pie,
    load_reuters,
    load_samson,
    load_worm,
)
from deepnmf.data.labels import read_labels, read_names
from deepnmf.data.readers import open_on_disk, read
from deepnmf.data.texts import Vectorizer, read_texts

__all__ = [
    "Dataset",
    "Vectorizer",
    "load_digits",
    "load_orl",
    "load_pie",
    "load_reuters",
    "load_samson",
    "load_worm",
    "open_on_disk",
    "read",
    "read_labels",
    "read_names",
    "read_texts",
]
