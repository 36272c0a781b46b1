"""The numbers of docs/spectra.md: end-members of Samson, and of planted mixtures of its spectra."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import numpy as np
from sklearn.decomposition import NMF
from sklearn.preprocessing import normalize

from deepnmf import nenmf, sdnmf_l, sdnmf_r
from deepnmf.data import load_samson
from deepnmf.evaluation import Unmixing, unmixing_scores

warnings.simplefilter("ignore")
SAMSON = load_samson()
SPECTRA = np.stack([*SAMSON.references.values()])
SHARES = np.stack([*SAMSON.columns.values()], axis=1)
RAW, UNIT = SAMSON.X, normalize(SAMSON.X)


def show(name: str, fits: Iterable[Unmixing]) -> None:
    results = np.array([(fit.spectral_angle, fit.abundance_rmse) for fit in fits])
    columns = [
        f"{values.mean():.3f} ({values.min():.3f} to {values.max():.3f})" for values in results.T
    ]
    print(f"{name:36} {len(results):3}  {'  '.join(columns)}", flush=True)


def ours(make: Callable, sizes, X: np.ndarray, starts: int, **settings) -> Iterable[Unmixing]:
    for seed in range(starts):
        model = make(sizes, random_state=seed, **{"start": "random", **settings}).fit(X)
        yield unmixing_scores(model.components_, model.transform(X), SPECTRA, SHARES)


def theirs(X: np.ndarray, starts: int, init: str) -> Iterable[Unmixing]:
    for seed in range(starts):
        model = NMF(3, init=init, max_iter=2000, random_state=seed)
        codes = model.fit_transform(X)
        yield unmixing_scores(model.components_, codes, SPECTRA, SHARES)


def planted(concentration: float) -> Unmixing:
    """2500 mixtures of any brightness, with noise of 30 dB."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([concentration] * 3, 2500)
    X = (shares @ SPECTRA) * rng.uniform(0.5, 1.5, (2500, 1))
    X += rng.normal(size=X.shape) * (X**2).mean() ** 0.5 * 10**-1.5
    X = normalize(X.clip(0))
    model = sdnmf_r(3, lam=1e-2, random_state=0).fit(X)
    return unmixing_scores(model.components_, model.transform(X), SPECTRA, shares)


def main() -> None:
    print("model, starts, mean spectral angle, RMSE of abundances")
    show("sdnmf_r, lam 1e-2", ours(sdnmf_r, 3, UNIT, 10, lam=1e-2))
    show("X not normalised", ours(sdnmf_r, 3, RAW, 10, lam=1e-2))
    show("NNSVD as start", ours(sdnmf_r, 3, UNIT, 1, lam=1e-2, start="nnsvd"))
    show("two layers (6, 3)", ours(sdnmf_r, (6, 3), UNIT, 10, lam=1e-2))
    for lam in (1e-3, 3e-3, 3e-2, 1e-1):
        show(f"lam {lam:g}", ours(sdnmf_r, 3, UNIT, 3, lam=lam))
    show("four parts, lam 1e-2", ours(sdnmf_r, 4, UNIT, 3, lam=1e-2))
    show("sdnmf_l with its defaults", ours(sdnmf_l, 3, UNIT, 5))
    show("nenmf", ours(nenmf, 3, UNIT, 5))
    show("scikit-learn, random", theirs(UNIT, 5, "random"))
    show("scikit-learn, NNDSVDa", theirs(UNIT, 1, "nndsvda"))
    for concentration in (0.1, 0.3, 1, 3):
        show(f"planted, concentration {concentration}", [planted(concentration)])


if __name__ == "__main__":
    main()
