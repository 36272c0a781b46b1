"""Pages to test, and how to read the numbers in them."""

from __future__ import annotations

import base64
import copy
import itertools
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from deepnmf import DeepNMF
from deepnmf.data import Dataset
from deepnmf.models.choice import Candidate, Choice, LayerChoice


def record_of(text: str) -> dict[str, Any]:
    """The JSON in a page."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert match is not None
    return json.loads(match.group(1))


def numbers(packed: Mapping[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), f"<{packed['type']}")


def columns(edges: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
    """Index, weight and share of every column."""
    start = numbers(edges["start"])
    packed = [numbers(edges[name]) for name in ("index", "weight", "share")]
    return [tuple(values[low:high] for values in packed) for low, high in itertools.pairwise(start)]


def blank(sizes, features, samples, rng):
    """A model as a fit would leave it, without the fit."""
    widths = (features, *sizes)
    model = DeepNMF(sizes, objective="end_to_end")  # its codes of noise are found soonest
    model.weights_ = [
        (rng.random(shape) * (rng.random(shape) < 0.3)).astype(np.float32)
        for shape in itertools.pairwise(widths)
    ]
    model.history_, model.n_iter_ = [], 0
    model.status_ = model.reason_ = "converged"
    model.n_features_in_ = features
    X = scipy.sparse.random_array((samples, features), density=0.01, rng=rng, format="csr")
    return model, X.astype(np.float32)


def mixed_scene() -> Dataset:
    """An image of 8 x 12 pixels, each a mixture of three bands of light, of any brightness."""
    rng = np.random.default_rng(3)
    nanometres = np.linspace(400, 700, 31)
    spectra = np.exp(-(((nanometres - np.array([[450], [550], [650]])) / 40) ** 2))
    shares = rng.dirichlet([0.3, 0.3, 0.3], 96)
    return Dataset(
        rng.uniform(0.5, 2, (96, 1)) * (shares @ spectra),
        feature_names=nanometres,
        name="scene",
        grid=(8, 12),
        axis_label="wavelength (nm)",
        columns=dict(zip("abc", shares.T, strict=True)),
        references=dict(zip("abc", spectra, strict=True)),
    )


def choice(*, stability: float | None = None) -> Choice:
    """Of two layers that were tried: 8 parts, and a layer that does not help."""
    first = (
        Candidate(2, 0.5, 0.3, 0.02),
        Candidate(8, 0.22, 0.02, 0.03, stability),
        Candidate(40, 0.2, 0.0, 0.0, stability),
    )
    second = (Candidate(1, 0.6, 0.1, 0.01), Candidate(7, 0.5, 0.0, 0.0))
    return Choice((8,), (LayerChoice(1, first, 8, 40), LayerChoice(2, second, 7, 7, False)), 100)


def with_support(model):
    """As if this model were the consensus of four fits: the last part of each layer is in one."""
    made = copy.copy(model)
    made.history_, made.n_iter_, made.reconstruction_err_ = [], 0, math.nan
    made.reason_, made.status_ = "consensus", "consensus of 4 models."
    made.support_ = [np.r_[np.ones(W.shape[1] - 1), 0.25] for W in model.weights_]
    rng = np.random.default_rng(0)
    made.edge_support_ = [rng.integers(0, 5, W.shape) / 4 for W in model.weights_[1:]]
    return made
