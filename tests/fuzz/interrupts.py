"""Ctrl-C at random moments of random commands.

Whatever the moment, a command ends with exit code 130 and one line, or it had done its work and
ends with 0. Its files are absent, as they were, or complete.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deepnmf import load
from deepnmf.experiments.rows import read
from tests.fuzz.processes import FEW, STUDY, TINY, Call, Ended, forked, started, steps, workshop

ENDLESS = ("--max-iter", "100000000", "--pretrain-iter", "3", "--tol", "0", "--layers", "4,2")
BRIEF = {"fit": 12, "replace": 12, "json": 6, "transform": 8, "study": 4, "checkpoint": 8,
         "info": 3, "models": 1, "list": 2, "help": 1}  # fmt: skip
"""How often each command is chosen."""


@dataclass(frozen=True)
class Case:
    """A command, and the share of its steps after which Ctrl-C is pressed."""

    command: str
    share: float
    again: float | None
    new: bool
    """Whether it runs in a new process, which imports everything."""


def cases(seed: int, count: int) -> Iterator[Case]:
    """Moments everywhere, more of them near the start and the end."""
    rng = random.Random(seed)
    for number in range(count):
        command = rng.choices([*BRIEF, "endless"], [*BRIEF.values(), 8])[0]
        share = rng.choice([rng.random(), rng.betavariate(1, 20), rng.betavariate(20, 1)])
        again = rng.choice([None, None, 1e-3 * rng.random(), 0.05 * rng.random()])
        yield Case(command, share, again, number % 10 == 0)


def run(case: Case) -> str | None:
    """What went wrong, or None."""
    arguments = _arguments(case.command)
    model = ("fit", *arguments[1:4], *TINY) if case.command == "endless" else arguments
    step = 1 + int(case.share * steps(model, case.new))
    if case.command == "endless" and not case.new:
        step *= 3
    with tempfile.TemporaryDirectory() as folder:
        if case.command == "replace":
            shutil.copy(workshop().model, Path(folder, "out.safetensors"))
        ended = (started if case.new else forked)(
            Call(folder, arguments, step=step, again=case.again)
        )
        problem = _said(case, ended) or _left(case, Path(folder))
        return problem and f"{case}, step {step}: {problem}\n{ended}"


def _arguments(command: str) -> tuple[str, ...]:
    data, model = workshop().data, workshop().model
    fit = ("fit", data, "-o", "out.safetensors")
    return {
        "fit": (*fit, *TINY),
        "replace": (*fit, *TINY),
        "json": (*fit, *TINY, "--json", "--set", "verbose=true"),
        "endless": (*fit, *ENDLESS),
        "checkpoint": (*fit, *TINY, "--checkpoint", "out.ckpt"),
        "transform": ("transform", model, data, "-o", "out.npy"),
        "study": ("study", data, "-o", ".", *STUDY, *FEW),
        "info": ("info", model, "--json"),
        "models": ("models",),
        "list": ("data", "list"),
        "help": ("--help",),
    }[command]


def _said(case: Case, ended: Ended) -> str | None:
    """What is wrong with the exit code and with what was printed."""
    if ended.code is None:
        return "hangs"
    if ended.code != 130 and (ended.code != 0 or case.command == "endless"):
        return f"exit code {ended.code}"
    lines = [line for line in ended.err.splitlines() if " objective " not in line]
    if ended.code == 130 and not (len(lines) == 1 and lines[0].startswith("error: interrupted")):
        return "not one line of error"
    if ended.code == 0 and lines:
        return "an error with exit code 0"
    if case.command in ("json", "info") and (ended.out.strip() or ended.code == 0):
        try:
            json.loads(ended.out)
        except ValueError:
            return "stdout is not JSON"
    return None


def _left(case: Case, folder: Path) -> str | None:
    """What is wrong with the files."""
    names = sorted(path.name for path in folder.iterdir())
    leftovers = [name for name in names if name.startswith(".")]
    if leftovers and case.again is None:
        return f"left behind: {leftovers}"
    for name in names:
        path = folder / name
        if path.suffix == ".safetensors":
            replaced = case.command == "replace" and name == "out.safetensors"
            if load(path).reason_ == "interrupted" and replaced:
                return "an unfinished model replaced another"
        elif path.suffix == ".npy":
            if np.load(path).shape != (40, 2):
                return "cut codes"
        elif path.suffix == ".csv":
            text = path.read_text()
            if not text.endswith("\n") or read(path).isna()["fit"].any():
                return "cut rows"
        elif name not in ("stdout", "stderr") and path.stat().st_size == 0:
            return f"{name} is empty"
    return None
