"""Cases whose ends are known, to try the processes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

from tests.fuzz.case import Case, numbered

ENDS = ("fine", "found", "raises", "crashes", "fine", "hangs", "grows", "fine")


def cases(seed: int, count: int) -> Iterator[Case]:
    return numbered("trial", seed, count)


def run(case: Case) -> str | None:
    end = ENDS[case.number]
    if end == "found":
        return "nan: a finding | details"
    if end == "raises":
        raise IndexError("out of range")
    if end == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif end == "hangs":
        signal.pause()
    elif end == "grows":
        _ = bytearray(2**40)
    return None
