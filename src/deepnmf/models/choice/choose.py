"""`choose_layers`: how many parts, layer by layer, and how deep."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from deepnmf.arrays import Array, squared_norm
from deepnmf.models.advice import Advice
from deepnmf.models.choice.effort import Effort
from deepnmf.models.choice.ledger import FileLedger, Ledger
from deepnmf.models.choice.record import Choice
from deepnmf.models.choice.work import Work
from deepnmf.models.deep import DeepNMF
from deepnmf.models.presets import sdnmf_l
from deepnmf.models.settings import AUTO, whole_number
from deepnmf.samples.base import Samples
from deepnmf.samples.fingerprint import fingerprint
from deepnmf.samples.open import open_samples
from deepnmf.terminal.text import one_line

SAMPLES = 5000
"""How many samples a choice is made from, at most, unless a user says otherwise."""
LEAST = 3
"""Rows and columns that a matrix has at least, so that some can be held out."""
UNIMPORTANT = {
    "layer_sizes": AUTO, "graph": None, "checkpoint": None, "callback": None, "verbose": False,
}  # fmt: skip
"""Parameters of a model that do not change a choice."""


def choose_layers(
    X: Any,
    model: DeepNMF | None = None,
    *,
    depth: int | None = None,
    most: int | None = None,
    folds: int = 3,
    repeats: int = 2,
    starts: int = 5,
    budget: int | str | None = None,
    samples: int = SAMPLES,
    random_state: int = 0,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    progress: Callable[[str, int], object] | None = None,
) -> Choice:
    """Find out how many parts X has, layer by layer, and how many layers are worth having.

    Each number of parts k is judged by bi-cross-validation: rows and columns of X are held out
    together, a layer of k parts is fitted to the rest, and predicts what was held out. The choice
    is the smallest k that predicts as well as the best (within one standard error), without parts
    that hardly earn their place. Layer 2 is then chosen in the same way for the codes of layer 1,
    and so on, until a layer does not help.

    Parameters
    ----------
    X : as in `DeepNMF.fit`
    model : DeepNMF, default=None
        Whose link, penalties, start, solver and device are used. None is `sdnmf_l()`.
    depth : int, default=None
        The number of layers; fewer if a layer has one or two parts. None keeps a layer only if it
        helps, up to three.
    most : int, default=None
        The most parts that are tried. None is as many as the hold-outs allow.
    folds, repeats : int, default=3, 2
        Rows are cut into this many folds, and columns into as many or, where they are few, more;
        in this many random orders. Each fold of rows is held out with one of columns.
    starts : int, default=5
        Stability of the choice and the runners-up is measured with this many fits each, from random
        starts to different samples, and so is the support of each part and edge of the chosen
        layers. 0 measures neither.
    budget : int or str, default=None
        Stop after this many fits (a number) or this much time ("90s", "10min"), and choose from
        what is known then.
    samples : int, default=5000
        If X has more samples, this many are drawn at random.
    random_state : int, default=0
        The same seed gives the same choice.
    ledger : path or Ledger, default=None
        Where measured numbers are kept: in this CSV file, so that a choice that was interrupted
        continues from there.
    progress : callable, default=None
        Called with a text and the number of fits so far.

    Returns
    -------
    choice : Choice
        `layer_sizes` is the answer, `print(choice)` the answer in words, `layers` the curves.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from deepnmf import choose_layers
    >>> X = load_digits().data[:300] / 16
    >>> choice = choose_layers(X, depth=1, most=8, starts=0)
    >>> choice.layer_sizes
    (8,)
    """
    model = sdnmf_l() if model is None else model
    if not isinstance(model, DeepNMF):
        raise ValueError(
            f"choose_layers: model must be a DeepNMF or a preset, got {one_line(repr(model))}."
        )
    effort = Effort.of(folds, repeats, starts, budget)
    for name, value, least in (("depth", depth, 1), ("most", most, 2), ("samples", samples, 6)):
        if value is not None:
            whole_number(name, value, least=least)
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be a function, got {one_line(repr(progress))}.")
    seed = whole_number("random_state", random_state, least=0, most=2**32 - 1)
    checked = clone(model).set_params(random_state=seed, **UNIMPORTANT)
    checked.check()
    with open_samples(X, checked._needs(fitting=True)) as opened:
        data = _drawn(opened, samples, seed)
    if not isinstance(ledger, Ledger):
        ledger = Ledger() if ledger is None else FileLedger(ledger)
    ledger.open(_setting(data, checked, effort))
    return _quietly(Work(checked, effort, seed, ledger, progress), data, depth, most)


def choose_for(model: DeepNMF, opened: Samples) -> Choice:
    """The choice of a model that is about to learn from these samples."""
    own = model.random_state
    seed = int(own) if isinstance(own, int | np.integer) else 0
    checked = clone(model).set_params(random_state=seed, **UNIMPORTANT)
    work = Work(checked, Effort(starts=0), seed, Ledger(), None)
    return _quietly(work, _drawn(opened, SAMPLES, seed), None, None)


def _quietly(work: Work, X: Array, depth: int | None, most: int | None) -> Choice:
    """The choice. What single fits would warn of does not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", Advice)
        return work.choose(X, depth, most)


def _drawn(opened: Samples, most: int, seed: int) -> Array:
    """All samples in memory, or `most` of them, drawn at random."""
    n = int(opened.data.shape[-1])
    if n < LEAST or opened.features < LEAST:
        raise ValueError(
            f"choose_layers: X is {n} x {opened.features}; at least {LEAST} samples and {LEAST} "
            "features are needed to hold some out."
        )
    numbers = np.arange(n)
    if n > most:
        numbers = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    drawn = opened.some(numbers)
    if float(squared_norm(drawn)) == 0:
        raise ValueError("choose_layers: all entries of X are 0, so there are no parts to count.")
    return drawn


def _setting(X: Array, model: DeepNMF, effort: Effort) -> str:
    """What measured numbers depend on."""
    marks = fingerprint(X.T)
    settings = repr(sorted(model.get_params(deep=False).items()))
    return ", ".join(
        [
            marks["shape"], f"{effort.folds} folds", f"{effort.repeats} repeats",
            f"{effort.starts} starts", f"data {marks['checksum of the entries']}",
            f"settings {zlib.crc32(settings.encode()):08x}",
        ]
    )  # fmt: skip
