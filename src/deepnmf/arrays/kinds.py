"""The kinds of arrays, and the library that works on each."""

from __future__ import annotations

from typing import Any, TypeGuard

import array_api_compat
import numpy as np
import scipy.sparse

from deepnmf.arrays.array import Array
from deepnmf.arrays.blocks import SPACE, Blocked

NUMPY = array_api_compat.array_namespace(np.empty(0))


def is_sparse(X: object) -> TypeGuard[scipy.sparse.sparray]:
    """Whether X is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(X))


def is_numpy(X: object) -> bool:
    """Whether NumPy works on X: an array, a sparse matrix, or blocks of these."""
    return isinstance(X, np.ndarray | Blocked) or is_sparse(X)


def is_blocked(X: object) -> TypeGuard[Blocked]:
    """Whether X is stored in blocks of samples."""
    return isinstance(X, Blocked)


def namespace(*arrays: Array) -> Any:
    """The array library of these arrays: functions of the array API standard."""
    if all(type(array) is np.ndarray for array in arrays):  # asked thousands of times per second
        return NUMPY
    if any(isinstance(array, Blocked) for array in arrays):
        return SPACE
    dense = [array for array in arrays if not is_sparse(array)]
    return array_api_compat.array_namespace(*(dense or [np.empty(0)]))
