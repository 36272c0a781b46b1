"""Full disks.

A command that runs out of space says so in one line. The files it replaces stay as they were, or
are complete.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import deepnmf
from deepnmf.cli.main import main
from deepnmf.files.checkpoint import Checkpoint
from tests.fuzz.case import Case, numbered, pick
from tests.fuzz.hostile import folder
from tests.fuzz.verdict import Broken, complaint, demand, place

POLITE = (ValueError, TypeError, OSError)
NEW_USER, NEW_MOUNTS, PRIVATE = 0x10000000, 0x00020000, 0x4000 | 0x40000


def cases(seed: int, count: int) -> Iterator[Case]:
    return numbered("disks", seed, count)


def run(case: Case) -> str | None:
    """What went wrong, or None. Each case runs in a fork, whose limits end with it."""
    rng = case.generator()
    name = pick(rng, [*WORK])
    room = int(pick(rng, [0, 100, 1000, int(rng.integers(2000)), int(rng.integers(40_000))]))
    if name == "blocks":
        room = int(rng.integers(300_000, 700_000) if rng.random() < 0.5 else rng.integers(900_000))
    replaced = bool(rng.random() < 0.5)
    disk = bool(rng.random() < 0.5)
    _models()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(writer, name, room, replaced, disk)
    os.close(writer)
    with os.fdopen(reader) as answers:
        answer = answers.read()
    status = os.waitpid(child, 0)[1]
    about = f"{name} with {room} bytes left, {'a tmpfs' if disk else 'a limit'}, {replaced=}"
    if os.WIFSIGNALED(status):
        return f"crash: {signal.Signals(os.WTERMSIG(status)).name} in {name} | {about}"
    finding = json.loads(answer) if answer else f"crash: {name} gave no answer |"
    return finding and f"{finding}; {about}"


def _child(writer: int, name: str, room: int, replaced: bool, disk: bool) -> None:
    """Do the work in a folder that fills up, and answer with the finding."""
    finding: str | None
    try:
        here = Path(tempfile.mkdtemp(dir=folder()))
        disk = disk and _mounted(here, room + 20_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            finding = _tried(here, name, room, replaced, disk)
        shutil.rmtree(here, ignore_errors=True)
    except BaseException:
        finding = "traceback: in the case itself | " + traceback.format_exc()[-400:]
    os.write(writer, json.dumps(finding).encode())
    os._exit(0)


def _mounted(here: Path, size: int) -> bool:
    """Mount a file system of this size, which only this process sees, if that is allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NEW_USER | NEW_MOUNTS):
        return False
    with contextlib.suppress(OSError):
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    libc.mount(None, b"/", None, PRIVATE, None)
    return not libc.mount(b"tmpfs", os.fsencode(here), b"tmpfs", 0, f"size={size}".encode())


def _tried(here: Path, name: str, room: int, replaced: bool, disk: bool) -> str | None:
    old = _models()["old"].read_bytes()
    target = here / TARGETS.get(name, "out.safetensors")
    if replaced:
        target.write_bytes(old)
    os.chdir(here)
    if disk:
        _fill(here / "filler", room)
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    before = {file.name for file in here.iterdir()}
    try:
        complete = WORK[name](target)
        if complete:
            demand(target.exists(), "other: done, but the file is missing |")
            READS.get(name, deepnmf.load)(target)
        elif replaced and target.exists() and name != "checkpoint":
            demand(target.read_bytes() == old, "other: a file is half-written |")
        elif not replaced and name != "checkpoint":
            demand(not target.exists(), "other: a file is half-written |")
        left = {file.name for file in here.iterdir()} - before - {target.name}
        demand(not left, f"other: a temporary file is left | {sorted(left)}")
    except Broken as finding:
        return str(finding)
    except Exception as problem:
        return complaint(problem, polite=())
    return None


def _fill(path: Path, room: int) -> None:
    """Fill the disk, but for so many bytes."""
    free = os.statvfs(path.parent)
    size = max(0, free.f_bavail * free.f_frsize - room)
    with contextlib.suppress(OSError):
        path.write_bytes(b"\x00" * size)


