"""`deepnmf transform`: the codes of samples under a model."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from deepnmf.cli import inputs
from deepnmf.cli.options import DataSource, ModelFile
from deepnmf.cli.screen import check_writable, say
from deepnmf.cli.texts import AsText, TextColumn

if TYPE_CHECKING:
    import numpy as np

OUTPUTS = (".npy", ".csv", ".tsv", ".parquet")


def transform(
    model: ModelFile,
    data: DataSource,
    output: str = typer.Option(
        ..., "-o", "--output", help=f"The file of codes to write: {', '.join(OUTPUTS)}."
    ),
    layer: int | None = typer.Option(None, help="Codes of this layer, 1 … L. [default: L]"),
    text: AsText = False,
    text_column: TextColumn = None,
) -> None:
    """Write the codes of samples, one row per sample."""
    from deepnmf.arrays.tensors import to_numpy
    from deepnmf.models.storage import load_stored

    target = check_writable(output, OUTPUTS)
    if target.suffix.lower() == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ValueError(
            f"{target}: writing .parquet needs pyarrow: pip install 'deepnmf[files]', or write "
            ".csv."
        )
    stored = load_stored(model)
    dataset = inputs.load_for(stored, data, None, text, text_column)
    X = inputs.prepare_for(stored, dataset)
    codes = to_numpy(stored.model.transform(X, layer=layer))
    write_codes(target, codes, dataset.sample_names)
    empty = int((X.sum(axis=1) == 0).sum()) if hasattr(stored.model, "vectorizer_") else 0
    if empty:
        say(f"note     {empty} of {len(codes)} texts have none of the words of the model")
    say(f"written  {target}  ({codes.shape[0]} samples, {codes.shape[1]} parts)")


def write_codes(target: Path, codes: np.ndarray, names: np.ndarray | None) -> None:
    """Write codes to a file, in the format of its extension."""
    import io

    import numpy as np

    from deepnmf.files.atomic import write_atomically
    from deepnmf.terminal.text import safe_cell

    buffer = io.BytesIO()
    if target.suffix.lower() == ".npy":
        np.save(buffer, codes)
    else:
        import pandas as pd

        # Numbered from 0, as in the report and by `explain`.
        columns = [f"part {number}" for number in range(codes.shape[1])]
        frame = pd.DataFrame(codes, columns=columns, index=names)
        if target.suffix.lower() == ".parquet":
            frame.to_parquet(buffer)
        else:
            if names is not None:
                frame.index = [safe_cell(name) for name in names]
            separator = "\t" if target.suffix.lower() == ".tsv" else ","
            frame.to_csv(buffer, sep=separator, index=names is not None)
    write_atomically(target, buffer.getvalue())
