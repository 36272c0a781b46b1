"""The history of a long fit is thinned, and still tells how every stage began and ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepnmf.core.history import LIMIT, History, sweeps_of
from deepnmf.core.training import Trained
from deepnmf.models.advice import status


def swept(*stages, **values):
    """The history of stages, each with so many sweeps."""
    history = History()
    for layer, sweeps in enumerate(stages, 1):
        for sweep in range(1, sweeps + 1):
            last = layer == len(stages)
            stage = {"stage": "finetune", "layer": None} if last else {
                "stage": "pretrain", "layer": layer}  # fmt: skip
            record = {**stage, "sweep": sweep, "objective": 2 + 1 / sweep, "dead": 0, "kkt": 0.0}
            history.add(record | {name: make(sweep) for name, make in values.items()})
    return history


@pytest.mark.parametrize(
    ("stages", "stride"),
    [
        ((LIMIT,), 1),
        ((LIMIT + 1,), 2),
        ((100, 100, 4 * LIMIT), 8),
        ((3 * LIMIT, 1, 2, 3), 4),
        ((50 * LIMIT,), 64),
        ((1,) * 20, 1),
    ],
)
def test_thinned_by_the_stated_rule(stages, stride):
    history = swept(*stages)
    assert history.stride == stride
    assert len(history.records) <= LIMIT
    assert stride == 1 or len(history.records) > LIMIT // 2 - 2 * len(stages)
    by_stage: dict[Any, list[int]] = {}
    for record in history.records:
        by_stage.setdefault((record["stage"], record["layer"]), []).append(record["sweep"])
    for sweeps, kept in zip(stages, by_stage.values(), strict=True):
        assert kept == sorted({*range(1, sweeps + 1, stride), sweeps})
    assert sweeps_of(history.records) == sum(stages)


def test_every_run_of_a_stack_keeps_its_last_record():
    ends = np.array([10, 5_001, 9_998])
    history = swept(
        10_000, active=lambda sweep: sweep <= np.append(ends, 10_000), penalty=lambda _: np.zeros(4)
    )
    for record in history.records:
        record |= {name: np.full(4, record[name]) for name in ("objective", "kkt", "dead")}
    assert len(history.records) <= LIMIT
    trained = Trained((np.zeros((4, 1, 1)),), np.zeros((4, 1, 1)), history.records,
                      np.append(ends, 10_000), np.full(4, "limit", object))  # fmt: skip
    for run, end in zip(trained.runs(), [*ends, 10_000], strict=True):
        assert run.history[-1]["sweep"] == run.all_sweeps == end
        assert run.history[-1]["objective"] == pytest.approx(2 + 1 / end)


def test_what_is_told_of_a_fit_counts_sweeps_not_records():
    sweeps = 4 * LIMIT
    history = swept(100, sweeps).records
    for record in history:
        if record["stage"] == "finetune":
            record["objective"] = 1 + 1e-3 * (sweeps - record["sweep"])
    trained = Trained((), np.zeros((1, 1)), history, np.array(sweeps), np.array("limit", object))
    assert "falling by 1e-03 per sweep" in status(trained.only(), 1e-4, sweeps)[0]
    trained = Trained((), np.zeros((1, 1)), history, np.array(sweeps),
                      np.array("interrupted", object))  # fmt: skip
    assert f"after {sweeps + 100} sweeps, {sweeps} of them" in status(trained.only(), 0, 1)[0]
