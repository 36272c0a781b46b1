"""What a choice of layers has measured, so that nothing is measured twice."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

from deepnmf.files.atomic import explained, write_atomically
from deepnmf.terminal import interrupts
from deepnmf.terminal.text import one_line

Key = tuple[str, str, int, int]
"""What a number is about: sizes of layers, kind, and two whole numbers.

"error" and "stability" are about a layer above those of these sizes; the numbers are its size and,
for an error, the hold-out. "support l" and "edge l" are about layer l of a model of these sizes;
the numbers are the part, or the part below and the part."""
COLUMNS = ("setting", "sizes", "kind", "first", "second", "value")
KINDS = re.compile(r"error|stability|(support|edge) \d+")


class Ledger:
    """Numbers by what they are about. This one forgets at the end."""

    def __init__(self) -> None:
        self.known: dict[Key, float] = {}

    def open(self, setting: str) -> None:
        """Begin a choice. `setting` says what its numbers depend on besides their keys."""
        del setting
        self.known = {}

    def add(self, key: Key, value: float) -> None:
        """Keep a number."""
        self.known[key] = value


class FileLedger(Ledger):
    """A CSV file of numbers: a choice that was interrupted continues from it.

    Numbers of other settings stay in the file and do not count.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path = Path(path)
        self.setting = ""

    def open(self, setting: str) -> None:
        super().open(setting)
        self.setting = setting
        lines = list(self._lines())
        for line in lines:
            if line["setting"] == setting:
                key = (line["sizes"], line["kind"], int(line["first"]), int(line["second"]))
                self.known[key] = float(line["value"])
        content = io.StringIO()
        writer = csv.DictWriter(content, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        if not self.path.exists() or content.getvalue() != self.path.read_text("utf-8"):
            write_atomically(self.path, content.getvalue().encode())

    def add(self, key: Key, value: float) -> None:
        super().add(key, value)
        content = io.StringIO()
        csv.writer(content, lineterminator="\n").writerow([self.setting, *key, repr(value)])
        kept = explained(self.path, ", and the rows before it are kept")
        with kept, interrupts.held(), self.path.open("ab") as file:
            file.write(content.getvalue().encode())
            file.flush()
            os.fsync(file.fileno())

    def _lines(self) -> Iterator[dict[str, str]]:
        """The rows of the file, without a last one that was cut off."""
        if not self.path.exists():
            return
        try:
            text = self.path.read_text("utf-8")
            rows = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))
            if text and tuple(rows.fieldnames or ()) != COLUMNS:
                raise ValueError(f"its columns are not {', '.join(COLUMNS)}")
            for row in rows:
                _check(row)
                yield row
        except (ValueError, TypeError, csv.Error) as problem:
            raise ValueError(
                f"{self.path}: is not a file of numbers of a choice ({problem}). Remove it, or "
                "give another folder."
            ) from None


def _check(row: dict[str, str]) -> None:
    """Refuse a row that no choice wrote."""
    if None in row or None in row.values():
        raise ValueError("a row has too many or too few entries")
    if not KINDS.fullmatch(row["kind"]):
        raise ValueError(f"there is no kind {one_line(row['kind'], 20)}")
    numbers = [int(row["first"]), int(row["second"]), float(row["value"])]
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError("a number is not finite and >= 0")
