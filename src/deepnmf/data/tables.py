"""Tables: CSV, TSV and Parquet. Header and index column are recognised."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepnmf.data.dataset import DataError, Dataset
from deepnmf.data.limits import check_bytes, check_text
from deepnmf.terminal.text import one_line, original_cell

if TYPE_CHECKING:
    import pandas as pd

IDS = ("id", "sample", "sample_id", "sampleid", "sample id", "index", "cell", "cell_id", "barcode")
"""Names of a first column that holds identifiers of the samples."""
COUNTED = 5
"""With at least this many columns, a first row 0, 1, 2, … is taken for a header."""
COLUMNS = 200_000
"""The most columns of a text table."""
LINE = 1 << 24
"""The most characters in a line of a text table."""
SHORT = 40
"""How many characters of an entry messages show."""
CELL = 64.0
"""About how many bytes a cell of text takes, beside its letters."""
MENTIONED = 12
"""How many columns messages name."""
MISSING = ("", "na", "n/a", "nan", "null", "none")


def read_csv(path: Path, labels: Sequence[str] = ()) -> Dataset:
    """A text table. The columns `labels` are no features.

    The separator follows the extension; a .csv may also use ";", with decimal commas or points, or
    tabs. The first row is a header if it holds text or counts the columns from 0. The first column
    holds the names of the samples if it is text, if its header is empty, or if it holds distinct
    whole numbers under a name such as "id".
    """
    import pandas as pd

    check_text(path)
    form = _format(path)
    cells = _first_row(path, form)
    header = _is_header(cells)
    # "round_trip" is exact. Other pandas versions have other defaults, which round the last digit.
    table = pd.read_csv(
        path, header=0 if header else None, low_memory=False, float_precision="round_trip", **form
    )
    # Where the header is one cell shorter, pandas takes the first column as the index.
    named = not isinstance(table.index, pd.RangeIndex)
    if isinstance(table.index, pd.MultiIndex):
        raise DataError(
            f"{path}: rows have {table.index.nlevels + table.shape[1]} entries, the first row has "
            f"{len(cells)}. They are separated by {form['sep']!r}: are there decimal commas?"
        )
    table, columns = _without_labels(path, table, labels)
    first = table.iloc[:, 0] if len(table.columns) else None
    title = next((cell for cell in cells if cell not in labels), "")
    numbered = header and title.lower() in IDS and first is not None and _counts(first)
    unnamed = header and not named and first is not None and (not title or numbered)
    return replace(_from_table(path, table, header, named, unnamed), columns=columns)


def column_names(path: Path) -> tuple[str, ...]:
    """The names of the columns of a table; none if it has no header, or cannot be read."""
    try:
        if path.suffix.lower() == ".parquet":
            from pyarrow.parquet import ParquetFile

            with ParquetFile(path) as file:
                return tuple(file.schema_arrow.names)
        cells = _first_row(path, _format(path))
    except Exception:  # a damaged file: reading it will say so
        return ()
    return tuple(cells) if _is_header(cells) else ()


def text_cells(path: Path) -> pd.DataFrame:
    """A table whose cells may be text. Its first row names the columns."""
    try:
        table = _all_cells(path)
    except (DataError, MemoryError):
        raise
    except ImportError as problem:
        raise DataError(
            f"{path}: reading it needs {problem.name}: pip install 'deepnmf[files]'."
        ) from problem
    except Exception as problem:
        raise DataError(
            f"{path}: could not be read as a table ({one_line(problem).rstrip('.')}). Is it "
            "damaged, or not in UTF-8?"
        ) from problem
    if not table.columns.is_unique:
        raise DataError(f"{path}: two of its columns have the same name.")
    return table.rename(columns=str)


def _all_cells(path: Path) -> pd.DataFrame:
    import pandas as pd

    if path.suffix.lower() == ".parquet":
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            cells = file.metadata.num_rows * file.metadata.num_columns
        check_bytes(path, CELL * cells + 4.0 * path.stat().st_size)
        return pd.read_parquet(path)
    check_text(path, 4)
    try:
        return pd.read_csv(path, **_format(path))
    except pd.errors.EmptyDataError:
        raise DataError(f"{path}: is empty.") from None


def _first_row(path: Path, form: dict[str, str]) -> list[str]:
    """The cells of the first row of a text table."""
    import pandas as pd

    try:
        top = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **form)
    except pd.errors.EmptyDataError:
        raise DataError(f"{path}: is empty.") from None
    cells = [cell.strip() for cell in top.iloc[0]]
    return [cell.replace(",", ".") for cell in cells] if form.get("decimal") == "," else cells


def _without_labels(
    path: Path, table: pd.DataFrame, labels: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """The table without its columns of labels, and these columns; missing labels are None."""
    columns = {}
    for name in labels:
        places = [at for at, title in enumerate(table.columns) if str(title).strip() == name]
        if len(places) != 1:
            known = ", ".join(_short(title) for title in table.columns[:MENTIONED])
            more = ", …" if len(table.columns) > MENTIONED else ""
            raise DataError(
                f"{path}: has {'more than one' if places else 'no'} column {_short(name)!r} for "
                f"the labels. Its columns are {known}{more}."
            )
        column = table.iloc[:, places[0]]
        values = column.to_numpy(dtype=object if _is_text(column) else None)
        if values.dtype == object:
            values = np.asarray([None if cell != cell else cell for cell in values], dtype=object)
        columns[name] = values
        table = table.drop(columns=table.columns[places[0]])
    return table, columns


def _format(path: Path) -> dict[str, str]:
    """The separator of entries and the decimal sign, as arguments of pandas."""
    lines = _first_lines(path)
    if ".tsv" in path.name.lower():
        return {"sep": "\t"}
    first = lines[0] if lines else ""
    entries = [cell.strip().strip('"') for line in lines for cell in line.split(";")]
    decimals = any("," in cell and _is_number(cell.replace(",", ".")) for cell in entries)
    if ";" in first and ("," not in first or decimals):
        return {"sep": ";", "decimal": "," if decimals else "."}
    return {"sep": "\t" if "\t" in first and "," not in first else ","}


def _first_lines(path: Path) -> list[str]:
    """The first lines of a table, which may not be too wide: pandas takes time for every column."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        lines: list[str] = []
        for _ in range(10):
            lines.append(file.readline(LINE))
            columns = 1 + max(lines[-1].count(separator) for separator in ",;\t")
            if len(lines[-1]) == LINE or columns > COLUMNS:
                raise DataError(
                    f"{path}: line {len(lines)} has more than {COLUMNS} columns, or no end. Text is"
                    " slow to read at this width: save the samples as .npy (numpy.save) or .npz."
                )
    return [line.strip() for line in lines if line]


