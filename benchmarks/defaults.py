"""What the defaults find on eight data sets, compared with plain NMF.

    DEEPNMF_DATA=… python benchmarks/defaults.py [--seeds 3] [--sets digits,COIL20]
                   [--models "sdnmf_l;sdnmf_l, graph"]

Codes have rows of unit RMS. Scores, means over the seeds: the relative error ‖X − X̂‖/‖X‖; the NMI
of K-means on codes, of K-means on codes of unit norm, and of spectral clustering of these (5
neighbours), each with as many clusters as classes; for Samson, which has no classes, the cosine of
codes with the true abundances. Labels are used for these scores and for nothing else.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.io
import scipy.sparse
from recovery import matched
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.manifold import spectral_embedding
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import normalize

import deepnmf
from deepnmf.data import load_digits, load_orl, load_pie, load_reuters
from deepnmf.evaluation import nmi

FOLDER = Path(os.environ.get("DEEPNMF_DATA", "."))
SETS = {
    "digits": (32, 16), "PIE": (200, 68), "ORL": (100, 40), "COIL20": (60, 20),
    "Reuters": (128, 65), "TDT2": (64, 30), "worm": (30, 10), "Samson": (12, 3),
}  # fmt: skip
"""Layers: as many parts on top as classes (digits: 16), and two to four times as many below."""


def samples(name: str) -> tuple[Any, np.ndarray]:
    """X, of unit norm where samples have no scale of their own, and classes or abundances."""
    if name in ("digits", "PIE", "ORL"):
        data = {"digits": load_digits, "PIE": load_pie, "ORL": load_orl}[name]()
        return normalize(data.X.astype(np.float32)), data.y
    if name == "COIL20":
        file = scipy.io.loadmat(FOLDER / "COIL20.mat")
        return normalize(file["X"].astype(np.float32)), file["Y"].ravel()
    if name == "worm":
        with h5py.File(FOLDER / "worm_neuron_cell.h5") as file:
            counts, y = file["X"][:].astype(np.float32), file["Y"][:]
        X = np.log1p(1e4 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
        return normalize(X[:, np.argsort(-X.var(axis=0))[:2000]]), y
    if name == "Samson":
        file = scipy.io.loadmat(FOLDER / "samson_dataset.mat")
        return file["Y"].T.astype(np.float32), file["A"].T
    if name == "Reuters":
        data = load_reuters()
        return words(data.X), data.y
    file = scipy.io.loadmat(FOLDER / "TDT2.mat")
    return words(file["fea"]), file["gnd"].ravel()


def words(counts: Any) -> scipy.sparse.csr_array:
    """The tf-idf of the 8000 most frequent words."""
    counts = scipy.sparse.csr_matrix(counts, dtype=float)
    often = np.argsort(-np.asarray((counts > 0).sum(axis=0)).ravel())[:8000]
    weighted = TfidfTransformer().fit_transform(counts[:, often])
    return scipy.sparse.csr_array(weighted, dtype=np.float32)


PAPER = {"scaling": "paper", "mu": 1e-3, "max_iter": 200, "tol": 1e-4}
MODELS: dict[str, Callable[[tuple[int, int], int], Any]] = {
    "sdnmf_l": lambda k, seed: deepnmf.sdnmf_l(k, random_state=seed),
    "sdnmf_l, nesterov": lambda k, seed: deepnmf.sdnmf_l(k, solver="nesterov", random_state=seed),
    "sdnmf_l, root": lambda k, seed: deepnmf.sdnmf_l(k, link="root", random_state=seed),
    "sdnmf_l, graph": lambda k, seed: deepnmf.sdnmf_l(k, graph="codes", random_state=seed),
    "sdnmf_l, the paper's": lambda k, seed: deepnmf.sdnmf_l(k, random_state=seed, **PAPER),
    "dnmf, k_L parts": lambda k, seed: deepnmf.dnmf(k[1], random_state=seed),
    "scikit-learn": lambda k, seed: NMF(k[1], max_iter=500, tol=1e-5, random_state=seed),
    "scikit-learn, random": lambda k, seed: NMF(
        k[1], init="random", max_iter=500, tol=1e-5, random_state=seed
    ),
}


def row(X: Any, y: np.ndarray, model: Any) -> list[float]:
    """The numbers of a row of the table."""
    began = time.perf_counter()
    Z = np.asarray(model.fit_transform(X), dtype=float)
    seconds = time.perf_counter() - began
    size = np.linalg.norm(X.data if scipy.sparse.issparse(X) else X)
    scale = np.sqrt(np.mean(Z * Z, axis=0))
    Z = Z / np.where(scale > 0, scale, 1)
    if y.ndim == 2:
        found = [matched(y, Z)[0], np.nan, np.nan]
    else:
        found = [clustered(Z, y), clustered(normalize(Z), y), clustered(_spectrum(Z, y), y)]
    return [model.reconstruction_err_ / size, *found, seconds]


def clustered(Z: np.ndarray, y: np.ndarray) -> float:
    """The NMI of K-means, the mean of three runs."""
    clusters = len(np.unique(y))
    runs = (KMeans(clusters, n_init=1, random_state=seed) for seed in range(3))
    return float(np.mean([nmi(y, run.fit_predict(Z)) for run in runs]))


def _spectrum(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    near = kneighbors_graph(normalize(Z), 5)
    return spectral_embedding(
        (near + near.T) / 2, n_components=len(np.unique(y)), drop_first=False, random_state=0
    )


def table(name: str, seeds: int, models: Sequence[str]) -> Iterator[str]:
    X, y = samples(name)
    columns = ("error", "K-means", "unit", "spectral", "seconds")
    if y.ndim == 2:
        columns = ("error", "cosine", "", "", "seconds")
    yield f"\n{name}, {X.shape[0]} x {X.shape[1]}, layers {SETS[name]}, {seeds} seeds"
    yield f"{'':24}" + "".join(f"{column:>9}" for column in columns)
    for model in models:
        make = MODELS[model]
        means = np.mean([row(X, y, make(SETS[name], seed)) for seed in range(seeds)], axis=0)
        numbers = (f"{mean:9.3f}" if np.isfinite(mean) else " " * 9 for mean in means)
        yield f"{model:24}" + "".join(numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--models", default=";".join(MODELS), help="names, with ; between them")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.sets.split(","):
        for line in table(name, options.seeds, options.models.split(";")):
            print(line, flush=True)


if __name__ == "__main__":
    main()
