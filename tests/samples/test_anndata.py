"""AnnData at the one door: in memory, from its file and by Dask, sparse as it is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf.arrays import dense, is_blocked, is_sparse
from deepnmf.data.dataset import DataError
from deepnmf.samples.annotated import of_anndata
from deepnmf.samples.base import Needs
from deepnmf.samples.open import open_samples
from tests.cells.conftest import GENES, backed, by_dask, in_memory

anndata = pytest.importorskip("anndata")
NEEDS = Needs(whom="DeepNMF", fitting=True, blocks=True, widest=4)
QUICK = {"max_iter": 20, "pretrain_iter": 10, "tol": 0, "random_state": 0}
KINDS = {"in memory": in_memory, "backed": backed, "Dask": by_dask}


@pytest.fixture
def X(low_rank):
    return low_rank.T * (low_rank.T > 0.3)


@pytest.fixture
def many(X, monkeypatch):
    """More samples than fit the memory."""
    monkeypatch.setattr("deepnmf.samples.slices.physical_memory", lambda: 40_000.0)
    return np.tile(X, (4, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_a_model_is_fitted_to_its_x(kind, form, X, tmp_path):
    adata = KINDS[kind](form(X), tmp_path)
    expected = deepnmf.sdnmf_l((8, 4), **QUICK).fit(form(X))
    model = deepnmf.sdnmf_l((8, 4), **QUICK).fit(adata)
    assert list(model.feature_names_in_) == GENES
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-6, atol=1e-9)
    Z = np.asarray(model.transform(adata))
    np.testing.assert_allclose(Z, expected.transform(X), rtol=1e-6, atol=1e-9)
    assert model.score(adata) == pytest.approx(expected.score(X))


def test_blocks_of_a_sparse_file_are_sparse(many, tmp_path):
    adata = backed(scipy.sparse.csr_matrix(many), tmp_path)
    with open_samples(adata, NEEDS) as samples:
        assert is_blocked(samples.data)
        blocks = list(samples.data.each())
    assert len(blocks) > 1
    assert all(is_sparse(block) for block in blocks)
    np.testing.assert_array_equal(scipy.sparse.hstack(blocks).toarray(), many.T)


def test_a_small_sparse_file_is_loaded_as_it_is(X, tmp_path):
    with open_samples(backed(scipy.sparse.csr_matrix(X), tmp_path), NEEDS) as samples:
        assert is_sparse(samples.data)
        np.testing.assert_array_equal(samples.data.toarray(), X.T)


def test_columns_are_read_in_blocks_only_if_they_fit(many, tmp_path):
    adata = backed(scipy.sparse.csc_matrix(many), tmp_path)
    with pytest.raises(DataError, match=r"by columns \(CSC\)"):
        open_samples(adata, NEEDS)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
def test_some_genes_of_a_file_are_read_by_blocks(form, many, tmp_path):
    columns = np.array([3, 4, 17])
    adata = backed(form(many), tmp_path)
    with open_samples(of_anndata(adata, columns=columns), NEEDS) as samples:
        assert is_blocked(samples.data)
        blocks = [dense(block) for block in samples.data.each()]
        assert list(samples.feature_names) == [GENES[place] for place in columns]
    np.testing.assert_array_equal(np.hstack(blocks).T, many[:, columns])


def test_genes_in_another_order_are_refused(X, tmp_path):
    adata = in_memory(X, tmp_path)
    model = deepnmf.DeepNMF((4,), **QUICK).fit(adata)
    with pytest.raises(ValueError, match=r"feature 'gene 29' in place 0.*with 'gene 0'.*adata\[:"):
        model.transform(adata[:, ::-1])
    again = adata[:, ::-1][:, model.feature_names_in_]
    np.testing.assert_array_equal(model.transform(again), model.transform(adata))
    with pytest.raises(ValueError, match="29 features"):
        model.transform(adata[:, 1:])


def test_names_of_a_model_ask_nothing_of_arrays(X, tmp_path):
    model = deepnmf.DeepNMF((4,), **QUICK).fit(in_memory(X, tmp_path))
    with pytest.warns(UserWarning, match="valid feature names"):
        model.transform(X)
    refitted = model.fit(X)
    assert not hasattr(refitted, "feature_names_in_")


def test_without_x_it_is_refused(X):
    with pytest.raises(ValueError, match=r"adata.X is None: set it, or name one of the layers \(l"):
        deepnmf.DeepNMF((4,)).fit(anndata.AnnData(layers={"lcounts": X}))