def _counts(column: pd.Series) -> bool:
    """Whether a column holds distinct whole numbers."""
    import pandas as pd

    return bool(pd.api.types.is_integer_dtype(column) and column.is_unique)


def _is_header(cells: list[str]) -> bool:
    """Whether a first row names the columns: it has text after the first cell, counts all columns
    from 0, or counts those after a first cell that is not a number."""
    rest = cells[1:] or cells
    if any(not _is_number(cell) and cell.lower() not in MISSING for cell in rest):
        return True
    if len(cells) >= COUNTED and cells == [str(number) for number in range(len(cells))]:
        return True
    counted = [[str(number + first) for number in range(len(rest))] for first in (0, 1)]
    return not _is_number(cells[0]) and len(cells) > 2 and rest in counted


def read_parquet(path: Path, labels: Sequence[str] = ()) -> Dataset:
    """A Parquet table. A first column of text, or an index, holds the names of the samples. The
    columns `labels` are no features."""
    import pandas as pd
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        check_bytes(path, 8.0 * file.metadata.num_rows * file.metadata.num_columns)
        if file.metadata.num_columns > COLUMNS:
            raise DataError(
                f"{path}: has {file.metadata.num_columns} columns, more than {COLUMNS}, which is "
                "slow to read: save the samples as .npy (numpy.save) or .npz."
            )
    table, columns = _without_labels(path, pd.read_parquet(path), labels)
    named = not isinstance(table.index, pd.RangeIndex)
    return replace(_from_table(path, table, True, named, False), columns=columns)


def _from_table(
    path: Path, table: pd.DataFrame, header: bool, named: bool, unnamed: bool
) -> Dataset:
    if table.shape[0] == 0:
        raise DataError(f"{path}: has no rows of data.")
    names = table.index.to_numpy(dtype=object) if named else None
    if names is None and table.shape[1] > 1:
        first = table.iloc[:, 0]
        if unnamed or _is_text(first):
            names, table = first.to_numpy(dtype=object), table.iloc[:, 1:]
    for position, column in enumerate(table.columns, 1):
        if _is_text(table[column]):
            label = f"column {_short(column)!r}" if header else f"column {position}"
            example = next(cell for cell in table[column] if not _is_number(cell))
            raise DataError(
                f"{path}: {label} holds text ({_short(example)!r}). Remove it, or encode it as "
                "numbers; only the first column may hold names, and one column labels (--labels)."
            )
    X = table.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isnan(X).any():
        row, position = np.argwhere(np.isnan(X))[0]
        label = repr(table.columns[position]) if header else str(position + 1)
        raise DataError(
            f"{path}: the entry in data row {row + 1}, column {label}, is missing. Fill it or drop "
            "the row."
        )
    columns = np.asarray([original_cell(str(column)) for column in table.columns], dtype=object)
    if names is not None:
        names = np.asarray([original_cell(name) for name in names], dtype=object)
    return Dataset(
        X,
        feature_names=columns if header else None,
        sample_names=names,
        name=path.name.split(".")[0],
    )


def _short(cell: object) -> str:
    text = str(cell)
    return text if len(text) <= SHORT else f"{text[:SHORT]}…"


def _is_text(column: pd.Series) -> bool:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    # pandas holds very large whole numbers as objects, but they are numbers.
    return not all(isinstance(cell, int | float) for cell in column)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return cell == cell
