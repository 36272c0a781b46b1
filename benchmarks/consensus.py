"""Planted parts: is the consensus of fits nearer to them than a single fit?

    python benchmarks/consensus.py [--cases 20] [--fits 10]

X = HW plus Gaussian noise (15 dB, below 0 set to 0), 400 samples of 80 features, k parts; each case
has one of three kinds of data in turn: dense, sparse codes, sparse codes and parts. Fits begin at
random starts and learn from 80% of the samples; they stop after 20 sweeps, when many are
far from done, or after 200. Once with k parts, and once with k + 4, of which 4 are surplus.

Hierarchies are the varied ones of `recovery.py`, two layers, 60 x 150.

Columns: the mean cosine of the planted parts with the parts that match them, in the median fit, the
fit of lowest error and the consensus; the median support of planted and of surplus parts; and the
share of cases in which the consensus is nearest (to 0.001).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import recovery

from deepnmf import consensus, dnmf, fit_many, sdnmf_l
from deepnmf.evaluation.matching import matched

KINDS = ("dense", "sparse codes", "sparse")
RANKS = (4, 6, 8, 12)
HEAD = ("median fit", "best fit", "consensus", "planted", "surplus")


def planted(case: int) -> tuple[str, np.ndarray, np.ndarray]:
    """The kind, X (n, m) and W (k, m) of a case."""
    kind, k = KINDS[case % len(KINDS)], RANKS[case % len(RANKS)]
    rng = np.random.default_rng(case)
    H, W = rng.gamma(1.0, 1.0, (400, k)), rng.gamma(1.0, 1.0, (k, 80))
    if kind != "dense":
        H *= rng.random(H.shape) < 0.3
    if kind == "sparse":
        W *= rng.random(W.shape) < 0.3
    X = H @ W
    noise = np.sqrt(np.square(X).mean() / 10**1.5)
    return kind, np.maximum(X + noise * rng.standard_normal(X.shape), 0), W


def row(models: Sequence[Any], truth: Sequence[np.ndarray]) -> list[list[float]]:
    """The numbers of a row, for each layer whose true parts are given."""
    made = consensus(models)
    best = min(range(len(models)), key=lambda place: models[place].reconstruction_err_)
    rows = []
    for layer, parts in enumerate(truth, 1):
        near = [matched(parts, model.basis(layer))[1].mean() for model in models]
        match, alike = matched(parts, made.basis(layer))
        support = made.support_[layer - 1]
        surplus = np.delete(support, match)
        rows.append(
            [
                float(np.median(near)), near[best], alike.mean(),
                float(np.median(support[match])),
                float(np.median(surplus)) if len(surplus) else np.nan,
            ]
        )  # fmt: skip
    return rows


def single(cases: int, fits: int, surplus: int, sweeps: int) -> Iterator[list[float]]:
    """Rows of single-layer models, one per case."""
    for case in range(cases):
        _, X, W = planted(case)
        model = dnmf(len(W) + surplus, start="random", max_iter=sweeps)
        yield row(fit_many(X, model, seeds=fits, share=0.8), [W])[0]


def deep(cases: int, fits: int, sweeps: int) -> Iterator[list[list[float]]]:
    """Rows of both layers of planted hierarchies, one pair per case."""
    features, samples, layers = recovery.SIZES["small"]
    for case in range(cases):
        data = recovery.planted(case, features, samples, layers, bool(case % 2), exact=False)
        model = sdnmf_l(layers, start="random", max_iter=sweeps)
        models = fit_many(data.X, model, seeds=fits, share=0.8)
        W1, W2 = data.weights
        yield row(models, [W1.T, (W1 @ W2).T])


def line(name: str, rows: Sequence[Sequence[float]]) -> str:
    """Means of the cosines, medians of the support, and how often the consensus is nearest."""
    numbers = np.array(rows)
    wins = np.mean(numbers[:, 2] >= numbers[:, :2].max(axis=1) - 1e-3)
    means = [*numbers[:, :3].mean(axis=0), *np.median(numbers[:, 3:], axis=0)]
    cells = "".join(f"{mean:12.3f}" if np.isfinite(mean) else " " * 12 for mean in means)
    return f"{name:28}{cells}{wins:12.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--fits", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'':28}" + "".join(f"{name:>12}" for name in (*HEAD, "nearest")), flush=True)
    for sweeps in (20, 200):
        for surplus in (0, 4):
            rows = list(single(options.cases, options.fits, surplus, sweeps))
            print(line(f"k + {surplus} parts, {sweeps} sweeps", rows), flush=True)
    for sweeps in (20, 200):
        pairs = list(deep(options.cases, options.fits, sweeps))
        for layer in (0, 1):
            name = f"layer {layer + 1} of 2, {sweeps} sweeps"
            print(line(name, [pair[layer] for pair in pairs]), flush=True)


if __name__ == "__main__":
    main()
