"""Numbers that overflow. NumPy does not warn of them where the results are checked."""

from __future__ import annotations

import numpy as np

from deepnmf.arrays import Array, namespace
from deepnmf.arrays.blocks import Blocked, lazy


class NotFiniteError(ValueError):
    """Numbers that a model computed are NaN or infinite."""

    def __init__(self, what: str, dtype: object) -> None:
        precision = f"{dtype}".removeprefix("torch.")
        super().__init__(
            f"{what}: entries of X, of the start or of the penalties are too large or too small "
            f"for products in {precision}. Divide X by its maximum"
            + ("." if precision == "float64" else ", or use float64.")
        )


def checked_later() -> np.errstate:
    """For work whose results are checked: NumPy need not warn of overflow on the way there."""
    return np.errstate(over="ignore", invalid="ignore")


def finite(A: Array, name: str) -> Array:
    """A. Refuses entries that are not finite; messages call A by this name."""
    if isinstance(A, Blocked):
        return lazy(finite, A, name)
    if not bool(namespace(A).all(namespace(A).isfinite(A))):
        raise NotFiniteError(f"{name} are not finite numbers", A.dtype)
    return A
