"""Stacks of fits on a GPU, compared with the rate of a large product there.

    DEEPNMF_DATA=… python benchmarks/gpu.py [--stacks 1 7 35 140] [--out results/gpu.csv]

1. Layer-1 pre-training on PIE, 7 folds of 2448 faces (1024 x 2448, k = 600, 10 accelerated steps
   per factor), in float32 and with TF32: TFLOP/s, counting the flops of the matrix products only.
   The limit is these flops divided by the rate of one large product, measured in the same run.
2. `fit_many` of SDNMF/L Root [600, 160], 7 folds x 20 seeds, 50 x 10 pre-training and 30 sweeps,
   then the codes of the held-out faces and their scores by K-means: with the paper's scaling, and
   with the default one and its loss on every layer.
3. `fit_many` compared with separate fits: the objective, run by run.
The first and the last use the paper's scaling.
Times are of the second run of each, when kernels have been compiled.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

import deepnmf
from deepnmf import fit_many, sdnmf_l, transform_many
from deepnmf.arrays import repeated
from deepnmf.core.encoding import squared_error
from deepnmf.core.training import train
from deepnmf.data import load_digits, load_pie
from deepnmf.evaluation import cluster_scores_many
from deepnmf.models.settings import plan_of
from deepnmf.solvers import Nesterov

FOLDS, STEPS, K = 7, 10, 600


def seconds(work, repeats: int = 1) -> tuple[float, object]:
    """The median wall time of `work`, with the GPU idle before and after, and its result."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        result = work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return float(np.median(times)), result


def product_rate(tf32: bool, size: int = 8192) -> float:
    """TFLOP/s of a large matrix product."""
    A = torch.rand(size, size, device="cuda")
    torch.backends.cuda.matmul.fp32_precision = "tf32" if tf32 else "ieee"
    A @ A
    taken, _ = seconds(lambda: [A @ A for _ in range(10)], 3)
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    return 10 * 2 * size**3 / taken / 1e12


def folds() -> tuple[list, list, np.ndarray]:
    """Training sets, held-out sets (samples of unit norm) and the labels of the latter."""
    pie = load_pie()
    X = normalize(pie.X.astype(np.float32))
    parts = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, pie.y))
    to_card = [
        [torch.from_numpy(X[part]).cuda() for part in side] for side in zip(*parts, strict=True)
    ]
    return to_card[0], to_card[1], np.stack([pie.y[held_out] for _, held_out in parts])


def alternation_flops(runs: int, m: int, n: int, k: int) -> float:
    """Products of one alternation: the steps, ΨᵀX and XHᵀ, and the two Gram matrices."""
    steps = STEPS * 2 * k * k * (n + m)
    return float(runs) * (steps + 2 * 2 * m * n * k + 2 * k * k * (n + m))


