"""Text for the screen and for spreadsheets, whoever wrote it."""

from __future__ import annotations

import re

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])?")
"""What terminals take for commands."""
CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
REORDERING = "\u200e\u200f\u2028-\u202e\u2066-\u2069"
UNPRINTABLE = "\ud800-\udfff"
HIDDEN = re.compile(f"[{CONTROLS}{REORDERING}{UNPRINTABLE}]")
"""Characters that are not shown, except newlines and tabs."""


def printable(text: str) -> str:
    """A text without terminal escapes and control characters. Newlines and tabs stay."""
    return HIDDEN.sub("", ESCAPES.sub("", text))


def one_line(text: object, most: int = 200) -> str:
    """A printable text on one line, cut after `most` characters."""
    line = " ".join(printable(str(text)).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def safe_cell(cell: object) -> object:
    """A cell of a table that no spreadsheet runs as a formula: text that would be one, and is not
    a number, gets an apostrophe in front."""
    return f"'{cell}" if isinstance(cell, str) and _would_run(cell) else cell


def original_cell(cell: object) -> object:
    """The cell that `safe_cell` was given."""
    if isinstance(cell, str) and cell.startswith("'") and _would_run(cell[1:]):
        return cell[1:]
    return cell


def _would_run(text: str) -> bool:
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False
