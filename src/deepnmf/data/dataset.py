"""What every loader and reader returns."""

from __future__ import annotations

from dataclasses import dataclass
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
    name: str = ""
