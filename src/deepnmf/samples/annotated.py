"""Matrices whose features have names: those of AnnData, and some of their columns."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepnmf.data.dataset import check_chunks
from deepnmf.data.stored_sparse import StoredSparse
from deepnmf.samples.base import Needs
from deepnmf.samples.dask.arrays import is_dask
from deepnmf.samples.disk import SomeColumns, is_on_disk

SPARSE_ON_DISK = ("CSRDataset", "CSCDataset")
"""How anndata calls sparse matrices that stay in their file."""


@dataclass(frozen=True)
class Annotated:
    """A matrix (n, m) and the names of its features."""

    X: Any
    names: np.ndarray

    def check_names(self, needs: Needs) -> None:
        """Refuse features in another order, or other features, than a fitted model has."""
        fitted = None if needs.fitting else getattr(needs.estimator, "feature_names_in_", None)
        if fitted is None or len(fitted) != len(self.names):
            return  # the number of features is checked with X
        differ = np.flatnonzero(np.asarray(fitted, object) != self.names)
        if differ.size:
            first = differ[0]
            raise ValueError(
                f"X has the feature {self.names[first]!r} in place {first}, where "
                f"{needs.whom} was fitted with {fitted[first]!r}. Give the same features in the "
                "same order: adata[:, model.feature_names_in_]."
            )


def is_anndata(X: Any) -> bool:
    """Whether X is an AnnData, without importing anndata."""
    module = sys.modules.get("anndata")
    return module is not None and isinstance(X, module.AnnData)


def annotated(X: Any) -> Annotated | None:
    """X with its names, if it is an AnnData or is annotated already."""
    if isinstance(X, Annotated):
        return X
    return of_anndata(X) if is_anndata(X) else None


def of_anndata(
    adata: Any, layer: str | None = None, columns: np.ndarray | None = None
) -> Annotated:
    """X of an AnnData or one of its layers, as it is stored, with the names of its variables.

    `columns` are the places of some variables. Of a matrix on disk, they are picked when its rows
    are read.
    """
    if layer is not None and layer not in adata.layers:
        there = ", ".join(sorted(adata.layers)) or "none"
        raise ValueError(f"adata has no layer {layer!r}; its layers: {there}.")
    X = adata.X if layer is None else adata.layers[layer]
    if X is None:
        there = ", ".join(sorted(adata.layers))
        raise ValueError(
            "adata.X is None: set it"
            + (f", or name one of the layers ({there}) in deepnmf.cells.fit." if there else ".")
        )
    X = stored(X)
    names = np.asarray(adata.var_names.astype(str), dtype=object)
    if columns is None:
        return Annotated(X, names)
    if is_on_disk(X) and not is_dask(X):
        check_chunks(X)
        return Annotated(SomeColumns(X, columns), names[columns])
    return Annotated(X[:, columns], names[columns])


def stored(X: Any) -> Any:
    """X, with a sparse matrix that anndata left in its file as one that is read by rows."""
    if type(X).__name__.lstrip("_") in SPARSE_ON_DISK and hasattr(X, "group"):
        return StoredSparse(X.group, str(X.group.name))
    return X
