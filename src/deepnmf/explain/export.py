"""`write_tables`: the tables of a model as files, with a page that says what is in them."""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepnmf.explain.decoding import decoder, parts_of, shares_of
from deepnmf.explain.labels import check_count, feature_labels, shown_parts
from deepnmf.explain.names_files import write_names
from deepnmf.explain.rankings import (
    FEATURE_COLUMNS,
    SAMPLE_COLUMNS,
    frequency,
    joined,
    relevance,
    specificity,
    top_samples,
)
from deepnmf.explain.tables import (
    EDGES_COLUMNS,
    PARTS_COLUMNS,
    codes_table,
    edges_table,
    parts_table,
)
from deepnmf.files.atomic import write_atomically
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.settings import one_of
from deepnmf.terminal.text import safe_cell

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("csv", "parquet", "json")
SCORES = {
    "weight": FEATURE_COLUMNS["weight"],
    "share": FEATURE_COLUMNS["share"],
    "relevance": "how much the part is about it: λ log p(w|t) + (1 − λ) log(p(w|t)/p(w)), λ = 0.6",
    "specificity": "how much it tells the part from the others: p (p − q)/(p + q), with q the "
    "largest share that another part of the layer has of it",
}
TOP_COLUMNS = {
    **{name: FEATURE_COLUMNS[name] for name in ("layer", "part", "name", "feature")},
    "feature_name": FEATURE_COLUMNS["feature_name"],
    **SCORES,
}
"""The columns of the table of leading features."""
CSV_NOTE = (
    "Text that a spreadsheet would take for a formula, because it begins with =, +, - or @, has an "
    "apostrophe in front. The readers of deepnmf take it away."
)


@dataclass(frozen=True)
class Table:
    """A table to write: its file, what its rows are, and its columns."""

    file: str
    rows: str
    columns: Mapping[str, str]
    frame: pd.DataFrame


def write_tables(
    model: MatrixFactorization,
    folder: str | os.PathLike[str],
    X: Any = None,
    feature_names: Sequence[str] | None = None,
    sample_names: Sequence[Any] | None = None,
    *,
    format: str = "csv",
    count: int = 30,
) -> list[Path]:
    """Write everything that the tables say of a model into a folder.

    Parameters
    ----------
    model : a fitted model
    folder : path
        Created if it is not there. Files of the same names are replaced.
    X : array (n_samples, n_features), default=None
        Samples, for their codes and for the leading samples of each part.
    feature_names, sample_names : sequence, default=None
        By default those that the model and X bring.
    format : "csv", "parquet" or "json", default="csv"
    count : int, default=30
        How many features and samples of each part are listed, by each of the scores.

    Returns
    -------
    files : list of Path
        parts, top-features, features-layer-1, …, edges, names.json; with X codes-layer-1, … and
        top-samples; last README.md, which describes the files and their columns.
    """
    check_format(format)
    check_count("count", count)
    tables = _tables_of_model(model, X, feature_names, count)
    if X is not None:
        tables += _tables_of_samples(model, X, sample_names, count)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for table in tables:
        written.append(place / f"{table.file}.{format}")
        write_atomically(written[-1], _content(table.frame, format))
    names = place / "names.json"
    write_names(model, names, feature_names)
    readme = place / "README.md"
    write_atomically(readme, _readme(model, tables, format).encode())
    return [*written, names, readme]


def check_format(format: str) -> None:
    """Refuse a format that cannot be written."""
    one_of("format", format, FORMATS)
    if format == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ValueError(
            "format=\"parquet\" needs pyarrow: pip install 'deepnmf[files]', or write csv."
        )


def _tables_of_model(
    model: MatrixFactorization, X: Any, feature_names: Sequence[str] | None, count: int
) -> list[Table]:
    depth = len(model.weights_)
    tables = [
        Table(
            "parts",
            "one row per part, the last layer first",
            PARTS_COLUMNS,
            parts_table(model, X, feature_names),
        ),
        Table(
            "top-features",
            f"the features with the {count} highest scores of each part, by any of the three",
            TOP_COLUMNS,
            joined(
                [
                    table
                    for layer in range(depth, 0, -1)
                    for table in _leading(model, layer, feature_names, count, X)
                ],
                TOP_COLUMNS,
            ),
        ),
    ]
    if depth > 1:
        rows = "one row per edge between two layers: what parts are made of"
        tables.append(Table("edges", rows, EDGES_COLUMNS, edges_table(model)))
    weights, link = decoder(model)
    labels = feature_labels(model, feature_names, len(weights[0]))
    for layer in range(1, depth + 1):
        P = parts_of(weights[:layer], link)
        columns = {
            "feature": "the number of the feature, from 0",
            "feature_name": "its name",
        }
        own = _titles(model, layer, columns)
        values = {"feature": np.arange(len(labels)), "feature_name": labels}
        values |= {title: P[part] for part, title in own.items()}
        columns["the others"] = "one per part: how much of the feature it adds, with code 1"
        tables.append(
            Table(f"features-layer-{layer}", "one row per feature", columns, _frame(values))
        )
    return tables


