"""The compared methods against known figures: other implementations, and what their papers print.

    DEEPNMF_DATA=… python benchmarks/baselines.py [--skip-pie]

1. nsNMF and SNMF (/R, /L) against nmf-rs, PgNMF against scikit-learn run long: digits, the same
   start, the objective of each from its factors in double precision, off the clock.
2. GraphNMF on all of PIE (unit norm, k = 68, 5 neighbours, λ = 100, 100 iterations), K-means best
   of 20; its authors' demo prints NMI 0.881, against 0.698 for NMF and 0.538 for K-means.
3. DeepSemiNMF [600, 160] on PIE, fold 0 of 7: NMI of the codes of the held-out faces; the paper
   has 0.945.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.special import xlogy
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from deepnmf import pgnmf
from deepnmf.baselines import DeepSemiNMF, GraphNMF, NsNMF, SparseNMF
from deepnmf.baselines.ns import smooth
from deepnmf.core.starts import Given
from deepnmf.data import load_digits, load_pie
from deepnmf.evaluation import cluster_scores, nmi

K, BETA, ETA, THETA = 12, 0.01, 1.0, 0.5


def divergence(X: np.ndarray, fitted: np.ndarray) -> float:
    return float(np.sum(xlogy(X, X / np.maximum(fitted, 1e-300)) - X + fitted))


def sparse_objective(X: np.ndarray, W: np.ndarray, H: np.ndarray, side: str) -> float:
    """Kim and Park's, X (m, n) ≈ W H."""
    smooth_one, sparse_one = (W, H) if side == "right" else (H, W.T)
    fit = np.linalg.norm(X - W @ H) ** 2
    return (
        float(
            fit + ETA * np.linalg.norm(smooth_one) ** 2 + BETA * np.sum(sparse_one.sum(axis=0) ** 2)
        )
        / 2
    )


def against_others() -> None:
    X = load_digits().X.astype(float)
    X = X / X.max()
    rng = np.random.default_rng(0)
    W, Z = rng.random((X.shape[1], K)) + 0.01, rng.random((X.shape[0], K)) + 0.01
    start = {"start": Given([W], Z), "random_state": 0}
    print("| method | ours | other | ours/other | other is |\n| --- | --- | --- | --- | --- |")
    try:
        import nmf_rs
    except ImportError:
        print(
            "| nsNMF, SNMF | – | – | – | nmf-rs is not installed: use `make bench`'s environment |"
        )
    else:
        given = {"W0": W.copy(), "H0": Z.T.copy()}
        other = nmf_rs.nmf(X.T.copy(), K, "nsNMF", theta=THETA, max_iter=500, **given)
        ours = NsNMF(K, theta=THETA, loss="kullback-leibler", max_iter=500, tol=0, **start).fit(X)
        row(
            "nsNMF",
            divergence(X.T, smooth(ours.weights_[0], THETA) @ ours.codes_.T),
            divergence(X.T, smooth(np.asarray(other.W), THETA) @ np.asarray(other.H)),
            "nmf-rs, 500 iterations",
        )
        for side, name in (("right", "snmf/r"), ("left", "snmf/l")):
            other = nmf_rs.nmf(
                X.T.copy(), K, name, sparsity=BETA, smoothness=ETA, max_iter=500, **given
            )
            ours = SparseNMF(K, side=side, beta=BETA, eta=ETA, max_iter=500, tol=0, **start).fit(X)
            row(
                name,
                sparse_objective(X.T, ours.weights_[0], ours.codes_.T, side),
                sparse_objective(X.T, np.asarray(other.W), np.asarray(other.H), side),
                "nmf-rs, 500 iterations",
            )
    long = NMF(K, init="custom", max_iter=5000, tol=1e-8)
    long.fit(X, W=Z.copy(), H=W.T.copy())
    ours = pgnmf(K, start=Given([W], Z)).fit(X)
    row("PgNMF", ours.reconstruction_err_**2 / 2, long.reconstruction_err_**2 / 2, "scikit-learn")


def row(name: str, ours: float, other: float, what: str) -> None:
    print(f"| {name} | {ours:.4f} | {other:.4f} | {ours / other:.4f} | {what} |", flush=True)


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
    model = DeepSemiNMF((600, 160), pretrain_iter=100, max_iter=100, tol=0, random_state=0)
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
