"""Planted numbers of parts: which criteria find them?

    python benchmarks/choose.py [--matrices 20] [--hierarchies 10] [--peers 2] [--processes 2]

X = HW plus noise, with k parts. Kinds of data:

- dense: parts and codes are gamma variates (shape 1), the noise is Gaussian;
- sparse codes: the same, and 70% of the codes are zero;
- sparse X: parts and codes are mostly zero, noise only where X is not; X is a sparse matrix;
- Poisson: counts, whose rates are the HW of sparse codes.

The signal-to-noise ratio is ‖HW‖²/‖X − HW‖². There are 300 to 3000 samples of 60 to 200 features.
Hierarchies are the varied ones of `recovery.py`: where H_1 = W_2H_2 exactly, X has no more
parts than layer 2, and no layer below it can be seen in what predicts X.

The other criteria are small versions of their own, with scikit-learn's NMF on every size up to 24:

- elbow: where the error bends the most, by its distance from the line between both ends;
- cophenetic: the size after which the correlation falls the most (Brunet et al.; 200 samples, 10
  starts; from 2 parts on);
- NMFk: the largest size whose parts agree over resampled data (silhouette above 0.8).

The rules of `choose_layers` were settled on other matrices (seeds from 100 on).
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import recovery
import scipy.sparse
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from sklearn.decomposition import NMF
from sklearn.metrics import silhouette_samples
from sklearn.preprocessing import normalize

from deepnmf import choose_layers
from deepnmf.evaluation.matching import matched

RANKS = (3, 5, 8, 12, 20)
KINDS = ("dense", "sparse codes", "sparse X", "Poisson")
DECIBELS = (20, 10, 5)


class Case(NamedTuple):
    """One planted matrix."""

    kind: str
    k: int
    decibels: int
    seed: int


def planted(case: Case) -> Any:
    """X (n, m) of a case."""
    kind, k, decibels, seed = case
    rng = np.random.default_rng([KINDS.index(kind), k, decibels, seed])
    n = round(np.exp(rng.uniform(np.log(300), np.log(3000))))
    m = int(rng.integers(60, 201))
    H, W = rng.gamma(1.0, 1.0, (n, k)), rng.gamma(1.0, 1.0, (k, m))
    if kind != "dense":
        H *= rng.random(H.shape) < 0.3
    if kind == "sparse X":
        W *= rng.random(W.shape) < 0.3
    clean, ratio = H @ W, 10 ** (decibels / 10)
    if kind == "Poisson":
        scale = ratio * clean.sum() / np.square(clean).sum()
        return rng.poisson(scale * clean).astype(float)
    where = clean > 0 if kind == "sparse X" else np.ones_like(clean, dtype=bool)
    power = np.square(clean).sum() / ratio / where.sum()
    X = np.maximum(clean + where * rng.normal(0, np.sqrt(power), clean.shape), 0)
    return scipy.sparse.csr_array(X) if kind == "sparse X" else X


def chosen(X: Any) -> int:
    """What `choose_layers` says of one layer."""
    return choose_layers(X, depth=1, starts=0).layer_sizes[0]


def elbow(X: Any) -> int:
    """The bend of the error of scikit-learn's NMF."""
    errors = np.array([_fit(X, k, 0)[0] for k in SIZES])
    x = np.linspace(0, 1, len(errors))
    y = (errors - errors.min()) / np.ptp(errors)
    return SIZES[int(np.argmax(1 - x - y))]


def cophenetic(X: Any, starts: int = 10, most: int = 200) -> int:
    """The size after which the cophenetic correlation of the consensus of clusters falls most."""
    X = X[np.random.default_rng(0).permutation(X.shape[0])[:most]]
    scores = []
    for k in SIZES[1:]:
        labels = [_fit(X, k, 1 + seed)[2].argmax(axis=1) for seed in range(starts)]
        together = np.mean([own[:, None] == own for own in labels], axis=0)
        far = squareform(1 - together, checks=False)
        tree = linkage(far, "average")
        scores.append(cophenet(tree, far)[0] if np.ptp(far) > 0 else 1.0)
    return SIZES[1:][int(np.argmin(np.diff(scores)))]


