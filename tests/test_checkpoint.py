"""A fit that was stopped and goes on is the fit that was not."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

import deepnmf
from deepnmf.core.history import LIMIT
from deepnmf.files.checkpoint import Checkpoint, CheckpointError
from deepnmf.solvers import ProjectedGradient
from tests import kills
from tests.tables import LINKS, each

SETTINGS: dict[str, Any] = {"max_iter": 12, "pretrain_iter": 6, "tol": 0, "random_state": 0}
KINDS = ("array", "float32", "sparse", "blocks", "memmap", "tensor")


def given(kind, X, folder):
    """The same data in the ways that it can be given."""
    if kind == "float32":
        return X.astype(np.float32)
    if kind == "sparse":
        return scipy.sparse.csr_array(X)
    if kind == "blocks":
        return [X[:11], X[11:12], X[12:]]
    if kind == "tensor":
        return pytest.importorskip("torch").from_numpy(X.copy())
    if kind == "memmap":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r")
    return X


class Stop(Exception):
    pass


def stopping(after):
    """A callback that breaks off a fit, as a crash would."""
    seen = []

    def callback(record):
        seen.append(record)
        if len(seen) == after:
            raise Stop

    return callback


def broken_off(model, X, after):
    model.set_params(callback=stopping(after))
    with pytest.raises(Stop):
        model.fit(X)
    return model.set_params(callback=None)


def objectives(model):
    return [record["objective"] for record in model.history_]


@each("kind,link,after", KINDS, LINKS, [2, 9, 15, 23])
def test_broken_off_and_begun_again_is_the_same_fit(kind, link, after, low_rank, tmp_path):
    """In the first layer (2), in the second (9), in fine-tuning (15), in its last sweep (23)."""
    X = given(kind, low_rank.T, tmp_path)
    memory = "1MB" if kind == "memmap" else None
    model = deepnmf.sdnmf_l((8, 5), mu=0.01, link=link, max_memory=memory, **SETTINGS)
    through = model.fit(X)
    end, reached = objectives(through), through.reconstruction_err_
    model.set_params(checkpoint=Checkpoint(tmp_path / "fit.ckpt", every=0))
    broken_off(model, X, after)
    heard: list[dict[str, Any]] = []
    model.set_params(callback=heard.append).fit(X)
    # The record that broke it off came before its checkpoint.
    assert len(heard) == 24 - (after - 1)
    np.testing.assert_allclose(objectives(model), end, rtol=1e-12 if kind != "float32" else 1e-6)
    assert model.reconstruction_err_ == pytest.approx(reached, rel=1e-7)
    again = model.fit(X)
    assert len(heard) == 24 - (after - 1), "a fit that is over has nothing left to do"
    assert objectives(again) == objectives(model)


@pytest.mark.parametrize("scaling", ["paper", "fixed"])
def test_codes_of_sparse_blocks_lie_as_they_are_kept(scaling, rng, tmp_path):
    """So that not even rounding differs, in single precision."""
    X = scipy.sparse.random(400, 300, density=0.05, format="csr", dtype="float32", rng=0)
    blocks = [X[:250], X[250:]]
    model = deepnmf.sdnmf_l((20, 8), scaling=scaling, **SETTINGS)
    through = [W.copy() for W in model.fit(blocks).weights_]
    model.set_params(checkpoint=Checkpoint(tmp_path / "fit.ckpt", every=0))
    broken_off(model, blocks, 15)
    for W, expected in zip(model.fit(blocks).weights_, through, strict=True):
        np.testing.assert_array_equal(W, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda **given: deepnmf.nenmf(6, **given),
        lambda **given: deepnmf.pgnmf(6, **given),
        lambda **given: deepnmf.sdnmf_rl2((8, 5), solver="nesterov", **given),
        lambda **given: deepnmf.sdnmf_rl1((8, 5), solver=ProjectedGradient(), **given),
        lambda **given: deepnmf.sdnmf_r((8, 6, 4), link="root", scaling="fixed", **given),
        lambda **given: deepnmf.dnmf((8, 5), start="random", **given),
    ],
)
def test_whatever_the_solver_remembers_is_kept(make, low_rank, tmp_path):
    X = low_rank.T
    settings = {"max_iter": 8, "pretrain_iter": 4, "tol": 0, "random_state": 3}
    model = make(**settings)
    records = len(model.fit(X).history_)
    end = objectives(model)
    model.set_params(checkpoint=Checkpoint(tmp_path / "fit.ckpt", every=0))
    for after in (3, records // 2):
        broken_off(model, X, after)
    np.testing.assert_allclose(objectives(model.fit(X)), end, rtol=1e-12)


def test_without_a_seed_the_numbers_go_on_too(low_rank, tmp_path):
    X = low_rank.T
    model = deepnmf.dnmf((8, 5), start="random", max_iter=5, pretrain_iter=5, tol=0)
    model.set_params(checkpoint=Checkpoint(tmp_path / "fit.ckpt", every=0))
    broken_off(model, X, 3)
    one, other = model.fit(X).weights_, model.fit(X).weights_
    for W, V in zip(one, other, strict=True):
        np.testing.assert_array_equal(W, V)


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.long)])
def test_kills_at_random_moments(times, processes, tmp_path):
    """Killed with SIGKILL and started again: the checkpoint can always be read, and the end is that
    of an undisturbed fit."""
    path, sweeps = tmp_path / "fit.ckpt", 75 * times
    killed, seen = 0, set()
    for moment in np.random.default_rng(0).uniform(0.0, 0.1, times):
        ours, theirs = processes.Pipe()
        process = processes.Process(target=kills.long_fit, args=(path, sweeps, theirs))
        process.start()
        assert ours.recv() == "now"
        process.join(moment)
        killed += process.is_alive()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        if path.exists():
            seen.add(sweeps_kept(path))
    assert killed == times, "the fit was over too soon to be killed"
    assert len(seen) >= 2 + times // 10, "the kills did not come in the middle"
    ended, undisturbed = kills.long_fit(path, sweeps), kills.long_fit(None, sweeps)
    assert objectives(ended)[-1] == pytest.approx(objectives(undisturbed)[-1], rel=1e-5)
    assert len(ended.history_) == len(undisturbed.history_)
    assert list(tmp_path.iterdir()) == [path], "what was half written is cleared away"


def sweeps_kept(path):
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        for name in file.keys():  # noqa: SIM118
            assert np.isfinite(file.get_tensor(name)).all()
        return len(file.get_tensor("history_sweep"))


def test_a_full_disk_leaves_the_old_checkpoint_whole(processes, tmp_path):
    path = tmp_path / "fit.ckpt"
    model, X = kills.short_model(path)
    broken_off(model, X, 4)
    old = path.read_bytes()
    ours, theirs = processes.Pipe()
    process = processes.Process(target=kills.fit_with_little_room, args=(path, 10_000, theirs))
    process.start()
    messages, records = ours.recv()
    process.join()
    assert records == 15, "the fit goes on"
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
    (message,) = [one for one in messages if "checkpoint" in one]
    assert "the previous one stays" in message
    assert "Free some space" in message


def test_a_checkpoint_of_another_fit_is_refused_and_the_difference_named(low_rank, tmp_path):
    X = low_rank.T
    path = tmp_path / "fit.ckpt"
    model = deepnmf.sdnmf_l((8, 5), mu=0.01, checkpoint=path, **SETTINGS).fit(X)
    for change, name in (
        ({"layer_sizes": (8, 4)}, "layer_sizes is [8, 5] there and [8, 4] here"),
        ({"random_state": 1}, "random_state is 0 there and 1 here"),
        ({"link": "root"}, "link is 'identity' there and 'root' here"),
        ({"penalty_W": None}, "penalty_W is SquaredL1"),
        ({"max_iter": 13}, "max_iter is 12 there and 13 here"),
    ):
        other = deepnmf.sdnmf_l((8, 5), mu=0.01, checkpoint=path, **SETTINGS)
        with pytest.raises(CheckpointError, match="other settings") as refusal:
            other.set_params(**change).fit(X)
        assert name in str(refusal.value)
    changed = X.copy()
    changed[3, 4] += 1
    for data, name in (
        (changed, "checksum of the entries"),
        (X[:-1], f"shape is {X.shape[0]} x {X.shape[1]} there"),
        (X.astype(np.float32), "type is float64 there and float32 here"),
        (scipy.sparse.csr_array(X), "kind is array there and sparse here"),
        ([X[:9], X[9:]], "number of blocks"),
    ):
        with pytest.raises(CheckpointError, match="other data") as refusal:
            model.fit(data)
        assert name in str(refusal.value)
        assert "Delete it" in str(refusal.value)


def test_what_is_no_checkpoint_is_refused(low_rank, tmp_path):
    X = low_rank.T
    path = tmp_path / "fit.ckpt"
    for content in (b"", b"notes", b"\x08\0\0\0\0\0\0\0{}      ", os.urandom(500)):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="is not a deepnmf checkpoint"):
            deepnmf.dnmf(4, checkpoint=path).fit(X)
        assert path.read_bytes() == content, "it is not overwritten"
    deepnmf.dnmf(4, max_iter=2, tol=0).fit(X).save(path)
    with pytest.raises(CheckpointError, match="is not a deepnmf checkpoint"):
        deepnmf.dnmf(4, checkpoint=path).fit(X)
    with pytest.raises(ValueError, match="does not exist"):
        deepnmf.dnmf(4, checkpoint=tmp_path / "nowhere" / "fit.ckpt").fit(X)
    with pytest.raises(ValueError, match="is not a path"):
        deepnmf.dnmf(4, checkpoint=3).fit(X)
    with pytest.raises(ValueError, match="not a number of seconds"):
        deepnmf.dnmf(4, checkpoint=Checkpoint(path, every=-1)).fit(X)
    with pytest.raises(ValueError, match="one fit"):
        deepnmf.fit_many(X, deepnmf.dnmf(4, checkpoint=path), seeds=2)


@pytest.mark.parametrize("after", [3, 9, 16])
@pytest.mark.parametrize("kept", [False, True])
def test_ctrl_c_keeps_the_best_and_says_so(after, kept, low_rank, tmp_path):
    X = low_rank.T
    model = deepnmf.sdnmf_l((8, 5), mu=0.01, **SETTINGS)
    end = objectives(model.fit(X))
    heard = []

    def callback(record):
        heard.append(record)
        if len(heard) == after:
            signal.raise_signal(signal.SIGINT)

    path = tmp_path / "fit.ckpt"
    model.set_params(callback=callback, checkpoint=path if kept else None)
    with pytest.warns(ConvergenceWarning, match="interrupted by Ctrl-C"):
        model.fit(X)
    assert len(model.history_) == after
    assert model.transform(X).shape == (len(X), 5)
    if after > 12:
        norm = float(np.sum(X**2)) / 2
        assert model.reconstruction_err_**2 / 2 <= end[after - 1] + 1e-9 * norm
    model.set_params(callback=None)
    np.testing.assert_allclose(objectives(model.fit(X)), end, rtol=1e-12)


def test_ctrl_c_that_python_dropped_is_noticed_after_the_sweep(low_rank):
    """As in a destructor, where Python goes on as if nothing had happened."""
    heard = []

    def callback(record):
        heard.append(record)
        if len(heard) == 9:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    model = deepnmf.sdnmf_l((8, 5), callback=callback, **SETTINGS)
    with pytest.warns(ConvergenceWarning, match="interrupted by Ctrl-C"):
        model.fit(low_rank.T)
    assert len(model.history_) == 9
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_a_handler_of_ctrl_c_that_is_not_pythons_stays(handler, low_rank):
    def callback(record):
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, handler)
    try:
        model = deepnmf.dnmf(4, max_iter=3, tol=0, callback=callback).fit(low_rank.T)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(model.history_) == 3


def test_ctrl_c_ends_many_fits(low_rank):
    seen = []

    def callback(record):
        seen.append(record)
        if len(seen) == 4:
            signal.raise_signal(signal.SIGINT)

    model = deepnmf.dnmf(4, max_iter=3, tol=0, callback=callback)
    with (
        pytest.warns(ConvergenceWarning, match="interrupted by Ctrl-C"),
        pytest.raises(KeyboardInterrupt),
    ):
        deepnmf.fit_many(low_rank.T, model, seeds=9)
    assert len(seen) == 4


@pytest.mark.long
def test_a_long_fit_is_saved_and_continues_with_a_thinned_history(tmp_path):
    """benchmarks/million.py does this for a million sweeps."""
    X = np.random.default_rng(0).random((10, 4))
    sweeps, path = 5 * LIMIT, tmp_path / "fit.ckpt"
    model = deepnmf.dnmf(2, max_iter=sweeps, tol=0, random_state=0)
    end = [(one["sweep"], one["objective"]) for one in model.fit(X).history_]
    assert len(end) <= LIMIT
    model.set_params(checkpoint=Checkpoint(path, every=0.2))
    broken_off(model, X, 2 * LIMIT + 5)
    heard: list[dict[str, Any]] = []
    model.set_params(callback=heard.append).fit(X)
    assert len(heard) < sweeps, "it continued"
    assert [(one["sweep"], one["objective"]) for one in model.history_] == end
    assert model.n_iter_ == model.history_[-1]["sweep"] == sweeps
    model.save(tmp_path / "model.safetensors")
    loaded = deepnmf.load(tmp_path / "model.safetensors")
    assert loaded.history_ == model.history_
    assert loaded.n_iter_ == sweeps
    for file in (path, tmp_path / "model.safetensors"):
        assert file.stat().st_size < 100 * LIMIT


def test_a_saved_model_does_not_carry_the_path(low_rank, tmp_path):
    model = deepnmf.dnmf(4, max_iter=3, tol=0, checkpoint=tmp_path / "fit.ckpt").fit(low_rank.T)
    model.save(tmp_path / "model.safetensors")
    assert deepnmf.load(tmp_path / "model.safetensors").checkpoint is None
