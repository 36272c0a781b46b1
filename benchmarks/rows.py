"""Rows first: one per timed call, written as CSV. Tables are made from rows."""

from __future__ import annotations

import csv
import datetime
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """The model of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def now() -> str:
    """The time of day, with its zone."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


@dataclass(frozen=True)
class Row:
    """One call. If a method could not be called, `note` says why."""

    dataset: str
    method: str
    dtype: str
    k: str
    start: str
    iterations: str = ""
    seconds: float | None = None
    objective: float | None = None
    target: float | None = None
    reached: bool = False
    versions: str = ""
    threads: int = 0
    note: str = ""
    machine: str = field(default_factory=machine)
    date: str = field(default_factory=now)


@dataclass(frozen=True)
class LimitRow:
    """The time of one of our methods, and the least time this machine could need."""

    dataset: str
    method: str
    iterations: str
    gflop: float
    gflop_per_second: float
    limit_seconds: float
    own_rate_seconds: float
    product_seconds: float
    seconds: float
    training_seconds: float
    threads: int = 0
    machine: str = field(default_factory=machine)
    date: str = field(default_factory=now)


def write(name: str, rows: Sequence[Any]) -> Path:
    """Write all rows as CSV under `results`."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [column.name for column in fields(rows[0])])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    return path


def comparison(rows: Iterable[Row], reference: str, against: str) -> str:
    """One line per method: the median of its calls, and its speed-up over the reference."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.method, []).append(row)
    base = _median(groups.get(reference, []))
    lines = []
    for method, found in groups.items():
        row, seconds = found[0], _median(found)
        notes = [row.note] if row.note else []
        if seconds is not None and not row.reached:
            notes.insert(0, "target not reached")
        faster = base / seconds if base and seconds and row.reached else None
        ratio = row.objective / row.target if row.objective and row.target else None
        lines.append(
            (
                method,
                _number(seconds, ".3g"),
                _number(faster, ".2f", "x"),
                row.iterations or "–",
                _number(ratio, ".6f"),
                "; ".join(notes),
            )
        )
    titles = ("method", "seconds (median)", f"speed-up over {against}", "iterations")
    return markdown((*titles, "objective/target", "note"), lines)


def limits(rows: Iterable[LimitRow]) -> str:
    """One line per method of ours: its time, and how many times the limit that is."""
    lines = [
        (
            row.method,
            row.iterations,
            f"{row.gflop:.4g}",
            f"{row.gflop_per_second:.0f}",
            f"{row.limit_seconds:.3g}",
            f"{row.seconds:.3g}",
            f"{row.seconds / row.limit_seconds:.2f}",
            f"{row.training_seconds / row.limit_seconds:.2f}",
            f"{row.own_rate_seconds:.3g}",
            f"{row.product_seconds / row.seconds:.0%}",
        )
        for row in rows
    ]
    titles = ("method", "iterations", "GFLOP", "GFLOP/s of a large product", "limit, s")
    ratios = ("fit, s", "fit/limit", "training/limit")
    own = ("limit with each product at its own rate, s", "products, share of fit")
    return markdown((*titles, *ratios, *own), lines)


def markdown(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [titles, ["---"] * len(titles), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def header(threads: int) -> str:
    """The machine, its threads, and whether it was busy."""
    load = os.getloadavg()[0]
    busy = " (BUSY: times will be too long)" if load > threads / 4 else ""
    python = f"Python {platform.python_version()}"
    return f"{machine()}, {threads} threads, {python}, {now()}, load average {load:.2f}{busy}"


def _median(rows: Sequence[Row]) -> float | None:
    seconds = [row.seconds for row in rows if row.seconds is not None]
    return median(seconds) if seconds else None


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "–" if value is None else f"{value:{form}}{unit}"
