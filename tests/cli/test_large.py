"""Data larger than memory or one machine, and interrupted fits, on the command line."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

FEW = ("--layers", "8,4", "--max-iter", "5", "--pretrain-iter", "5", "--dtype", "float64", "--json")


@pytest.fixture
def folder(tmp_path):
    """The same samples in the files that are read piece by piece."""
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    rng = np.random.default_rng(0)
    X = rng.random((300, 6)) @ rng.random((6, 20)) + 0.1 * rng.random((300, 20))
    np.save(tmp_path / "x.npy", X)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
    zarr.open(str(tmp_path / "x.zarr"), mode="w", shape=X.shape, chunks=(50, 20), dtype="f8")[:] = X
    return tmp_path


@pytest.mark.parametrize(
    ("where", "file"),
    [
        (("--max-memory", "200kB"), "x.npy"),
        pytest.param(("--max-memory", "200kB"), "x.h5", marks=pytest.mark.long),
        pytest.param(("--max-memory", "200kB"), "x.zarr", marks=pytest.mark.long),
        (("--dask", "local:2"), "x.zarr"),
        pytest.param(("--dask", "local:2"), "x.npy", marks=pytest.mark.long),
        pytest.param(("--dask", "local:2"), "x.h5", marks=pytest.mark.long),
    ],
)
def test_blocks_give_the_fit_of_data_in_memory(call, folder, file, where):
    if where[0] == "--dask":
        pytest.importorskip("distributed")
    settings = ("-o", folder / "m.safetensors", "--normalize", "l2", *FEW)
    code, out, _ = call("fit", folder / "x.npy", *settings)
    in_memory = json.loads(out)
    code, out, err = call("fit", folder / file, *settings, *where)
    assert (code, err) == (0, "")
    in_blocks = json.loads(out)
    assert in_blocks["relative_error"] == pytest.approx(in_memory["relative_error"], rel=1e-5)
    assert (in_blocks["samples"], in_blocks["features"]) == (300, 20)


def test_files_are_read_into_memory_by_default(call, folder):
    ends = []
    for file in ("x.npy", "x.h5", "x.zarr"):
        code, out, _ = call("fit", folder / file, "-o", folder / "m.safetensors", *FEW)
        assert code == 0
        ends.append(json.loads(out)["relative_error"])
    assert ends == [ends[0]] * 3


def test_errors_are_one_line(call, folder):
    zarr = pytest.importorskip("zarr")
    holes = zarr.open(
        str(folder / "holes.zarr"), mode="w", shape=(300, 20), chunks=(50, 20), dtype="f8"
    )
    holes[:100] = np.load(folder / "x.npy")[:100]
    bad = np.load(folder / "x.npy")
    bad[234, 5] = np.nan
    np.save(folder / "bad.npy", bad)
    (folder / "x.csv").write_text("1,2\n3,4\n")
    for code, arguments, words in (
        (1, ("holes.zarr",), "4 of the 6 chunks"),
        (1, ("holes.zarr", "--max-memory", "1MB"), "4 of the 6 chunks"),
        (1, ("holes.zarr", "--dask", "local:1"), "4 of the 6 chunks"),
        (1, ("bad.npy", "--max-memory", "100kB"), "block 3 (samples 192 to 255"),
        (1, ("none.zarr", "--max-memory", "1MB"), "there is no such file"),
        (1, ("x.csv", "--max-memory", "1MB"), "can be read piece by piece"),
        (2, ("x.npy", "--max-memory", "lots"), 'write "600MB"'),
        (2, ("x.npy", "--dask", "nowhere"), "give the address of a scheduler"),
        (2, ("x.npy", "--dask", "local:0"), "write local:N"),
        (2, ("x.npy", "--dask", "local:2", "--model", "semi-nmf"), "all its data in memory"),
        (2, ("x.npy", "--checkpoint", "x", "--model", "semi-nmf"), "no such option"),
        (1, ("x.npy", "--checkpoint", folder / "no" / "x"), "does not exist"),
        (1, ("x.npy", "--checkpoint", folder / "x.npy"), "not a deepnmf checkpoint"),
    ):
        file, *rest = arguments
        returned, out, err = call("fit", folder / file, "-o", folder / "m.safetensors", *rest)
        assert (returned, out) == (code, ""), arguments
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert words in err


def test_a_scheduler_that_does_not_answer(call, folder, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("deepnmf.cli.workers.SECONDS", 1)
    code, out, err = call(
        "fit", folder / "x.npy", "-o", folder / "m.safetensors", "--dask", "tcp://127.0.0.1:9"
    )
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "no scheduler answers there" in err


def test_ctrl_c_writes_the_model_so_far_and_a_checkpoint_resumes(call, folder):
    """A real Ctrl-C in the middle of a fit that would take minutes."""
    model, kept = folder / "m.safetensors", folder / "fit.ckpt"
    endless = ("--max-iter", "1000000", "--tol", "0", "--pretrain-iter", "2", "--layers", "8,4")
    settings = ("fit", folder / "x.npy", "-o", model, "--checkpoint", kept, "--json", *endless)
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    sweeps = []
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 1.0)
            code, out, _ = call(*settings)
            assert code == 130
            summary = json.loads(out)
            assert "interrupted by Ctrl-C" in summary["status"]
            sweeps.append(summary["sweeps"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert 0 < sweeps[0] < sweeps[1]
    assert call("info", model)[0] == 0
