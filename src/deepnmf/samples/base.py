"""Samples as a model sees them: X as it was given, and as the core works on it."""

from __future__ import annotations

import copy
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
    """The model. If it is fitted, samples must have its number and names of features."""
    signed: bool = False
    """Whether entries may be negative."""
    sparse: bool = True
    """Whether X may be a sparse matrix."""
    blocks: bool = False
    """Whether X may be worked on block by block."""
    why_no_blocks: str | None = None
    """Why X in blocks is refused. None: such an X is loaded into memory."""
    device: str | None = None
    max_memory: str | int | None = None
    widest: int = 1
    """The size of the widest layer."""

    @property
    def features(self) -> int | None:
        """The number of features that samples must have; None if any will do."""
        return None if self.fitting else getattr(self.estimator, "n_features_in_", None)

    def without_model(self) -> Needs:
        """The needs of a single block, whose number of features is already checked."""
        return replace(self, estimator=None, fitting=False)

    def without_names(self) -> Needs:
        """The needs of a matrix without names of features, where these are already checked."""
        if self.estimator is None:
            return self
        model = copy.copy(self.estimator)
        vars(model).pop("feature_names_in_", None)
        return replace(self, estimator=model)


class Samples(ABC):
    """Samples of one kind. Close them after use, or use them in a `with` block."""

    X: Any
    """X (n, m) as it was given; in memory, as the checks returned it."""
    features: int
    feature_names: np.ndarray | None = None

    @property
    @abstractmethod
    def data(self) -> Array:
        """X as the core works on it: (m, n), one column per sample, where the work is done."""

    @abstractmethod
    def home(self, array: Array) -> Array:
        """Weights in the array library and on the device of X."""

    @abstractmethod
    def rows(self, H: Array) -> Array:
        """Codes (k, n) as (n, k), in the array library and on the device of X."""

    @abstractmethod
    def some(self, numbers: np.ndarray) -> Array:
        """The samples with these numbers, in ascending order, as one matrix in memory (rows, m)."""

    def encoded(self, encode: Callable[[Array], Array], size: int) -> Array:
        """The codes (n, size) of all samples; `encode` maps X (m, n) to codes (size, n)."""
        del size
        return self.rows(encode(self.data))

    def fingerprint(self) -> dict[str, str]:
        """What distinguishes these samples from others."""
        return fingerprint(self.data)

    def close(self) -> None:  # noqa: B027
        """Release the memory that these samples hold."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
