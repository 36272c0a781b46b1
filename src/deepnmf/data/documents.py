"""Documents: the texts of a folder, of the lines of a file, or of a column of a table.

They are read one by one, each time that they are asked for: only one is in memory, or the
column of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deepnmf.data.dataset import DataError
from deepnmf.data.limits import check_bytes
from deepnmf.data.tables import IDS, text_cells
from deepnmf.terminal.text import one_line

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = ("", ".txt", ".text", ".md", ".rst")
"""The extensions of the documents of a folder."""
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
COLUMNS = ("text", "texts", "document", "documents", "content", "body", "abstract")
"""Names of the column that holds the documents, where several columns hold text."""
LINE = 1 << 24
"""The most bytes in a line."""
WORK = 20
"""How many bytes the work on a document takes, per byte of it."""


@dataclass(frozen=True)
class Documents:
    """Documents and what is known about them."""

    path: Path
    texts: Callable[[], Iterator[str]]
    """Reads them from the first to the last."""
    names: np.ndarray | None = None
    labels: np.ndarray | None = None
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Other columns of the table, one value per document."""
    column: str | None = None
    """The column of the table that holds the documents."""


def find_documents(path: str | Path, column: str | None = None) -> Documents:
    """The documents of a folder (one per file; the names of sub-folders are the labels), of a table
    (one per row, in the column of this name) or of another file (one per line)."""
    path = Path(path)
    if path.is_dir():
        return _of_folder(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder.")
    if not path.is_file():
        raise DataError(f"{path}: is not a file, but a pipe or device. Give a file.")
    if path.name.lower().endswith(TABLES):
        return _of_table(path, column)
    if column is not None:
        raise DataError(
            f"{path}: is no table, and has no column {one_line(column, 40)!r}. Tables are "
            f"{', '.join(TABLES)}; of other files, each line is a document."
        )
    return _of_lines(path)


def _of_folder(folder: Path) -> Documents:
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in ENDINGS and file.is_file() and not _hidden(folder, file)
    )
    if not files:
        known = ", ".join(ENDINGS[1:])
        raise DataError(f"{folder}: holds no texts ({known}, or files without an extension).")
    parents = [file.parent.relative_to(folder).as_posix() for file in files]
    return Documents(
        folder,
        lambda: map(_text_of, files),
        names=np.asarray([file.relative_to(folder).as_posix() for file in files], dtype=object),
        labels=np.asarray(parents) if any(parent != "." for parent in parents) else None,
    )


def _hidden(folder: Path, file: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _text_of(file: Path) -> str:
    check_bytes(file, float(WORK) * file.stat().st_size)
    return _decoded(f"{file}", file.read_bytes())


def _decoded(place: str, content: bytes) -> str:
    """The text of these bytes. A mark at the start, as Windows writes it, is left out."""
    zero = content.find(b"\0")
    if zero >= 0:
        raise DataError(
            f"{place}: is not text (byte {zero} is 0). Remove it, or save it as text in UTF-8."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        wrong = content[problem.start]
        raise DataError(
            f"{place}: is not text in UTF-8 (byte {problem.start} is {wrong:#x}). Save it as UTF-8 "
            "(iconv -f latin1 -t utf-8), or remove it."
        ) from None


def _of_lines(path: Path) -> Documents:
    numbers = [number for number, _ in _lines(path)]
    if not numbers:
        raise DataError(f"{path}: is empty. It should hold one document per line.")
    return Documents(
        path,
        lambda: (text for _, text in _lines(path)),
        names=np.asarray([f"line {number}" for number in numbers], dtype=object),
    )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    number = 0
    with path.open("rb") as file:
        while line := file.readline(LINE):
            number += 1
            if len(line) == LINE:
                raise DataError(
                    f"{path}: line {number} has more than {LINE // 1_000_000} MB. Each line is a "
                    "document: break it, or give a folder of files."
                )
            text = _decoded(f"{path}: line {number}", line)
            if text.strip():
                yield number, text


def _of_table(path: Path, column: str | None) -> Documents:
    table = text_cells(path)
    chosen = _column_of_texts(path, table, column)
    texts = ["" if text is None else str(text) for text in _cells(table[chosen])]
    if not texts:
        raise DataError(f"{path}: has no rows.")
    others = [name for name in table.columns if name != chosen]
    names = None
    if others and str(table.columns[0]).lower() in IDS and table[others[0]].is_unique:
        names = np.asarray([str(name) for name in table[others.pop(0)]], dtype=object)
    columns = {str(name): _cells(table[name]) for name in others}
    return Documents(path, lambda: iter(texts), names, columns=columns, column=str(chosen))


def _cells(column: pd.Series) -> np.ndarray:
    """The cells of a column; missing ones are None."""
    return np.asarray([None if cell != cell else cell for cell in column], dtype=object)


def _column_of_texts(path: Path, table: pd.DataFrame, column: str | None) -> str:
    """The column that holds the documents: the one asked for, the only one of text, or one with a
    usual name."""
    import pandas as pd

    names = [str(name) for name in table.columns]
    if column is not None:
        if names.count(column) == 1:
            return column
        raise DataError(
            f"{path}: has no column {one_line(column, 40)!r}. Its columns are "
            f"{one_line(', '.join(names))}."
        )
    words = [
        name
        for name in names
        if not pd.api.types.is_numeric_dtype(table[name]) and name.lower() not in IDS
    ]
    usual = [name for name in words if name.lower() in COLUMNS]
    if len(words) == 1 or len(usual) == 1:
        return (usual or words)[0]
    raise DataError(
        f"{path}: which column holds the documents? Name it: --text-column, or column= in "
        f"Python. Its columns are "
        f"{one_line(', '.join(names))}."
    )
