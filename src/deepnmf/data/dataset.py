"""What every loader and reader returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from deepnmf.arrays import Data


class DataError(ValueError):
    """A file or data set that cannot be used; the message says what to do."""


@dataclass(frozen=True)
class Dataset:
    """Samples X (n_samples, n_features), and what is known about them."""

    X: Data
    y: np.ndarray | None = None
    image_shape: tuple[int, int] | None = None
    """Rows and columns where samples are images: X[i].reshape(image_shape) is upright."""
    feature_names: np.ndarray | None = None
    sample_names: np.ndarray | None = None
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Other columns of the file, one value per sample: those of `obs` in .h5ad."""
    name: str = ""


def check_chunks(X: Data) -> None:
    """Refuse a zarr array with missing chunks: they would read as its fill value."""
    stored, total = getattr(X, "nchunks_initialized", None), getattr(X, "nchunks", None)
    if stored is not None and total is not None and stored < total:
        raise DataError(
            f"{total - stored} of the {total} chunks of the zarr array are not in its store, and "
            f"would read as {X.fill_value}. Write the array again; write_empty_chunks=True also "
            "stores chunks that hold nothing else."
        )
