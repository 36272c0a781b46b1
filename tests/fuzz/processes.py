"""Starts the commands that `child` runs, and waits for them."""

from __future__ import annotations

import atexit
import json
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

SECONDS = 60
"""What takes longer hangs."""
TINY = ("--layers", "4,2", "--max-iter", "5", "--pretrain-iter", "3")
STUDY = ("--models", "dnmf,nenmf", "--layers", "3,2", "--folds", "2", "--runs", "2")
FEW = ("--set", "max_iter=3", "--set", "pretrain_iter=3")


@dataclass(frozen=True)
class Ended:
    """How a command ended: the exit code (None: it hung), and what it printed."""

    code: int | None
    out: str
    err: str


@dataclass(frozen=True)
class Call:
    """A command line in a folder, and the signal that it is sent at a step."""

    folder: str
    arguments: tuple[str, ...]
    signal: int = signal.SIGINT
    step: int | None = None
    again: float | None = None
    """Seconds of work after which the signal is sent a second time."""


@dataclass(frozen=True)
class Workshop:
    """A folder with data and a model of them, and the process that forks."""

    folder: Path
    server: subprocess.Popen[str]

    @property
    def data(self) -> str:
        return str(self.folder / "x.npy")

    @property
    def model(self) -> str:
        return str(self.folder / "m.safetensors")


@cache
def workshop() -> Workshop:
    """Made once. The process has run each kind of command, so that its forks are quick."""
    folder = Path(tempfile.mkdtemp(prefix="deepnmf-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz.child"], text=True, cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    atexit.register(server.kill)
    made = Workshop(folder, server)
    np.save(made.data, np.random.default_rng(0).random((40, 12)))
    once = [
        ["fit", made.data, "-o", made.model, *TINY],
        ["transform", made.model, made.data, "-o", str(folder / "z.npy")],
        ["study", made.data, "-o", str(folder / "study"), *STUDY, *FEW],
    ]
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(once) + "\n")
    server.stdin.flush()
    assert server.stdout.readline() == "ready\n"
    return made


def forked(call: Call) -> Ended:
    """Run a command in a fork of a process that has imported everything."""
    server = workshop().server
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(asdict(call)) + "\n")
    server.stdin.flush()
    pid = int(server.stdout.readline())
    hung = not select.select([server.stdout], [], [], SECONDS)[0]
    if hung:
        subprocess.run(["kill", "-9", str(pid)], check=False)
    code = int(server.stdout.readline())
    return _ended(call, None if hung else code)


def started(call: Call) -> Ended:
    """Run a command in a new process, which imports everything."""
    command = [sys.executable, "-m", "tests.fuzz.child", json.dumps(asdict(call))]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return _ended(call, None)
    return _ended(call, done.returncode)


def _ended(call: Call, code: int | None) -> Ended:
    out, err = (Path(call.folder, name) for name in ("stdout", "stderr"))
    texts = [path.read_text(errors="replace") if path.exists() else "" for path in (out, err)]
    return Ended(code, *texts)


def steps(arguments: tuple[str, ...], new: bool) -> int:
    """About how many steps a command takes that nobody disturbs."""
    if new:  # nearly all of them in imports
        return 1_100_000 if arguments[0] in ("data", "--help") else 7_000_000
    return _counted(arguments)


@cache
def _counted(arguments: tuple[str, ...]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        ended = forked(Call(folder, arguments))
        assert ended.code == 0, ended.err
        return int(ended.out.split("\nsteps ")[-1])
