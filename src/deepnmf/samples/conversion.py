"""Samples in another precision and, if asked, scaled to unit norm."""

from __future__ import annotations

import numpy as np
from sklearn.preprocessing import normalize

from deepnmf.arrays import Data, is_sparse, largest_entry
from deepnmf.data.dataset import stored_rows
from deepnmf.samples.checks import canonical, too_large, too_small

SAFE = (1e-5, 1e15)
"""Between these, squares neither vanish nor overflow, and scikit-learn takes no norm for 0."""
AT_ONCE = 1_000_000
"""How many entries are looked at in one go."""


def converted(X: Data, dtype: np.dtype, unit_norm: bool) -> Data:
    """X (n, m) in row-major order and in this precision, with rows of unit norm if asked."""
    X = canonical(X)
    unit_norm = unit_norm and 0 not in X.shape
    if unit_norm and X.dtype.kind == "f":
        X = _in_range(X)
    X = X.astype(dtype) if is_sparse(X) else np.array(X, dtype=dtype, order="C")
    return normalize(X, copy=False) if unit_norm else X


def _in_range(X: Data) -> Data:
    """X or, if the norms of some rows cannot be computed from squares, X with the largest entry of
    every row scaled to 1."""
    X = X.tocsr() if is_sparse(X) else X
    most, least = X.max(axis=1), X.min(axis=1)
    if is_sparse(X):
        most, least = most.toarray(), least.toarray()
    largest = np.maximum(most, -least).ravel()
    low, high = SAFE
    if not ((largest > 0) & ((largest < low) | (largest > high))).any():
        return X
    largest[largest == 0] = 1
    if not is_sparse(X):
        return X / largest[:, None]
    scaled = X.copy()
    scaled.data = X.data / np.repeat(largest, np.diff(X.indptr))
    return scaled


def check_conversion(X: Data, dtype: np.dtype) -> None:
    """Refuse a conversion of X, in memory or on disk, that rounds all entries to 0 or the largest
    of them to infinity. Reads X up to the first entry that stays what it is."""
    if X.dtype.kind != "f" or X.dtype.itemsize <= dtype.itemsize:
        return
    range_ = np.finfo(dtype)
    step = X.shape[0] if is_sparse(X) else max(1, AT_ONCE // max(1, X.shape[1]))
    largest = 0.0
    for low in range(0, X.shape[0], max(1, step)):
        rows = X if is_sparse(X) else stored_rows(X, slice(low, low + step))
        largest = max(largest, largest_entry(rows))
        if largest > float(range_.max):
            raise too_large(largest, str(dtype))
        if largest >= float(range_.smallest_normal):
            return
    if largest > 0:
        raise too_small(largest, str(dtype))
