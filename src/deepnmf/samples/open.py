"""The one door for data: whatever X is, the core gets it through here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deepnmf.samples import memory, slices
from deepnmf.samples.base import Needs, Samples
from deepnmf.samples.dask import arrays as dask_arrays

KINDS: tuple[Callable[[Any, Needs], Samples | None], ...] = (
    dask_arrays.opened,
    slices.opened_sequence,
    slices.opened,
    memory.opened_tensor,
    memory.opened,
)
"""What X can be, asked in this order. Each returns None for an X that is not of its kind."""


def open_samples(X: Any, needs: Needs) -> Samples:
    """X (n_samples, n_features), checked, as a model with these needs works on it."""
    for opened in KINDS:
        samples = opened(X, needs)
        if samples is not None:
            return samples
    raise TypeError(f"{needs.whom} cannot work on a {type(X).__name__}.")
