"""Clusters of codes, compared with clusters of the data.

    DEEPNMF_DATA=… python benchmarks/clustering.py [--sets digits,COIL20] [--seeds 1]

NMI of `cluster` with as many clusters as classes: of X itself, of the codes of plain NMF, and of
deep codes, with a graph and without. Every set has the same settings; layers are those of
`defaults.py`. Labels are used for these scores and for nothing else.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from defaults import SETS, samples

import deepnmf
from deepnmf import cluster
from deepnmf.evaluation import nmi

MODELS: dict[str, Callable[[tuple[int, int], int], Any]] = {
    "plain NMF": lambda k, seed: deepnmf.dnmf(k[1], random_state=seed),
    "sdnmf_l": lambda k, seed: deepnmf.sdnmf_l(k, random_state=seed),
    "sdnmf_l, graph": lambda k, seed: deepnmf.sdnmf_l(k, graph="codes", random_state=seed),
    "root": lambda k, seed: deepnmf.sdnmf_l(k, link="root", random_state=seed),
    "root, graph": lambda k, seed: deepnmf.sdnmf_l(
        k, link="root", graph="codes", random_state=seed
    ),
}


def scores(what: Any, X: Any, y: np.ndarray) -> list[float]:
    """The NMI of K-means, and of the graph."""
    clusters = len(np.unique(y))
    found = (cluster(what, X, clusters, method=how) for how in ("kmeans", "graph"))
    return [nmi(y, one.labels) for one in found]


def table(name: str, seeds: int) -> Iterator[str]:
    X, y = samples(name)
    yield f"\n{name}, {X.shape[0]} x {X.shape[1]}, layers {SETS[name]}, {seeds} seeds"
    yield f"{'':20}{'K-means':>9}{'graph':>9}{'seconds':>9}"
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    first, second = scores(dense, None, y)
    yield f"{'X':20}{first:9.3f}{second:9.3f}"
    for model, make in MODELS.items():
        numbers = []
        for seed in range(seeds):
            began = time.perf_counter()
            fitted = make(SETS[name], seed).fit(X)
            seconds = time.perf_counter() - began
            numbers.append([*scores(fitted, X, y), seconds])
        first, second, seconds = np.mean(numbers, axis=0)
        yield f"{model:20}{first:9.3f}{second:9.3f}{seconds:9.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sets", default=",".join(set(SETS) - {"Samson"}))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.sets.split(","):
        for line in table(name, options.seeds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
