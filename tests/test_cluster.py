"""Dask arrays: the same model as in one piece, on real workers, of which some die."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf.files.checkpoint import Checkpoint
from deepnmf.samples.dask import layout as daskblocks
from deepnmf.samples.dask import replay
from tests.laws import ends_as_in_one_piece
from tests.tables import DEAD, DEEP, LINKS, each, long

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.xdist_group("dask")  # one process has the cluster that tests share
QUICK: dict[str, Any] = {"max_iter": 5, "pretrain_iter": 4, "tol": 0.0, "random_state": 0}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.random((200, 5)) @ rng.random((5, 30)) + 0.5 * rng.random((200, 30))


def cluster_of(workers, **options):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=":0", processes=True, **options
    )


@pytest.fixture(scope="module")
def shared(processes):
    with cluster_of(2) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def client(shared):
    """Of two workers, whatever a test has done to those before: Dask starts new ones."""
    yield shared
    shared.wait_for_workers(2, timeout=180)


@DEAD
@each("preset,link", DEEP, LINKS)
def test_chunks_are_one_piece(preset, link, X):
    """Without a cluster, by threads."""
    settings = {"link": link, "scaling": "fixed", **QUICK}
    chunks = preset((8, 5), **settings).fit(da.from_array(X, chunks=(60, 30)))
    ends_as_in_one_piece(lambda: preset((8, 5), **settings), X, chunks)


@pytest.mark.parametrize("link", long(["identity", "root", "tanh"], "tanh"))
def test_workers_are_one_piece(link, X, client):
    del client
    whole = deepnmf.sdnmf_rl1((8, 5), link=link, **QUICK).fit(X)
    D = da.from_array(X, chunks=(60, 30))
    there = deepnmf.sdnmf_rl1((8, 5), link=link, **QUICK)
    codes = there.fit_transform(D)
    end = whole.history_[-1]["objective"]
    assert there.history_[-1]["objective"] == pytest.approx(end, rel=1e-5)
    assert isinstance(codes, da.Array)
    assert codes.chunks == ((60, 60, 60, 20), (5,))
    np.testing.assert_allclose(codes.compute(), there.transform(X), rtol=1e-5, atol=1e-6)
    layer = there.transform(D, layer=1)
    assert layer.compute().shape == (200, 8)


@pytest.mark.long
def test_sparse_chunks_on_workers(X, client):
    del client
    rare = np.where(X < 1.2, 0, X)
    whole = deepnmf.sdnmf_l((8, 5), **QUICK).fit(rare)
    D = da.from_array(rare, chunks=(60, 30)).map_blocks(scipy.sparse.csr_array)
    there = deepnmf.sdnmf_l((8, 5), **QUICK).fit(D)
    end = whole.history_[-1]["objective"]
    assert there.history_[-1]["objective"] == pytest.approx(end, rel=1e-5)


def test_nothing_is_left_on_the_workers(X, client):
    """After fits, a score, and a fit that failed."""
    D = da.from_array(X, chunks=(60, 30))
    deepnmf.sdnmf_l((8, 5), **QUICK).fit(D)
    model = deepnmf.dnmf(3, **QUICK).fit(D)
    assert model.score(D) < 0

    def fail(record):
        raise KeyError(record["sweep"])

    with pytest.raises(KeyError):
        deepnmf.dnmf(3, callback=fail, **QUICK).fit(D)
    assert set(client.run(_held).values()) == {0}


def _held():
    from deepnmf.samples.dask.workers import HELD

    return len(HELD)


KILLED: dict[str, Any] = {"max_iter": 40, "pretrain_iter": 10, "tol": 0.0, "random_state": 0}
COPIED = {"after every pass": float("inf"), "now and then": replay.SHARE, "never": 1e-9}


@pytest.mark.parametrize(
    ("link", "stage", "copied"),
    [
        ("identity", "pretrain", "now and then"),
        pytest.param("identity", "finetune", "after every pass", marks=pytest.mark.long),
        pytest.param("identity", "finetune", "never", marks=pytest.mark.long),
        pytest.param("root", "pretrain", "now and then", marks=pytest.mark.long),
        pytest.param("root", "finetune", "after every pass", marks=pytest.mark.long),
        pytest.param("root", "finetune", "never", marks=pytest.mark.long),
        pytest.param("tanh", "finetune", "now and then", marks=pytest.mark.long),
    ],
)
def test_a_worker_that_is_killed_costs_time_and_nothing_else(
    link, stage, copied, X, client, monkeypatch
):
    """Not only in the end: sweep by sweep the fit is what it is without."""
    monkeypatch.setattr(replay, "SHARE", COPIED[copied])
    undisturbed = deepnmf.dnmf((4, 2), link=link, **KILLED).fit(X)
    victims = list(client.run(os.getpid).values())

    def kill(record):
        if (record["stage"], record["sweep"]) == (stage, 3) and victims:
            os.kill(victims.pop(), signal.SIGKILL)
            victims.clear()

    model = deepnmf.dnmf((4, 2), link=link, callback=kill, **KILLED)
    model.fit(da.from_array(X, chunks=(40, 30)))
    assert not victims
    end, found = ([one["objective"] for one in fit.history_] for fit in (undisturbed, model))
    at = next(
        i for i, one in enumerate(model.history_) if (one["stage"], one["sweep"]) == (stage, 4)
    )
    np.testing.assert_allclose(found[: at + 3], end[: at + 3], rtol=1e-9)
    assert found[-1] == pytest.approx(end[-1], rel=1e-3)


@pytest.mark.long
def test_a_worker_with_persisted_data_is_killed(X, client):
    """Its chunks are no recipes any more, but futures: Dask makes them again by itself."""
    undisturbed = deepnmf.dnmf((4, 2), **QUICK).fit(X)
    D = client.persist(da.from_array(X, chunks=(40, 30)))
    distributed.wait(D)
    victims = list(client.run(os.getpid).values())

    def kill(record):
        if record["sweep"] == 2 and victims:
            os.kill(victims.pop(), signal.SIGKILL)
            victims.clear()

    model = deepnmf.dnmf((4, 2), callback=kill, **QUICK).fit(D)
    assert not victims
    end = [record["objective"] for record in undisturbed.history_]
    np.testing.assert_allclose([record["objective"] for record in model.history_], end, rtol=1e-9)


@pytest.mark.parametrize("method", long(["forkserver", "spawn"], "spawn"))
def test_a_worker_that_comes_back_where_it_died(method, X, processes):
    """Ports for two workers and no more: the new one has the address of the dead one.
    Spawned, as Dask starts workers unless told otherwise, they take longer."""
    undisturbed = deepnmf.dnmf((4, 2), **QUICK).fit(X)
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": method}),
        cluster_of(2, worker_port=two_ports()) as cluster,
        distributed.Client(cluster) as client,
    ):
        addresses, victims = set(client.nthreads()), list(client.run(os.getpid).values())

        def kill(record):
            if record["sweep"] == 2 and victims:
                victim = victims.pop()
                victims.clear()
                os.kill(victim, signal.SIGKILL)
                while victim in client.run(os.getpid, on_error="ignore").values():
                    pass
                client.wait_for_workers(2, timeout=180)

        model = deepnmf.dnmf((4, 2), callback=kill, **QUICK)
        model.fit(da.from_array(X, chunks=(40, 30)))
        assert not victims
        assert set(client.nthreads()) == addresses
    end, found = ([one["objective"] for one in fit.history_] for fit in (undisturbed, model))
    np.testing.assert_allclose(found, end, rtol=1e-9)


def two_ports():
    """A range of two ports that nobody has, as Dask writes it."""
    for low in range(20_000, 60_000, 2):
        with contextlib.suppress(OSError), contextlib.ExitStack() as open_ones:
            for port in (low, low + 1):
                one = open_ones.enter_context(socket.socket())
                one.bind(("127.0.0.1", port))
            return f"{low}:{low + 1}"
    raise AssertionError("no two free ports")


def test_a_worker_that_is_paused_is_not_waited_for_without_end(X, client, monkeypatch):
    monkeypatch.setattr(daskblocks, "PATIENCE", 0.2)
    monkeypatch.setattr(daskblocks, "LONGEST_PAUSE", 1)

    def pause(record):
        if record["sweep"] == 2:
            client.run(paused)

    try:
        with pytest.raises(replay.ClusterError, match="has been paused by Dask for 1 seconds"):
            deepnmf.dnmf(3, callback=pause, **QUICK).fit(da.from_array(X, chunks=(40, 30)))
    finally:
        client.run(running)


def paused(dask_worker):
    """On a worker: as if its memory were full, for good."""
    from distributed.core import Status

    dask_worker.memory_manager.memory_pause_fraction = False
    dask_worker.status = Status.paused


def running(dask_worker):
    """On a worker: as if its memory were free again."""
    from distributed.core import Status

    dask_worker.status = Status.running


def test_a_cluster_that_cannot_go_on_is_named(X, client, monkeypatch):
    def lost(self):
        raise daskblocks.WorkerLost

    monkeypatch.setattr(daskblocks.DaskLayout, "_restore", lost)
    with pytest.raises(replay.ClusterError, match="5 times.*checkpoint"):
        deepnmf.dnmf(3, **QUICK).fit(da.from_array(X, chunks=(60, 30)))


@pytest.mark.long
@pytest.mark.parametrize("copied", COPIED)
def test_workers_that_are_killed_one_after_the_other(copied, X, client, monkeypatch):
    """Each that is left, or has come since, when the others have been gone for five sweeps."""
    monkeypatch.setattr(replay, "SHARE", COPIED[copied])
    undisturbed = deepnmf.dnmf((4, 2), **KILLED).fit(X)
    gone = []

    def kill(record):
        if record["stage"] == "finetune" and record["sweep"] in (5, 10, 15):
            left = [pid for pid in client.run(os.getpid).values() if pid not in gone]
            gone.append(left[0])
            os.kill(left[0], signal.SIGKILL)

    model = deepnmf.dnmf((4, 2), callback=kill, **KILLED)
    model.fit(da.from_array(X, chunks=(40, 30)))
    assert len(gone) == 3
    end = undisturbed.history_[-1]["objective"]
    assert model.history_[-1]["objective"] == pytest.approx(end, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("copied", ["after every pass", "never"])
def test_all_workers_killed_at_once(copied, X, client, monkeypatch):
    """Copies are gone as well; what is made again from X and the weights is no worse."""
    monkeypatch.setattr(replay, "SHARE", COPIED[copied])
    undisturbed = deepnmf.dnmf((4, 2), **KILLED).fit(X)
    victims = list(client.run(os.getpid).values())

    def kill(record):
        if (record["stage"], record["sweep"]) == ("finetune", 3):
            while victims:
                os.kill(victims.pop(), signal.SIGKILL)

    model = deepnmf.dnmf((4, 2), callback=kill, **KILLED)
    model.fit(da.from_array(X, chunks=(40, 30)))
    end = undisturbed.history_[-1]["objective"]
    assert model.history_[-1]["objective"] == pytest.approx(end, rel=1e-3)


@pytest.mark.long
def test_a_worker_killed_in_the_middle_of_a_sweep(X, client):
    """Not between sweeps, as a callback would, but while its tasks run."""
    import threading

    undisturbed = deepnmf.dnmf((4, 2), **KILLED).fit(X)
    victim = next(iter(client.run(os.getpid).values()))
    begun = threading.Event()

    def kill():
        begun.wait(60)
        os.kill(victim, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    model = deepnmf.dnmf((4, 2), callback=lambda _: begun.set(), **KILLED)
    model.fit(da.from_array(X, chunks=(40, 30)))
    thread.join()
    end = undisturbed.history_[-1]["objective"]
    assert model.history_[-1]["objective"] == pytest.approx(end, rel=1e-3)


def test_when_copies_are_made(monkeypatch):
    """After their share of the time, after too many bytes, where one is missing, or all is new."""
    monkeypatch.setattr(replay, "LIMIT", 100)
    log = replay.Log(cost=1e9)
    for _ in range(replay.FEWEST):
        log.note(b"a pass of more than a few bytes")
    assert not log.due({"here"})
    log.note(b"one more")
    assert log.due({"here"})
    log.restart({0: (None, "there")}, begun=log.since)
    log.cost = 1e9
    assert not log.due({"here", "there"})
    assert log.due({"here"})
    assert log.can_restore(0, {"there"})
    assert not log.can_restore(0, {"here"})
    log.cost = 0
    assert log.due({"here", "there"})


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda X: da.from_array(X, chunks=(60, 10)), "split over features"),
        (lambda X: da.from_array(X, chunks=(60, 30))[da.from_array(X[:, 0] > 0)], "compute_chunk"),
        (lambda X: da.from_array(np.where(X[130, 7] == X, np.nan, X), chunks=(60, 30)), "chunk 2"),
        (lambda X: da.from_array(-X, chunks=(60, 30)), "Negative values"),
        (lambda X: da.from_array(X[:1], chunks=(1, 30)), "minimum of 2"),
        (lambda X: da.from_array(X[None], chunks=(1, 60, 30)), "3 dimensions"),
    ],
)
def test_bad_chunks_are_named(spoil, words, X):
    with pytest.raises(ValueError, match=words):
        deepnmf.dnmf(4).fit(spoil(X))


def test_a_fitted_model_wants_its_features(X):
    model = deepnmf.dnmf(4, **QUICK).fit(X)
    with pytest.raises(ValueError, match="20 features, but DeepNMF is expecting 30"):
        model.transform(da.from_array(X[:, :20], chunks=(60, 20)))


@pytest.mark.long
@pytest.mark.parametrize("link", ["identity", "root"])
def test_a_fit_that_was_broken_off_goes_on(link, X, client, tmp_path):
    """In the first layer, in the second, and in fine-tuning."""
    del client
    D = da.from_array(X, chunks=(60, 30))
    model = deepnmf.sdnmf_l((8, 5), mu=0.01, link=link, **QUICK)
    end = [record["objective"] for record in model.fit(D).history_]
    model.set_params(checkpoint=Checkpoint(tmp_path / "fit.ckpt", every=0))
    for after in (2, 5, 5):
        left = iter(range(after))

        def callback(record, left=left):
            if next(left, None) is None:
                raise KeyError("broken off")

        with pytest.raises(KeyError):
            model.set_params(callback=callback).fit(D)
    found = [record["objective"] for record in model.set_params(callback=None).fit(D).history_]
    np.testing.assert_allclose(found, end, rtol=1e-9)
