"""`deepnmf cluster`: groups of samples with similar codes."""

from __future__ import annotations

import typer

from deepnmf.cli import inputs
from deepnmf.cli.options import AsJson, DataSource, ModelFile
from deepnmf.cli.screen import check_writable, say, say_json
from deepnmf.cli.texts import AsText, TextColumn

OUTPUTS = (".csv", ".tsv")


def cluster(
    model: ModelFile,
    data: DataSource,
    output: str = typer.Option(..., "-o", "--output", help="The table to write: .csv or .tsv."),
    clusters: int | None = typer.Option(
        None, min=1, help="How many clusters. [default: as many as labels of the data have]"
    ),
    method: str = typer.Option(
        "graph", help="graph (of nearest neighbours), kmeans, or leiden, which finds the number."
    ),
    neighbors: int = typer.Option(10, min=1, help="The nearest samples that each is linked to."),
    seed: int = typer.Option(0, min=0, max=2**32 - 1, help="The same seed, the same clusters."),
    text: AsText = False,
    text_column: TextColumn = None,
    as_json: AsJson = False,
) -> None:
    """Group samples by their codes, and say what the groups are made of."""
    import io

    import numpy as np
    import pandas as pd

    from deepnmf.evaluation.clusters import METHODS
    from deepnmf.explain.clusters import cluster as group
    from deepnmf.files.atomic import write_atomically
    from deepnmf.models.storage import load_stored
    from deepnmf.terminal.text import safe_cell

    inputs.one_of("--method", method, METHODS)
    target = check_writable(output, OUTPUTS)
    stored = load_stored(model)
    dataset = inputs.load_for(stored, data, None, text, text_column)
    if clusters is None and method != "leiden" and dataset.y is not None:
        clusters = len(np.unique(dataset.y))
    X = inputs.prepare_for(stored, dataset)
    try:
        found = group(stored.model, X, clusters, method, neighbors=neighbors, random_state=seed)
    except ValueError as problem:
        words = str(problem).replace("n_clusters:", "--clusters:")
        words = words.replace('method="leiden"', "--method leiden")
        raise ValueError(words) from None
    names = dataset.sample_names
    frame = pd.DataFrame(
        {"cluster": found.labels, "confidence": found.confidence.round(4)},
        index=range(len(found.labels)) if names is None else [safe_cell(name) for name in names],
    )
    buffer = io.BytesIO()
    separator = "\t" if target.suffix.lower() == ".tsv" else ","
    frame.to_csv(buffer, sep=separator, index_label="sample")
    write_atomically(target, buffer.getvalue())
    if as_json:
        say_json({"clusters": found.table(), "method": method, "output": str(target)})
        return
    say(str(found))
    say(f"written  {target}  ({len(found.labels)} samples, {len(found.sizes)} clusters)")
