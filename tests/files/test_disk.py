"""Full disks, and what a crash leaves behind."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import deepnmf
from deepnmf.arrays.stores import _reserve, temporary_file
from deepnmf.files import atomic
from deepnmf.files.atomic import remove_leftovers, write_atomically


def failing(answer, folder, largest, work, path):
    """Run `work` where no file may grow beyond so many bytes, as on a disk that is full, and send
    the error it ends with. Temporary files go to `folder`."""
    tempfile.tempdir = str(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    try:
        work(path)
    except OSError as problem:
        answer.send((problem.errno, problem.filename, problem.strerror))
    else:
        answer.send(None)


def write_text(path):
    write_atomically(path, b"x" * 20_000)


def save_model(path):
    X = np.random.default_rng(0).random((300, 64))
    deepnmf.dnmf(32, max_iter=1, tol=0, random_state=0).fit(X).save(path)


def write_codes(path):
    from deepnmf.cli.transform import write_codes

    write_codes(path, np.ones((1000, 4)), None, list("abcd"))


def write_report(path):
    from deepnmf.data.dataset import Dataset
    from deepnmf.report import write_report

    X = np.random.default_rng(0).random((20, 6))
    model = deepnmf.dnmf((4, 2), max_iter=1, pretrain_iter=1, tol=0, random_state=0).fit(X)
    write_report(model, Dataset(X, name="random"), path)


def append_rows(path):
    from deepnmf.experiments.rows import COLUMNS, Plan, RowFile

    rows = RowFile(path.with_name("rows.csv"), {"fit": Plan("", 500)})
    rows.append([dict.fromkeys(COLUMNS, "some text") for _ in range(500)])


def transform(path):
    """2.4 MB of codes, of which 200 kB may be in memory."""
    X = np.random.default_rng(0).random((60_000, 8))
    model = deepnmf.dnmf(5, max_iter=1, tol=0, random_state=0).fit(X[:100])
    model.set_params(max_memory="200kB").transform(X)


def fit(path):
    X = np.random.default_rng(0).random((60_000, 8))
    deepnmf.dnmf(5, max_iter=1, tol=0, random_state=0, max_memory="200kB").fit(X)


@pytest.mark.parametrize(
    "work", [write_text, save_model, write_codes, write_report, append_rows, transform, fit]
)
def test_a_full_disk_is_an_error_that_says_what_to_do(work, processes, tmp_path):
    path = tmp_path / "old.npy"
    path.write_bytes(b"old")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=failing, args=(theirs, tmp_path, 10_000, work, path))
    process.start()
    number, filename, message = ours.recv()
    process.join()
    assert process.exitcode == 0, "no signal ends the process"
    assert number in (errno.EFBIG, errno.ENOSPC)
    if work is append_rows:
        path = path.with_name("rows.csv")
        assert filename == str(path)
        assert "the rows before it are kept: free some space, or choose another place" in message
        assert path.read_text().startswith("experiment,")
        return
    if work in (transform, fit):
        assert filename == str(tmp_path)
        assert "set TMPDIR to a folder with more room, or raise max_memory" in message
    else:
        assert filename == str(path)
        assert "the old file is unchanged: free some space, or choose another place" in message
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_small_disk(processes, tmp_path):
    """A real one, with room for the codes in blocks but not for those that are returned: without
    the space reserved, the process dies of SIGBUS."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(tmp_path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        ours, theirs = processes.Pipe()
        process = processes.Process(
            target=failing, args=(theirs, tmp_path, resource.RLIM_INFINITY, transform, None)
        )
        process.start()
        process.join()
        assert process.exitcode == 0, "no signal ends the process"
        number, filename, _ = ours.recv()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert (number, filename) == (errno.ENOSPC, str(tmp_path))


def test_a_device_that_is_full():
    with pytest.raises(OSError, match="free some space") as refusal:
        write_atomically("/dev/full", b"text")
    assert refusal.value.filename == "/dev/full"


def test_space_is_reserved_where_the_system_cannot(monkeypatch, tmp_path):
    """By writing zeros."""

    def unsupported(*_):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    for size in (0, 1, 3_000_000):
        with temporary_file(size) as file:
            assert os.fstat(file.fileno()).st_size == size
            assert os.fstat(file.fileno()).st_blocks * 512 >= size
    with (tmp_path / "file").open("wb") as file:
        _reserve(file, 0)


def test_temporary_files_are_private_and_permissions_as_usual(tmp_path):
    path = tmp_path / "file"
    seen = []

    def write(file):
        (temporary,) = tmp_path.glob(".file.*.part")
        seen.append((temporary.name, stat.S_IMODE(temporary.stat().st_mode)))
        file.write(b"new")

    before = os.umask(0o027)
    try:
        write_atomically(path, write)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_atomically(path, write)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604, "that of the file it replaces"
    finally:
        os.umask(before)
    assert {mode for _, mode in seen} == {0o600}
    assert seen[0][0] != seen[1][0], "nobody can guess the name"


def test_long_names_can_be_written(tmp_path):
    for name in ("x" * 255, "é" * 127, "語" * 85):
        write_atomically(tmp_path / name, b"text")
        assert (tmp_path / name).read_bytes() == b"text"
    assert len(list(tmp_path.iterdir())) == 3


def leave(path, kind):
    """What `remove_leftovers` meets beside `path`, and whether it is to be removed."""
    leftover = path.with_name(f".{path.name}.abc.part")
    if kind == "file":
        leftover.write_bytes(b"half")
    elif kind == "with the number of a process that runs":
        leftover = path.with_name(f".{path.name}.{os.getpid()}.part")
        leftover.write_bytes(b"half")
    elif kind == "link":
        leftover.symlink_to(path)
    elif kind == "folder":
        leftover.mkdir()
    elif kind == "pipe":
        os.mkfifo(leftover)
    elif kind == "of another file":
        leftover = path.with_name(f".other{path.name}.abc.part")
        leftover.write_bytes(b"half")
    return leftover


@pytest.mark.parametrize(
    ("kind", "goes"),
    [
        ("file", True),
        ("with the number of a process that runs", True),
        ("link", False),
        ("folder", False),
        ("pipe", False),
        ("of another file", False),
    ],
)
def test_leftovers_are_removed_and_nothing_else(kind, goes, tmp_path):
    path = tmp_path / "file[1].txt"
    path.write_bytes(b"old")
    leftover = leave(path, kind)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert leftover.is_symlink() or leftover.exists() is not goes


def test_a_file_that_is_being_written_is_no_leftover(tmp_path):
    path = tmp_path / "file"

    def write(file):
        file.write(b"first")
        remove_leftovers(path)
        write_atomically(path, b"second")

    write_atomically(path, write)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_other_users_stay(tmp_path, monkeypatch):
    path = tmp_path / "file"
    leftover = leave(path, "file")
    monkeypatch.setattr(atomic.os, "geteuid", lambda: os.getuid() + 1)
    remove_leftovers(path)
    assert leftover.exists()


def test_a_missing_folder_is_named(tmp_path):
    path = Path(tmp_path / "nowhere" / "file")
    with pytest.raises(FileNotFoundError, match="check the folder") as refusal:
        write_atomically(path, b"text")
    assert refusal.value.filename == str(path)
