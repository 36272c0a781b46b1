"""Rows of an experiment: one per fit, scoring and K-means run, appended fit by fit."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from deepnmf.evaluation.metrics import SCORES
from deepnmf.files.atomic import explained, write_atomically
from deepnmf.terminal import interrupts

COLUMNS = (
    "experiment", "fit", "fold", "seed", "name", "group", "repeat", *SCORES, "objective",
    "relative_error", "seconds", "version",
)  # fmt: skip
MEASURES = (
    "held_out_error", "sparsity_parts", "sparsity_codes", "stability", "stability_lowest",
)  # fmt: skip
"""Columns that need no labels."""
NAMES = (*COLUMNS, *MEASURES, "setting")
"""All columns. Older files may lack those after `COLUMNS`."""

Fitted = tuple[str, int, int]
"""A fit, by its key, its fold and its seed."""


@dataclass(frozen=True)
class Plan:
    """The rows that each fit of an experiment has."""

    setting: str
    """What the rows depend on besides the fit: data, folds, seeds, scoring."""
    count: int


class RowFile:
    """A CSV file of rows. Rows of other settings and of other fits stay in it.

    Where writing the rows of a fit was interrupted, they are dropped.
    """

    def __init__(self, path: Path, plans: Mapping[str, Plan]) -> None:
        """`plans`: the rows of each fit, by its key."""
        self.path, self.plans = path, plans
        self.done: set[Fitted] = set()
        lines = self._lines()
        counts = Counter(fit for line in lines if (fit := self._fit(line)) is not None)
        self.done = {fit for fit, count in counts.items() if count >= plans[fit[0]].count}
        cut = counts.keys() - self.done
        kept = [line for line in lines if self._fit(line) not in cut]
        content = io.StringIO()
        writer = csv.DictWriter(content, NAMES, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
        if not path.exists() or content.getvalue() != path.read_text("utf-8"):
            write_atomically(path, content.getvalue().encode())

    def append(self, rows: Sequence[Mapping[str, str | int]]) -> None:
        """Write all rows of a fit, and wait until they are on the disk."""
        content = io.StringIO()
        csv.DictWriter(content, NAMES, lineterminator="\n").writerows(rows)
        kept = explained(self.path, ", and the rows before it are kept")
        with kept, interrupts.held(), self.path.open("ab") as file:
            file.write(content.getvalue().encode())
            file.flush()
            os.fsync(file.fileno())
        first = rows[0]
        self.done.add((str(first["fit"]), int(first["fold"]), int(first["seed"])))

    def _lines(self) -> list[dict[str, str]]:
        """The rows of the file as text, without a last line that was cut off."""
        if not self.path.exists():
            return []
        read(self.path)  # refuses other files
        text = self.path.read_text("utf-8")
        lines = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]), restval="")
        return [{name: line.get(name, "") for name in NAMES} for line in lines]

    def _fit(self, line: Mapping[str, str]) -> Fitted | None:
        """The fit of a row, or None if it is not one of those that are planned."""
        plan = self.plans.get(line["fit"])
        if plan is None or plan.setting != line["setting"]:
            return None
        return line["fit"], int(line["fold"]), int(line["seed"])


def read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The rows of a file; one without the columns of an experiment is refused."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: there is no such file of rows.")
    try:
        frame = pd.read_csv(path, keep_default_na=False, na_values=["nan"])
    except ValueError as problem:
        raise ValueError(f"{path}: is not a file of rows ({problem}).") from None
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise ValueError(f"{path}: is not a file of rows: it has no column {missing[0]!r}.")
    for name in MEASURES:
        if name not in frame.columns:
            frame[name] = float("nan")
    if "setting" not in frame.columns:
        frame["setting"] = ""
    return frame


def planned(rows: pd.DataFrame, plans: Mapping[str, Plan]) -> pd.DataFrame:
    """The rows of these fits, in their settings."""
    settings = rows["fit"].map({key: plan.setting for key, plan in plans.items()})
    return rows[rows["setting"] == settings]


def of_one_setting(rows: pd.DataFrame, keys: Iterable[str], path: Path) -> pd.DataFrame:
    """The rows of these fits. A file that has some of them in two settings is refused."""
    rows = rows[rows["fit"].isin(list(keys))]
    if rows.empty:
        raise ValueError(f"{path}: has no rows of this experiment. Run it, or give another file.")
    several = rows.groupby("fit")["setting"].unique()
    several = several[several.map(len) > 1]
    if len(several):
        first, second, *_ = several.iloc[0]
        raise ValueError(
            f"{path}: has rows of {several.index[0]} in more than one setting ({first}; {second}). "
            "Copy the rows of one setting to a file of their own."
        )
    return rows