def nmfk(X: Any, starts: int = 6) -> int:
    """The largest size whose parts agree over starts on resampled data."""
    rng, best = np.random.default_rng(0), 1
    for k in SIZES[1:]:
        sets = []
        for seed in range(starts):
            Y = X * 1.0
            entries = Y.data if scipy.sparse.issparse(Y) else Y
            entries *= rng.uniform(0.97, 1.03, entries.shape)
            sets.append(normalize(_fit(Y, k, 1 + seed)[1]))
        members = [matched(sets[0], other)[0] for other in sets]
        parts = np.concatenate([own[match] for own, match in zip(sets, members, strict=True)])
        labels = np.tile(np.arange(k), starts)
        widths = silhouette_samples(parts, labels, metric="cosine")
        if min(widths[labels == part].mean() for part in range(k)) > 0.8:
            best = k
    return best


def _fit(X: Any, k: int, seed: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Error, parts and codes of scikit-learn's NMF."""
    start = "nndsvda" if seed == 0 else "random"
    model = NMF(k, init=start, max_iter=200, random_state=seed)
    codes = model.fit_transform(X)
    return model.reconstruction_err_, model.components_, codes


SIZES = list(range(1, 25))
CRITERIA: dict[str, Callable[[Any], int]] = {
    "choose_layers": chosen, "elbow": elbow, "cophenetic": cophenetic, "NMFk": nmfk,
}  # fmt: skip


def answer(case: Case, criterion: str) -> tuple[Case, str, int, float]:
    """What a criterion says of a case, and its seconds."""
    warnings.simplefilter("ignore")
    X = planted(case)
    began = time.perf_counter()
    return case, criterion, CRITERIA[criterion](X), time.perf_counter() - began


def hierarchy(size: str, overlapping: bool, seed: int) -> tuple[str, bool, int, tuple[int, ...]]:
    """The layers that `choose_layers` finds in a planted hierarchy."""
    warnings.simplefilter("ignore")
    features, samples, layers = recovery.SIZES[size]
    X = recovery.planted(seed, features, samples, layers, overlapping, exact=False).X
    return size, overlapping, seed, choose_layers(X, starts=0).layer_sizes


def report(answers: Sequence[tuple[Case, str, int, float]]) -> Iterator[str]:
    """A table: the share of exact answers, and of those within 1, by noise and by kind."""
    yield f"{'':16}{'':14}{'cases':>7}{'exact':>8}{'within 1':>10}{'seconds':>9}"
    for criterion in CRITERIA:
        own = [entry for entry in answers if entry[1] == criterion]
        groups = {
            "all": own,
            **{f"{noise} dB": [a for a in own if a[0].decibels == noise] for noise in DECIBELS},
            **{kind: [a for a in own if a[0].kind == kind] for kind in KINDS},
            **{f"k = {k}": [a for a in own if a[0].k == k] for k in RANKS},
        }
        for name, group in groups.items():
            if group:
                off = np.abs([found - case.k for case, _, found, _ in group])
                seconds = np.median([entry[3] for entry in group])
                yield (
                    f"{criterion:16}{name:14}{len(group):7}{np.mean(off == 0):8.1%}"
                    f"{np.mean(off <= 1):10.1%}{seconds:9.2f}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--matrices", type=int, default=20, help="per kind, rank and noise")
    parser.add_argument("--peers", type=int, default=2, help="matrices that the others get")
    parser.add_argument("--hierarchies", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    cells = list(itertools.product(KINDS, RANKS, DECIBELS))
    work = [
        (Case(*cell, seed), criterion)
        for seed in range(options.matrices)
        for cell in cells
        for criterion in CRITERIA
        if criterion == "choose_layers" or seed < options.peers
    ]
    planted_layers = [
        (size, overlapping, seed)
        for seed in range(options.hierarchies)
        for size in ("small", "large")
        for overlapping in (False, True)
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        futures = [pool.submit(answer, *case) for case in work]
        layers = [pool.submit(hierarchy, *case) for case in planted_layers]
        answers: list[tuple[Case, str, int, float]] = []
        for future in futures:
            answers.append(future.result())
            if len(answers) % 100 == 0:
                print(f"\n{len(answers)} of {len(work)}", *report(answers), sep="\n", flush=True)
        print("\nall", *report(answers), sep="\n", flush=True)
        for size, overlapping, seed, sizes in (future.result() for future in layers):
            print(f"{size:6} {'overlapping' if overlapping else 'disjoint':12} {seed} {sizes}")


if __name__ == "__main__":
    main()
