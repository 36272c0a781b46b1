"""How much memory may be used: `max_memory`, and what the machine has."""

from __future__ import annotations

import re
from typing import Any

UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def memory(given: Any) -> float | None:
    """Bytes from "600MB", "2 GB" or a number; None for None."""
    if given is None:
        return None
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)i?b?\s*", str(given).lower())
    try:
        value = float(found.group(1)) * UNITS[found.group(2)] if found else float("nan")
    except ValueError:
        value = float("nan")
    if not value > 0 or isinstance(given, bool):
        raise ValueError(f'max_memory: {given!r} is no amount of memory: write "600MB" or "2GB".')
    return value
