"""Threads: BLAS on one while a fit runs, work shared by free cores, the same results always."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import deepnmf
from deepnmf.arrays.cpu import products, threads
from deepnmf.models.baselines.joint import JointNMF


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_shared_work_is_done_once_and_in_order(pieces, use_threads):
    for number in (1, 2, 5):
        use_threads(number)
        parts = threads.share(lambda begin, end: list(range(begin, end)), pieces, 1e9)
        assert [piece for part in parts for piece in part] == list(range(pieces))


def test_work_is_done_by_several_threads(use_threads):
    """Two chunks that wait for each other."""
    use_threads(2)
    both = threading.Barrier(2, timeout=60)
    assert sorted(threads.share(lambda *_: both.wait(), 2, 1)) == [0, 1]


@pytest.mark.parametrize("bad", [0, 7, 15])
def test_an_error_in_a_chunk_is_raised_and_ends_the_work(bad, use_threads):
    use_threads(4)
    running = []

    def work(begin, end):
        running.append(begin)
        if begin <= bad < end:
            raise ValueError(f"piece {bad}")
        running.remove(begin)

    with pytest.raises(ValueError, match=f"piece {bad}"):
        threads.share(work, 16, 1e9)
    assert len(running) == 1  # no thread is still at work


def test_the_number_of_threads_follows_the_usual_limits():
    with threadpool_limits(1, user_api="blas"):
        assert threads.allowed() == 1
    with threadpool_limits(2, user_api="blas"), threads.one_blas_thread():
        assert threads.allowed() == min(2, threads._cores())
    assert threads.usable() <= threads.allowed() <= len(os.sched_getaffinity(0))


SHAPES = [(1, 1, 1), (30, 40, 50), (50, 40, 30), (20, 300, 16), (70, 20, 70), (33, 1, 65)]


@pytest.mark.parametrize("shape", SHAPES)
def test_products_do_not_depend_on_threads(shape, rng, dtype, monkeypatch, use_threads):
    """Tiles, strips and Gram matrices, for every order in memory."""
    monkeypatch.setattr(products, "TILE", 16)
    rows, length, columns = shape
    A, B = rng.random((rows, length)).astype(dtype), rng.random((length, columns)).astype(dtype)
    pairs = [(A, B), (np.asfortranarray(A), B), (A, np.asfortranarray(B)), (A, A.T), (B.T, B)]
    for left, right in pairs:
        found = []
        for number in (1, 2, 5):
            use_threads(number)
            found.append(products.matmul(left, right))
            assert found[-1].dtype == dtype
            np.testing.assert_array_equal(found[-1], found[0])
        np.testing.assert_allclose(found[0], left @ right, rtol=1e-5)
    np.testing.assert_array_equal(products.matmul(A, A.T), products.matmul(A, A.T).T)


MODELS = {
    "linear": deepnmf.sdnmf_l((20, 5), mu=1e-3, pretrain_iter=1, max_iter=2, random_state=0),
    "nesterov": deepnmf.nenmf(20, max_iter=1, random_state=0),
    "root": deepnmf.dnmf((20, 5), link="root", pretrain_iter=1, max_iter=1, random_state=0),
}


def results(model: deepnmf.DeepNMF, X: np.ndarray) -> list[np.ndarray]:
    Z = model.set_params(tol=0).fit_transform(X)
    return [*model.weights_, Z, np.asarray(model.history_[-1]["objective"])]


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_does_not_depend_on_threads(name, rng, monkeypatch, use_threads):
    monkeypatch.setattr(products, "TILE", 16)
    X = rng.random((40, 50))
    found = []
    for number in (1, 3):
        use_threads(number)
        with threadpool_limits(number, user_api="blas"):
            found.append(results(MODELS[name], X))
    for one, same in zip(*found, strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.mark.skipif(not threads.LOADAVG.exists(), reason="only Linux tells its load")
def test_busy_cores_leave_one_thread_and_the_same_result(rng, monkeypatch):
    monkeypatch.setattr(threads, "SMALL", 0)
    monkeypatch.setattr(products, "LARGE", 0)
    X = rng.random((40, 50))
    before = results(MODELS["linear"], X)
    spin = "print(flush=True)\nwhile True: pass"
    spinning = [
        subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        for process in spinning:
            process.stdout.readline()
        monkeypatch.setattr(threads, "_LOAD", threads._Load())
        assert threads.usable() == 1
        busy = results(MODELS["linear"], X)
    finally:
        for process in spinning:
            process.kill()
            process.communicate()
    for one, same in zip(before, busy, strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("number", [1, 2])
def test_blas_has_one_thread_in_a_fit_and_the_users_number_after_it(number, rng):
    X, seen = rng.random((20, 12)), []

    def look(_):
        seen.append(blas_threads())

    with threadpool_limits(number, user_api="blas"):
        model = deepnmf.DeepNMF((4, 2), max_iter=2, pretrain_iter=2, tol=0, callback=look)
        model.fit(X)
        assert blas_threads() == {number}
        model.transform(X)
        model.score(X)
        JointNMF(2, max_iter=2, tol=0, callback=look).fit([X, X])
        assert blas_threads() == {number}
    assert len(seen) == 8
    assert all(found == {1} for found in seen)


@pytest.mark.parametrize("failure", [ValueError, SystemExit])
def test_the_users_number_is_restored_after_a_failure(failure, rng):
    def fail(_):
        raise failure

    with threadpool_limits(2, user_api="blas"):
        model = deepnmf.DeepNMF((2,), max_iter=3, callback=fail)
        with pytest.raises(failure):
            model.fit(rng.random((20, 12)))
        assert blas_threads() == {2}


def test_fits_at_the_same_time_restore_the_users_number(rng):
    """The first to begin is the first to end: BLAS stays on one thread until the second ends."""
    X = rng.random((20, 12))
    seen: list[set[int]] = []
    inside, begun, done = threading.Event(), threading.Event(), threading.Event()

    def first(_):
        inside.set()
        assert begun.wait(60)

    def second(_):
        begun.set()
        assert done.wait(60)
        seen.append(blas_threads())

    models = (deepnmf.DeepNMF((2,), max_iter=1, tol=0, callback=look) for look in (first, second))
    one, two = (threading.Thread(target=model.fit, args=[X]) for model in models)
    with threadpool_limits(2, user_api="blas"):
        one.start()
        assert inside.wait(60)
        two.start()
        one.join()
        done.set()
        two.join()
        assert blas_threads() == {2}
    assert seen == [{1}]
