"""What `deepnmf fit` says about a fit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from deepnmf.cli.agreement import choice_of, support_of
from deepnmf.cli.options import in_options
from deepnmf.cli.screen import say

if TYPE_CHECKING:
    from deepnmf.data import Dataset
    from deepnmf.models.base import MatrixFactorization


@dataclass(frozen=True)
class Training:
    """A fitted model, its data, and the time it took."""

    estimator: MatrixFactorization
    dataset: Dataset
    samples: int
    features: int
    norm: float
    """‖X‖, as the model saw it."""
    seconds: float
    advice: list[str]
    """What `fit` warned of."""


class Summary(TypedDict):
    """What `fit` says about the model it wrote."""

    file: str
    model: str
    samples: int
    features: int
    layers: list[int]
    relative_error: float
    sweeps: int
    zeros: list[float]
    dead_units: int
    seconds: float
    status: str
    choice: list[str]
    """Why these layers, if they were chosen."""
    support: list[str]
    """How many parts most fits agree on, in a consensus."""
    advice: list[str]


def summary_of(model: str, target: Path, training: Training) -> Summary:
    """The summary of the fit of the model of this name."""
    estimator = training.estimator
    error, norm = estimator.reconstruction_err_, training.norm
    return Summary(
        file=str(target),
        model=model,
        samples=training.samples,
        features=training.features,
        layers=[int(W.shape[-1]) for W in estimator.weights_],
        relative_error=error / norm if norm else 0.0,
        sweeps=estimator.n_iter_,
        zeros=[float((W == 0).mean()) for W in estimator.weights_],
        dead_units=estimator.history_[-1]["dead"] if estimator.history_ else 0,
        seconds=training.seconds,
        status=estimator.status_,
        choice=choice_of(estimator),
        support=support_of(estimator),
        advice=[in_options(message) for message in training.advice],
    )


def show_summary(summary: Summary) -> None:
    """Print a summary for people."""
    samples, features = summary["samples"], summary["features"]
    say(f"{summary['model']} {summary['layers']} on {samples} samples of {features} features")
    for line in (*summary["choice"], *summary["support"]):
        say(line)
    say(f"relative error  {summary['relative_error']:.4f}")
    for layer, zeros in enumerate(summary["zeros"], 1):
        say(f"zeros in W_{layer}    {zeros:.0%}")
    if summary["dead_units"]:
        say(
            f"dead parts      {summary['dead_units']} of {sum(summary['layers'])}: no sample uses "
            "them; try smaller layers, a weaker penalty or a larger --fill"
        )
    sweeps = f", {summary['sweeps']} fine-tuning sweeps" if summary["sweeps"] else ""
    say(f"time            {summary['seconds']:.1f} s{sweeps}")
    say(f"status          {in_options(summary['status'])}")
    for message in summary["advice"]:
        say(f"advice          {message}")
    say(f"written         {summary['file']}")


def norm_of(X: Any) -> float:
    """‖X‖, of data in memory, on disk or on a cluster."""
    import numpy as np

    if hasattr(X, "dask"):
        chunks = tuple((1,) * count for count in X.numblocks)
        squares = X.map_blocks(_square, dtype=float, chunks=chunks, meta=np.empty((0, 0)))
        return float(squares.sum().compute()) ** 0.5
    if hasattr(X, "indptr"):
        return float(_square(X)[0, 0]) ** 0.5
    step = max(1, int(1e7) // max(1, X.shape[1]))
    squares = [_square(X[low : low + step]) for low in range(0, X.shape[0], step)]
    return float(np.sum(squares)) ** 0.5


def _square(rows: Any) -> Any:
    """Σ x² as a matrix of one entry. The rows may be sparse."""
    import numpy as np

    values = rows.data if hasattr(rows, "indptr") else rows
    return np.sum(np.square(values, dtype=np.float64)).reshape(1, 1)
