"""Fits that run in processes of their own, to be killed there."""

from __future__ import annotations

import resource
import warnings
from typing import Any

import numpy as np

import deepnmf
from deepnmf.files.checkpoint import Checkpoint


def long_fit(path, sweeps, begun=None):
    """Some 300 alternations and many sweeps, stored after each; `begun` hears of the first."""
    warnings.simplefilter("ignore")
    kept = None if path is None else Checkpoint(path, every=0)
    X = np.random.default_rng(0).random((300, 64)) ** 4
    told: list[dict[str, Any]] = []

    def tell(record):
        if begun is not None and not told:
            told.append(record)
            begun.send("now")

    model = deepnmf.sdnmf_l(
        (24, 12), max_iter=sweeps, pretrain_iter=150, tol=0, random_state=0, checkpoint=kept
    )
    return model.set_params(callback=tell).fit(X)


def short_model(path):
    """A model and its data: 15 sweeps."""
    X = np.random.default_rng(0).random((300, 64))
    kept = Checkpoint(path, every=0)
    settings = {"max_iter": 5, "pretrain_iter": 5, "tol": 0, "random_state": 0}
    return deepnmf.dnmf((8, 4), checkpoint=kept, **settings), X


def fit_with_little_room(path, bytes_left, answer):
    """Where no file may grow beyond so many bytes: what the system says of a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, bytes_left))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, X = short_model(path)
        model.fit(X)
    answer.send(([str(one.message) for one in caught], len(model.history_)))
