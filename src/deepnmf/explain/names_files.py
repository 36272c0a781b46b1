"""`write_names` and `read_names`: names of parts in a small file, for a person or a program."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepnmf.explain.rankings import top_features
from deepnmf.files.atomic import write_atomically
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.part_names import checked_hidden, checked_names
from deepnmf.terminal.text import one_line, original_cell, safe_cell

FORMATS = (".json", ".csv", ".tsv")
COLUMNS = ("layer", "part", "name", "hidden", "features")
LARGEST = 64 << 20
"""Larger files, in bytes, can only be a slip."""
YES, NO = ("true", "yes", "1"), ("false", "no", "0", "")
SHOWN = 60
"""How many characters of a feature's name are written."""


def write_names(
    model: MatrixFactorization,
    path: str | os.PathLike[str],
    feature_names: Sequence[str] | None = None,
    *,
    by: str = "relevance",
    lam: float = 0.6,
    count: int = 10,
) -> None:
    """Write the names of parts to a file, each with its leading features, to be edited.

    Parameters
    ----------
    model : a fitted model
    path : path
        A .json file, a list with one record per part, or a table: .csv or .tsv. Its columns are
        layer, part, name, hidden and features; `read_names` does not read the last.
    feature_names, by, lam, count : as in `top_features`
    """
    target = Path(path)
    _check_format(target)
    names, hidden = model._checked_names(), model._checked_hidden()
    records = []
    for layer in range(len(names), 0, -1):
        table = top_features(
            model, None, layer, feature_names, by=by, lam=lam, count=count, hidden=True
        )
        leading = {part: rows["feature_name"] for part, rows in table.groupby("part")}
        for part, name in enumerate(names[layer - 1]):
            features = [one_line(feature, SHOWN) for feature in leading.get(part, ())]
            values = (layer, part, name, part in hidden[layer - 1], features)
            records.append(dict(zip(COLUMNS, values, strict=True)))
    text = _as_json(records) if target.suffix.lower() == ".json" else _as_table(target, records)
    write_atomically(target, text.encode("utf-8"))


def _as_json(records: Sequence[Mapping[str, Any]]) -> str:
    """One line per part."""
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _as_table(path: Path, records: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in records:
        shown = {
            **record,
            "hidden": "yes" if record["hidden"] else "",
            "features": ", ".join(record["features"]),
        }
        writer.writerow([safe_cell(shown[column]) for column in COLUMNS])
    return text.getvalue()


def read_names(model: MatrixFactorization, path: str | os.PathLike[str]) -> None:
    """Give the parts of a model the names in a file, and hide those that are marked as hidden.

    A name that is empty stands for the number of the part. Parts that are not in the file keep
    their names. If anything in the file is wrong, the model stays as it was.

    Parameters
    ----------
    model : a fitted model
    path : path
        A file as `write_names` writes it: a list of records (.json) or a table (.csv, .tsv) with
        layer, part and name, and hidden if parts are to be hidden or shown.
    """
    source = Path(path)
    _check_format(source)
    try:
        names, hidden = _applied(model, _rows(source))
    except ValueError as problem:
        words = str(problem).removeprefix("part_names_: ")
        raise ValueError(f"{source}: {words}") from None
    model.part_names_, model.hidden_parts_ = names, hidden


def _check_format(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: names are in a file that ends in {', '.join(FORMATS)}.")


def _rows(path: Path) -> list[Mapping[str, Any]]:
    """The rows of a file of names, which anyone may have written."""
    if not path.is_file():
        raise ValueError("there is no such file of names.")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"is larger than {LARGEST >> 20} MB, which names of parts are not.")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not text in UTF-8. Save it as UTF-8.") from None
    rows = _json_rows(text) if path.suffix.lower() == ".json" else _table_rows(path, text)
    if not rows:
        raise ValueError("has no names. Give one row per part: layer, part, name.")
    return rows


def _json_rows(text: str) -> list[Mapping[str, Any]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"is not JSON ({one_line(problem, 80)}).") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError('is not a list of records such as {"layer": 1, "part": 0, "name": "oil"}.')
    return rows


def _table_rows(path: Path, text: str) -> list[Mapping[str, Any]]:
    head = text.partition("\n")[0]
    separator = "\t" if path.suffix.lower() == ".tsv" else ";" if ";" in head else ","
    reader = csv.DictReader(io.StringIO(text), delimiter=separator, strict=True)
    try:
        return [
            {name.strip().lower(): original_cell(cell) for name, cell in row.items() if name}
            for row in reader
        ]
    except csv.Error as problem:
        raise ValueError(f"is not a table ({problem}).") from None


def _applied(
    model: MatrixFactorization, rows: Sequence[Mapping[str, Any]]
) -> tuple[list[list[str]], list[list[int]]]:
    """The names and the hidden parts of the model, changed by the rows."""
    names: list[list[str | None]] = [list(layer) for layer in model._checked_names()]
    hidden = [set(layer) for layer in model._checked_hidden()]
    sizes, seen = [len(layer) for layer in names], set()
    for number, row in enumerate(rows, 1):
        place = f"row {number}"
        absent = [column for column in COLUMNS[:3] if column not in row]
        if absent:
            raise ValueError(f"{place} has no {absent[0]}. Give layer, part and name.")
        layer = _whole(row["layer"], f"{place}: layer", 1, len(sizes))
        part = _whole(row["part"], f"{place}: part", 0, sizes[layer - 1] - 1)
        if (layer, part) in seen:
            raise ValueError(f"{place}: part {part} of layer {layer} has a row above as well.")
        seen.add((layer, part))
        name = row["name"]
        names[layer - 1][part] = None if isinstance(name, str) and not name.strip() else name
        if "hidden" in row:
            change = hidden[layer - 1].add if _is_hidden(row, place) else hidden[layer - 1].discard
            change(part)
    return checked_names(names, sizes), checked_hidden([list(layer) for layer in hidden], sizes)


def _whole(value: Any, what: str, least: int, most: int) -> int:
    """A whole number, in JSON or as text in a table."""
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10:
        text = int(text)
    if not isinstance(text, int) or isinstance(text, bool) or not least <= text <= most:
        raise ValueError(
            f"{what} is {one_line(repr(value), 40)}, and the model has {least} to {most}."
        )
    return text


def _is_hidden(row: Mapping[str, Any], place: str) -> bool:
    value = row["hidden"]
    if value is None or isinstance(value, bool):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else ""
    if not isinstance(value, str) or word not in (*YES, *NO):
        raise ValueError(f"{place}: hidden is {one_line(repr(value), 40)}. Give yes or no.")
    return word in YES
