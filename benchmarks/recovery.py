"""Planted hierarchies: which models find them?

    python benchmarks/recovery.py [--seeds 10] [--sizes small|large|deep|all]

X = W_1H_1 with noise of 2%. Every part of layer 2 is made of parts of layer 1, with weights W_2:
some parts of layer 1 belong to one part of layer 2 alone, the others are shared, and no two of them
are shared in the same way. (Two parts that always appear together in the same ratio are one part:
no method can tell them apart.)

- disjoint, overlapping: whether the parts of layer 1 share features;
- exact: H_1 = W_2H_2; varied: every part of layer 1 also varies by itself.

Scores are the cosines of matched columns, W_2 with the matching of W_1, Ψ = W_1 … W_L, and H for
the codes of the last layer; and the number of parts of layer 1 that no part of layer 2 uses.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import NMF

import deepnmf
from deepnmf.baselines import DeepSemiNMF, MultilayerNMF

SIZES = {
    "small": (60, 150, (9, 4)),
    "large": (400, 2000, (30, 10)),
    "deep": (400, 3000, (40, 15, 5)),
}
"""Features, samples and layers."""
NOISE = 0.02
VARIATION = (0.5, 0.15)
"""The mean of a part's own variation, relative to its mean from the layer above, for the layer
below the last and the one below that. (With 0.5 for both, not even the true codes of layer 1 tell
what layer 2 was: NMF of them finds W_2 at 0.66, and at 0.93 with 0.15.)"""
COLUMNS = ("W_1", "W_2", "Psi", "H", "unused")


class Planted(NamedTuple):
    """Samples as rows, and the factors they were made from, as in the paper."""

    X: np.ndarray
    weights: list[np.ndarray]
    H: np.ndarray


def planted(
    seed: int, features: int, samples: int, sizes: Sequence[int], overlapping: bool, exact: bool
) -> Planted:
    """A hierarchy with parts of unit norm."""
    rng = np.random.default_rng(seed)
    weights = [_parts(rng, features, sizes[0], overlapping)]
    weights += [_mixtures(rng, below, above) for below, above in itertools.pairwise(sizes)]
    top = codes = rng.gamma(0.5, 1.0, (sizes[-1], samples))
    for W, variation in zip(reversed(weights[1:]), VARIATION, strict=False):
        codes = W @ codes
        if not exact:
            own = rng.gamma(0.5, 2.0, codes.shape)
            codes = codes + variation * codes.mean(axis=1, keepdims=True) * own
    X = weights[0] @ codes
    X = np.maximum(X + NOISE * X.std() * rng.standard_normal(X.shape), 0)
    return Planted(X.T, weights, top)


def _parts(rng: np.random.Generator, features: int, k: int, overlapping: bool) -> np.ndarray:
    """Each part has its own features; overlapping ones also half of the next part's."""
    groups = np.array_split(rng.permutation(features), k)
    W = np.zeros((features, k))
    for part, group in enumerate(groups):
        following = groups[(part + 1) % k]
        shared = rng.choice(following, max(1, len(following) // 2), replace=False)
        chosen = np.concatenate([group, shared]) if overlapping else group
        W[chosen, part] = rng.uniform(0.5, 1.5, len(chosen))
    return W / np.linalg.norm(W, axis=0)


def _mixtures(rng: np.random.Generator, below: int, above: int) -> np.ndarray:
    """One part below for each part above alone, then parts shared by two or three."""
    pairs = [*itertools.combinations(range(above), 2)]
    rng.shuffle(pairs)
    triples = itertools.combinations(range(above), 3)
    owners = [*((part,) for part in range(above)), *map(tuple, pairs), *triples][:below]
    W = np.zeros((below, above))
    for part, owner in enumerate(owners):
        W[part, list(owner)] = rng.uniform(0.5, 1.5, len(owner))
    W = W[rng.permutation(below)]
    return W / np.linalg.norm(W, axis=0)


class Found(NamedTuple):
    """Weights with columns of unit norm, and codes (n, k) of the last layer."""

    weights: list[np.ndarray]
    codes: np.ndarray


def _unit(weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Columns of unit norm. The rows of the next weights take the scale, as codes would."""
    unit, scale = [], np.ones(len(weights[0]))
    for W in weights:
        W = scale[:, None] * np.asarray(W)
        scale = np.linalg.norm(W, axis=0)
        unit.append(W / np.where(scale > 0, scale, 1))
    return unit


def _by_model(make: Callable[..., Any], **settings: Any) -> Callable[[Planted, int], Found]:
    def fit(data: Planted, seed: int) -> Found:
        sizes = [W.shape[1] for W in data.weights]
        model = make(sizes, random_state=seed, **settings).fit(data.X)
        return Found(_unit(model.weights_), model.transform(data.X))

    return fit


def _greedy(data: Planted, seed: int) -> Found:
    """scikit-learn's NMF of X, then of its codes."""
    codes, weights = data.X, []
    for W in data.weights:
        model = NMF(W.shape[1], init="nndsvda", max_iter=500, random_state=seed)
        codes = model.fit_transform(codes)
        weights.append(model.components_.T)
    return Found(_unit(weights), codes)


def _plain(data: Planted, seed: int) -> Found:
    """scikit-learn's NMF with as many parts as the last layer: Ψ and H only."""
    model = NMF(len(data.H), init="nndsvda", max_iter=500, random_state=seed)
    codes = model.fit_transform(data.X)
    return Found([model.components_.T], codes)


METHODS: dict[str, Callable[[Planted, int], Found]] = {
    "SDNMF/L": _by_model(deepnmf.sdnmf_l),
    "SDNMF/L, root": _by_model(deepnmf.sdnmf_l, link="root"),
    "DNMF": _by_model(deepnmf.dnmf),
    "SDNMF/L, end to end": _by_model(deepnmf.sdnmf_l, mu=1e-6, objective="end_to_end"),
    "SDNMF/L, the paper's": _by_model(
        deepnmf.sdnmf_l, mu=1e-3, scaling="paper", solver="nesterov", max_iter=200, tol=1e-4
    ),
    "layer-wise SDNMF/L": _by_model(deepnmf.sdnmf_l, max_iter=0),
    "layer-wise NMF": _by_model(deepnmf.dnmf, max_iter=0),
    "scikit-learn, greedy": _greedy,
    "MultilayerNMF": _by_model(MultilayerNMF),
    "DeepSemiNMF": _by_model(DeepSemiNMF),
    "scikit-learn, k_L parts": _plain,
}


def scores(data: Planted, found: Found) -> list[float]:
    """The numbers of `COLUMNS`; NaN where a method has no such factor."""
    product = np.linalg.multi_dot([*data.weights, np.eye(len(data.H))])
    learned = np.linalg.multi_dot([*found.weights, np.eye(len(data.H))])
    codes = matched(data.H.T, found.codes)[0]
    if len(found.weights) == 1:
        return [np.nan, np.nan, matched(product, learned)[0], codes, np.nan]
    first, order = matched(data.weights[0], found.weights[0])
    second = matched(data.weights[1], found.weights[1][order])[0]
    used = np.linalg.norm(found.weights[1], axis=1)
    unused = np.sum(used <= 1e-6 * used.max())
    return [first, second, matched(product, learned)[0], codes, float(unused)]


def matched(A: np.ndarray, B: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean cosine of the best matching of columns, and which of B matches each of A."""
    A, B = (F / np.maximum(np.linalg.norm(F, axis=0), 1e-300) for F in (A, B))
    cosines = A.T @ B
    rows, columns = linear_sum_assignment(-cosines)
    return float(cosines[rows, columns].mean()), columns


def table(name: str, seeds: int, methods: Sequence[str]) -> Iterator[str]:
    """Rows of a table: means over the seeds."""
    features, samples, sizes = SIZES[name]
    yield f"\n{features} features, {samples} samples, layers {sizes}, {seeds} seeds"
    yield f"{'':24}{'':22}" + "".join(f"{column:>8}" for column in COLUMNS)
    for exact, overlapping in itertools.product((False, True), (False, True)):
        kind = f"{'exact' if exact else 'varied'}, {'overlapping' if overlapping else 'disjoint'}"
        for method in methods:
            values = []
            for seed in range(seeds):
                data = planted(seed, features, samples, sizes, overlapping, exact)
                values.append(scores(data, METHODS[method](data, seed)))
            means = np.mean(values, axis=0)
            yield f"{kind:22}{method:24}" + "".join(f"{mean:8.3f}" for mean in means)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sizes", default="all", choices=[*SIZES, "all"])
    parser.add_argument("--methods", default=",".join(METHODS).replace(", ", "; "))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = [name.replace("; ", ", ") for name in options.methods.split(",")]
    for name in SIZES if options.sizes == "all" else [options.sizes]:
        for line in table(name, options.seeds, methods):
            print(line, flush=True)


if __name__ == "__main__":
    main()
