"""The help of the commands: quick to show, and complete."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from deepnmf.cli.inputs import DTYPES, NORMALIZE
from deepnmf.data.datasets import DATASETS
from deepnmf.experiments import EXPERIMENTS
from deepnmf.links import LINKS
from deepnmf.models.settings import OBJECTIVES, SCALINGS
from deepnmf.samples.place import DEVICES
from deepnmf.solvers import SOLVERS
from deepnmf.starts import STARTS


def test_help_does_not_wait_for_the_heavy_libraries():
    code = (
        "import sys; from deepnmf.cli.main import main; code = main(['--help']);"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pandas', 'torch', 'numba', 'matplotlib'};"
        "sys.exit(code or sorted(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fit" in done.stdout


def test_the_commands_are_imported_without_the_heavy_libraries():
    code = (
        "import sys; import deepnmf.cli.commands;"
        "sys.exit(', '.join({'numpy', 'scipy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w/-]+", text))


def test_the_help_of_fit_has_every_name(call, monkeypatch):
    monkeypatch.setitem(LINKS, "cubic", LINKS["root"])  # a new link appears in the help by itself
    code, out, _ = call("fit", "--help")
    assert code == 0
    modes = (SCALINGS, OBJECTIVES, DTYPES, NORMALIZE)
    for table in (LINKS, SOLVERS, STARTS, DATASETS, DEVICES, *modes):
        assert set(table) <= words(out)
    assert "{links}" not in out


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("transform", DATASETS), ("evaluate", DATASETS), ("report", DATASETS), ("study", DATASETS),
        ("data fetch", DATASETS), ("reproduce", EXPERIMENTS),
    ],
)  # fmt: skip
def test_the_help_of_a_command_has_every_name(call, command, names):
    code, out, _ = call(*command.split(), "--help")
    assert code == 0
    assert set(names) <= words(out)
