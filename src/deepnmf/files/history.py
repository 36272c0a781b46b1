"""The history of a fit as columns, one tensor each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deepnmf.core.history import Record
from deepnmf.files.tensors import Json

NUMBERS = ("sweep", "objective", "penalty", "seconds")
"""What every record has, besides its stage and layer."""


def add_history(add: Callable[[np.ndarray, str], str], history: Sequence[Record]) -> Json:
    """add(column, name) for every column. Returns what the header says about them. A column of
    words, or with gaps, is a column of places in a list of its values."""
    columns = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(history)):
        values = [record.get(name) for record in history]
        kinds = set(map(type, values))
        column: dict[str, Json] = {}
        if not kinds <= {int, float}:
            places = {value: place for place, value in enumerate(dict.fromkeys(values))}
            column["values"], values = list(places), [places[value] for value in values]
        array = np.asarray(values, float if float in kinds and "values" not in column else int)
        column["tensor"] = add(array, f"history_{name}")
        columns[name] = column
    return columns


def read_history(columns: Json, load: Callable[[str], np.ndarray]) -> list[Record]:
    """The history that `add_history` wrote."""
    lists = []
    for column in columns.values():
        values = load(column["tensor"]).tolist()
        if "values" in column:
            if values and min(values) < 0:
                raise IndexError("a column of the history is wrong")
            values = [column["values"][place] for place in values]
        lists.append(values)
    records = [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
    return checked_history(records)


def checked_history(history: Any) -> list[Record]:
    """The history, if it is one."""
    if not isinstance(history, list):
        raise TypeError("the history is not a list")
    for record in history:
        layer = record["layer"]
        if not isinstance(record["stage"], str) or not isinstance(layer, int | None):
            raise TypeError("the history has a record without a stage")
        if not all(isinstance(record[name], int | float) for name in NUMBERS):
            raise TypeError("the history has a record without numbers")
    return history
