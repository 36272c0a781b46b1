"""A log of the passes over blocks on a cluster, so that lost blocks can be computed again.

The codes of a block depend only on its X and on the passes of the fit. If a worker is lost, another
one repeats the passes for its blocks and arrives at exactly the same codes. Blocks are copied to a
second worker from time to time, for a small share of the running time, so that only the passes
since the last copy have to be repeated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

SHARE = 0.05
"""The share of a fit's running time that copies may take."""
FIRST = 0.5
"""The estimate, in seconds, of what the first copies take."""
LIMIT = 100_000_000
"""Copy, whatever it takes, when the logged passes are larger than this (bytes on the client)."""
FEWEST = 8
"""The number of passes that may be logged, however large they are."""


class ClusterError(ConnectionError):
    """Workers are lost faster than their blocks can be computed again."""


@dataclass
class Log:
    """The passes since the last copies, and where the copies are."""

    passes: list[tuple[bytes, list[str]]] = field(default_factory=list)
    """Each pass, with the names that were dropped before it."""
    dropped: list[str] = field(default_factory=list)
    """Names that were dropped after the last pass."""
    copies: dict[int, tuple[Any, str]] = field(default_factory=dict)
    """By block: the future of its copy, and the worker that holds it."""
    complete: bool = True
    """Whether copies and passes are enough to compute every block again."""
    cost: float = FIRST
    """Seconds that the last copies took."""
    since: float = field(default_factory=time.monotonic)
    """The time of the last copies."""

    def note(self, written: bytes) -> None:
        """Log a pass that stored something on the workers."""
        self.passes.append((written, self.dropped.copy()))
        self.dropped.clear()

    def due(self, alive: set[str]) -> bool:
        """Whether it is time for new copies."""
        missing = any(place not in alive for _, place in self.copies.values())
        waited = time.monotonic() - self.since
        return not self.complete or missing or self._too_large() or waited > self.cost / SHARE

    def can_restore(self, index: int, alive: set[str]) -> bool:
        """Whether a block can be computed again exactly as it was."""
        return self.complete and (index not in self.copies or self.copies[index][1] in alive)

    def restart(self, copies: dict[int, tuple[Any, str]], begun: float) -> None:
        """Start from these copies, which contain all passes so far."""
        self.passes.clear()
        self.dropped.clear()
        self.copies, self.complete = copies, True
        self.since = time.monotonic()
        self.cost = self.since - begun

    def postpone(self) -> None:
        """Continue without new copies. A log that is too large is given up."""
        self.since = time.monotonic()
        if self._too_large() or not self.complete:
            self.passes.clear()
            self.complete = False

    def _too_large(self) -> bool:
        size = sum(len(written) for written, _ in self.passes)
        return len(self.passes) > FEWEST and size > LIMIT
