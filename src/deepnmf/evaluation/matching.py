"""Sets of parts compared: which part of one is which of the other, and how alike they are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from deepnmf.arrays import Array
from deepnmf.arrays.tensors import to_numpy

ALIKE = 0.85
"""Parts with at least this cosine may be the same part."""
ROUNDS = 10
"""How often groups of parts are formed again around their middles, at most."""


def matched(A: Array, B: Array) -> tuple[np.ndarray, np.ndarray]:
    """For every row of A, its match among the rows of B, and the cosine of the two.

    Rows are matched one to one for the largest sum of cosines; without a match, where B has fewer
    rows, they have -1 and 0.
    """
    cosines = unit_rows(A) @ unit_rows(B).T
    rows, columns = linear_sum_assignment(cosines, maximize=True)
    match, alike = np.full(len(cosines), -1), np.zeros(len(cosines))
    match[rows], alike[rows] = columns, cosines[rows, columns]
    return match, alike


def agreement(sets: Sequence[Array]) -> list[float]:
    """How alike each of several sets of parts (k, m) is to the others.

    Two sets are as alike as the mean cosine of their matched parts. Each set gets the mean over the
    others, NaN where there is no other.
    """
    if len(sets) < 2:
        return [float("nan")] * len(sets)
    alike = np.eye(len(sets))
    for first in range(len(sets)):
        for second in range(first):
            value = matched(sets[first], sets[second])[1].mean()
            alike[first, second] = alike[second, first] = value
    return [float((row.sum() - 1) / (len(sets) - 1)) for row in alike]


def unit_rows(F: Array) -> np.ndarray:
    """The rows with norm 1, in double precision; rows of zeros stay."""
    rows = np.asarray(to_numpy(F), dtype=float)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)


def grouped(sets: Sequence[Array]) -> np.ndarray:
    """Which parts of several sets of k parts are the same part: members (k, sets).

    `members[g, s]` is the part of set s that belongs to group g, or −1 if no part of s is as near
    as `ALIKE` to the middle of the group. Groups that most sets have come first.
    """
    rows = [unit_rows(parts) for parts in sets]
    members = _by_pairs(rows)
    for _ in range(ROUNDS):
        before, middles = members, np.stack([middle(rows, group) for group in members])
        members = np.stack([_nearest(parts, middles) for parts in rows], axis=1)
        _fill(members)
        if (members == before).all():
            break
    return members[np.argsort(-(members >= 0).sum(axis=1), kind="stable")]


def _fill(members: np.ndarray) -> None:
    """Give each group without members a part that has no group."""
    k, sets = members.shape
    for group in np.flatnonzero((members < 0).all(axis=1)):
        own = int(group) % sets
        members[group, own] = np.setdiff1d(np.arange(k), members[:, own])[0]


def middle(sets: Sequence[np.ndarray], group: np.ndarray) -> np.ndarray:
    """The median of the members of a group, entry by entry."""
    own = [parts[part] for parts, part in zip(sets, group, strict=True) if part >= 0]
    return np.asarray(np.median(own, axis=0))


def _nearest(parts: np.ndarray, middles: np.ndarray) -> np.ndarray:
    """For every middle, the part that matches it; −1 where none is alike."""
    match, alike = matched(middles, parts)
    return np.where(alike >= ALIKE, match, -1)


def _by_pairs(sets: Sequence[np.ndarray]) -> np.ndarray:
    """First groups: the part that most other sets agree on with all that match it, and so on."""
    count, k = len(sets), len(sets[0])
    match = np.full((count, k, count), -1)
    likeness = np.zeros((count, k, count))
    for first, second in itertools.permutations(range(count), 2):
        match[first, :, second], likeness[first, :, second] = matched(sets[first], sets[second])
    for own in range(count):
        match[own, :, own], likeness[own, :, own] = np.arange(k), 1
    match[likeness < ALIKE] = -1
    agreed = np.where(match >= 0, likeness, 0).mean(axis=2)
    free = np.ones((count, k), dtype=bool)
    groups = []
    for _ in range(k):
        own, part = divmod(int(np.argmax(np.where(free, agreed, -1))), k)
        group = match[own, part].copy()
        taken = ~free[np.arange(count), group]
        group[taken] = -1
        present = np.flatnonzero(group >= 0)
        free[present, group[present]] = False
        groups.append(group)
    return np.stack(groups)
