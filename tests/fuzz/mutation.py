"""Damage to bytes."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from tests.fuzz.case import pick

NUMBERS = (
    b"-1", b"0", b"1", b"99999999999", b"-99999999999", b"1e400", b"nan", b"inf", b"", b"x",
    b"18446744073709551616", b"4294967295", b"2147483648", b"0.5", b"-0", b"1_0", b"\x00", b"\xff",
)  # fmt: skip


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with one to three kinds of damage, mostly near its beginning or its end."""
    for _ in range(int(rng.integers(1, 4))):
        content = pick(rng, DAMAGE)(content, rng)
    return content


def _place(content: bytes, rng: np.random.Generator) -> int:
    size = len(content)
    if not size:
        return 0
    where = rng.random()
    if where < 0.5:
        return int(rng.integers(min(size, 300)))
    return int(rng.integers(size)) if where < 0.85 else size - 1 - int(rng.integers(min(size, 100)))


def _flip(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        if changed:
            changed[_place(content, rng)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _overwrite(content: bytes, rng: np.random.Generator) -> bytes:
    at, size = _place(content, rng), int(rng.integers(1, 9))
    value = pick(rng, [b"\x00", b"\xff", b"\x7f", b"\x80", b"9", b"-", b"\n", b"{", b'"'])
    return content[:at] + value * min(size, len(content) - at) + content[at + size :]


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: _place(content, rng)]


def _remove(content: bytes, rng: np.random.Generator) -> bytes:
    at = _place(content, rng)
    return content[:at] + content[at + int(rng.integers(1, 30)) :]


def _insert(content: bytes, rng: np.random.Generator) -> bytes:
    at = _place(content, rng)
    return content[:at] + rng.bytes(int(rng.integers(1, 30))) + content[at:]


def _repeat(content: bytes, rng: np.random.Generator) -> bytes:
    at, size = _place(content, rng), int(rng.integers(1, 200))
    return content[: at + size] + content[at:]


def _number(content: bytes, rng: np.random.Generator) -> bytes:
    """Another number in place of one that is written as text."""
    numbers = [*re.finditer(rb"\d+", content[:4000])]
    if not numbers:
        return _flip(content, rng)
    found = pick(rng, numbers)
    return content[: found.start()] + pick(rng, NUMBERS) + content[found.end() :]


DAMAGE: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (
    _flip, _flip, _overwrite, _cut, _remove, _insert, _repeat, _number,
)  # fmt: skip
