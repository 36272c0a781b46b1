"""Cases that a family, a seed and a number describe completely."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    """One case of a family. The same three values give the same case."""

    family: str
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.family}:{self.seed}:{self.number}"

    def generator(self) -> np.random.Generator:
        """All that is random in the case comes from here."""
        return np.random.default_rng([zlib.crc32(self.family.encode()), self.seed, self.number])


def numbered(family: str, seed: int, count: int) -> Iterator[Case]:
    """The first cases of a family."""
    return (Case(family, seed, number) for number in range(count))


def pick(rng: np.random.Generator, choices):
    """One of a sequence, or one of a mapping from choices to their weights."""
    if isinstance(choices, dict):
        weights = np.asarray([*choices.values()], float)
        return [*choices][rng.choice(len(weights), p=weights / weights.sum())]
    return choices[int(rng.integers(len(choices)))]
