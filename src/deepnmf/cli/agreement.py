"""Fits that choose their layers, and fits that several others agree on, for `deepnmf fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from deepnmf.cli.choose import chosen
from deepnmf.cli.screen import UsageFault, steps

if TYPE_CHECKING:
    from deepnmf.models.base import MatrixFactorization
    from deepnmf.models.choice import Choice

SHARE = 0.8
"""The share of the samples that each fit of a consensus gets."""


class Place(Protocol):
    """Where the work is done, as far as a consensus asks."""

    @property
    def in_blocks(self) -> bool: ...
    @property
    def checkpoint(self) -> str | None: ...


def check_consensus(place: Place, start: str | None, fill: str | None) -> None:
    """Refuse what only a single fit can do."""
    for option, value in (("--start", start), ("--fill", fill)):
        if value not in (None, "random"):
            raise UsageFault(
                f"--consensus: its fits begin at random starts, so that they differ; leave "
                f"{option} out."
            )
    if place.in_blocks:
        raise UsageFault(
            "--consensus: its fits hold the samples in memory; leave --max-memory and --dask out."
        )
    if place.checkpoint is not None:
        raise UsageFault("--consensus: a checkpoint holds one fit; leave --checkpoint out.")


def choose_sizes(estimator: MatrixFactorization, X: Any) -> Choice | None:
    """Choose the layers of a model that leaves them open. None if they are given."""
    from deepnmf.models.deep import DeepNMF
    from deepnmf.models.settings import chooses

    if not isinstance(estimator, DeepNMF) or not chooses(estimator):
        return None
    choice = chosen(X, estimator, starts=0, random_state=estimator.random_state)
    estimator.set_params(layer_sizes=choice.layer_sizes)
    return choice


def agreed(estimator: MatrixFactorization, X: Any, fits: int) -> MatrixFactorization:
    """What this many fits agree on, from random starts to different samples."""
    from deepnmf.models.consensus import consensus
    from deepnmf.models.many import fit_many, stackable
    from deepnmf.samples.place import works_on_card

    first: Any = estimator.get_params()["random_state"]
    if "start" in estimator.get_params():
        estimator.set_params(start="random")
    seeds = [(first + fit) % 2**32 for fit in range(fits)]
    together = stackable(estimator) and works_on_card(X, estimator.device)
    models: list[MatrixFactorization] = []
    with steps() as move:
        for some in [seeds] if together else [[seed] for seed in seeds]:
            move("fit", len(models), fits, f"{len(models)} of {fits} fits")
            models += fit_many(X, estimator, some, share=SHARE)
        move("consensus", fits, fits, "")
        return consensus(models, X)


def choice_of(model: MatrixFactorization) -> list[str]:
    """Why a model has these layers; nothing if they were given."""
    choice = getattr(model, "choice_", None)
    return [] if choice is None else choice.sentences()[1:]


def support_of(model: MatrixFactorization) -> list[str]:
    """How many parts of a consensus most fits agree on; nothing for a single fit."""
    from deepnmf.models.choice import Support

    if not hasattr(model, "support_"):
        return []
    return Support.of(model.support_, model.edge_support_).sentences()
