"""The judge: the objective in double precision, from the factors that a method returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

ROWS = 2048


def objective(X: Any, W: np.ndarray, H: np.ndarray) -> float:
    """½‖X − WH‖² for X (n, m), W (n, k) and H (k, m), all ≥ 0.

    Sparse X: ½‖X‖² − ⟨XHᵀ, W⟩ + ½⟨WᵀW, HHᵀ⟩, so that WH is never formed. Dense X: in blocks of
    rows, without the cancellation of that formula.
    """
    W, H = np.asarray(W, dtype=np.float64), np.asarray(H, dtype=np.float64)
    for name, factor in (("W", W), ("H", H)):
        if not np.isfinite(factor).all() or factor.min() < 0:
            raise ValueError(f"{name} has entries that are negative, NaN or infinite")
    if scipy.sparse.issparse(X):
        X = X.astype(np.float64)
        size = np.sum((W.T @ W) * (H @ H.T))
        return float(np.sum(np.square(X.data)) / 2 - np.sum((X @ H.T) * W) + size / 2)
    blocks = (slice(first, first + ROWS) for first in range(0, X.shape[0], ROWS))
    return float(sum(np.sum(np.square(X[rows] - W[rows] @ H)) for rows in blocks) / 2)
