"""`deepnmf evaluate`: K-means on the codes, scored against labels."""

from __future__ import annotations

import typer

from deepnmf.cli import inputs
from deepnmf.cli.options import DataSource, Labels, ModelFile
from deepnmf.cli.screen import say, say_json, table
from deepnmf.cli.texts import AsText, TextColumn


def evaluate(
    model: ModelFile,
    data: DataSource,
    labels: Labels = None,
    text: AsText = False,
    text_column: TextColumn = None,
    repeats: int = typer.Option(10, min=1, help="K-means runs to average over."),
    normalize_codes: str = typer.Option(
        "none", help="l2: scale every code to unit norm first; none: leave codes as they are."
    ),
    seed: int = typer.Option(0, help="Seed of K-means."),
    as_json: bool = typer.Option(False, "--json", help="Print the scores as JSON."),
) -> None:
    """Cluster the codes with K-means and score them against labels."""
    from deepnmf.evaluation import cluster_scores
    from deepnmf.evaluation.metrics import IN_WORDS, SCORES
    from deepnmf.models.storage import load_stored

    inputs.one_of("--normalize-codes", normalize_codes, inputs.NORMALIZE)
    stored = load_stored(model)
    dataset = inputs.load_for(stored, data, labels, text, text_column)
    y = inputs.load_labels(dataset, labels)
    if y is None:
        columns = f" or a column, one of {', '.join(dataset.columns)}" if dataset.columns else ""
        raise ValueError(f"{data}: comes without labels; give them with --labels FILE{columns}.")
    if len(set(y.tolist())) < 2:
        raise ValueError(
            f"{labels or data}: all labels are {str(y[0])!r}, so there is nothing to score. "
            "Scores need at least two classes."
        )
    codes = inputs.codes_of(stored, dataset)
    scores = cluster_scores(
        codes,
        y,
        repeats=repeats,
        normalize=None if normalize_codes == "none" else normalize_codes,
        random_state=seed,
    )
    if as_json:
        say_json(dict(scores))
        return
    rows = [
        (label, f"{scores[name]:.4f}", f"{scores[f'{name}_std']:.4f}", IN_WORDS[name])
        for name, label in SCORES.items()
    ]
    say(f"K-means with {scores.n_clusters} clusters on {codes.shape[0]} codes, {repeats} runs")
    say(table(("score", "mean", "deviation", "what it is"), rows, texts=1))
