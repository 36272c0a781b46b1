"""The arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from deepnmf.cli.inputs import DTYPES

DataSource = Annotated[str, typer.Argument(help="A file or folder, or one of {datasets}.")]
ModelFile = Annotated[str, typer.Argument(help="A model file that `deepnmf fit` wrote.")]
Folder = Annotated[str, typer.Option("-o", "--output", help="The folder to write to.")]
Labels = Annotated[
    str | None,
    typer.Option(help="Labels: .npy, text with one per line, or a column of obs in .h5ad."),
]
Normalize = Annotated[
    str, typer.Option(help="l2: scale every sample to unit norm; none: leave samples as they are.")
]
Dtype = Annotated[str, typer.Option(help=f"{' or '.join(DTYPES)}.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
