"""Samples as a model meets them: X as it came, and as the core works on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from deepnmf.arrays import Array
from deepnmf.samples.fingerprint import fingerprint


@dataclass(frozen=True)
class Needs:
    """What a model asks of its samples."""

    whom: str
    """The name of the model, for messages."""
    fitting: bool = False
    """Whether the model is about to learn from the samples."""
    estimator: BaseEstimator | None = None
    """The model, whose number and names of features samples must match if it is fitted."""
    signed: bool = False
    """Whether entries may be negative."""
    sparse: bool = True
    """Whether X may be a sparse matrix."""
    blocks: bool = False
    """Whether X may be worked on block by block."""
    why_no_blocks: str | None = None
    """Why X in blocks is refused; without it such an X is brought into memory."""
    device: str | None = None
    max_memory: str | int | None = None
    widest: int = 1
    """The size of the widest layer."""

    @property
    def features(self) -> int | None:
        """The number of features of a fitted model."""
        return None if self.fitting else getattr(self.estimator, "n_features_in_", None)

    def without_model(self) -> Needs:
        """The needs of single blocks, whose features have been counted."""
        return replace(self, estimator=None, fitting=False)


class Samples(ABC):
    """Samples in one of the forms that X can have. Close them, or use them in a `with` block."""

    X: Any
    """X (n, m) as it came; in memory, after its checks."""
    features: int
    feature_names: np.ndarray | None = None

    @property
    @abstractmethod
    def data(self) -> Array:
        """X as the core works on it: (m, n), a column per sample, where the work is done."""

    @abstractmethod
    def home(self, array: Array) -> Array:
        """Weights in the library and on the device in which X came."""

    @abstractmethod
    def rows(self, H: Array) -> Array:
        """Codes (k, n) as (n, k), in the library and on the device in which X came."""

    def encoded(self, encode: Callable[[Array], Array], size: int) -> Array:
        """The codes (n, size) of all samples, encode(X) for X (m, n)."""
        del size
        return self.rows(encode(self.data))

    def fingerprint(self) -> dict[str, str]:
        """What tells these samples from others."""
        return fingerprint(self.data)

    def close(self) -> None:  # noqa: B027
        """Release what is held for these samples."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