def pretraining(sets: list, runs: int, tf32: bool, alternations: int) -> tuple[float, float]:
    """Seconds per alternation, and the mean objective reached, in double precision."""
    some = sets[: min(FOLDS, runs)]
    data = repeated(torch.stack([one.T for one in some]), max(1, runs // FOLDS))
    solver = Nesterov(max_steps=STEPS, tf32=tf32)

    def fit(count: int):
        model = sdnmf_l((K,), mu=1e-3, scaling="paper", tol=0, max_iter=count, solver=solver)
        plan = plan_of(model)
        return train(data, plan, [np.random.default_rng(seed) for seed in range(runs)]), plan

    fit(2)
    short, _ = seconds(lambda: fit(2), 3)
    long, (trained, plan) = seconds(lambda: fit(2 + alternations), 3)
    fit_part = squared_error(data, trained.weights, plan.link, trained.H) / 2
    objective = fit_part + plan.penalties_W[0].value(trained.weights[0])
    return (long - short) / alternations, float(objective.mean())


def study(
    sets: list, held_out: list, labels: np.ndarray, seeds: int, tf32: bool, scaling: str
) -> dict:
    """Fit all, encode the held-out faces, score."""
    model = sdnmf_l(
        (600, 160), mu=1e-3, link="root", scaling=scaling, pretrain_iter=50, max_iter=30, tol=0,
        solver=Nesterov(max_steps=STEPS, tf32=tf32),
    )  # fmt: skip
    parts = {}
    parts["fit"], models = seconds(lambda: fit_many(sets, model, seeds=seeds))
    parts["transform"], codes = seconds(lambda: transform_many(models, held_out))
    y = np.repeat(labels, seeds, axis=0)
    parts["score"], records = seconds(
        lambda: cluster_scores_many(codes, y, normalize="l2", start="plain")
    )
    parts["total"] = parts["fit"] + parts["transform"] + parts["score"]
    parts["nmi"] = float(np.mean([record.nmi for record in records]))
    parts["objective"] = float(np.mean([one.history_[-1]["objective"] for one in models]))
    return parts


def separate(sets: list, sizes: tuple[int, ...], seeds: int) -> float:
    """The largest relative difference of the objective between a stack and its runs."""
    model = sdnmf_l(
        sizes, mu=1e-3, link="root", scaling="paper", pretrain_iter=20, max_iter=10, tol=0
    )
    together = fit_many(sets[:2], model, seeds=seeds)
    alone = [
        deepnmf.sdnmf_l(**{**vars_of(model), "random_state": seed}).fit(data)
        for data in sets[:2]
        for seed in range(seeds)
    ]
    pairs = zip(together, alone, strict=True)
    return max(abs(a.history_[-1]["objective"] / b.history_[-1]["objective"] - 1) for a, b in pairs)


def vars_of(model: deepnmf.DeepNMF) -> dict:
    return {
        "layer_sizes": model.layer_sizes, "mu": 1e-3, "link": model.link, "tol": model.tol,
        "scaling": model.scaling, "pretrain_iter": model.pretrain_iter, "max_iter": model.max_iter,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stacks", nargs="+", type=int, default=[1, 7, 35, 140])
    parser.add_argument("--alternations", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu.csv"))
    options = parser.parse_args()
    sets, held_out, labels = folds()
    n, m = sets[0].shape
    machine = {
        "card": torch.cuda.get_device_name(), "torch": torch.__version__,
        "deepnmf": deepnmf.__version__, "host": platform.machine(),
    }  # fmt: skip
    rows: list[dict] = []
    print(machine)
    print("\n| precision | stack | ms per alternation | TFLOP/s | a large product | times limit |")
    print("| --- | --- | --- | --- | --- | --- |")
    reached = {}
    for tf32 in (False, True):
        rate = product_rate(tf32)
        for runs in options.stacks:
            each, objective = pretraining(sets, runs, tf32, options.alternations)
            flops = alternation_flops(runs, m, n, K)
            name = "TF32" if tf32 else "float32"
            reached[name, runs] = objective
            print(
                f"| {name} | {runs} | {1e3 * each:.1f} | {flops / each / 1e12:.1f} | {rate:.0f} "
                f"| {each * rate * 1e12 / flops:.2f} |",
                flush=True,
            )
            row = {"part": "pretraining", "precision": name, "stack": runs, "seconds": each}
            row |= {"tflops": flops / each / 1e12, "product": rate, "objective": objective}
            rows.append(row)
    last = options.stacks[-1]
    apart = reached["TF32", last] / reached["float32", last] - 1
    print(f"\nobjective with TF32 against float32, stack of {last}: {apart:+.2e}")
    print("\n| 7 x 20 runs, scaling | fit s | transform s | score s | total s | NMI | objective |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for tf32, scaling in ((False, "paper"), (True, "paper"), (False, "fixed"), (True, "fixed")):
        study(sets, held_out, labels, 2, tf32, scaling)
        found = study(sets, held_out, labels, 20, tf32, scaling)
        name = f"{scaling}, {'TF32' if tf32 else 'float32'}"
        print(
            f"| {name} | {found['fit']:.2f} | {found['transform']:.2f} | {found['score']:.2f} "
            f"| {found['total']:.2f} | {found['nmi']:.3f} | {found['objective']:.4f} |",
            flush=True,
        )
        rows.append({"part": "study", "precision": name, "stack": 140, **found})
    print("\nfit_many against separate fits, root, objective, largest relative difference:")
    digits = torch.from_numpy(load_digits().X.astype(np.float32)).cuda()
    for name, some, sizes in (
        ("PIE [600, 160]", sets, (600, 160)),
        ("digits [40, 16]", [digits[:1200], digits[597:]], (40, 16)),
    ):
        apart = separate(some, sizes, 2)
        print(f"{name}: {apart:.1e}")
        rows.append({"part": f"separate, {name}", "precision": "float32", "difference": apart})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in (*row, *machine)))
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows([{**row, **machine} for row in rows])


if __name__ == "__main__":
    main()
