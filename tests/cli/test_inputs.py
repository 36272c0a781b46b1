"""What commands read: data in other precisions, hostile files, and lists of data sets."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse

from deepnmf.cli.inputs import prepare, prepare_on_disk

FEW = ("--layers", "4", "--max-iter", "3")


@pytest.mark.parametrize("scale", [1e-30, 1e-42, 1e-60, 1e-310])
@pytest.mark.parametrize("blocks", [(), ("--max-memory", "1MB")], ids=["memory", "blocks"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_faint_data_are_refused_before_they_are_rounded(call, tmp_path, scale, blocks, sparse):
    X = np.random.default_rng(0).random((20, 6)) * scale
    file = tmp_path / ("X.npz" if sparse else "X.npy")
    if sparse and not blocks:
        scipy.sparse.save_npz(file, scipy.sparse.csr_array(X))
    else:
        file = tmp_path / "X.npy"
        np.save(file, X)
    code, out, err = call("fit", file, "-o", tmp_path / "m.safetensors", *FEW, *blocks)
    assert (code, out) == (1, "")
    assert "X is too small for its precision" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_sample_gets_unit_norm(form, dtype):
    """Also one whose squares vanish or overflow in its precision."""
    X = np.array([[3.0, 4.0], [3e-30, 4e-30], [3e-200, 4e-200], [3e70, 4e70], [0, 0]])
    expected = np.array([[0.6, 0.8]] * 4 + [[0, 0]])
    prepared = prepare(form(X), "l2", dtype)
    dense = prepared.toarray() if scipy.sparse.issparse(prepared) else prepared
    np.testing.assert_allclose(dense, expected, rtol=1e-6)
    assert dense.dtype == dtype
    few = np.array([[3e-30, 4e-30], [3, 4]], np.float32)
    np.testing.assert_allclose(prepare(few, "l2", dtype), expected[:2], rtol=1e-6)


def test_samples_on_disk_get_unit_norm(tmp_path):
    np.save(tmp_path / "X.npy", np.array([[3e-30, 4e-30], [3, 4]]))
    X = prepare_on_disk(np.load(tmp_path / "X.npy", mmap_mode="r"), "l2", "float32")
    np.testing.assert_allclose(X[:2], [[0.6, 0.8]] * 2, rtol=1e-6)


def test_entries_too_large_for_the_precision_asked_for(call, tmp_path):
    np.save(tmp_path / "X.npy", np.full((5, 4), 1e39))
    for blocks in ((), ("--max-memory", "1MB")):
        code, _, err = call("fit", tmp_path / "X.npy", "-o", tmp_path / "m.safetensors", *blocks)
        assert code == 1
        assert "X is too large for its precision: entries up to 1e+39 in float32" in err


def test_hostile_files_are_one_line(call, tmp_path):
    path = tmp_path / "X.npz"
    np.savez(path, data=[1.0], indices=[7], indptr=[0, 1, 1], shape=[2, 2])
    code, out, err = call("fit", path, "-o", tmp_path / "m.safetensors")
    assert (code, out) == (1, "")
    assert "the sparse matrix is damaged" in err
    assert err.count("\n") == 1


def test_a_wrong_file_spoils_its_own_data_set_only(call, tmp_path, monkeypatch):
    (tmp_path / "PIE_pose27.mat").write_text("not faces")
    monkeypatch.setenv("DEEPNMF_DATA", str(tmp_path))
    code, out, err = call("data", "list")
    assert (code, err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert rows["pie"].startswith("wrong file")
    assert "is not the expected file" in rows["pie"]
    assert rows["digits"].startswith("here")
    code, out, _ = call("data", "list", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert not rows["pie"]["here"]
    assert "Remove it" in rows["pie"]["problem"]
    assert rows["digits"] == {**rows["digits"], "here": True, "problem": None}
