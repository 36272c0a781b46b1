"""The kinds of arrays, and the library that works on each."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse

from deepnmf.arrays.blocks import SPACE, Blocked

Array = Any
"""A NumPy array, a torch tensor or, with a column per sample, a `Blocked` array; where it says so,
a SciPy sparse matrix as well."""


def is_sparse(X: Array) -> bool:
    """Whether X is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(X))


def is_numpy(X: Array) -> bool:
    """Whether NumPy works on X: an array, a sparse matrix, or blocks of these."""
    return isinstance(X, np.ndarray | Blocked) or is_sparse(X)


def is_blocked(X: Array) -> bool:
    """Whether X is kept by blocks of samples."""
    return isinstance(X, Blocked)


def namespace(*arrays: Array) -> Any:
    """The array library of these arrays: functions of the array API standard."""
    if any(isinstance(array, Blocked) for array in arrays):
        return SPACE
    dense = [array for array in arrays if not is_sparse(array)]
    return array_api_compat.array_namespace(*(dense or [np.empty(0)]))
