"""How much memory may be used: `max_memory`, and the memory of the machine."""

from __future__ import annotations

from deepnmf.data.limits import amount_of_memory, physical_memory


def memory(amount: str | int | float | None) -> float | None:
    """Bytes from "600MB", "2 GB" or a number; None for None."""
    return None if amount is None else amount_of_memory(amount, "max_memory")


def room_for_codes(max_memory: str | int | None) -> float:
    """Bytes that the stored codes of data in blocks may take in memory."""
    budget = memory(max_memory)
    return (physical_memory() / 4 if budget is None else budget) / 8
