"""SDNMF/L on PIE, linear and with the root: what fine-tuning gains, and scores of held-out faces.

    DEEPNMF_DATA=… python benchmarks/pie_links.py [--pretrain-iter 50] [--sweeps 30] [--links …]

Samples of unit norm, stratified fold 0 of 7 (2448 faces to train on, 408 to score), layers
[600, 160], μ = 1e-3, fill 0.1, seed 0. Prints two Markdown tables.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from deepnmf import sdnmf_l
from deepnmf.core.decode import decode
from deepnmf.core.plan import Plan
from deepnmf.core.training import Trained, train
from deepnmf.data import load_pie
from deepnmf.evaluation import cluster_scores
from deepnmf.models.settings import plan_of
from deepnmf.starts import Given


def objective_and_error(X: np.ndarray, fit: Trained, plan: Plan) -> tuple[float, float]:
    """f and ‖X − X̂‖/‖X‖, directly from the formula."""
    residual = X - decode(fit.weights, plan.link, fit.H)
    penalty = sum(float(R.value(W)) for R, W in zip(plan.penalties_W, fit.weights, strict=True))
    square = float(np.sum(np.square(residual, dtype=np.float64)))
    return square / 2 + penalty, (square / float(np.sum(np.square(X, dtype=np.float64)))) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pretrain-iter", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=30)
    parser.add_argument("--links", nargs="+", default=["identity", "root"])
    options = parser.parse_args()

    pie = load_pie()
    X = normalize(pie.X.astype(np.float32))
    folds = StratifiedKFold(7, shuffle=True, random_state=0)
    training, held_out = next(iter(folds.split(X, pie.y)))
    data, test = X[training].T, X[held_out].T

    fits, scores = [], []
    for link in options.links:
        plan = plan_of(
            sdnmf_l(
                (600, 160),
                mu=1e-3,
                link=link,
                fill=0.1,
                pretrain_iter=options.pretrain_iter,
                max_iter=options.sweeps,
                tol=0,
                solver="nesterov",
            )
        )
        began = time.perf_counter()
        layerwise = train(data, replace(plan, max_iter=0), [np.random.default_rng(0)])
        pretraining = time.perf_counter() - began
        start = Given(layerwise.weights, layerwise.H.T)
        began = time.perf_counter()
        tuned = train(data, replace(plan, start=start), [np.random.default_rng(0)])
        finetuning = time.perf_counter() - began
        before = objective_and_error(data, layerwise, plan)
        after = objective_and_error(data, tuned, plan)
        fits.append(
            f"| {link} | {before[0]:.1f} | {before[1]:.4f} | {pretraining:.1f} "
            f"| {after[0]:.1f} | {after[1]:.4f} | {finetuning:.1f} |"
        )
        Z = plan.encode(test, tuned.weights).T
        rows = {f"{link}: H_2": Z}
        if not plan.link.linear:
            rows[f"{link}: g(H_2)"] = plan.link.project(Z)
        for name, codes in rows.items():
            for scaling in (None, "l2"):
                found = cluster_scores(codes, pie.y[held_out], normalize=scaling)
                scores.append(
                    f"| {name} | {scaling or 'as they are'} | {found.nmi:.3f} "
                    f"| {found.naive_precision:.3f} | {found.error_rate:.2f} | {found.ami:.3f} "
                    f"| {found.ari:.3f} | {found.accuracy:.3f} |"
                )

    print("| link | f, pre-trained | error | seconds | f, fine-tuned | error | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(fits))
    print()
    print("| codes of 408 held-out faces | norm | NMI | NP | ER | AMI | ARI | accuracy |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(scores))


if __name__ == "__main__":
    main()
