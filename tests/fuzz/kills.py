"""kill -9 at random moments of fits with a checkpoint, of `fit -o` and of `study`.

Whatever the moment, an output is absent, as it was, or complete. Run again, a fit with a checkpoint
ends with the same bits as one that nobody killed, and a study with the same rows.
"""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from deepnmf import Checkpoint, load, sdnmf_l
from deepnmf.experiments.rows import read
from tests.fuzz.processes import FEW, STUDY, TINY, Call, forked, started, steps, workshop

COMMANDS = {"checkpointed": 4, "fit": 2, "replace": 1, "study": 3}
"""How often each is chosen."""


@dataclass(frozen=True)
class Case:
    """A command, and the shares of its steps after which it is killed, one after another."""

    command: str
    shares: tuple[float, ...]
    new: bool
    """Whether the first kill is in a new process, which imports everything."""


def cases(seed: int, count: int) -> Iterator[Case]:
    """One to three kills, anywhere."""
    rng = random.Random(seed)
    for number in range(count):
        command = rng.choices(list(COMMANDS), list(COMMANDS.values()))[0]
        kills = rng.choice([1, 1, 2, 3])
        yield Case(command, tuple(rng.random() for _ in range(kills)), number % 20 == 0)


def run(case: Case) -> str | None:
    """What went wrong, or None."""
    arguments = _arguments(case.command)
    with tempfile.TemporaryDirectory() as folder:
        if case.command == "replace":
            shutil.copy(workshop().model, Path(folder, "out.safetensors"))
        for place, share in enumerate(case.shares):
            new = case.new and place == 0
            step = 1 + int(share * steps(arguments, new))
            call = Call(folder, arguments, signal.SIGKILL, step)
            ended = (started if new else forked)(call)
            if ended.code not in (-signal.SIGKILL, 0):
                return f"{case}: {ended}"
            problem = _cut(Path(folder))
            if problem:
                return f"{case}, kill {place + 1}: {problem}"
        again = forked(Call(folder, arguments))
        if again.code != 0:
            return f"{case}, run again: {again}"
        problem = _different(case.command, Path(folder))
        return problem and f"{case}: {problem}"


def checkpointed() -> None:
    """A fit that stores every sweep, in the current folder."""
    model = sdnmf_l(
        (6, 3), link="root", max_iter=12, pretrain_iter=6, tol=0, random_state=0,
        checkpoint=Checkpoint("fit.ckpt", every=0),
    )  # fmt: skip
    model.fit(np.random.default_rng(0).random((40, 12))).save("out.safetensors")


def _arguments(command: str) -> tuple[str, ...]:
    data = workshop().data
    fit = ("fit", data, "-o", "out.safetensors", *TINY)
    study = ("study", data, "-o", ".", *STUDY, *FEW)
    return {"checkpointed": ("checkpointed",), "fit": fit, "replace": fit, "study": study}[command]


def _cut(folder: Path) -> str | None:
    """What is not complete after a kill. `load` and `read` refuse files that were cut."""
    for path in folder.glob("*.safetensors"):
        load(path)
    for path in folder.glob("*.csv"):
        read(path)
    for path in folder.iterdir():
        ours = not path.name.startswith(".") and path.name not in ("stdout", "stderr")
        if ours and path.stat().st_size == 0:
            return f"{path.name} is empty"
    return None


def _different(command: str, folder: Path) -> str | None:
    """How the end differs from that of an undisturbed run."""
    leftovers = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    if leftovers:
        return f"left behind: {leftovers}"
    if command == "study":
        order = ["fit", "fold", "seed", "repeat"]
        ends = [_rows(read(file), order) for file in (folder / "study.csv", _undisturbed(command))]
        return None if ends[0].equals(ends[1]) else "other rows"
    one, other = load(folder / "out.safetensors"), load(_undisturbed(command))
    same = all(
        np.array_equal(W, V, equal_nan=True)
        for W, V in zip(one.weights_, other.weights_, strict=True)
    )
    return None if same and len(one.history_) == len(other.history_) else "another model"


def _rows(frame: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    return frame.drop(columns="seconds").sort_values(order, ignore_index=True)


@cache
def _undisturbed(command: str) -> Path:
    """The output of a run that nobody killed."""
    folder = Path(tempfile.mkdtemp(dir=workshop().folder))
    assert forked(Call(str(folder), _arguments(command))).code == 0
    return folder / ("study.csv" if command == "study" else "out.safetensors")
