"""What workers of a cluster did, so that it can be done again where one of them is lost.

The codes of a block come from its X by the passes of the fit, one after the other, and what a pass
does to a block depends on nothing else but what it was told. So a block that is lost with its
worker is what the same passes make of it elsewhere, as it was. So that they need not begin at the
first one, every block is copied to a second worker now and then, for a small share of the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

SHARE = 0.05
"""Of the time of a fit, what copies may take."""
FIRST = 0.5
"""Seconds that the first copies are reckoned with."""
LIMIT = 100_000_000
"""Bytes of passes after which there are copies whatever they take: the client keeps the passes."""
FEWEST = 8
"""Passes that are kept however large they are."""


class ClusterError(ConnectionError):
    """Workers are lost faster than their blocks can be made again."""


@dataclass
class Log:
    """Passes since the last copies were made, and where those are."""

    passes: list[tuple[bytes, list[str]]] = field(default_factory=list)
    """Each with the names that nobody needed any more when it began."""
    gone: list[str] = field(default_factory=list)
    """Names that nobody needs since the last of them."""
    copies: dict[int, tuple[Any, str]] = field(default_factory=dict)
    """By block: the future of its copy, and the worker that has it."""
    whole: bool = True
    """Whether copies and passes tell all that was done to the blocks."""
    cost: float = FIRST
    since: float = field(default_factory=time.monotonic)

    def note(self, written: bytes) -> None:
        """A pass was done that left something with the workers."""
        self.passes.append((written, self.gone.copy()))
        self.gone.clear()

    def due(self, alive: set[str]) -> bool:
        """Whether it is time for new copies."""
        missing = any(place not in alive for _, place in self.copies.values())
        waited = time.monotonic() - self.since
        return not self.whole or missing or self._too_long() or waited > self.cost / SHARE

    def can_restore(self, index: int, alive: set[str]) -> bool:
        """Whether a block can be made again as it was."""
        return self.whole and (index not in self.copies or self.copies[index][1] in alive)

    def begin_anew(self, copies: dict[int, tuple[Any, str]], begun: float) -> None:
        """All passes up to now are in these copies."""
        self.passes.clear()
        self.gone.clear()
        self.copies, self.whole = copies, True
        self.since = time.monotonic()
        self.cost = self.since - begun

    def go_on(self) -> None:
        """There is no place for copies now. Passes that became too many are let go."""
        self.since = time.monotonic()
        if self._too_long() or not self.whole:
            self.passes.clear()
            self.whole = False

    def _too_long(self) -> bool:
        size = sum(len(written) for written, _ in self.passes)
        return len(self.passes) > FEWEST and size > LIMIT
