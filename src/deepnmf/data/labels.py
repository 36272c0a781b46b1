"""Labels of samples and names of features, from files of their own."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from deepnmf.data.dataset import DataError
from deepnmf.data.limits import check_text
from deepnmf.data.numpy_files import load_npy
from deepnmf.terminal.text import one_line, original_cell

TEXTS = ("", ".txt", ".labels", ".names", ".csv", ".tsv")
"""Files of labels and of names, besides .npy."""
HEADINGS = ("label", "labels", "class", "target", "y", "cluster")
"""First lines that are a header and not a label."""


def read_labels(path: str | Path) -> np.ndarray:
    """Labels from .npy, from text with one label per line, or from the last column of a .csv or
    .tsv. A first line such as "label" or "class" is a header."""
    return read_named_labels(path)[1]


def read_named_labels(path: str | Path) -> tuple[np.ndarray | None, np.ndarray]:
    """The names of samples, if a .csv or .tsv has them in its first column, and their labels."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        labels = load_npy(path)
        if labels.ndim != 1:
            raise DataError(f"{path}: labels must be one-dimensional, got shape {labels.shape}.")
        return None, labels
    if suffix not in TEXTS:
        raise DataError(f"{path}: labels are read from .npy, .txt, .csv or .tsv.")
    check_text(path)
    lines = [line.strip() for line in _text(path).splitlines() if line.strip()]
    rows = [[line] for line in lines]
    if suffix in (".csv", ".tsv"):
        rows = _cells(path, lines, "\t" if suffix == ".tsv" else ",")
    if rows and rows[0][-1].strip().lower() in HEADINGS:
        rows = rows[1:]
    if not rows:
        raise DataError(f"{path}: holds no labels.")
    named = all(len(row) > 1 for row in rows)
    names = np.asarray([row[0].strip() for row in rows], object) if named else None
    return names, np.asarray([row[-1].strip() for row in rows])


def read_names(path: str | Path) -> np.ndarray:
    """Names of features: one per line of a text, the first column of a .csv or .tsv, or the texts
    in a .npy. No name may stand twice."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        array = load_npy(path)
        if array.ndim != 1 or array.dtype.kind not in "Uiuf":
            raise DataError(f"{path}: names must be one row of texts (numpy.save of a list).")
        names = [str(name) for name in array]
    elif suffix not in TEXTS:
        raise DataError(f"{path}: names are read from .npy, .txt, .csv or .tsv.")
    else:
        check_text(path)
        lines = [line for line in _text(path).splitlines() if line.strip()]
        rows = [[line] for line in lines]
        if suffix in (".csv", ".tsv"):
            rows = _cells(path, lines, "\t" if suffix == ".tsv" else ",")
        names = [str(original_cell(row[0].strip())) for row in rows]
    if not names:
        raise DataError(f"{path}: holds no names.")
    place: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if place.setdefault(name, number) != number:
            raise DataError(
                f"{path}: {one_line(name, 40)!r} is name {place[name]} and name {number}. Features "
                "are found by their names: make them differ."
            )
    return np.asarray(names, dtype=object)


def _text(path: Path) -> str:
    """The text of a file. A mark at its start, as Windows writes it, is left out."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as problem:
        place, wrong = problem.start, problem.object[problem.start]
        raise DataError(
            f"{path}: is not text in UTF-8 (byte {place} is {wrong:#x}). Save it as UTF-8, or "
            "give a .npy."
        ) from None


def _cells(path: Path, lines: list[str], separator: str) -> list[list[str]]:
    """The cells of every line of a table."""
    try:
        return list(csv.reader(lines, delimiter=separator))
    except csv.Error as problem:
        raise DataError(
            f"{path}: is not a table of labels ({one_line(problem).rstrip('.')})."
        ) from None
