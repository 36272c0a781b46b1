"""AnnData of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

GENES = [f"gene {number}" for number in range(30)]


def in_memory(X: Any, folder: Path) -> Any:
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(X.copy())
    adata.var_names = GENES[: X.shape[1]]
    adata.obs_names = [f"cell {number}" for number in range(X.shape[0])]
    return adata


def written(X: Any, folder: Path) -> Path:
    path = folder / "cells.h5ad"
    in_memory(X, folder).write_h5ad(path)
    return path


def backed(X: Any, folder: Path) -> Any:
    return pytest.importorskip("anndata").read_h5ad(written(X, folder), backed="r")


def by_dask(X: Any, folder: Path) -> Any:
    """Chunks of 15 cells, read from the file when they are needed."""
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("dask.array")
    experimental = pytest.importorskip("anndata.experimental")
    if not hasattr(experimental, "read_elem_lazy"):
        pytest.skip("this anndata reads nothing by Dask: install 0.12 or later")
    file = pytest.importorskip("h5py").File(written(X, folder), "r")
    adata = in_memory(X, folder)
    lazy = experimental.read_elem_lazy(file["X"], chunks=(15, X.shape[1]))
    return anndata.AnnData(lazy, obs=adata.obs, var=adata.var)
