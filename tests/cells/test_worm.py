"""Real cells: a .h5ad file in memory, backed and by Dask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.preprocessing import normalize

from deepnmf import cells, sdnmf_l
from deepnmf.data import load_worm
from tests.tables import BRIEF

anndata = pytest.importorskip("anndata")
pytestmark = BRIEF


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from deepnmf.data.datasets import WORM, locate

    if locate(WORM) is None:
        pytest.skip(f"{WORM.file} is not here: set DEEPNMF_DATA to its folder")
    worm = load_worm()
    adata = anndata.AnnData((1e4 * normalize(worm.X, norm="l1")).log1p().astype("float32"))
    adata.obs_names, adata.var_names = worm.sample_names, worm.feature_names
    seen = np.asarray((adata.X > 0).sum(axis=0)).ravel()
    adata.var["highly_variable"] = np.argsort(np.argsort(-seen)) < 1000
    path = tmp_path_factory.mktemp("worm") / "worm.h5ad"
    adata.write_h5ad(path)
    return path


def in_memory(path: Path) -> Any:
    return anndata.read_h5ad(path)


def backed(path: Path) -> Any:
    return anndata.read_h5ad(path, backed="r")


def by_dask(path: Path) -> Any:
    pytest.importorskip("dask.array")
    lazy = pytest.importorskip("anndata.experimental").read_elem_lazy
    adata = in_memory(path)
    stored = pytest.importorskip("h5py").File(path, "r")["X"]
    return anndata.AnnData(lazy(stored), obs=adata.obs, var=adata.var)


@pytest.fixture(scope="module")
def expected(file):
    adata = in_memory(file)
    cells.fit(adata, quick())
    return adata


def quick():
    return sdnmf_l((12, 5), max_iter=10, pretrain_iter=5, tol=0, random_state=0)


@pytest.mark.parametrize("read", [backed, by_dask])
def test_a_file_gives_the_codes_of_memory(read, file, expected, monkeypatch):
    monkeypatch.setattr("deepnmf.samples.slices.physical_memory", lambda: 3e7)  # several blocks
    monkeypatch.setattr(scipy.sparse.csr_matrix, "toarray", refused)
    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", refused)
    adata = read(file)
    cells.fit(adata, quick())
    for name in ("X_deepnmf", "X_deepnmf_1"):
        np.testing.assert_allclose(adata.obsm[name], expected.obsm[name], rtol=1e-2, atol=2e-3)


def refused(*arguments: Any) -> None:
    raise AssertionError("the cells were made dense")


def test_the_round_trip(file, expected, tmp_path):
    expected.write_h5ad(tmp_path / "out.h5ad")
    for adata in (in_memory(tmp_path / "out.h5ad"), backed(tmp_path / "out.h5ad")):
        model = cells.to_model(adata)
        cells.transform(adata, model, key_added="again")
        np.testing.assert_allclose(
            adata.obsm["X_again"], expected.obsm["X_deepnmf"], rtol=1e-4, atol=1e-4
        )
        assert cells.markers(adata, 5).equals(cells.markers(expected, 5))
