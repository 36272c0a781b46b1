"""The data: X (n_samples, n_features), the number of parts k, and one start for all methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.decomposition._nmf import _initialize_nmf
from sklearn.feature_extraction.text import TfidfTransformer

from deepnmf.data import load_digits, load_orl, load_pie, load_reuters


@dataclass(frozen=True)
class Problem:
    """X ≈ W H with X (n_samples, n_features) in float32, W (n_samples, k) and H (k, n_features),
    from the start W, H. All arrays are read-only."""

    name: str
    X: Any
    k: int
    W: np.ndarray
    H: np.ndarray

    @property
    def sparse(self) -> bool:
        """Whether X is sparse."""
        return scipy.sparse.issparse(self.X)

    def locked(self) -> Problem:
        """Make all arrays read-only again: pickling loses that."""
        for array in (self.X.data if self.sparse else self.X, self.W, self.H):
            array.flags.writeable = False
        return self


def load(name: str) -> Problem:
    """A problem by its name, with scikit-learn's NNDSVDa of seed 0 as the start."""
    loader, k = PROBLEMS[name]
    X = loader()
    W, H = _initialize_nmf(X, k, init="nndsvda", random_state=0)
    return Problem(name, X, k, W.astype(X.dtype), H.astype(X.dtype)).locked()


def _digits() -> np.ndarray:
    return (load_digits().X / 16).astype(np.float32)


def _pie() -> np.ndarray:
    return load_pie().X.astype(np.float32) / 255


def _orl() -> np.ndarray:
    return load_orl().X.astype(np.float32) / 255


def _reuters() -> Any:
    return TfidfTransformer().fit_transform(load_reuters().X).astype(np.float32)


def _synthetic(n: int = 20000, m: int = 2000, rank: int = 30) -> np.ndarray:
    """A product of uniform factors (entries of mean 7.5) plus uniform noise on [0, 1)."""
    generator = np.random.default_rng(0)
    W = generator.random((n, rank), dtype=np.float32)
    H = generator.random((rank, m), dtype=np.float32)
    return W @ H + generator.random((n, m), dtype=np.float32)


PROBLEMS: dict[str, tuple[Callable[[], Any], int]] = {
    "digits": (_digits, 16),
    "pie-40": (_pie, 40),
    "pie-160": (_pie, 160),
    "orl": (_orl, 80),
    "reuters": (_reuters, 50),
    "synthetic": (_synthetic, 30),
}
