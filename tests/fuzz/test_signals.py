"""A few cases of Ctrl-C and of kill -9; `make fuzz` tries many more."""

from __future__ import annotations

import pytest

from tests.fuzz import interrupts, kills

pytestmark = pytest.mark.xdist_group("forks")  # one process has the server that cases share
PRESSES = [
    interrupts.Case("endless", 0.3, None, new=True),  # while everything is imported
    interrupts.Case("replace", 0.4, None, new=False),
    interrupts.Case("json", 0.97, 1e-4, new=False),
]
KILLS = [kills.Case("checkpointed", (0.3, 0.6), new=False), kills.Case("fit", (0.95,), new=False)]


@pytest.mark.parametrize("case", PRESSES, ids=str)
def test_ctrl_c(case):
    assert interrupts.run(case) is None


@pytest.mark.parametrize("case", KILLS, ids=str)
def test_kill(case):
    assert kills.run(case) is None


@pytest.mark.parametrize("family", [interrupts, kills])
def test_a_seed_gives_the_same_cases(family):
    assert list(family.cases(3, 20)) == list(family.cases(3, 20))
    assert list(family.cases(3, 20)) != list(family.cases(4, 20))
