"""The one place that writes to the screen."""

from __future__ import annotations

import contextlib
import json
import math
import numbers
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from deepnmf.terminal import interrupts
from deepnmf.terminal.text import printable

if TYPE_CHECKING:
    from deepnmf.core.watch import Record


class UsageFault(Exception):
    """The command was used wrongly: exit code 2."""


class Interrupted(Exception):
    """Ctrl-C ended the command, and this says what it left behind: exit code 130."""


_answers: list[TextIO] = []
"""Where `say` prints, while stdout is kept clean."""


@contextlib.contextmanager
def clean_stdout() -> Iterator[None]:
    """Only what is said here goes to stdout. What others print, such as the lines of a verbose fit,
    goes to stderr."""
    _answers.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _answers.pop()


def say(text: str = "") -> None:
    """Print a line."""
    interrupts.check()
    typer.echo(printable(text), file=_answers[-1] if _answers else None)


def say_json(record: Mapping[str, object] | Sequence[object]) -> None:
    """Print a record for a program to read. JSON has no NaN and no infinity: they become null."""
    say(json.dumps(plain(record), indent=2, allow_nan=False))


def plain(value: object) -> object:
    """A value as JSON can hold it: NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if math.isfinite(value) else None


def say_error(text: str) -> None:
    """Print an error as one line on stderr."""
    typer.echo(f"error: {' '.join(printable(text).split())}", err=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 0) -> str:
    """A plain table: the first column and the last `texts` ones aligned left, the others right."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for row in cells:
        aligned = [
            cell.rjust(width) if 0 < column < len(widths) - texts else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(aligned).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


_before: dict[Path, dict[Path, tuple[int, int]]] = {}
"""The outputs of the command, and what was there before it wrote to them."""


def outputs_forgotten() -> None:
    """A new command begins."""
    _before.clear()


def outputs_written() -> list[Path]:
    """The files that the command has written so far."""
    return [
        path
        for output, before in _before.items()
        for path, state in _files(output).items()
        if before.get(path) != state
    ]


def _files(output: Path) -> dict[Path, tuple[int, int]]:
    """The files of an output, each with what changes when it is written."""
    paths = sorted(output.iterdir()) if output.is_dir() else [output]
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in paths
        if path.is_file() and not path.name.endswith(".part")
    }


def output_folder(output: str) -> Path:
    """The folder to write to, created if it does not exist."""
    interrupts.check()
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        if folder.is_file():
            raise UsageFault(f"-o {output}: is a file. Give a folder.") from None
        raise ValueError(
            f"{output}: the folder cannot be created ({problem.strerror}). Choose another place."
        ) from None
    _before[folder] = _files(folder)
    return folder


@contextlib.contextmanager
def progress(total: int, show: bool | None = None) -> Iterator[Callable[[Record], bool]]:
    """A callback that moves a bar as a fit proceeds: on a terminal, unless `show` decides."""
    with steps(show) as move:
        done, stage, note = 0, "start", ""

        def advance(record: Record) -> bool:
            nonlocal done, stage, note
            layer = "" if record["layer"] is None else f" {record['layer']}"
            done, stage = done + 1, f"{record['stage']}{layer}"
            note = f"objective {record['objective']:.4g}"
            move(stage, done, total, note)
            return False

        yield advance
        move(stage, total, total, note)


@contextlib.contextmanager
def steps(show: bool | None = None) -> Iterator[Callable[[str, int, int | None, str], None]]:
    """move(stage, done, total, note) for a bar: on a terminal, unless `show` decides."""
    interrupts.check()
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda _stage, _done, _total, _note: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("start", total=None, note="")
        yield lambda stage, done, total, note: bar.update(
            task, description=stage, completed=done, total=total, note=note
        )


def check_writable(path: str, suffixes: Sequence[str] = ()) -> Path:
    """The path, checked to be writable before any work is done."""
    interrupts.check()
    if not path:
        raise UsageFault("the output is empty: give the name of a file to write.")
    target = Path(path)
    if len(target.name.encode()) > 255:
        raise UsageFault(f"{target.name[:40]}…: the name of the output is too long.")
    if suffixes and target.suffix.lower() not in suffixes:
        raise UsageFault(f"{path}: the output must end in {', '.join(suffixes)}.")
    if target.is_dir():
        raise IsADirectoryError(f"{path}: is a folder; give the name of a file to write.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {target.parent}; create it first.")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as problem:
        raise PermissionError(
            f"{path}: cannot be written ({problem.strerror}); choose another place."
        ) from problem
    _before[target] = _files(target)
    return target
