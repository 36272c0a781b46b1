"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_atomically(
    path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], None]
) -> None:
    """Write a file beside its place, then rename it: the old file or the new one, never half.

    `content` is the bytes, or a function that writes them. A link is followed, and a device is
    written to.
    """
    write = content if callable(content) else lambda file: file.write(content)
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            write(file)
        return
    remove_leftovers(path)
    beside = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    if os.name == "posix":  # the new name must survive a power cut, too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(path: Path) -> None:
    """Remove half-written files of processes that are gone."""
    name = path.name[:200].replace("[", "[[]")
    for leftover in path.parent.glob(f".{name}.*.part"):
        try:
            os.kill(int(leftover.name.split(".")[-2]), 0)
        except ProcessLookupError:
            leftover.unlink(missing_ok=True)
        except (ValueError, PermissionError, OSError):
            continue
