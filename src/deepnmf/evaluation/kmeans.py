"""K-means for many sets of codes at once: K-means++ starts, then Lloyd's iterations.

Every step is a product or a sum over a stack (…, n, k), so a GPU does a thousand clusterings in the
time of one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from deepnmf.arrays import Array, Dense, at_least, namespace, to_device
from deepnmf.arrays.tensors import to_numpy

MAX_ITER = 300


def greedy_trials(clusters: int) -> int:
    """How many candidates for a centre greedy K-means++ tries, as in scikit-learn."""
    return 2 + int(np.log(clusters))


def kmeans_many(Z: Dense, clusters: int, seeds: Iterable[int], trials: int = 1) -> np.ndarray:
    """Labels (runs, n) of K-means on every Z[run] (n, k), one seed per run.

    With `trials` > 1 K-means++ is greedy: of that many candidates for a centre it takes the one
    that leaves the smallest sum of squared distances.
    """
    xp = namespace(Z)
    runs = Z.shape[0]
    draws = [np.random.default_rng(seed) for seed in seeds]
    if len(draws) != runs:
        raise ValueError(f"{len(draws)} seeds for {runs} sets of codes: one per set.")
    squares = xp.sum(Z * Z, axis=-1)
    centres = _plus_plus(Z, squares, clusters, draws, trials)
    labels: Array | None = None
    for _ in range(MAX_ITER):
        distances = _distances(Z, squares, centres)
        nearest = xp.argmin(distances, axis=-1)
        if labels is not None and bool(xp.all(nearest == labels)):
            break
        labels = nearest
        member = xp.astype(labels[..., None] == xp.arange(clusters, device=Z.device), Z.dtype)
        count = xp.sum(member, axis=-2)
        centres = (member.mT @ Z) / at_least(count, 1)[..., None]
        empty = count == 0
        if bool(xp.any(empty)):
            centres = _refill(Z, xp.min(distances, axis=-1), centres, empty)
    return to_numpy(labels)


def _plus_plus(
    Z: Dense, squares: Array, clusters: int, draws: list[np.random.Generator], trials: int
) -> Array:
    """Centres one by one, each a sample drawn with probability ∝ its squared distance to the
    nearest centre so far (Arthur and Vassilvitskii)."""
    xp = namespace(Z)
    runs, n, _ = Z.shape
    uniform = to_device(np.stack([draw.random((clusters, trials)) for draw in draws]), Z)
    nearest = xp.ones_like(squares)
    chosen = []
    every = xp.arange(runs, device=Z.device)
    for index in range(clusters):
        mass = xp.cumulative_sum(nearest, axis=-1)
        total = mass[:, -1:]
        # Where every sample coincides with a centre, all are equally likely.
        mass = xp.where(total > 0, mass, xp.cumulative_sum(xp.ones_like(nearest), axis=-1))
        threshold = uniform[:, index] * mass[:, -1:]
        below = xp.astype(mass[:, None, :] <= threshold[..., None], xp.int64)
        sample = xp.clip(xp.sum(below, axis=-1), None, n - 1)
        centre = Z[every[:, None], sample]
        distance = _distances(Z, squares, centre)
        if index > 0:
            distance = xp.minimum(nearest[..., None], distance)
        best = xp.argmin(xp.sum(distance, axis=-2), axis=-1)
        chosen.append(centre[every, best][:, None, :])
        nearest = distance[every, :, best]
    return xp.concat(chosen, axis=-2)


def _distances(Z: Array, squares: Array, centres: Array) -> Array:
    """‖z − c‖² for every sample and centre, (runs, n, centres)."""
    xp = namespace(Z)
    sizes = xp.sum(centres * centres, axis=-1)
    return at_least(squares[..., None] - 2 * (Z @ centres.mT) + sizes[..., None, :], 0)


def _refill(Z: Dense, distance: Array, centres: Array, empty: Array) -> Array:
    """Give empty clusters the samples that are farthest from their centres."""
    xp = namespace(Z)
    order = xp.argsort(distance, axis=-1, descending=True)
    rank = xp.cumulative_sum(xp.astype(empty, xp.int64), axis=-1) - 1
    rank = xp.clip(rank, 0, Z.shape[-2] - 1)
    sample = xp.take_along_axis(order, rank, axis=-1)
    every = xp.arange(Z.shape[0], device=Z.device)[:, None]
    return xp.where(empty[..., None], Z[every, sample], centres)
