"""Commands on .h5ad files: layers, blocks, and codes that are written into obsm."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from deepnmf import load
from tests.cells.conftest import GENES, in_memory
from tests.cli.conftest import FEW

anndata = pytest.importorskip("anndata")
LAYERS = ("--layers", "8,5", *FEW)


@pytest.fixture
def X(low_rank):
    return scipy.sparse.csr_matrix(low_rank.T * (low_rank.T > 0.3), dtype=np.float32)


@pytest.fixture
def path(X, tmp_path):
    adata = in_memory(X, tmp_path)
    adata.layers["counts"] = 3 * X
    adata.obs["batch"] = np.where(np.arange(40) < 20, "a", "b")
    adata.uns["kept"] = {"words": "as they were"}
    adata.obsm["X_pca"] = np.ones((40, 2))
    adata.write_h5ad(tmp_path / "x.h5ad")
    return tmp_path / "x.h5ad"


@pytest.fixture
def fitted(call, path, tmp_path):
    model = tmp_path / "model.safetensors"
    assert call("fit", path, "-o", model, "--layer", "counts", *LAYERS)[0] == 0
    return model


def test_a_layer_is_fitted_and_found_again(call, path, fitted, X, tmp_path):
    assert json.loads(call("info", fitted, "--json")[1])["features"] == 30
    assert call("transform", fitted, path, "-o", tmp_path / "Z.npy")[0] == 0
    np.testing.assert_allclose(np.load(tmp_path / "Z.npy"), load(fitted).transform(3 * X), 1e-5)
    assert call("evaluate", fitted, path, "--labels", "batch")[0] == 0


@pytest.mark.parametrize("blocks", [("--max-memory", "1MB"), ("--dask", "local:1")], ids=str)
@pytest.mark.filterwarnings("ignore::Warning")
def test_blocks_of_a_layer_give_the_same_model(call, path, fitted, blocks, tmp_path):
    if blocks[0] == "--dask":
        pytest.importorskip("distributed")
    other = tmp_path / "blocks.safetensors"
    code, _, err = call("fit", path, "-o", other, "--layer", "counts", *LAYERS, *blocks)
    assert (code, err) == (0, "")
    np.testing.assert_allclose(load(other).components_, load(fitted).components_, atol=1e-4)


@pytest.mark.parametrize("same", [False, True])
def test_codes_are_written_into_obsm(call, path, fitted, X, same, tmp_path):
    target = path if same else tmp_path / "y.h5ad"
    code, out, err = call("transform", fitted, path, "-o", target)
    assert (code, err) == (0, "")
    assert "obsm X_deepnmf_1: 40 x 8, obsm X_deepnmf: 40 x 5" in " ".join(out.split())
    adata = anndata.read_h5ad(target)
    model = load(fitted)
    np.testing.assert_allclose(adata.obsm["X_deepnmf"], model.transform(3 * X), rtol=1e-5)
    np.testing.assert_allclose(
        adata.obsm["X_deepnmf_1"], model.transform(3 * X, layer=1), rtol=1e-5
    )
    assert list(adata.var_names) == GENES
    assert adata.uns["kept"]["words"] == "as they were"
    assert (adata.obsm["X_pca"] == 1).all()
    np.testing.assert_array_equal(adata.X.toarray(), X.toarray())
    assert not list(tmp_path.glob(".*.part"))


def test_codes_of_one_layer_replace_those_of_before(call, path, fitted):
    for _ in range(2):
        assert call("transform", fitted, path, "-o", path, "--layer", "1")[0] == 0
    assert sorted(anndata.read_h5ad(path).obsm) == ["X_deepnmf_1", "X_pca"]


def test_a_failure_leaves_the_old_file(call, path, fitted, tmp_path, monkeypatch):
    before = path.read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("deepnmf.cells.codes_file._add", full)
    code, out, err = call("transform", fitted, path, "-o", path)
    assert (code, out) == (1, "")
    assert "the old file is unchanged: free some space" in err
    assert path.read_bytes() == before


def test_batches_have_own_parts(call, path, X, tmp_path):
    model = tmp_path / "batches.safetensors"
    few = ("--layers", "4", "--max-iter", "5", "--batch", "batch")
    assert call("fit", path, "-o", model, *few)[::2] == (0, "")
    fitted: Any = load(model)
    assert fitted.own_parts_.names == ("a", "b")
    batches = np.repeat(["a", "b"], 20)
    expected = fitted.transform(X, batches=batches)
    assert call("transform", model, path, "-o", path)[0] == 0
    adata = anndata.read_h5ad(path)
    np.testing.assert_allclose(adata.obsm["X_deepnmf"], expected, rtol=1e-5)
    # New batches, and data without any, are encoded by the shared parts.
    adata.obs["batch"] = "new"
    adata.write_h5ad(path)
    assert call("transform", model, path, "-o", tmp_path / "Z.npy")[0] == 0
    np.testing.assert_allclose(np.load(tmp_path / "Z.npy"), fitted.transform(X), rtol=1e-5)


def test_wrong_use_is_one_line(call, path, fitted, tmp_path):
    data, model = tmp_path / "X.npy", tmp_path / "m.safetensors"
    np.save(data, np.ones((40, 30)))
    wrong = {
        ("fit", data, "-o", model, "--layer", "counts"): (2, "only .h5ad files have layers"),
        ("fit", "digits", "-o", model, "--layer", "counts", "--max-memory", "1MB"): (2, "only .h5"),
        ("fit", path, "-o", model, "--layer", "raw"): (1, "no layer 'raw'. It has the layers coun"),
        ("transform", fitted, data, "-o", tmp_path / "y.h5ad"): (2, "X.npy is not an .h5ad file"),
        ("transform", fitted, path, "-o", path, "--layer", "9"): (1, "layer: 9"),
        ("fit", path, "-o", model, "--batch", "donor"): (1, "no such column; they have batch"),
        ("fit", path, "-o", model, "--batch", "batch", "--layers", "8,5"): (2, "has one layer"),
        ("fit", path, "-o", model, "--batch", "batch", "--model", "dnmf"): (2, "--model batch-nmf"),
        ("fit", path, "-o", model, "--batch", "batch", "--consensus", "3"): (2, "--consensus out"),
        ("fit", path, "-o", model, "--batch", "batch", "--max-memory", "1MB"): (2, "no such optio"),
    }
    for command, (expected, message) in wrong.items():
        code, out, err = call(*command)
        assert (code, out) == (expected, ""), command
        assert message in err
        assert err.count("\n") == 1
