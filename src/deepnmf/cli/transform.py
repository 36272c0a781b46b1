"""`deepnmf transform`: the codes of samples under a model."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from deepnmf.cli import inputs
from deepnmf.cli.options import DataSource, ModelFile
from deepnmf.cli.screen import UsageFault, check_writable, say
from deepnmf.cli.texts import AsText, TextColumn

if TYPE_CHECKING:
    import numpy as np

    from deepnmf.data import Dataset
    from deepnmf.models.storage import Stored

OUTPUTS = (".npy", ".csv", ".tsv", ".parquet", ".h5ad")


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
    """Write the codes of samples, one row per sample. To .h5ad: DATA, with the codes in obsm."""
    from deepnmf.arrays.tensors import to_numpy
    from deepnmf.models.storage import load_stored

    target = check_writable(output, OUTPUTS)
    if target.suffix.lower() == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ValueError(
            f"{target}: writing .parquet needs pyarrow: pip install 'deepnmf[files]', or write "
            ".csv."
        )
    into_cells = target.suffix.lower() == ".h5ad"
    if into_cells and not inputs.is_h5ad(data):
        raise UsageFault(f"{output}: codes are added to DATA, and {data} is not an .h5ad file.")
    stored = load_stored(model)
    dataset = inputs.load_for(stored, data, None, text, text_column)
    if into_cells:
        say(f"written  {target}  ({_write_into_cells(stored, dataset, data, target, layer)})")
        return
    codes = to_numpy(inputs.codes_of(stored, dataset, layer))
    titles = stored.model.part_names_[-1 if layer is None else layer - 1]
    write_codes(target, codes, dataset.sample_names, titles)
    texts = hasattr(stored.model, "vectorizer_")
    empty = int((dataset.X.sum(axis=1) == 0).sum()) if texts else 0
    if empty:
        say(f"note     {empty} of {len(codes)} texts have none of the words of the model")
    say(f"written  {target}  ({codes.shape[0]} samples, {codes.shape[1]} parts)")


def _write_into_cells(
    stored: Stored, dataset: Dataset, data: str, target: Path, layer: int | None
) -> str:
    """Copy the file of the data with the codes of one layer, or of all, in its obsm."""
    from deepnmf.arrays.tensors import to_numpy
    from deepnmf.cells.annotate import names_of_layers
    from deepnmf.cells.codes_file import write_codes as write_into

    layers = names_of_layers(stored.model)
    if layer is not None:
        stored.model._fitted_layer(layer)
        layers = [(number, name) for number, name in layers if number == layer]
    codes = {
        f"X_{name}": to_numpy(inputs.codes_of(stored, dataset, number)) for number, name in layers
    }
    write_into(Path(data), target, codes)
    return ", ".join(f"obsm {name}: {Z.shape[0]} x {Z.shape[1]}" for name, Z in codes.items())


def write_codes(
    target: Path, codes: np.ndarray, names: np.ndarray | None, titles: Sequence[str]
) -> None:
    """Write codes to a file, in the format of its extension. `names` are those of the samples,
    `titles` those of the parts."""
    import io

    import numpy as np

    from deepnmf.files.atomic import write_atomically
    from deepnmf.terminal.text import safe_cell

    buffer = io.BytesIO()
    if target.suffix.lower() == ".npy":
        np.save(buffer, codes)
    else:
        import pandas as pd

        frame = pd.DataFrame(codes, columns=list(titles), index=names)
        if target.suffix.lower() == ".parquet":
            frame.to_parquet(buffer)
        else:
            frame.columns = [safe_cell(title) for title in titles]
            if names is not None:
                frame.index = [safe_cell(name) for name in names]
            separator = "\t" if target.suffix.lower() == ".tsv" else ","
            frame.to_csv(buffer, sep=separator, index=names is not None)
    write_atomically(target, buffer.getvalue())
