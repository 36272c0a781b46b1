"""`deepnmf export`: the tables of a model, to hand over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deepnmf.cli import inputs
from deepnmf.cli.options import AsJson, Folder, ModelFile
from deepnmf.cli.screen import output_folder, say, say_json

if TYPE_CHECKING:
    from deepnmf.data import Dataset
    from deepnmf.models.storage import Stored

Samples = Annotated[
    str | None,
    typer.Argument(help="Samples, for their codes: a file or folder, or one of {datasets}."),
]


def export(
    model: ModelFile,
    output: Folder,
    data: Samples = None,
    format: str = typer.Option("csv", help="csv, parquet or json."),
    top: int = typer.Option(30, min=1, help="How many features and samples of each part to list."),
    as_json: AsJson = False,
) -> None:
    """Write tables of the parts, what they are made of, and the codes of samples."""
    from deepnmf.explain.export import FORMATS, check_format, write_tables
    from deepnmf.models.storage import load_stored

    inputs.one_of("--format", format, FORMATS)
    try:
        check_format(format)
    except ValueError as problem:
        raise ValueError(str(problem).replace('format="parquet"', "--format parquet:")) from None
    stored = load_stored(model)
    dataset = None if data is None else inputs.load_for(stored, data)
    X = None if dataset is None else inputs.prepare_for(stored, dataset)
    names = None
    if dataset is not None and dataset.sample_names is not None:
        names = dataset.sample_names.tolist()
    folder = output_folder(output)
    written = write_tables(
        stored.model,
        folder,
        X,
        features_of(stored, dataset),
        names,
        format=format,
        count=top,
    )
    if as_json:
        say_json({"files": [str(file) for file in written]})
        return
    for file in written:
        say(f"written  {file}")


def features_of(stored: Stored, dataset: Dataset | None = None) -> list[str] | None:
    """The names of the features: of the model, of the data, or of the pixels of images."""
    names = stored.notes.get("feature_names")
    if names is None and dataset is not None and dataset.feature_names is not None:
        names = [str(name) for name in dataset.feature_names]
    shape = stored.notes.get("image_shape")
    if names is None and shape and len(shape) == 2:
        names = [f"pixel {row}:{column}" for row in range(shape[0]) for column in range(shape[1])]
    return names if names and len(names) == stored.model.n_features_in_ else None
