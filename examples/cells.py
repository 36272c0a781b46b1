"""Gene programs and their markers. Pass an .h5ad, .mtx or .csv file of counts, cells by genes."""

import sys

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize

from deepnmf import sdnmf_rl1
from deepnmf.data import Dataset, read


def simulated() -> Dataset:
    """300 cells of three types, each with a program of 20 genes, and 60 genes in common."""
    rng = np.random.default_rng(0)
    types = rng.integers(3, size=300)
    rates = np.full((300, 120), 0.3) * rng.lognormal(0, 0.5, (300, 1))
    for t in range(3):
        rates[types == t, 20 * t : 20 * t + 20] *= 8
    names = [f"type{t}-{i}" for t in range(3) for i in range(20)]
    names += [f"common-{i}" for i in range(60)]
    return Dataset(scipy.sparse.csr_array(rng.poisson(rates)), types, feature_names=np.array(names))


data = read(sys.argv[1]) if len(sys.argv) > 1 else simulated()
counts = scipy.sparse.csr_array(data.X, dtype=float)
X = (normalize(counts, norm="l1") * np.median(counts.sum(axis=1))).log1p()
names = data.feature_names
genes = np.arange(X.shape[1]).astype(str) if names is None else np.asarray(names)

model = sdnmf_rl1((8, 4), random_state=0).fit(X)
share = model.components_ / model.components_.sum(axis=0).clip(1e-12)
for program, row in enumerate(model.components_ * share):  # high here and low elsewhere
    print(f"program {program}:", ", ".join(genes[np.argsort(-row)[:6]]))
