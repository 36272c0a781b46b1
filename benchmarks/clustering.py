"""Clusters of codes, compared with clusters of the data.

    DEEPNMF_DATA=… python benchmarks/clustering.py [--sets digits,COIL20] [--seeds 1]
                   [--sweeps 200] [--folds 0] [--cost 0]

NMI of `cluster` with as many clusters as classes: of X itself, of the codes of plain NMF and of
GraphNMF, and of deep codes, with a graph and without. All sets have the same settings; layers
follow from the number C of classes, as (4C, 2C). K-means: the mean of 10 runs, each the best of ten
starts (1 run for X); graph: the mean of 5. Labels are used for these scores, and for the number of
clusters. The settings themselves were chosen on these six sets together, with labels.

--folds N: faces held out. Each of N folds of PIE learns from six sevenths of the faces; scores are
of the others. --cost N: seconds of a fit of PIE with and without a graph, N of each in turns.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from defaults import samples

import deepnmf
from deepnmf import cluster
from deepnmf.evaluation import cluster_scores, nmi
from deepnmf.explain.clusters import codes_to_group

SETS = ("digits", "worm", "COIL20", "PIE", "ORL", "TDT2")
RUNS = {"kmeans": 10, "graph": 5}
LARGE = 5 * 10**7
"""K-means does not group X of more entries than this: it would take longer than all fits."""
Sizes = tuple[int, int]
MODELS: dict[str, Callable[[Sizes, int, int], Any]] = {
    "plain NMF, 2C": lambda k, seed, sweeps: deepnmf.dnmf(k[1], random_state=seed, max_iter=sweeps),
    "plain NMF, 4C": lambda k, seed, sweeps: deepnmf.dnmf(k[0], random_state=seed, max_iter=sweeps),
    "GraphNMF, 2C": lambda k, seed, _: deepnmf.baselines.GraphNMF(k[1], random_state=seed),
    "deep": lambda k, seed, sweeps: deepnmf.sdnmf_l(k, random_state=seed, max_iter=sweeps),
    "deep, graph": lambda k, seed, sweeps: deepnmf.sdnmf_l(
        k, graph="codes", random_state=seed, max_iter=sweeps
    ),
}


def layers(y: np.ndarray) -> Sizes:
    """(4C, 2C) for C classes."""
    classes = len(np.unique(y))
    return 4 * classes, 2 * classes


def score(Z: np.ndarray, y: np.ndarray, method: str, runs: int) -> float:
    """The mean NMI of clusters of codes."""
    clusters = len(np.unique(y))
    found = (
        cluster(Z, n_clusters=clusters, method=method, random_state=run) for run in range(runs)
    )
    return float(np.mean([nmi(y, one.labels) for one in found]))


def scores(model: Any, X: Any, y: np.ndarray) -> list[float]:
    """The NMI of K-means, and of the graph."""
    return [
        score(codes_to_group(model, X, first=method == "graph")[0], y, method, runs)
        for method, runs in RUNS.items()
    ]


def table(name: str, seeds: int, sweeps: int) -> Iterator[str]:
    X, y = samples(name)
    yield f"\n{name}, {X.shape[0]} x {X.shape[1]}, layers {layers(y)}, {seeds} seeds"
    yield f"{'':20}{'K-means':>9}{'graph':>9}{'seconds':>9}"
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    first = score(dense, y, "kmeans", 1) if dense.size < LARGE else np.nan
    yield f"{'X':20}{first:9.3f}{score(dense, y, 'graph', 5):9.3f}"
    for model, make in MODELS.items():
        numbers = []
        for seed in range(seeds):
            began = time.perf_counter()
            fitted = make(layers(y), seed, sweeps).fit(X)
            seconds = time.perf_counter() - began
            numbers.append([*scores(fitted, X, y), seconds])
        first, second, seconds = np.mean(numbers, axis=0)
        yield f"{model:20}{first:9.3f}{second:9.3f}{seconds:9.2f}"


def held_out(folds: int, sweeps: int) -> Iterator[str]:
    """K-means on test codes in the paper's protocol; and the clusters of training by K-means and by
    the graph, in which test faces follow their nearest neighbours of training."""
    X, y = samples("PIE")
    yield "\nPIE, faces held out"
    yield f"{'fold':20}{'K-means':>9}{'assigned by K-means':>21}{'by the graph':>14}"
    place = np.random.default_rng(0).permutation(len(y)) % 7
    for fold in range(folds):
        test = place == fold
        model = MODELS["deep, graph"](layers(y), fold, sweeps).fit(X[~test])
        means = cluster_scores(model.transform(X[test]), y[test]).nmi
        assigned = []
        for method in RUNS:
            groups = cluster(model, X[~test], len(np.unique(y)), method=method).labels
            assigned.append(nmi(y[test], follow(model, groups, X[test])))
        yield f"{fold:<20}{means:9.3f}{assigned[0]:21.3f}{assigned[1]:14.3f}"


def follow(model: Any, groups: np.ndarray, new: Any) -> np.ndarray:
    """The cluster that most of the weight of a new sample's neighbours has."""
    first = codes_to_group(model, new, first=True)[0]
    beside = model.graph_.beside(new.T, first.T)
    votes = np.stack([beside @ (groups == own) for own in range(groups.max() + 1)], axis=1)
    return np.argmax(votes, axis=1)


def cost(rounds: int, sweeps: int) -> Iterator[str]:
    """Medians of interleaved fits."""
    X, y = samples("PIE")
    seconds: dict[str, list[float]] = {"deep": [], "deep, graph": []}
    for _ in range(rounds):
        for name, taken in seconds.items():
            began = time.perf_counter()
            MODELS[name](layers(y), 0, sweeps).set_params(tol=0).fit(X)
            taken.append(time.perf_counter() - began)
    alone, graph = (float(np.median(taken)) for taken in seconds.values())
    yield f"\nPIE, {sweeps} sweeps: {alone:.1f} s, with a graph {graph:.1f} s ({graph / alone:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--cost", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in filter(None, options.sets.split(",")):
        for line in table(name, options.seeds, options.sweeps):
            print(line, flush=True)
    for lines in (
        held_out(options.folds, options.sweeps) if options.folds else (),
        cost(options.cost, options.sweeps) if options.cost else (),
    ):
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
