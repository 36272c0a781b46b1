"""Write files completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from deepnmf.terminal import interrupts

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""How a system says that there is no room left."""


def write_atomically(
    path: str | os.PathLike[str],
    content: bytes | Callable[[BinaryIO], None],
    check: Callable[[Path], None] | None = None,
) -> None:
    """Write a temporary file in the same folder, then rename it: readers see the old file or the
    new one, never half of one.

    `content` is bytes, or a function that writes them, and may read what it wrote. `check` reads
    the temporary file, and raises an error if it must not replace the old one. Links are followed;
    a device such as /dev/stdout is written to directly. Errors name the path, and say what to do.
    """
    write = content if callable(content) else lambda file: file.write(content)
    path = Path(path).resolve()
    with explained(path, ", and the old file is unchanged" if path.is_file() else ""):
        if path.exists() and not path.is_file():
            with path.open("wb") as device:
                write(device)
            return
        remove_leftovers(path)
        with _temporary(path) as (file, temporary):
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if check is not None:
                check(temporary)
            _set_mode(file, path)
            temporary.replace(path)
        _sync_folder(path.parent)


@contextlib.contextmanager
def explained(path: Path, state: str = "") -> Iterator[None]:
    """Errors of the system while a file is written, with its path, its state and what to do."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None:
            raise
        advice = "free some space" if problem.errno in FULL else "check the folder"
        raise OSError(
            problem.errno,
            f"cannot be written ({problem.strerror}){state}: {advice}, or choose another place",
            str(path),
        ) from problem


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A file that only its owner can read, beside `path`. It is locked while it is written, so
    that `remove_leftovers` can tell it from one whose writer died."""
    temporary: Path | None = None
    try:
        with interrupts.held(longer=True):  # Ctrl-C finds no file, or one that is known
            file, temporary = _created(path)
        with file:
            yield file, temporary
    finally:
        if temporary is not None:
            with interrupts.held(longer=True):
                temporary.unlink(missing_ok=True)


def _created(path: Path) -> tuple[BinaryIO, Path]:
    """A new temporary file for `path`, locked."""
    while True:
        descriptor, name = tempfile.mkstemp(".part", _prefix(path), path.parent)
        file = os.fdopen(descriptor, "w+b")
        if fcntl is not None:
            with contextlib.suppress(OSError):  # some network file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return file, Path(name)
        file.close()  # another process took it for a leftover before it was locked


def _prefix(path: Path) -> str:
    """How the names of temporary files for `path` begin. Names have at most 255 bytes."""
    return f".{os.fsencode(path.name)[:200].decode('utf-8', 'ignore')}."


def _set_mode(file: BinaryIO, path: Path) -> None:
    """The permissions of the file that is replaced, or those of any new file."""
    if not hasattr(os, "fchmod"):
        return
    if path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
    else:
        mask = os.umask(0o077)  # it can only be read by setting it
        os.umask(mask)
        mode = 0o666 & ~mask
    os.fchmod(file.fileno(), mode)


def _sync_folder(folder: Path) -> None:
    """Make sure that a rename survives a power cut."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files for `path` whose writers died: regular files of this user that no
    process has locked."""
    if fcntl is None:
        return
    path = path.resolve()
    for leftover in path.parent.glob(f"{glob.escape(_prefix(path))}*.part"):
        with contextlib.suppress(OSError):
            descriptor = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    leftover.unlink()
            finally:
                os.close(descriptor)
