"""Models of cells: what `fit` writes into an AnnData, and what comes back."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf import baselines, cells, sdnmf_l
from deepnmf.files.model import ModelFileError
from deepnmf.links import Root
from tests.cells.conftest import GENES, backed, by_dask, in_memory
from tests.tables import BRIEF

anndata = pytest.importorskip("anndata")
pytestmark = BRIEF
QUICK = {"max_iter": 20, "pretrain_iter": 10, "tol": 0, "random_state": 0}
KINDS = {"in memory": in_memory, "backed": backed, "Dask": by_dask}
CODES = {"X_deepnmf": 4, "X_deepnmf_1": 8}
PARTS = {"deepnmf": 4, "deepnmf_1": 8}


@pytest.fixture
def X(low_rank):
    return scipy.sparse.csr_matrix(low_rank.T * (low_rank.T > 0.3))


@pytest.fixture
def adata(X, tmp_path):
    return in_memory(X, tmp_path)


def quick(sizes=(8, 4), **settings):
    return sdnmf_l(sizes, **QUICK | settings)


def shapes(mapping):
    return {name: array.shape for name, array in mapping.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_codes_and_parts_are_those_of_the_model(kind, X, tmp_path):
    adata = KINDS[kind](X, tmp_path)
    model = cells.fit(adata, quick())
    plain = quick().fit(X)
    assert shapes(adata.obsm) == {name: (40, size) for name, size in CODES.items()}
    assert shapes(adata.varm) == {name: (30, size) for name, size in PARTS.items()}
    near = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(adata.obsm["X_deepnmf"], plain.transform(X), **near)
    np.testing.assert_allclose(adata.obsm["X_deepnmf_1"], plain.transform(X, layer=1), **near)
    np.testing.assert_allclose(adata.varm["deepnmf"], plain.components_.T, **near)
    np.testing.assert_allclose(adata.varm["deepnmf_1"], plain.basis(1).T, **near)
    assert all(type(codes) is np.ndarray for codes in adata.obsm.values())
    assert list(model.feature_names_in_) == GENES


@pytest.mark.filterwarnings("ignore:Writing zarr v2")
@pytest.mark.parametrize("suffix", [".h5ad", ".zarr"])
def test_a_model_comes_back_from_a_file(suffix, adata, tmp_path):
    model = cells.fit(adata, quick(link=Root(), project_codes=True))
    path = tmp_path / f"out{suffix}"
    if suffix == ".zarr":
        pytest.importorskip("zarr")
        adata.write_zarr(path)
        read = anndata.read_zarr(path)
    else:
        adata.write_h5ad(path)
        read = anndata.read_h5ad(path)
    again = cells.to_model(read)
    assert again.get_params() == model.get_params()
    assert again.history_ == model.history_
    for ours, theirs in zip(model.weights_, again.weights_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(again.transform(adata), read.obsm["X_deepnmf"])
    for name in PARTS:
        np.testing.assert_array_equal(read.varm[name], adata.varm[name])
    np.testing.assert_array_equal(read.uns["deepnmf"]["params"]["layer_sizes"], [8, 4])
    np.testing.assert_array_equal(read.uns["deepnmf"]["weights"]["W_2"], model.weights_[1])
    objectives = [record["objective"] for record in model.history_]
    np.testing.assert_array_equal(read.uns["deepnmf"]["history"]["objective"], objectives)


def test_support_is_written(adata, X):
    models = deepnmf.fit_many(adata, quick(start="random"), seeds=3)
    made = deepnmf.consensus(models, adata)
    cells.from_model(made, adata)
    again = cells.to_model(adata)
    results = adata.uns["deepnmf"]["results"]
    for layer, support in enumerate(made.support_):
        np.testing.assert_array_equal(again.support_[layer], support)
        assert any(np.array_equal(array, support) for array in results.values())
    assert all(name.startswith(("support", "edge_support")) for name in results)


def test_a_layer_and_highly_variable_genes(adata, X):
    adata.layers["counts"] = 3 * X
    adata.var["highly_variable"] = np.arange(30) % 3 == 0
    adata.X = None
    model = cells.fit(adata, quick(), layer="counts")
    assert list(model.feature_names_in_) == GENES[::3]
    parts = adata.varm["deepnmf"]
    assert parts.shape == (30, 4)
    np.testing.assert_array_equal(parts[::3], model.components_.T)
    assert not parts[np.arange(30) % 3 > 0].any()
    assert adata.uns["deepnmf"]["params"]["layer"] == "counts"
    expected = quick().fit(3 * X[:, ::3]).transform(3 * X[:, ::3])
    np.testing.assert_allclose(adata.obsm["X_deepnmf"], expected, rtol=1e-6, atol=1e-9)
    everything = cells.fit(adata, quick(), layer="counts", use_highly_variable=False)
    assert everything.n_features_in_ == 30


@pytest.mark.parametrize("kind", KINDS)
def test_highly_variable_genes_of_every_kind(kind, X, tmp_path):
    adata = KINDS[kind](X, tmp_path)
    adata.var["highly_variable"] = np.arange(30) % 2 == 0
    cells.fit(adata, quick())
    expected = quick().fit(X[:, ::2]).transform(X[:, ::2])
    np.testing.assert_allclose(adata.obsm["X_deepnmf"], expected, rtol=1e-5, atol=1e-6)


def test_other_cells_are_encoded_by_the_names_of_their_genes(adata, tmp_path):
    model = cells.fit(adata, quick())
    expected = adata.obsm["X_deepnmf"][:7].copy()
    more = anndata.concat([adata[:7], adata[:7]], axis="var", label="copy", index_unique="-")
    more = more[:, ::-1].copy()
    more.var_names = [name.removesuffix("-0") for name in more.var_names]
    cells.transform(more, model, key_added="other")
    np.testing.assert_allclose(more.obsm["X_other"], expected, rtol=1e-6, atol=1e-9)
    assert "other" not in more.uns
    model.save(tmp_path / "model.safetensors")
    cells.from_model(str(tmp_path / "model.safetensors"), more)
    np.testing.assert_allclose(more.obsm["X_deepnmf"], expected, rtol=1e-6, atol=1e-9)
    assert not more.varm["deepnmf"][:30].any()
    with pytest.raises(ValueError, match="adata lacks 'gene 0' and 9 other genes of the 30"):
        cells.transform(adata[:, 10:], model)


def test_a_model_without_names_takes_genes_as_they_are(adata, X):
    model = quick().fit(X)
    cells.from_model(model, adata)
    np.testing.assert_array_equal(adata.obsm["X_deepnmf"], model.transform(X))
    with pytest.raises(ValueError, match="29 genes, and the model 30 without names"):
        cells.transform(adata[:, 1:].copy(), model)


def test_compared_methods_and_several_models_side_by_side(adata):
    cells.fit(adata, (6,), key_added="one")
    cells.fit(adata, baselines.SparseNMF(5, random_state=0), key_added="sparse")
    assert shapes(adata.obsm) == {"X_one": (40, 6), "X_sparse": (40, 5)}
    assert type(cells.to_model(adata, "sparse")) is baselines.SparseNMF


@pytest.mark.parametrize("kind", KINDS)
def test_batches(kind, X, tmp_path):
    adata = KINDS[kind](X, tmp_path)
    adata.obs["donor"] = ["n/1", "2"] * 20
    adata.obs["donor"] = adata.obs["donor"].astype("category")
    model = cells.fit(adata, 4, batch_key="donor")
    plain = baselines.BatchNMF(4, random_state=0)
    expected = plain.fit_transform(X, batches=["n/1", "2"] * 20)
    np.testing.assert_allclose(adata.obsm["X_deepnmf"], expected, rtol=1e-5, atol=1e-6)
    assert sorted(adata.varm) == ["deepnmf", "deepnmf_own_2", "deepnmf_own_n-1"]
    np.testing.assert_array_equal(adata.varm["deepnmf_own_2"], model.own_parts_.of("2").T)
    assert adata.uns["deepnmf"]["params"]["batch_key"] == "donor"
    assert cells.markers(adata, 3).equals(cells.markers(adata, 3, layer=1))
    other = adata.to_memory()
    cells.transform(other, model, batch_key="donor", key_added="own")
    np.testing.assert_array_equal(other.obsm["X_own"], adata.obsm["X_deepnmf"])
    cells.transform(other, model, key_added="shared")
    np.testing.assert_array_equal(other.obsm["X_shared"], model.transform(other))


def test_a_model_of_batches_comes_back_from_a_file(adata, tmp_path):
    adata.obs["donor"] = ["a", "b"] * 20
    model = cells.fit(adata, 4, batch_key="donor")
    adata.write_h5ad(tmp_path / "out.h5ad")
    read = anndata.read_h5ad(tmp_path / "out.h5ad")
    again = cells.to_model(read)
    np.testing.assert_array_equal(again.own_parts_.of("b"), model.own_parts_.of("b"))
    cells.transform(read, again, batch_key="donor", key_added="again")
    np.testing.assert_array_equal(read.obsm["X_again"], read.obsm["X_deepnmf"])


def test_batches_that_cannot_be_used_are_refused(adata):
    adata.obs["donor"] = ["a", None] * 20
    refused = {
        "no column 'batch'; it has donor": (4, "batch"),
        "DeepNMF does not know of batches.*BatchNMF": (quick(), "donor"),
        "one layer, got sizes": ((8, 4), "donor"),
        "no label for 20 of 40 samples": (None, "donor"),
    }
    for message, (model, key) in refused.items():
        with pytest.raises(ValueError, match=message):
            cells.fit(adata, model, batch_key=key)
    assert not adata.uns


def test_markers_are_high_in_their_part_and_low_elsewhere(adata):
    parts = np.full((30, 3), 0.1)
    parts[0], parts[1], parts[2] = [9, 9, 9], [0, 5, 0], [3, 0.1, 0]
    adata.varm["deepnmf"] = parts
    frame = cells.markers(adata, 2)
    assert list(frame.columns) == ["part", "rank", "gene", "weight", "share"]
    first = frame[frame.part == 1]
    assert list(first["gene"]) == ["gene 1", "gene 0"]
    assert list(first["share"]) == [1, pytest.approx(1 / 3)]
    assert list(cells.markers(adata, 2, by="weight").gene[:2]) == ["gene 0", "gene 2"]
    assert list(frame["rank"]) == [1, 2, 1, 2, 1, 2]


def test_markers_of_an_inner_layer(adata):
    cells.fit(adata, quick())
    assert cells.markers(adata, 3, layer=1).part.max() == 7
    top = cells.markers(adata, 3)
    assert top.equals(cells.markers(adata, 3, layer=2))
    with pytest.raises(ValueError, match="layer: 3, but the model has the layers 1 to 2"):
        cells.markers(adata, layer=3)


@pytest.mark.filterwarnings("ignore::Warning")  # scanpy's own
def test_scanpy_draws_the_codes(adata):
    scanpy = pytest.importorskip("scanpy")
    plt = pytest.importorskip("matplotlib.pyplot")
    adata.obs["batch"] = np.where(np.arange(40) % 2, "a", "b")
    cells.fit(adata, quick())
    scanpy.pl.embedding(adata, "X_deepnmf", color="batch", show=False)
    scanpy.pl.embedding(adata, "deepnmf_1", color="gene 3", show=False)
    plt.close("all")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": "raw"}, "no layer 'raw'; its layers: none"),
        ({"use_highly_variable": True}, "no column highly_variable.*scanpy.pp"),
    ],
)
def test_what_cannot_work_is_refused(settings, message, adata):
    with pytest.raises(ValueError, match=message):
        cells.fit(adata, quick(), **settings)
    assert not adata.obsm


def test_wrong_kinds_are_refused(adata, X):
    with pytest.raises(TypeError, match="cells.fit takes an AnnData, not a csr_matrix"):
        cells.fit(X, quick())
    with pytest.raises(TypeError, match="not a model of deepnmf"):
        cells.fit(adata, pytest.importorskip("sklearn.decomposition").NMF(3))
    for name in (cells.to_model, cells.markers):
        with pytest.raises(ValueError, match=r"has no 'deepnmf'. Fit a model with"):
            name(adata)
    adata.uns["deepnmf"] = {"params": {}}
    with pytest.raises(ValueError, match="holds no model of deepnmf"):
        cells.to_model(adata)


@pytest.mark.parametrize("header", ["", "{}", "[]", '{"format": 9, "version": "x"}', "null"])
def test_a_damaged_model_is_refused(header, adata):
    cells.fit(adata, quick())
    adata.uns["deepnmf"]["header"] = header
    with pytest.raises(ModelFileError, match=r"adata.uns\['deepnmf'\]: (is not|was written)"):
        cells.to_model(adata)
    adata.uns["deepnmf"]["weights"]["W_1"] = np.full((30, 8), np.nan)
    with pytest.raises(ModelFileError):
        cells.to_model(adata)


def test_without_anndata_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(ImportError, match=r"needs anndata: pip install 'deepnmf\[cells\]'"):
        cells.fit([[1.0]])
