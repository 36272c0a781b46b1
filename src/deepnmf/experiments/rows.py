"""Rows of an experiment: one per fit, scoring and K-means run, appended fit by fit."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from deepnmf.evaluation.metrics import SCORES
from deepnmf.files.atomic import write_atomically

COLUMNS = (
    "experiment", "fit", "fold", "seed", "name", "group", "repeat", *SCORES, "objective",
    "relative_error", "seconds", "version",
)  # fmt: skip
MEASURES = ("held_out_error", "sparsity_parts", "sparsity_codes", "stability")
"""Columns that need no labels; older files may lack them."""
DONE = ("fit", "fold", "seed")


class RowFile:
    """A CSV file of rows. Where writing the rows of a fit was interrupted, they are dropped."""

    def __init__(self, path: Path, expected: Mapping[str, int]) -> None:
        """`expected`: how many rows each fit has, by its key."""
        self.path = path
        self.done: set[tuple[str, int, int]] = set()
        if not path.exists():
            write_atomically(path, (",".join((*COLUMNS, *MEASURES)) + "\n").encode())
            return
        kept = []
        for key, rows in self._complete_lines().groupby(list(DONE), sort=False):
            if len(rows) == expected.get(str(key[0])):
                self.done.add((str(key[0]), int(key[1]), int(key[2])))
                kept.append(rows)
        frame = pd.concat(kept) if kept else pd.DataFrame(columns=[*COLUMNS, *MEASURES])
        write_atomically(path, frame.to_csv(index=False, na_rep="nan").encode())

    def append(self, rows: Sequence[Mapping[str, str | int]]) -> None:
        """Write all rows of a fit, and wait until they are on the disk."""
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, (*COLUMNS, *MEASURES)).writerows(rows)
            file.flush()
            os.fsync(file.fileno())
        self.done.add(tuple(rows[0][name] for name in DONE))  # type: ignore[arg-type]

    def _complete_lines(self) -> pd.DataFrame:
        """The rows of the file, without a last line that was cut off."""
        text = self.path.read_text("utf-8")
        complete = text[: text.rfind("\n") + 1]
        if complete != text:
            write_atomically(self.path, complete.encode())
        return read(self.path)


def read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The rows of a file; one without the columns of an experiment is refused."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: there is no such file of rows.")
    frame = pd.read_csv(path, keep_default_na=False, na_values=["nan"])
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise ValueError(f"{path}: is not a file of rows: it has no column {missing[0]!r}.")
    for name in MEASURES:
        if name not in frame.columns:
            frame[name] = float("nan")
    return frame
