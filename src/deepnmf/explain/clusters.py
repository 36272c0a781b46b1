"""`cluster`: groups of samples with similar codes, and what they are made of."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepnmf.arrays import dense
from deepnmf.arrays.tensors import to_numpy
from deepnmf.evaluation.clusters import METHODS, NONE, grouped, has_leiden
from deepnmf.explain.decoding import transformed
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.part_names import default_name
from deepnmf.models.settings import one_of, whole_number
from deepnmf.neighbors import unit_rows
from deepnmf.terminal.text import one_line

SHOWN = 5
"""How many parts of a cluster are named, at most."""
SMALL = 0.05
"""Parts with a smaller share are not named."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of samples, the largest first."""

    labels: np.ndarray
    """(n,): the cluster of every sample, 0 …; −1 for a sample whose code is 0."""
    sizes: np.ndarray
    """How many samples each cluster has."""
    confidence: np.ndarray
    """(n,), from 0 to 1. By "graph" and "leiden": the share of a sample's neighbours that are in
    its cluster. By "kmeans": how much nearer its own centre is than the next."""
    parts: tuple[tuple[tuple[int, float], ...], ...]
    """For each cluster, its parts of the last layer with their shares of the mean code, the largest
    first."""
    method: str
    names: tuple[str, ...] = ()
    """What the parts of the last layer are called; without a model, they have numbers."""

    def table(self) -> list[dict[str, Any]]:
        """One record per cluster."""
        return [
            {
                "cluster": number,
                "samples": int(size),
                "confidence": float(self.confidence[self.labels == number].mean()),
                "parts": {str(part): round(share, 4) for part, share in parts},
            }
            for number, (size, parts) in enumerate(zip(self.sizes, self.parts, strict=True))
        ]

    def __str__(self) -> str:
        lines = []
        for row in self.table():
            parts = self.parts[row["cluster"]]
            made = ", ".join(f"{self._name(part)} {share:.0%}" for part, share in parts)
            lines.append(
                f"cluster {row['cluster']}: {row['samples']} samples, confidence "
                f"{row['confidence']:.2f}; {made}"
            )
        without = int((self.labels == NONE).sum())
        if without:
            lines.append(f"{without} samples have a code of 0, and no cluster (−1)")
        return "\n".join(lines)

    def _name(self, part: int) -> str:
        return self.names[part] if self.names else default_name(part)


