"""How fast a subproblem is solved: the paper's O(1/k²) against plain projected gradient."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deepnmf.arrays import gram, inner
from deepnmf.arrays.tensors import to_numpy
from deepnmf.models.presets import dnmf
from deepnmf.penalties import Zero
from deepnmf.solvers import Coordinate, Nesterov
from deepnmf.solvers.quadratic import Quadratic, codes_problem

METHODS = ("projected gradient", "accelerated", "bound 2 LC ‖H_0 − H*‖²/(k + 1)²")


GAPS = ("method", "steps", "gap")
"""The columns of the rows."""


def gaps(X: np.ndarray, parts: int, steps: int) -> pd.DataFrame:
    """q(H_k) − q(H*) for the codes of X (n, m), from H = 0, by the number of steps k.

    The parts are those of a fit, and q* is where coordinate descent ends. The accelerated method is
    the solver's, with its restarts, and starts from 0 for every k. The bound is Beck and
    Teboulle's.
    """
    X = X.astype(np.float64)
    W = dnmf(parts, scaling="paper", max_iter=30, tol=0, random_state=0).fit(X).components_.T
    problem = codes_problem(gram(W), W.T @ X.T, Zero())
    zero = np.zeros((parts, X.shape[0]))
    best = Coordinate(max_passes=20000, tol=1e-28).update(problem, zero).F
    end = float(problem.value(best))
    counts = sorted({int(k) for k in np.geomspace(1, steps, 25)})
    distance = float(inner(best, best)) * to_numpy(problem.lipschitz).item()
    rows: list[dict[str, str | float]] = []
    H, done = zero, 0
    for k in counts:
        H, done = _plain(problem, H, k - done), k
        fast = Nesterov(max_steps=k).update(problem, zero).F
        values = (float(problem.value(H)) - end, float(problem.value(fast)) - end)
        bound = 2 * distance / (k + 1) ** 2
        for method, gap in zip(METHODS, (*values, bound), strict=True):
            rows.append(dict(zip(GAPS, (method, k, gap / abs(end)), strict=True)))
    return pd.DataFrame(rows)


def read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The gaps of a file that `deepnmf reproduce rate` wrote; other files are refused."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: there is no such file of rows.")
    try:
        frame = pd.read_csv(path)
    except ValueError as problem:
        raise ValueError(f"{path}: is not a file of rows ({problem}).") from None
    missing = [name for name in GAPS if name not in frame.columns]
    if missing:
        raise ValueError(f"{path}: is not a file of rows: it has no column {missing[0]!r}.")
    return frame


def _plain(problem: Quadratic, H: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        H = np.asarray(problem.project(H - problem.gradient(H) / problem.lipschitz))
    return H


def orders(frame: pd.DataFrame) -> dict[str, float]:
    """By method, p where the gap falls like k^−p over the last factor of ten in k: the slope of a
    line through the logarithms."""
    powers = {}
    for method in METHODS[:2]:
        curve = frame[(frame["method"] == method) & (frame["gap"] > 1e-13)]
        tail = curve[curve["steps"] >= curve["steps"].max() / 10]
        powers[method] = -float(np.polyfit(np.log(tail["steps"]), np.log(tail["gap"]), 1)[0])
    return powers


def plot(frame: pd.DataFrame, title: str) -> Figure:
    """Gaps over steps, on logarithmic axes."""
    figure = Figure(figsize=(5.5, 4), layout="constrained")
    place = figure.subplots()
    for method, style in zip(METHODS, ("o-", "s-", "k--"), strict=True):
        curve = frame[(frame["method"] == method) & (frame["gap"] > 1e-15)]
        place.loglog(curve["steps"], curve["gap"], style, markersize=3, label=method)
    place.set_xlabel("steps k")
    place.set_ylabel("(q(H_k) − q*)/|q*|")
    place.set_title(title, fontsize=10)
    place.grid(color="0.9")
    place.legend(fontsize=8)
    return figure
