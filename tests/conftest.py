from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.context
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

# Read by SciPy when it is imported: lets scikit-learn check array API input as well.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# Read by Dask when it is imported: workers are forked from the process of `processes` below.
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")

import numpy as np
import pytest
from hypothesis import settings

from deepnmf.arrays.cpu import products, threads
from deepnmf.data.datasets import DATASETS, locate

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("repeatable")

Place = Callable[[Any], Any]


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """Python's own handler of SIGINT, which a parent that ignores it would hand down as ignored.

    Processes that tests start begin with the default as well.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def processes() -> multiprocessing.context.ForkServerContext:
    """Starts processes as forks of one that has imported what deepnmf imports: new ones take
    seconds. deepnmf itself is imported by each of them, as it would be."""
    context = multiprocessing.get_context("forkserver")
    with contextlib.suppress(ImportError):
        from distributed.utils import get_mp_context

        get_mp_context()  # asks for imports of its own, once
    context.set_forkserver_preload(
        ["distributed", "dask.array", "sklearn.decomposition", "numba", "safetensors.numpy"]
    )
    return context


@pytest.fixture(params=["numpy", "torch"])
def library(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def place(library: str, dtype: str) -> Place:
    """Puts an array into the library and precision under test."""

    def put(array: Any) -> Any:
        array = np.asarray(array).astype(dtype)
        if library == "numpy":
            return array
        import torch

        return torch.from_numpy(array.copy())

    return put


@pytest.fixture
def use_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Shares even small work among a number of threads, however many cores there are and however
    busy they are."""
    monkeypatch.setattr(threads, "SMALL", 0)
    monkeypatch.setattr(products, "LARGE", 0)
    return lambda number: monkeypatch.setattr(threads, "usable", lambda: number)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def low_rank(rng: np.random.Generator) -> np.ndarray:
    """30 features x 40 samples, rank 6 and noise, with zeros."""
    W = rng.random((30, 6)) * (rng.random((30, 6)) < 0.5)
    H = rng.random((6, 40)) * (rng.random((6, 40)) < 0.6)
    return W @ H + 0.05 * rng.random((30, 40))


@pytest.fixture(scope="session")
def digits() -> np.ndarray:
    from sklearn.datasets import load_digits

    return load_digits().data / 16


@pytest.fixture
def data_file() -> Callable[[str], None]:
    """Skips a test whose data set is not here."""

    def need(name: str) -> None:
        remote = DATASETS[name][1]
        if remote is not None and locate(remote) is None:
            pytest.skip(f"{remote.file} is not here: set DEEPNMF_DATA to its folder")

    return need
