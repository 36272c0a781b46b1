"""The one door: every kind of X reaches the core as the same matrix, and comes home."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf.arrays import dense, is_blocked
from deepnmf.arrays.tensors import is_tensor, to_numpy
from deepnmf.data import open_on_disk
from deepnmf.data.dataset import DataError
from deepnmf.samples.base import Needs
from deepnmf.samples.open import open_samples
from deepnmf.samples.place import place_of, works_on_card

NEEDS = Needs(whom="DeepNMF", fitting=True, blocks=True, widest=4)


def memmap(X, folder):
    path = folder / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def dask_array(X, folder):
    return pytest.importorskip("dask.array").from_array(X, chunks=(15, X.shape[1]))


def h5ad(X, folder):
    """A sparse matrix that stays in its .h5ad file."""
    h5py, sparse = pytest.importorskip("h5py"), scipy.sparse.csr_array(X)
    with h5py.File(folder / "X.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(sparse, name)
    return open_on_disk(folder / "X.h5ad").X


def tensor(X, folder):
    return pytest.importorskip("torch").from_numpy(X.copy())


KINDS = {
    "array": lambda X, _: X,
    "DataFrame": lambda X, _: pytest.importorskip("pandas").DataFrame(X),
    "csr": lambda X, _: scipy.sparse.csr_array(X),
    "csc": lambda X, _: scipy.sparse.csc_matrix(X),
    "tensor": tensor,
    "memmap": memmap,
    "sparse on disk": h5ad,
    "list of blocks": lambda X, _: [X[:10], scipy.sparse.csr_array(X[10:])],
    "Dask": dask_array,
}


@pytest.fixture
def X(low_rank):
    return low_rank.T * (low_rank.T > 0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_some_samples_of_every_kind_are_a_matrix_in_memory(kind, X, tmp_path):
    numbers = np.array([0, 9, 10, 31])
    with open_samples(KINDS[kind](X, tmp_path), NEEDS) as samples:
        some = samples.some(numbers)
        assert some.shape == (4, 30)
        np.testing.assert_allclose(to_numpy(dense(some)), X[numbers])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_the_same_matrix(kind, X, tmp_path):
    with open_samples(KINDS[kind](X, tmp_path), NEEDS) as samples:
        assert samples.features == 30
        data = samples.data
        if is_blocked(data):
            blocks = [dense(block) for block in data.each()]
            data = np.concatenate(blocks, axis=1)
        np.testing.assert_array_equal(to_numpy(dense(data)), X.T)


@pytest.mark.parametrize("kind", KINDS)
def test_codes_come_home(kind, X, tmp_path):
    given = KINDS[kind](X, tmp_path)
    model = deepnmf.sdnmf_l((8, 4), max_iter=5, pretrain_iter=5, tol=0, random_state=0)
    Z = model.fit_transform(given)
    assert Z.shape == (40, 4)
    assert is_tensor(Z) == is_tensor(given) == is_tensor(model.components_)
    again = model.transform(given)
    np.testing.assert_allclose(np.asarray(Z), np.asarray(again), rtol=1e-6, atol=1e-9)
    expected = deepnmf.sdnmf_l((8, 4), max_iter=5, pretrain_iter=5, tol=0, random_state=0).fit(X)
    if not is_tensor(given):
        assert model.reconstruction_err_ == pytest.approx(expected.reconstruction_err_, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_entries_are_refused_in_the_same_words(kind, X, tmp_path):
    X = X.copy()
    X[12, 3] = -1
    place = r"X\[2, 3\]" if kind == "list of blocks" else r"X\[12, 3\]"
    with pytest.raises(ValueError, match=rf"Negative values.*{place} = -1.0"):
        _ = open_samples(KINDS[kind](X, tmp_path), NEEDS).data


@pytest.mark.parametrize("scale", [1e-90, 1e-310])
@pytest.mark.parametrize("kind", KINDS)
def test_entries_whose_products_vanish_are_refused(kind, scale, X, tmp_path):
    with pytest.raises(ValueError, match="too small for its precision"):
        _ = open_samples(KINDS[kind](X * scale, tmp_path), NEEDS).data


@pytest.mark.parametrize("kind", ["array", "csr", "memmap", "list of blocks", "Dask"])
@pytest.mark.parametrize("max_memory", [None, "1MB"])
def test_complex_entries_are_refused(kind, max_memory, X, tmp_path):
    needs = replace(NEEDS, max_memory=max_memory)
    with pytest.raises(ValueError, match="(?i)complex"):
        _ = open_samples(KINDS[kind](X + 1j, tmp_path), needs).data


def test_blocks_may_be_data_frames(X):
    frames = [pytest.importorskip("pandas").DataFrame(block) for block in (X[:10], X[10:])]
    with open_samples(frames, NEEDS) as samples:
        np.testing.assert_array_equal(np.concatenate(list(samples.data.each()), axis=1), X.T)


def test_dask_chunks_may_be_empty(X):
    chunks = ((10, 0, 30, 0), (30,))
    given = pytest.importorskip("dask.array").from_array(X, chunks=chunks)
    model = deepnmf.sdnmf_l((6, 3), max_iter=3, pretrain_iter=3, tol=0, random_state=0)
    Z = model.fit(given).transform(given)
    assert Z.chunks[0] == chunks[0]
    np.testing.assert_allclose(np.asarray(Z), model.transform(X), rtol=1e-6, atol=1e-9)


def test_lazy_codes_are_those_of_the_model_that_was_asked(X, tmp_path):
    model = deepnmf.sdnmf_l((6, 3), max_iter=3, pretrain_iter=3, tol=0, random_state=0).fit(X)
    lazy, expected = model.transform(dask_array(X, tmp_path)), model.transform(X)
    model.fit(X[:, ::-1].copy())
    np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["array", "csr", "tensor", "list of blocks", "Dask"])
def test_a_refused_refit_leaves_the_model_as_it_was(kind, X, tmp_path):
    model = deepnmf.sdnmf_l((6, 3), max_iter=3, pretrain_iter=3, tol=0, random_state=0)
    before = model.fit(X).transform(X)
    bad = np.hstack([X, X])
    bad[3, 40] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(KINDS[kind](bad, tmp_path))
    assert model.n_features_in_ == 30
    np.testing.assert_array_equal(model.transform(X), before)


def test_a_fit_that_fails_leaves_the_model_as_it_was(X):
    model = deepnmf.sdnmf_l((6, 3), max_iter=3, pretrain_iter=3, tol=0, random_state=0).fit(X)
    before = model.history_

    def broken(record):
        raise RuntimeError("from the callback")

    model.set_params(callback=broken)
    with pytest.raises(RuntimeError, match="from the callback"):
        model.fit(X[:, :20])
    assert model.n_features_in_ == 30
    assert model.history_ is before


@pytest.mark.parametrize("max_memory", [None, "20KB"])
def test_a_damaged_chunk_on_disk_is_refused_in_one_line(max_memory, X, tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.open(str(tmp_path / "X.zarr"), mode="w", shape=X.shape, chunks=(40, 30))
    stored[:] = X
    for chunk in (
        path for path in tmp_path.rglob("*") if path.is_file() and "json" not in str(path)
    ):
        chunk.write_bytes(b"damaged")
    model = deepnmf.dnmf(3, max_iter=1, max_memory=max_memory)
    with pytest.raises(DataError, match=r"rows 0 to \d+ of X cannot be read .* write it again"):
        model.fit(stored)


def test_chunks_that_cannot_be_counted_are_refused(X, tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.open(str(tmp_path / "X.zarr"), mode="w", shape=X.shape, chunks=(40, 30))[:] = X
    (description,) = (path for path in tmp_path.rglob("*.json") if "40" in path.read_text())
    damaged = json.loads(description.read_text())
    damaged["chunk_grid"]["configuration"]["chunk_shape"] = [40, 0]
    description.write_text(json.dumps(damaged))
    with pytest.raises(DataError, match="could not be|cannot be counted"):
        deepnmf.dnmf(3, max_iter=1).fit(open_on_disk(tmp_path / "X.zarr").X)


@pytest.mark.parametrize(("device", "expected"), [(None, "here"), ("cpu", "cpu"), ("auto", "here")])
def test_where_a_sparse_matrix_is_worked_on(device, expected, X):
    assert place_of(scipy.sparse.csr_array(X), device) == expected
    assert not works_on_card(scipy.sparse.csr_array(X), device)


def test_a_card_is_refused_for_sparse_data_and_for_blocks(X):
    with pytest.raises(ValueError, match="sparse X is fitted on the CPU"):
        deepnmf.dnmf(3, device="cuda").fit(scipy.sparse.csr_array(X))
    with pytest.raises(ValueError, match="data in blocks is fitted on the CPU"):
        deepnmf.dnmf(3, device="cuda").fit([X, X])
