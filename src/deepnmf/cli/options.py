"""The arguments and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from deepnmf.cli.inputs import DTYPES

DataSource = Annotated[str, typer.Argument(help="A file or folder, or one of {datasets}.")]
ModelFile = Annotated[str, typer.Argument(help="A model file that `deepnmf fit` wrote.")]
Folder = Annotated[str, typer.Option("-o", "--output", help="The folder to write to.")]
Labels = Annotated[
    str | None,
    typer.Option(
        help="Labels: .npy, text with one per line, or a column of a table or of obs in .h5ad."
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option("--labels", help="A column of the table that holds labels, and is no feature."),
]
Grid = Annotated[
    str | None,
    typer.Option(
        help="Height and width where samples are the pixels of an image, row after row: 95x95. "
        "The page then shows maps of the codes."
    ),
]
Normalize = Annotated[
    str, typer.Option(help="l2: scale every sample to unit norm; none: leave samples as they are.")
]
Dtype = Annotated[str, typer.Option(help=f"{' or '.join(DTYPES)}.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]

OPTIONS = {
    "layer_sizes": "--layers", "max_iter": "--max-iter", "pretrain_iter": "--pretrain-iter",
    "tol": "--tol", "max_memory": "--max-memory", "project_codes": "--project-codes",
    "random_state": "--seed", "penalty_W": "--mu", "penalty_H": "--lam",
    "layer_weights": "--layer-weights", "decoding_weight": "--decoding-weight",
    "graph_strength": "--graph-strength",
}  # fmt: skip
"""The options of `fit` whose parameters have names that mean nothing else."""
FIRST = (
    "link", "start", "fill", "scaling", "objective", "graph", "solver", "device", "checkpoint",
)  # fmt: skip
"""Further options, which are also common words. A message about one begins with it."""


def in_options(message: str, also: Sequence[str] = ()) -> str:
    """A message of the library with the names of options in place of the names of parameters.
    `also`: further options that a message may begin with."""
    message = re.sub(r", or an? \w+( or an? \w+)?, got", ", got", message)
    message = re.sub(rf"^({'|'.join((*FIRST, *also))})\b", r"--\1", message)
    message = re.sub(r"(?<!-)\bdevice=", "--device=", message)
    for name, option in OPTIONS.items():
        message = re.sub(rf"(?<![-\w]){name}\b", option, message)
    return re.sub(r"(--[a-z-]+)=\"?(\w+)\"?", r"\1 \2", message)
