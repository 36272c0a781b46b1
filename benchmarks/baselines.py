"""The compared methods, checked against other implementations and published numbers.

    DEEPNMF_DATA=… python benchmarks/baselines.py [--skip-pie]

1. nsNMF and SNMF (/R, /L) against nmf-rs, and PgNMF against a long run of scikit-learn: on digits,
   from the same start. Each objective is computed from the factors in double precision.
2. GraphNMF on all of PIE (unit norm, k = 68, 5 neighbours, λ = 100, 100 iterations), best of 20
   K-means. Its authors' demo prints NMI 0.881, against 0.698 for NMF and 0.538 for K-means.
3. DeepSemiNMF [600, 160] on PIE, fold 0 of 7: NMI of the codes of held-out faces. The paper has
   0.945.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from deepnmf import pgnmf
from deepnmf.data import load_digits, load_pie
from deepnmf.evaluation import cluster_scores, nmi
from deepnmf.models.baselines import DeepSemiNMF, GraphNMF, NsNMF, SparseNMF
from deepnmf.models.baselines.ns import smooth
from deepnmf.penalties import Ridge, SquaredL1
from deepnmf.solvers import Coordinate
from deepnmf.solvers.quadratic import codes_problem, weights_problem
from deepnmf.starts import Given, Random

RANKS, BETA, ETA, THETA = (4, 12), 0.01, 1.0, 0.5


def divergence(X: np.ndarray, fitted: np.ndarray) -> float:
    return float(np.sum(xlogy(X, X / np.maximum(fitted, 1e-300)) - X + fitted))


def sparse_objective(X: np.ndarray, W: np.ndarray, H: np.ndarray, side: str) -> float:
    """The objective of Kim and Park for X (m, n) ≈ W H."""
    smooth_factor, sparse_factor = (W, H) if side == "right" else (H, W.T)
    fit = np.linalg.norm(X - W @ H) ** 2
    smooth_term = ETA * np.linalg.norm(smooth_factor) ** 2
    return float(fit + smooth_term + BETA * np.sum(sparse_factor.sum(axis=0) ** 2)) / 2


def against_others() -> None:
    try:
        import nmf_rs
    except ImportError:
        nmf_rs = None
        print("nmf-rs is not installed, so nsNMF and SNMF are skipped. `make bench` installs it.\n")
    X = load_digits().X.astype(float)
    X = X / X.max()
    print("| method | k | ours | theirs | ours/theirs | ours, continued | other |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for k in RANKS:
        W, H = Random().factors(X.T, k, [np.random.default_rng(0)])
        if nmf_rs is not None:
            with_nmf_rs(nmf_rs, X, W, H)
        other = NMF(k, init="custom", max_iter=5000, tol=1e-8)
        Z = other.fit_transform(X, W=H.T.copy(), H=W.T.copy())
        ours, further = (
            pgnmf(k, start=Given([parts], codes)).fit(X).reconstruction_err_ ** 2 / 2
            for parts, codes in ((W, H.T), (other.components_.T, Z))
        )
        row("PgNMF", k, ours, other.reconstruction_err_**2 / 2, further, "scikit-learn, long run")


def with_nmf_rs(nmf_rs: Any, X: np.ndarray, W: np.ndarray, H: np.ndarray) -> None:
    """nsNMF and SNMF, 500 iterations each."""
    k = W.shape[1]
    given = {"W0": W.copy(), "H0": H.copy(), "max_iter": 500}
    few = {"max_iter": 500, "tol": 0, "random_state": 0}
    other = nmf_rs.nmf(X.T.copy(), k, "nsNMF", theta=THETA, **given)
    end = np.asarray(other.W), np.asarray(other.H)
    ours, further = (
        NsNMF(k, theta=THETA, loss="kullback-leibler", start=Given([parts], codes.T), **few)
        .fit(X)
        .history_[-1]["objective"]
        for parts, codes in ((W, H), end)
    )
    row("nsNMF", k, ours, divergence(X.T, smooth(end[0], THETA) @ end[1]), further, "nmf-rs")
    for side, name in (("right", "snmf/r"), ("left", "snmf/l")):
        other = nmf_rs.nmf(X.T.copy(), k, name, sparsity=BETA, smoothness=ETA, **given)
        end = np.asarray(other.W), np.asarray(other.H)
        ours, further = (
            SparseNMF(k, side=side, beta=BETA, eta=ETA, start=Given([parts], codes.T), **few)
            .fit(X)
            .history_[-1]["objective"]
            for parts, codes in ((W, H), end)
        )
        reached = sparse_objective(X.T, *end, side)
        row(name, k, ours, reached, further, "nmf-rs")
        if side == "right":
            exact = alternated(X.T, W, H)
            row(f"{name}, exact", k, ours, exact, exact, "alternating exact least squares")


def alternated(X: np.ndarray, W: np.ndarray, H: np.ndarray) -> float:
    """Where SNMF/R as published ends: each factor in turn at its exact minimum, 300 times."""
    solver = Coordinate(max_passes=500, tol=1e-10)
    for _ in range(300):
        codes = codes_problem(W.T @ W, W.T @ X, SquaredL1(BETA))
        H = solver.update(codes, H).F
        W = solver.update(weights_problem(None, H @ H.T, X @ H.T, Ridge(ETA)), W).F
    return sparse_objective(X, W, H, "right")


def row(name: str, k: int, ours: float, other: float, further: float, what: str) -> None:
    print(
        f"| {name} | {k} | {ours:.2f} | {other:.2f} | {ours / other:.4f} | {further / other:.4f} "
        f"| {what} |",
        flush=True,
    )


def on_pie() -> None:
    pie = load_pie()
    X, y = normalize(pie.X.astype(float)), pie.y
    print("\n| method | seed | NMI | NMI, codes of unit norm | seconds |")
    print("| --- | --- | --- | --- | --- |")
    for seed in range(3):
        began = time.perf_counter()
        Z = GraphNMF(68, random_state=seed).fit(X).codes_
        taken = time.perf_counter() - began
        found = [
            nmi(y, KMeans(68, n_init=20, random_state=0).fit_predict(codes))
            for codes in (Z, normalize(Z))
        ]
        print(f"| GraphNMF | {seed} | {found[0]:.3f} | {found[1]:.3f} | {taken:.1f} |", flush=True)
    folds = StratifiedKFold(7, shuffle=True, random_state=0)
    train, test = next(iter(folds.split(X, y)))
    X = X.astype(np.float32)
    began = time.perf_counter()
    model = DeepSemiNMF((600, 160), tol=0, random_state=0)  # 500 + 500 sweeps, as published
    Z = model.fit(X[train]).transform(X[test])
    taken = time.perf_counter() - began
    found = [cluster_scores(Z, y[test], normalize=kind).nmi for kind in (None, "l2")]
    print(f"| DeepSemiNMF | 0 | {found[0]:.3f} | {found[1]:.3f} | {taken:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skip-pie", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    against_others()
    if not options.skip_pie:
        on_pie()


if __name__ == "__main__":
    main()
