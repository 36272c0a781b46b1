"""Check what `make dist` has built: `python tools/check_dist.py dist`.

- The wheel holds the tracked files of src/deepnmf, its metadata, and nothing else.
- The sdist holds the tracked files that its own tests need, and nothing untracked.
- The sdist installs into a fresh environment with nothing but what it asks for, and its quick tests
  pass there, run from the unpacked sdist.

Ends with an error message where one of these is not so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = (
    "src", "tests", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "constraints.txt",
    "pyproject.toml",
)  # fmt: skip
METADATA = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
TEST_TOOLS = ("pytest", "pytest-xdist", "hypothesis")
QUICK_TESTS = (
    "tests/test_evaluation.py",
    "tests/test_storage.py",
    "tests/core/test_draws.py",
    "tests/core/test_links.py",
    "tests/core/test_penalties.py",
    "tests/core/test_subproblems.py",
)
"""Tests that need no extra on NumPy arrays and take less than a minute together."""


def main(folder: Path) -> None:
    """Check the one wheel and the one sdist in `folder`."""
    check_wheel(only(folder.glob("*.whl")))
    sdist = only(folder.glob("*.tar.gz"))
    check_sdist(sdist)
    with tempfile.TemporaryDirectory() as scratch:
        check_install(sdist, Path(scratch))


def check_wheel(wheel: Path) -> None:
    """Compare the wheel with what git tracks."""
    name, version = wheel.name.split("-")[:2]
    package = {file.removeprefix("src/") for file in tracked("src/deepnmf")}
    metadata = {f"{name}-{version}.dist-info/{file}" for file in METADATA}
    with zipfile.ZipFile(wheel) as archive:
        compare(wheel.name, package | metadata, set(archive.namelist()))


def check_sdist(sdist: Path) -> None:
    """Compare the sdist with what git tracks; hatchling always adds PKG-INFO and .gitignore."""
    stem = sdist.name.removesuffix(".tar.gz")
    expected = {f"{stem}/{file}" for file in [*tracked(*NEEDED), "PKG-INFO", ".gitignore"]}
    with tarfile.open(sdist) as archive:
        held = {member.name for member in archive.getmembers() if member.isfile()}
    compare(sdist.name, expected, held)


def check_install(sdist: Path, scratch: Path) -> None:
    """Install the sdist into a fresh environment, and run its quick tests from its own folder."""
    venv.create(scratch / "venv", with_pip=True)
    python = scratch / "venv" / "bin" / "python"
    pip: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    run([*pip, sdist.resolve(), *TEST_TOOLS], scratch)
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    unpacked = scratch / sdist.name.removesuffix(".tar.gz")
    run([python, "-m", "deepnmf", "models"], scratch, output=subprocess.DEVNULL)
    where = "import deepnmf, sys; sys.exit('site-packages' not in deepnmf.__file__)"
    run([python, "-c", where], unpacked)
    run([python, "-m", "pytest", "-m", "not long", "-k", "not torch", *QUICK_TESTS], unpacked)


def tracked(*paths: str) -> list[str]:
    """The files under these paths that git tracks. Each path must have one."""
    command = ["git", "ls-files", "--error-unmatch", *paths]
    return subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()


def compare(archive: str, expected: set[str], held: set[str]) -> None:
    """Refuse an archive that lacks a file or has one too many."""
    faults = [f"{archive} lacks {file}" for file in sorted(expected - held)]
    faults += [f"{archive} should not hold {file}" for file in sorted(held - expected)]
    if faults:
        raise SystemExit("\n".join(faults))


def run(command: list[str | Path], folder: Path, output: int | None = None) -> None:
    """Run a command that must succeed, with no PYTHONPATH that could lead back to the checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=output, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")


def only(files: Iterable[Path]) -> Path:
    """The single file."""
    listed = sorted(files)
    if len(listed) != 1:
        raise SystemExit(f"expected one wheel and one sdist, found {[f.name for f in listed]}")
    return listed[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
