"""A slice of `make fuzz`, and the processes that it runs cases in."""

from __future__ import annotations

import pytest

from tests.fuzz import api, command, disks, files, models, trial
from tests.fuzz.workers import Batch, finding_of, results

SLICES = {"api": 60, "files": 80, "models": 40, "command": 12, "disks": 6}
FAMILIES = {"api": api, "files": files, "models": models, "command": command, "disks": disks}


# Other libraries leave damaged files open until they are collected.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("family", SLICES)
def test_a_slice_of_every_family_finds_nothing(family):
    module = FAMILIES[family]
    found = {str(case): finding_of(module, case) for case in module.cases(19, SLICES[family])}
    assert {case: finding for case, finding in found.items() if finding} == {}


def test_crashes_and_hangs_are_known_by_their_case():
    batch = Batch("trial", 0, 0, len(trial.ENDS))
    found = {result.number: result.finding for result in results([batch], 1, preload=(), hang=1)}
    assert sorted(found) == [*range(len(trial.ENDS))]
    kinds = {trial.ENDS[number]: (found[number] or "fine").split(".py")[0] for number in found}
    assert kinds == {
        "fine": "fine",
        "found": "nan: a finding | details",
        "raises": "traceback: IndexError at fuzz/trial",
        "crashes": "crash: SIGSEGV |",
        "hangs": "hang: no answer in 1 s |",
        "grows": "traceback: MemoryError at fuzz/trial",
    }
