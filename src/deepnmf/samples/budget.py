"""How much memory may be used: `max_memory`, and the memory of the machine."""

from __future__ import annotations

import os
import re

UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def memory(amount: str | int | float | None) -> float | None:
    """Bytes from "600MB", "2 GB" or a number; None for None."""
    if amount is None:
        return None
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)i?b?\s*", str(amount).lower())
    try:
        value = float(match.group(1)) * UNITS[match.group(2)] if match else float("nan")
    except ValueError:
        value = float("nan")
    if not value > 0 or isinstance(amount, bool):
        raise ValueError(
            f'max_memory: {amount!r} is not an amount of memory: write "600MB" or "2GB".'
        )
    return value


def room_for_codes(max_memory: str | int | None) -> float:
    """Bytes that the stored codes of data in blocks may take in memory."""
    budget = memory(max_memory)
    return (physical_memory() / 4 if budget is None else budget) / 8


def physical_memory() -> float:
    """The memory of this machine, in bytes."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 8e9