def _tables_of_samples(
    model: MatrixFactorization, X: Any, sample_names: Sequence[Any] | None, count: int
) -> list[Table]:
    depth, tables = len(model.weights_), []
    for layer in range(1, depth + 1):
        columns = {"sample": "the name of the sample, or the number of its row"}
        codes = codes_table(model, X, layer, sample_names)
        titles = _titles(model, layer, columns)
        values = {"sample": codes.index.to_numpy()}
        values |= {title: codes.to_numpy()[:, at] for at, title in enumerate(titles.values())}
        columns["the others"] = "one per part: how much of it the sample has"
        tables.append(Table(f"codes-layer-{layer}", "one row per sample", columns, _frame(values)))
    best = [
        top_samples(model, X, None, layer, sample_names, count=count)
        for layer in range(depth, 0, -1)
    ]
    rows = f"the {count} samples that have most of each part"
    return [*tables, Table("top-samples", rows, SAMPLE_COLUMNS, joined(best, SAMPLE_COLUMNS))]


def _leading(
    model: MatrixFactorization,
    layer: int,
    feature_names: Sequence[str] | None,
    count: int,
    X: Any,
) -> list[pd.DataFrame]:
    """Per part of a layer, the features that any of the scores has among the first."""
    weights, link = decoder(model)
    P = parts_of(weights[:layer], link)
    sizes, names = np.abs(P), model._checked_names()[layer - 1]
    labels = feature_labels(model, feature_names, len(weights[0]))
    shares = shares_of(sizes, 1)
    scores = (
        sizes,
        relevance(shares, frequency(sizes if X is None else X, P.shape[1]), 0.6),
        specificity(shares),
    )
    tables = []
    for part in shown_parts(model, layer):
        leading = [np.argsort(-score[part], kind="stable")[:count] for score in scores]
        best = np.unique(np.concatenate(leading))
        best = best[P[part, best] != 0]
        best = best[np.argsort(-sizes[part, best], kind="stable")]
        values = {
            "layer": layer,
            "part": part,
            "name": names[part],
            "feature": best,
            "feature_name": labels[best],
            "weight": P[part, best],
            "share": shares[part, best],
            "relevance": scores[1][part, best],
            "specificity": scores[2][part, best],
        }
        tables.append(_frame(values))
    return tables


def _titles(model: MatrixFactorization, layer: int, taken: Mapping[str, str]) -> dict[int, str]:
    """The columns of the parts of a layer; no two columns of a table have one title."""
    names = model._checked_names()[layer - 1]
    used = {*taken, *names}
    found = {}
    for part in shown_parts(model, layer).tolist():
        title = names[part]
        while title in taken:
            title = f"{title} (part {part})"
            if title in used:
                title += "'"
        found[part] = title
    return found


def _frame(values: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(values)


def _content(frame: pd.DataFrame, format: str) -> bytes:
    """A table in a format."""
    frame = frame.copy()
    for column in frame.columns:
        if not _is_plain(frame[column]):
            frame[column] = [str(cell) for cell in frame[column]]
    if format == "json":
        lines = frame.to_json(orient="records", lines=True, force_ascii=False, double_precision=15)
        records = ",\n".join(lines.strip().split("\n"))
        return f"[\n{records}\n]\n".encode()
    buffer = io.BytesIO()
    if format == "parquet":
        frame.to_parquet(buffer, index=False)
    else:
        for column in frame.columns:
            if not _is_plain(frame[column]):
                frame[column] = [safe_cell(cell) for cell in frame[column]]
        frame.columns = [safe_cell(title) for title in frame.columns]
        frame.to_csv(buffer, index=False)
    return buffer.getvalue()


def _is_plain(column: pd.Series) -> bool:
    """Whether a column holds numbers or truth values."""
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def _readme(model: MatrixFactorization, tables: Sequence[Table], format: str) -> str:
    """What is in the folder."""
    sizes = ", ".join(
        f"{len(names)} parts in layer {layer}"
        for layer, names in enumerate(model._checked_names(), 1)
    )
    hidden = sum(map(len, model._checked_hidden()))
    lines = [
        "# Tables of a model",
        "",
        f"A {type(model).__name__} of {model.n_features_in_} features, with {sizes}. A part is a "
        "set of features with weights; a part of a higher layer is made of parts of the layer "
        "below. The code of a sample says how much of each part it has.",
    ]
    if hidden:
        lines.append(f"\nParts that are hidden are left out: {hidden}.")
    if format == "csv":
        lines.append(f"\n{CSV_NOTE}")
    for table in tables:
        lines += [
            "",
            f"## {table.file}.{format}",
            "",
            f"{table.rows[0].upper()}{table.rows[1:]}.",
            "",
        ]
        lines += ["| column | is |", "| --- | --- |"]
        lines += [f"| {name} | {_cell(text)} |" for name, text in table.columns.items()]
    lines += [
        "",
        "## names.json",
        "",
        "The names of the parts with their leading features. Edit the names, and apply them with "
        "`deepnmf rename MODEL names.json`, or in Python with `deepnmf.explain.read_names`.",
        "",
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
