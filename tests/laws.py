"""The laws that the tests hold over tables: one function per law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf.arrays import Array
from deepnmf.core.decode import decode
from deepnmf.core.plan import Plan
from deepnmf.core.training import train
from deepnmf.core.watch import Record
from deepnmf.models.settings import plan_of
from deepnmf.starts import Given
from tests.tables import mode

History = Sequence[Record]


def plan(
    model: Callable[..., Any],
    sizes: Sequence[int],
    strength: float | None = None,
    **settings: Any,
) -> Plan:
    """The plan of a preset whose penalties all have this strength; about the same effect in every
    mode if none is given."""
    scaling = settings.pop("scaling", "paper")
    if strength is None:
        strength = 0.05 if scaling == "paper" else 1e-3
    settings |= mode(scaling, settings.get("link", "identity"))
    return plan_of(model(sizes, **strengths(model, strength), **settings))


def strengths(model: Callable[..., Any], strength: float) -> dict[str, float]:
    """The strengths of a preset, all the same."""
    takes: dict[Callable[..., Any], tuple[str, ...]] = {
        deepnmf.dnmf: (),
        deepnmf.sdnmf_l: ("mu",),
        deepnmf.sdnmf_r: ("lam",),
        deepnmf.sdnmf_rl1: ("mu", "lam"),
        deepnmf.sdnmf_rl2: ("mu", "lam"),
    }
    return dict.fromkeys(takes[model], strength)


def generators(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def put(X: np.ndarray, library: str) -> Array:
    """X in the library of that name."""
    return X if library == "numpy" else pytest.importorskip("torch").from_numpy(X.copy())


def stages(history: History) -> list[list[Record]]:
    """The records of each stage and layer, in order."""
    keys = dict.fromkeys((record["stage"], record["layer"]) for record in history)
    return [
        [record for record in history if (record["stage"], record["layer"]) == key] for key in keys
    ]


def objectives(history: History) -> np.ndarray:
    return np.array([record["objective"] for record in history])


def objective(X: np.ndarray, weights: Sequence[Array], H: Array, plan: Plan) -> float:
    """f, straight from its formula in double precision; of one layer, or for the end-to-end loss.

    With fixed scales, the strengths of penalties are relative to X. With a loss on every layer, W
    has columns of unit norm, and its penalty counts each part by its energy.
    """
    weights = [np.asarray(W, dtype=np.float64) for W in weights]
    H = np.asarray(H, dtype=np.float64)
    fit = np.sum((X - decode(weights, plan.link, H)) ** 2) / 2
    if plan.layered:
        norms = np.linalg.norm(weights[0], axis=0)
        norms[norms == 0] = 1
        W, H = weights[0] / norms, H * norms[:, None]
        counted = plan.penalties_W[0].columns(W) @ np.sum(H**2, axis=1)
        return float(fit + np.sum(counted) + plan.penalties_H[0].value(H))
    plan = plan.relative_to(X)
    penalty = sum(float(R.value(W)) for R, W in zip(plan.penalties_W, weights, strict=True))
    return float(fit + penalty + plan.penalties_H[-1].value(H))


def gradient_is_the_slope(
    value: Callable[[np.ndarray], Any],
    F: np.ndarray,
    gradient: Array,
    rel: float,
    step: float = 1e-6,
) -> None:
    """A gradient equals central finite differences of the value, entry by entry."""
    slopes = np.empty_like(F)
    for place in np.ndindex(F.shape):
        up, down = F.copy(), F.copy()
        up[place] += step
        down[place] -= step
        slopes[place] = (float(value(up)) - float(value(down))) / (2 * step)
    gradient = np.broadcast_to(np.asarray(gradient), F.shape)
    assert np.linalg.norm(gradient - slopes) <= rel * np.linalg.norm(slopes) + 1e-9


def objective_never_rises(history: History, slack: float) -> None:
    """In every stage of a fit the objective is finite and does not rise by more than rounding."""
    for records in stages(history):
        values = objectives(records)
        assert np.isfinite(values).all()
        assert np.diff(values).max(initial=0) <= slack
        if "kkt" in records[0]:
            assert np.isfinite([record["kkt"] for record in records]).all()


def kkt_residual_falls(X: np.ndarray, settings: Plan, share: float = 1e-3) -> None:
    """Sweeping on, the KKT residual of all factors falls to a share of that of the first sweep."""
    first: list[float] = []

    def reached(record: Record, weights: Any) -> bool:
        if record["stage"] == "finetune":
            first.append(record["kkt"])
        return bool(first) and record["kkt"] <= share * first[0]

    assert train(X, settings, generators(0), reached).reasons == "callback"


def stack_is_its_runs(X: np.ndarray, settings: Plan, library: str, rel: float) -> None:
    """Runs that are fitted at once end where each of them ends alone."""
    stack = put(X, library)
    seeds = range(1, len(X) + 1)
    together = train(stack, settings, generators(*seeds))
    for run, seed in enumerate(seeds):
        alone = train(stack[run], settings, generators(seed))
        last = [record for record in together.history if record["active"][run]][-1]
        assert last["objective"][run] == pytest.approx(alone.history[-1]["objective"], rel=rel)
        X_stack = decode([W[run] for W in together.weights], settings.link, together.H[run])
        X_alone = decode(alone.weights, settings.link, alone.H)
        error = np.linalg.norm(np.asarray(X_stack) - np.asarray(X_alone))
        assert error <= 30 * rel**0.5 * np.linalg.norm(X[run])


def sparse_is_dense(X: np.ndarray, settings: Plan, sweeps: int, rel: float) -> tuple[Any, Any]:
    """So many sweeps of fine-tuning are the same on a sparse matrix. The two fits."""
    dense = train(X, settings, generators(0))
    sparse = train(scipy.sparse.csc_matrix(X), settings, generators(0))
    found, expected = (objectives(stages(fit.history)[-1]) for fit in (sparse, dense))
    assert found[:sweeps] == pytest.approx(expected[:sweeps], rel=rel)
    assert found[-1] < found[0]
    return dense, sparse


def torch_is_numpy(X: np.ndarray, settings: Plan, rel: float) -> None:
    """With one solver for both, a tensor's fit is the array's, sweep by sweep."""
    here, there = (train(put(X, name), settings, generators(0)) for name in ("numpy", "torch"))
    np.testing.assert_allclose(objectives(there.history), objectives(here.history), rtol=rel)


def same_until_searched(here: Any, there: Any, rel: float) -> None:
    """Two fits of the same data are the same, sweep by sweep, for as long as rounding cannot choose
    between steps: while layer 1 is pre-trained, and in two sweeps of fine-tuning after that."""
    first, *_, tuned = (objectives(records) for records in stages(here.history_))
    other, *_, other_tuned = (objectives(records) for records in stages(there.history_))
    np.testing.assert_allclose(other, first, rtol=rel)
    np.testing.assert_allclose(other_tuned[:2], tuned[:2], rtol=rel)


def solvers_agree_on_the_end(X: np.ndarray, settings: Plan, first: Any, other: Any) -> None:
    """From where one solver has come to its end, the other finds next to nothing to gain."""
    ended = train(X, replace(settings, solver=first), generators(0))
    start = Given(ended.weights, ended.H.T)
    further = replace(settings, solver=other, start=start, max_iter=500)
    gained = train(X, further, generators(0)).history[-1]["objective"]
    end = ended.history[-1]["objective"]
    assert gained <= end * (1 + 1e-9)
    assert gained == pytest.approx(end, rel=5e-3)


def loaded_is_saved(model: Any, X: Any, path: Path) -> Any:
    """A model that is saved and loaded is the same, to the last bit. The loaded one."""
    model.save(path)
    loaded = deepnmf.load(path)
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(loaded.components_, model.components_)
    assert loaded.history_ == model.history_
    assert loaded.status_ == model.status_
    return loaded


def ends_as_in_one_piece(
    make: Callable[[], Any], X: np.ndarray, model: Any, rel: float = 1e-5
) -> None:
    """A fit by blocks ends where the fit of X in one piece does.

    Where rounding alone decides the way (through softplus, layer 2 may have nothing to learn), it
    is no further apart than fits in one piece of data whose last bits differ.
    """
    end = make().fit(X).history_[-1]["objective"]
    apart = abs(model.history_[-1]["objective"] / end - 1)
    if apart <= rel:
        return
    others = [
        make().fit(X * (1 + 2e-16 * rng.standard_normal(X.shape))).history_[-1]["objective"]
        for rng in map(np.random.default_rng, range(4))
    ]
    assert apart < 3 * max(abs(other / end - 1) for other in others)