def _command(*arguments: str) -> bool:
    """Whether a command succeeds. Checks what it says otherwise."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    said = " ".join(err.getvalue().split())
    demand("bug in deepnmf" not in said, f"traceback: {said[:60]} | {said}")
    demand(code in (0, 1), f"other: exit code {code} | {said}")
    lines = err.getvalue().strip().splitlines()
    demand(
        code == 0 or (len(lines) == 1 and said.startswith("error: ")),
        f"other: not one line | {said}",
    )
    return code == 0


def _fit(target: Path) -> bool:
    return _command(
        "fit", str(_models()["data"]), "-o", str(target), "--max-iter", "1", "--layers", "4,2"
    )


def _transform(target: Path) -> bool:
    return _command("transform", str(_models()["old"]), str(_models()["data"]), "-o", str(target))


def _saved(target: Path) -> bool:
    return _polite(lambda: deepnmf.load(_models()["old"]).save(target))


def _checkpointed(target: Path) -> bool:
    """A fit whose checkpoint cannot be written goes on."""
    data = np.load(_models()["data"])
    model = deepnmf.dnmf(
        (4, 2), max_iter=3, pretrain_iter=2, tol=0, checkpoint=Checkpoint(target, every=0)
    )
    fitted = _polite(lambda: model.fit(data))
    if fitted and target.exists():
        model.fit(data)  # what was written can be read
    return False


def _in_blocks(target: Path) -> bool:
    """Codes that go to a file of the temporary folder."""
    os.environ["TMPDIR"] = str(target.parent)
    tempfile.tempdir = None
    model = deepnmf.load(_models()["old"]).set_params(max_memory="100KB")
    codes: list[Any] = []
    X = np.tile(np.load(_models()["data"]), (70, 1))
    if _polite(lambda: codes.append(model.transform(X))):
        demand(np.isfinite(np.asarray(codes[0])).all(), "nan: codes from a full disk |")
    codes.clear()
    return False


def _stdout(target: Path) -> bool:
    """Standard output is a full disk."""
    with open("/dev/full", "w") as full, io.StringIO() as err:  # noqa: PTH123
        with contextlib.redirect_stderr(err):
            before, sys.stdout = sys.stdout, full
            try:
                code = main(["info", str(_models()["old"]), "--json"])
                full.flush()
            except OSError:
                code = 1
            finally:
                sys.stdout = before
        demand(code in (0, 1), f"other: exit code {code} |")
        with contextlib.suppress(OSError):
            full.close()
    return False


def _polite(work: Callable[[], Any]) -> bool:
    """Whether work succeeds. Errors must be fair answers."""
    try:
        work()
    except Exception as problem:
        if finding := complaint(problem, POLITE):
            raise Broken(finding) from None
        named = not isinstance(problem, OSError) or problem.filename or "/" in str(problem)
        demand(named, f"other: the error names no path, at {place(problem)} | {problem}")
        return False
    return True


WORK: dict[str, Callable[[Path], bool]] = {
    "fit": _fit, "transform": _transform, "transform to csv": _transform, "save": _saved,
    "checkpoint": _checkpointed, "blocks": _in_blocks, "stdout": _stdout,
}  # fmt: skip
TARGETS = {"transform": "codes.npy", "transform to csv": "codes.csv", "checkpoint": "fit.ckpt"}
READS: dict[str, Callable[[Path], Any]] = {
    "transform": np.load,
    "transform to csv": lambda path: np.genfromtxt(path, delimiter=",", skip_header=1),
}


@cache
def _models() -> dict[str, Path]:
    here = folder() / "disks"
    here.mkdir()
    X = np.random.default_rng(0).random((300, 6))
    np.save(here / "x.npy", X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        deepnmf.sdnmf_l((4, 2), max_iter=1, random_state=0).fit(X).save(here / "old.safetensors")
    return {"data": here / "x.npy", "old": here / "old.safetensors"}
