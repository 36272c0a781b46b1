"""What every loader and reader returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from deepnmf.terminal.text import one_line

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
    grid: tuple[int, int] | None = None
    """Height and width where samples are the pixels of an image, row after row."""
    axis_label: str = ""
    """What the axis of the features is, such as "wavelength (nm)"."""
    references: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What the parts should be, where that is known: one value per feature."""

    def __post_init__(self) -> None:
        if self.grid is not None:
            check_grid(self.grid, int(self.X.shape[0]))

    @property
    def axis(self) -> np.ndarray | None:
        """The features along an axis, such as wavelengths: their names, where these are numbers
        that only rise or only fall."""
        names = self.feature_names
        if names is None or len(names) < ALONG_AN_AXIS:
            return None
        try:
            values = np.asarray([float(name) for name in names])
        except (TypeError, ValueError):
            return None
        steps = np.diff(values)
        along = bool(np.isfinite(values).all() and ((steps > 0).all() or (steps < 0).all()))
        return values if along else None


ALONG_AN_AXIS = 8
"""The fewest features that are drawn along an axis."""


def check_grid(grid: tuple[int, int], samples: int) -> None:
    """Refuse a grid that has not one cell per sample."""
    if len(grid) != 2 or min(grid) < 1:
        raise DataError(f"grid {tuple(grid)}: give height and width, such as (95, 95).")
    height, width = grid
    if height * width != samples:
        raise DataError(
            f"a grid of {height} x {width} has {height * width} cells, and there are {samples} "
            "samples. Samples are the pixels of an image, row after row; give its height and width."
        )


def complete_labels(name: str, column: np.ndarray) -> np.ndarray:
    """A column as labels. A column with missing values is refused."""
    missing = [place for place, value in enumerate(column) if value is None or value != value]
    if missing:
        raise DataError(
            f"{name}: no label for {len(missing)} of {len(column)} samples, the first is "
            f"sample {missing[0]}. Remove them from the data, or give all labels in a file."
        )
    return column.astype(str) if column.dtype == object else column


def stored_rows(X: Data, rows: slice = slice(None)) -> Data:
    """Rows of an array, in memory or in a file. Damage is one error, whatever the library says."""
    try:
        return X[rows]
    except (DataError, MemoryError):
        raise
    except Exception as problem:
        last = (X.shape[0] if rows.stop is None else rows.stop) - 1
        raise DataError(
            f"rows {rows.start or 0} to {last} of X cannot be read from their file "
            f"({one_line(problem).rstrip('.')}). It is damaged: write it again."
        ) from problem


def check_chunks(X: Data) -> None:
    """Refuse an array of zarr or HDF5 with missing chunks: they would read as its fill value."""
    try:
        stored, total = _chunks(X)
    except Exception as problem:
        raise DataError(
            f"the chunks of the array cannot be counted ({one_line(problem).rstrip('.')}). Its "
            "description is damaged: write the array again."
        ) from problem
    if stored < total:
        raise DataError(
            f"{total - stored} of the {total} chunks of the array are not in its file, and would "
            f"read as {getattr(X, 'fill_value', None) or getattr(X, 'fillvalue', 0)}. Write the "
            "array again; with zarr, write_empty_chunks=True also stores chunks of fill values."
        )


def _chunks(X: Data) -> tuple[int, int]:
    """How many chunks of an array are stored, and how many it has."""
    stored, total = getattr(X, "nchunks_initialized", None), getattr(X, "nchunks", None)
    if stored is not None and total is not None:
        return int(stored), int(total)
    of_hdf5 = hasattr(X, "id") and hasattr(X.id, "get_storage_size")
    if not of_hdf5 or not X.size or X.is_virtual:
        return 0, 0
    if X.chunks is None:
        return int(X.id.get_storage_size() > 0 or bool(X.external)), 1
    sizes = zip(X.shape, X.chunks, strict=True)
    return X.id.get_num_chunks(), math.prod(-(-size // chunk) for size, chunk in sizes)