def cluster(
    model: Any,
    X: Any = None,
    n_clusters: int | None = None,
    method: str = "graph",
    *,
    neighbors: int = 10,
    random_state: int = 0,
) -> Clusters:
    """Group samples by their codes.

    Only the direction of a code counts. In codes of a model, parts count as what they are in the
    data, or alike above a link; codes that are given are taken as they are. K-means groups the
    codes of the last layer. The other methods link samples by their codes of layer 1, which say
    the most of them; with a model that has a graph, by the codes that they have without it.

    Parameters
    ----------
    model : a fitted model, or codes (n_samples, k)
    X : array (n_samples, n_features), default=None
        The samples to encode and to group; not with codes.
    n_clusters : int, default=None
        How many clusters. "leiden" finds their number, and takes none.
    method : "graph", "kmeans" or "leiden", default="graph"
        "graph": spectral clustering of the graph of nearest neighbours, which finds groups of any
        shape. "kmeans": round groups; the best of ten starts. "leiden": the groups of highest
        modularity in the graph of neighbours (pip install 'deepnmf[clusters]').
    neighbors : int, default=10
        The number of nearest samples that each is linked to; the nearest of them count the most.
    random_state : int, default=0
        The same seed gives the same clusters.

    Returns
    -------
    clusters : Clusters

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from deepnmf import cluster, sdnmf_l
    >>> X = load_digits().data[:500] / 16
    >>> clusters = cluster(sdnmf_l((32, 16), random_state=0).fit(X), X, n_clusters=10)
    >>> clusters.sizes.sum()
    np.int64(500)
    """
    one_of("method", method, METHODS)
    whole_number("neighbors", neighbors, least=1)
    seed = whole_number("random_state", random_state, least=0, most=2**32 - 1)
    if method == "leiden":
        if n_clusters is not None:
            raise ValueError(
                'n_clusters: method="leiden" finds the number of clusters. Leave it out.'
            )
        if not has_leiden():
            raise ValueError(
                "method=\"leiden\" needs two packages: pip install 'deepnmf[clusters]'."
            )
    elif n_clusters is None:
        raise ValueError(
            'n_clusters: give the number of clusters, or method="leiden", which finds one.'
        )
    Z, top = codes_to_group(model, X, first=method != "kmeans")
    reached = int(np.any(Z != 0, axis=1).sum())
    if n_clusters is not None:
        wanted = whole_number("n_clusters", n_clusters, least=1)
        if wanted > reached:
            raise ValueError(
                f"n_clusters: {wanted} clusters of {reached} samples. Give at most {reached}."
            )
    if reached < 2:
        raise ValueError(f"cluster: only {reached} of {len(Z)} samples have a code that is not 0.")
    unit = np.asarray(unit_rows(Z))
    found = grouped(unit, method, n_clusters, neighbors, seed)
    sizes = np.bincount(found.labels[found.labels != NONE])
    shown = np.asarray(unit_rows(top))
    parts = tuple(_parts(shown[found.labels == number]) for number in range(len(sizes)))
    known = isinstance(model, MatrixFactorization)
    names = tuple(model._checked_names()[-1]) if known else ()
    return Clusters(found.labels, sizes, found.confidence, parts, method, names)


def codes_to_group(model: Any, X: Any, *, first: bool) -> tuple[np.ndarray, np.ndarray]:
    """The codes (n, k) to group, and those of the last layer (n, k_L): given, or those of X.
    `first` are those of layer 1 that a graph has not moved."""
    if isinstance(model, MatrixFactorization):
        if X is None:
            raise ValueError(
                "cluster: X is missing. Give the samples, or codes instead of a model."
            )
        model = copy.copy(model)
        if first:
            model.__dict__.pop("graph_", None)
        top = _codes_of(model, X, len(model.weights_))
        return (_codes_of(model, X, 1) if first and len(model.weights_) > 1 else top), top
    if X is not None:
        raise ValueError(
            "cluster: X goes with a fitted model of deepnmf. With codes, leave it out; with "
            "another estimator, give its codes: cluster(estimator.transform(X), n_clusters=…)."
        )
    try:
        Z = np.asarray(to_numpy(dense(model)), dtype=float)
    except (TypeError, ValueError):
        Z = np.empty(0)
    if Z.ndim != 2 or not np.isfinite(Z).all():
        raise ValueError(
            "cluster: give a fitted model and X, or codes (n_samples, k) that are finite numbers, "
            f"got {one_line(repr(model))}."
        )
    return Z, Z


def _codes_of(model: MatrixFactorization, X: Any, layer: int) -> np.ndarray:
    """Codes of X at a layer, times the norm of what a unit code decodes to. Behind a link this is
    no measure of a part: there, all have unit RMS."""
    Z = transformed(model, X, layer).astype(float)
    if layer == 1 or model._decoder(model.weights_)[1].linear:
        return Z * np.linalg.norm(np.asarray(to_numpy(model.basis(layer)), dtype=float), axis=1)
    rms = np.sqrt(np.mean(Z * Z, axis=0))
    return Z / np.where(rms > 0, rms, 1)


def _parts(unit: np.ndarray) -> tuple[tuple[int, float], ...]:
    """The parts of a cluster, with their shares of its mean code."""
    mean = np.abs(unit).mean(axis=0)
    shares = mean / (mean.sum() or 1)
    order = np.argsort(-shares, kind="stable")[:SHOWN]
    return tuple((int(part), float(shares[part])) for part in order if shares[part] >= SMALL)
