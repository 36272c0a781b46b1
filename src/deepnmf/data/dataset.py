"""What every loader and reader returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class DataError(ValueError):
    """A file or data set that cannot be used, with what to do about it."""


@dataclass(frozen=True)
class Dataset:
    """Samples X (n_samples, n_features), and what is known about them."""

    X: Any
    y: np.ndarray | None = None
    image_shape: tuple[int, int] | None = None
    """Rows and columns, where a sample is an image: X[i].reshape(image_shape) is upright."""
    feature_names: np.ndarray | None = None
    sample_names: np.ndarray | None = None
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What else a file knows about its samples, one value each: the columns of `obs` in .h5ad."""
    name: str = ""


def check_chunks(X: Any) -> None:
    """Refuse a zarr array that lacks chunks: they would read as if they held its fill value."""
    there, all_of_them = getattr(X, "nchunks_initialized", None), getattr(X, "nchunks", None)
    if there is not None and all_of_them is not None and there < all_of_them:
        raise DataError(
            f"{all_of_them - there} of the {all_of_them} chunks of the zarr array are not in its "
            f"store, and would read as {X.fill_value}. Write it again; chunks that really hold "
            "nothing else are kept with write_empty_chunks=True."
        )
