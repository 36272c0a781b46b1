"""Write files completely or not at all."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_atomically(
    path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], None]
) -> None:
    """Write a temporary file in the same folder, then rename it: readers see the old file or the
    new one, never half of one.

    `content` is bytes, or a function that writes them. Links are followed; a device such as
    /dev/stdout is written to directly.
    """
    write = content if callable(content) else lambda file: file.write(content)
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            write(file)
        return
    remove_leftovers(path)
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # so that the rename survives a power cut
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that processes left behind when they died."""
    if os.name != "posix":  # elsewhere os.kill(pid, 0) would stop the process, not look for it
        return
    for leftover in path.parent.glob(f".{glob.escape(path.name[:200])}.*.part"):
        try:
            os.kill(int(leftover.name.split(".")[-2]), 0)
        except ProcessLookupError:
            leftover.unlink(missing_ok=True)
        except (ValueError, OSError):
            continue
