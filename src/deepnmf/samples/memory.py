"""Samples in memory: NumPy arrays, DataFrames, sparse matrices, tensors."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from deepnmf.arrays import Array, is_sparse, namespace
from deepnmf.arrays.tensors import is_tensor, to_numpy
from deepnmf.data.dataset import stored_rows
from deepnmf.samples.admission import admitted
from deepnmf.samples.base import Needs, Samples
from deepnmf.samples.checks import canonical, check_samples, check_size
from deepnmf.samples.disk import is_on_disk
from deepnmf.samples.place import placed


class InMemory(Samples):
    """X (n, m), a NumPy array, a sparse matrix or a tensor, checked."""

    def __init__(self, X: Array, needs: Needs, feature_names: np.ndarray | None = None) -> None:
        check_samples(X, needs)
        self.X, self.device = X, needs.device
        self.features, self.feature_names = int(X.shape[1]), feature_names

    def placed(self) -> Array:
        """X as (m, n) where the work is done. `data` keeps the result, this does not."""
        return placed(self.X, self.device).T

    @cached_property
    def data(self) -> Array:
        return self.placed()

    def home(self, array: Array) -> Array:
        if is_tensor(self.X) and is_tensor(array):
            return array.to(self.X.device)
        return to_numpy(array)

    def rows(self, H: Array) -> Array:
        return self.home(H).T

    def some(self, numbers: np.ndarray) -> Array:
        return self.X[numbers]


def opened(X: Any, needs: Needs) -> Samples:
    """Any other X, as a NumPy array or a sparse matrix in memory."""
    if is_on_disk(X):
        rows = stored_rows(X)
        X = admitted(rows if is_sparse(rows) else np.asarray(rows), needs.whom)
    checks: dict[str, Any] = {
        "accept_sparse": ("csr", "csc") if needs.sparse else False,
        "dtype": [np.float64, np.float32],
        "ensure_all_finite": False,
    }
    if needs.estimator is None:
        return InMemory(canonical(check_array(X, input_name=needs.whom, **checks)), needs)
    # scikit-learn writes to the model that it checks. A refused fit must not change ours.
    probe = copy.copy(needs.estimator)
    least = 2 if needs.fitting else 1
    X = validate_data(probe, X, reset=needs.fitting, ensure_min_samples=least, **checks)
    names = getattr(probe, "feature_names_in_", None)
    return InMemory(canonical(X), needs, names)


def opened_tensor(X: Any, needs: Needs) -> Samples | None:
    """A torch tensor."""
    if not is_tensor(X):
        return None
    X = X.detach()
    if X.ndim != 2:
        raise ValueError(f"Expected 2D input, got a {X.ndim}D tensor of shape {tuple(X.shape)}.")
    check_size(X.shape, needs, "tensor")
    xp = namespace(X)
    return InMemory(X if X.dtype in (xp.float32, xp.float64) else xp.astype(X, xp.float64), needs)
