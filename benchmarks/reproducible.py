"""The same fit again: to the bit, on one and two threads, on a busy machine and by other kernels.

    DEEPNMF_DATA=… python benchmarks/reproducible.py [--sets digits,PIE] [--seed 0]

Every fit has a process of its own, with the same seed, and is compared with the first one, on one
thread:

- again: one thread once more;
- two: two threads, whatever the load;
- busy: two threads are allowed, beside a process that keeps one core busy;
- older: one thread and the kernels of a processor without AVX. It stands for another machine.

"One used": no second thread took part, since the work is small or no other core is free.

Columns: whether the weights are the same bits; the difference of the final objectives, relative to
the first; the sweeps of both; for each layer the smallest cosine of matched parts, as they look in
X.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rows
from busy import spin, started
from defaults import SETS, samples

import deepnmf
from deepnmf.arrays.cpu import threads
from deepnmf.evaluation.matching import matched

SPAWN = multiprocessing.get_context("spawn")
LINKS = {
    name: ("identity", "root") if name in ("digits", "PIE") else ("identity",) for name in SETS
}
FEWER = {
    "PIE": 600, "ORL": 200, "COIL20": 500,
    "Reuters": 2000, "TDT2": 2000, "worm": 1000, "Samson": 2000,
}  # fmt: skip
"""Samples, drawn once, of the sets whose fits would take long."""
LAYERS = {**SETS, "PIE": (60, 20), "ORL": (40, 20)}
"""Those of the defaults, and narrower ones for few faces."""
BLAS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
OLDER = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL",
    "NUMBA_CPU_NAME": "nehalem",
    "NUMBA_CPU_FEATURES": "+sse4.2",
}
"""Kernels of a processor without AVX, for BLAS, NumPy and numba."""
TITLES = ("data", "layers", "link", "type", "fit", "bits", "objective", "sweeps", "cosines")


class Way(NamedTuple):
    """How a fit is run: its threads, its environment, and what runs beside it."""

    threads: int
    kernels: dict[str, str]
    busy: bool = False


FIRST = Way(1, {})
WAYS = {
    "again": Way(1, {}),
    "two": Way(2, {}),
    "busy": Way(2, {}, busy=True),
    "older": Way(1, OLDER),
}


class Fit(NamedTuple):
    """What a fit ends with, and whether a second thread took part in it."""

    weights: list[np.ndarray]
    parts: list[np.ndarray]
    objective: float
    sweeps: int
    helped: bool


def fit(X: Any, layers: tuple[int, ...], link: str, seed: int, heed_load: bool) -> Fit:
    """A fit with default settings."""
    warnings.simplefilter("ignore")
    if not heed_load:
        threads.LOADAVG = Path(os.devnull)  # every core counts as free
    model = deepnmf.sdnmf_l(layers, link=link, random_state=seed).fit(X)
    parts = [model.basis(layer) for layer in range(1, len(layers) + 1)]
    helped = threads._pool.cache_info().currsize > 0
    return Fit(model.weights_, parts, model.history_[-1]["objective"], model.n_iter_, helped)


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Processes that start within have these variables."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run(way: Way, *case: Any) -> Fit:
    """The fit in a process of its own."""
    settings = {**dict.fromkeys(BLAS, str(way.threads)), **way.kernels}
    beside = started(spin, "") if way.busy else nullcontext()
    with beside, environment(settings), ProcessPoolExecutor(1, mp_context=SPAWN) as process:
        return process.submit(fit, *case, way.busy).result()


def compared(first: Fit, other: Fit) -> list[str]:
    """The columns of a row that compare two fits."""
    same = all(
        A.tobytes() == B.tobytes() for A, B in zip(first.weights, other.weights, strict=True)
    )
    apart = abs(other.objective - first.objective) / abs(first.objective)
    cosines = [matched(A, B)[1].min() for A, B in zip(first.parts, other.parts, strict=True)]
    return [
        "same" if same else "differ",
        f"{apart:.1g}",
        f"{first.sweeps}, {other.sweeps}",
        ", ".join(f"{cosine:.4f}" for cosine in cosines),
    ]


def table(name: str, seed: int) -> Iterator[list[str]]:
    """The rows of a data set."""
    X = samples(name)[0]
    few = FEWER.get(name, X.shape[0])
    X = X[np.sort(np.random.default_rng(0).permutation(X.shape[0])[:few])]
    layers = LAYERS[name]
    for link in LINKS[name]:
        for dtype in ("float32", "float64"):
            case = (X.astype(dtype), layers, link, seed)
            first = run(FIRST, *case)
            about = [f"{name}, {X.shape[0]} x {X.shape[1]}", f"{layers}", link, dtype]
            for label, way in WAYS.items():
                other = run(way, *case)
                note = " (one used)" if way.threads > 1 and not other.helped else ""
                yield [*about, label + note, *compared(first, other)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    print(
        f"{rows.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"
    )
    print(rows.markdown(TITLES, []), flush=True)
    for name in options.sets.split(","):
        for line in table(name, options.seed):
            print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
