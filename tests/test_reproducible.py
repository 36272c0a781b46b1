"""The same seed gives the same model to the bit: again, in another process, on more threads."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from deepnmf import fit_many, sdnmf_l
from deepnmf.arrays.cpu import threads
from deepnmf.data import load_pie
from tests.tables import BRIEF

pytestmark = BRIEF

BLAS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
QUICK: dict[str, Any] = {"pretrain_iter": 2, "max_iter": 2, "tol": 0, "random_state": 3}
LINKS = {"linear": "identity", "sparse": "identity", "root": "root"}

Outcome = tuple[float, list[bytes]]
"""The final objective, and the bytes of the weights."""
InProcess = Callable[[int, list[Any]], list[Outcome]]


def samples(name: str) -> Any:
    """Just large enough for threads."""
    X = np.random.default_rng(0).random((1000, 320))
    return scipy.sparse.csr_array(X * (X > 0.9)) if name == "sparse" else X


def fitted(X: Any, layers: tuple[int, ...], link: str, settings: dict[str, Any]) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sdnmf_l(layers, link=link, **settings).fit(X)
    return model.history_[-1]["objective"], [W.tobytes() for W in model.weights_]


def all_fitted(cases: list[Any]) -> list[Outcome]:
    return [fitted(*case) for case in cases]


def count_every_core_as_free() -> None:
    threads.LOADAVG = Path(os.devnull)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """Runs `all_fitted` in a process of its own, on a number of threads."""

    def run(number: int, cases: list[Any]) -> list[Outcome]:
        for variable in BLAS:
            monkeypatch.setenv(variable, str(number))
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawn, count_every_core_as_free) as process:
            return process.submit(all_fitted, cases).result()

    return run


def test_the_same_seed_gives_the_same_bits(in_process):
    """In two new processes on one thread, and twice in this one on its threads."""
    cases = [(samples(name), (32, 8), link, QUICK) for name, link in LINKS.items()]
    first = in_process(1, cases)
    assert in_process(1, cases) == first
    assert all_fitted(cases) == first
    assert all_fitted(cases) == first


@pytest.mark.parametrize("name", LINKS)
def test_the_number_of_threads_may_change_in_a_fit(name, monkeypatch):
    """As it does with the load."""
    case = (samples(name), (32, 8), LINKS[name], QUICK)
    monkeypatch.setattr(threads, "usable", lambda: 1)
    first = fitted(*case)
    numbers = itertools.cycle([1, 3, 2])
    monkeypatch.setattr(threads, "usable", lambda: next(numbers))
    assert fitted(*case) == first


@pytest.mark.parametrize("name", LINKS)
def test_many_fits_are_the_same_as_single_ones(name):
    X = samples(name)
    settings = {**QUICK, "random_state": None}
    many = fit_many(X, sdnmf_l((32, 8), link=LINKS[name], **settings), seeds=[3, 5])
    for seed, model in zip((3, 5), many, strict=True):
        alone = fitted(X, (32, 8), LINKS[name], {**QUICK, "random_state": seed})
        assert [W.tobytes() for W in model.weights_] == alone[1]


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "layers"), [("digits", (32, 16)), ("pie", (60, 20))])
def test_two_threads_end_where_one_does(name, layers, dtype, digits, data_file, in_process):
    """To the bit, so at the same objective."""
    data_file(name)
    X = digits if name == "digits" else load_pie().X[::10] / 255
    cases = [(X.astype(dtype), layers, link, {"random_state": 0}) for link in ("identity", "root")]
    for one, two in zip(in_process(1, cases), in_process(2, cases), strict=True):
        assert two[0] == pytest.approx(one[0], rel=1e-5)
        assert two[1] == one[1]
