"""The one door for data: every X reaches the core through `open_samples`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deepnmf.samples import memory, slices
from deepnmf.samples.admission import admitted
from deepnmf.samples.annotated import annotated, stored
from deepnmf.samples.base import Needs, Samples
from deepnmf.samples.dask import arrays as dask_arrays

KINDS: tuple[Callable[[Any, Needs], Samples | None], ...] = (
    dask_arrays.opened,
    slices.opened_sequence,
    slices.opened,
    memory.opened_tensor,
    memory.opened,
)
"""The kinds of X, tried in this order. Each returns None for an X that is not of its kind."""


def open_samples(X: Any, needs: Needs) -> Samples:
    """Check X (n_samples, n_features), and open it for a model with these needs."""
    named = annotated(X)
    if named is None:
        return _opened(stored(X), needs)
    named.check_names(needs)
    samples = _opened(named.X, needs.without_names())
    samples.feature_names = named.names
    return samples


def _opened(X: Any, needs: Needs) -> Samples:
    X = admitted(X, needs.whom)
    for opened in KINDS:
        samples = opened(X, needs)
        if samples is not None:
            return samples
    raise TypeError(f"{needs.whom} cannot work on a {type(X).__name__}.")
