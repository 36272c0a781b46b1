"""The history of a fit: one record per sweep, thinned where the fit is long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Record = dict[str, Any]
"""One sweep in numbers, as `history_` has it."""
LIMIT = 1000
"""How many records are kept. Storing that many costs little beside the rest of a checkpoint."""


@dataclass
class History:
    """Records of sweeps 1, 1 + stride, 1 + 2 stride, … of every stage, and of its last sweep.

    The stride is 1 until there are more than `LIMIT` records. It then doubles, and every second
    record is dropped. In a stack, the last record of every run is kept as well.
    """

    records: list[Record] = field(default_factory=list)
    stride: int = 1

    def add(self, record: Record) -> None:
        """Add the record of one more sweep. The one before it may no longer be needed."""
        if self.records and not self._keeps(self.records[-1], record):
            self.records[-1] = record
            return
        self.records.append(record)
        if len(self.records) > LIMIT:
            self.stride *= 2
            pairs = zip(self.records, self.records[1:], strict=False)
            self.records = [first for first, following in pairs if self._keeps(first, following)]
            self.records.append(record)

    def _keeps(self, record: Record, following: Record) -> bool:
        return (record["sweep"] - 1) % self.stride == 0 or _ends(record, following)


def _ends(record: Record, following: Record) -> bool:
    """Whether a stage, or a run of a stack, ended with this record."""
    if _stage(record) != _stage(following):
        return True
    return "active" in record and not np.array_equal(record["active"], following["active"])


def _stage(record: Record) -> tuple[Any, Any]:
    return record["stage"], record["layer"]


def sweeps_of(history: Sequence[Record]) -> int:
    """How many sweeps all stages had together. Their last records are always kept."""
    return sum({_stage(record): record["sweep"] for record in history}.values())
