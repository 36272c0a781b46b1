"""`top_features` and `top_samples`: what a part is about, and who has most of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deepnmf.arrays import is_sparse
from deepnmf.arrays.tensors import to_numpy
from deepnmf.explain.decoding import codes_of, decoder, decodings, layer_of, parts_of, shares_of
from deepnmf.explain.labels import check_count, feature_labels, sample_labels, shown_parts
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.settings import number, one_of

if TYPE_CHECKING:
    import pandas as pd

SCORES = ("weight", "relevance", "specificity")
SAMPLE_SCORES = ("code", "share")
FEATURE_COLUMNS = {
    "layer": "the layer of the part, from 1",
    "part": "the number of the part in its layer, from 0",
    "name": "the name of the part",
    "rank": "1 for the feature with the highest score",
    "feature": "the number of the feature, from 0",
    "feature_name": "the name of the feature",
    "weight": "how much of the feature the part adds, with code 1",
    "share": "the weight as a share of all weights of the part",
    "score": "what features are ranked by",
}
"""The columns of `top_features`."""
SAMPLE_COLUMNS = {
    "layer": "the layer of the part, from 1",
    "part": "the number of the part in its layer, from 0",
    "name": "the name of the part",
    "rank": "1 for the first sample",
    "sample": "the row of the sample, from 0",
    "sample_name": "the name of the sample",
    "code": "how much of the part the sample has",
    "share": "the share of the decoded sample that goes through the part",
}
"""The columns of `top_samples`."""


def top_features(
    model: MatrixFactorization,
    part: int | str | None = None,
    layer: int | None = None,
    feature_names: Sequence[str] | None = None,
    *,
    by: str = "weight",
    lam: float = 0.6,
    count: int | None = 10,
    X: Any = None,
    hidden: bool = False,
) -> pd.DataFrame:
    """The features that say what parts are about.

    With p(w|t) the share of feature w in the weights of part t, and p(w) its share in all data,
    features are ranked by

        weight:       how much of w the part adds, with code 1
        relevance:    λ log p(w|t) + (1 − λ) log(p(w|t)/p(w)), as in pyLDAvis
        specificity:  p(w|t) (p(w|t) − q)/(p(w|t) + q), with q the largest p(w|s) of other parts s

    A feature is specific if the part has much of it and no other part of the layer has: the score
    is p(w|t) if no other part has it, and 0 where another part has as much.

    Parameters
    ----------
    model : a fitted model
    part : int or str, default=None
        The number or the name of a part. None: all parts of the layer that are not hidden.
    layer : int, default=None
        Its layer, by default the last.
    feature_names : sequence of str, default=None
        By default those that the model was fitted with.
    by : "weight", "relevance" or "specificity", default="weight"
    lam : float, default=0.6
        λ, from 0 (features that are frequent nowhere else) to 1 (the largest weights).
    count : int, default=10
        How many features per part, or None for all that have a weight.
    X : array (n_samples, n_features), default=None
        For relevance: p(w) is the share of w in the sum of X. Without X, it is that in the sum of
        the parts of the layer.
    hidden : bool, default=False
        Whether hidden parts are among all parts.

    Returns
    -------
    table : DataFrame
        One row per part and feature, the best first: layer, part, name, rank (from 1), feature
        (its number), feature_name, weight, share (p(w|t)), score.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from deepnmf import sdnmf_l
    >>> from deepnmf.explain import top_features
    >>> model = sdnmf_l((32, 16), random_state=0).fit(load_digits().data / 16)
    >>> top_features(model, part=3, by="specificity").shape
    (10, 9)
    """
    one_of("by", by, SCORES)
    check_count("count", count)
    if number("lam", lam) > 1:
        raise ValueError(f"lam: {lam!r} must be between 0 and 1.")
    weights, link = decoder(model)
    layer = layer_of(layer, len(weights))
    labels = feature_labels(model, feature_names, len(weights[0]))
    P = parts_of(weights[:layer], link)
    shown, names = shown_parts(model, layer, part, hidden=hidden), model._checked_names()[layer - 1]
    shares, scores = shares_of(np.abs(P), 1), _scores(P, by, lam, X)
    tables = []
    for one in shown:
        best = np.argsort(-scores[one], kind="stable")
        best = best[P[one, best] != 0][:count]
        columns = {
            "feature": best,
            "feature_name": labels[best],
            "weight": P[one, best],
            "share": shares[one, best],
            "score": scores[one, best],
        }
        tables.append(_ranking(layer, one, names[one], columns))
    return joined(tables, FEATURE_COLUMNS)


def _scores(P: np.ndarray, by: str, lam: float, X: Any) -> np.ndarray:
    """What features are ranked by, (k, m). Negative weights of signed models count by size."""
    sizes = np.abs(P).astype(np.float64)
    shares = shares_of(sizes, 1)
    if by == "specificity":
        return specificity(shares)
    if by == "relevance":
        return relevance(shares, frequency(sizes if X is None else X, P.shape[1]), lam)
    return sizes


def relevance(shares: np.ndarray, p_w: np.ndarray, lam: float) -> np.ndarray:
    """λ log p(w|t) + (1 − λ) log(p(w|t)/p(w)) for p(w|t) (k, m) and p(w) (m,)."""
    known = p_w > 0
    # A feature of a part that the data lack counts as rare as their rarest.
    rarest = p_w[known].min() if known.any() else 1.0
    with np.errstate(divide="ignore"):
        logs = np.log(shares)
    return np.asarray(logs - (1 - lam) * np.log(np.where(known, p_w, rarest)))


def specificity(shares: np.ndarray) -> np.ndarray:
    """p (p − q)/(p + q) for p = p(w|t) (k, m), with q the largest p(w|s) of the other parts."""
    if len(shares) < 2:
        return shares
    second, first = np.sort(shares, axis=0)[-2:]
    other = np.where(shares == first, second, first)  # equal to the first where two share it
    total = shares + other
    return np.asarray(shares * (shares - other) / np.where(total > 0, total, 1))


def frequency(X: Any, features: int) -> np.ndarray:
    """p(w): the share of each feature in the sum of |X|."""
    X = X if is_sparse(X) else np.asarray(to_numpy(X))
    if X.ndim != 2 or X.shape[1] != features:
        raise ValueError(f"X: its shape is {X.shape}, and the model has {features} features.")
    totals = np.ravel(abs(X).sum(0)).astype(np.float64)
    return shares_of(totals)


def top_samples(
    model: MatrixFactorization,
    X: Any,
    part: int | str | None = None,
    layer: int | None = None,
    sample_names: Sequence[Any] | None = None,
    *,
    by: str = "code",
    count: int | None = 10,
    hidden: bool = False,
) -> pd.DataFrame:
    """The samples that have most of a part: its best examples.

    Parameters
    ----------
    model : a fitted model
    X : array (n_samples, n_features)
        The samples, as the model takes them.
    part, layer : as in `top_features`
    sample_names : sequence, default=None
        By default the index of a frame, or else the numbers of the rows.
    by : "code" or "share", default="code"
        "share": the samples that consist most of the part, however much of it they have.
    count : int, default=10
        How many samples per part, or None for all that have it.
    hidden : bool, default=False
        Whether hidden parts are among all parts.

    Returns
    -------
    table : DataFrame
        One row per part and sample, the best first: layer, part, name, rank (from 1), sample (its
        row), sample_name, code, share (of the decoded sample).
    """
    one_of("by", by, SAMPLE_SCORES)
    check_count("count", count)
    weights, link = decoder(model)
    layer = layer_of(layer, len(weights))
    shown, names = shown_parts(model, layer, part, hidden=hidden), model._checked_names()[layer - 1]
    H = codes_of(model, X, layer)
    labels = sample_labels(X, sample_names, len(H))
    shares = np.empty((len(H), len(shown)))
    for rows, decoding in decodings(weights[:layer], link, H):
        shares[rows] = shares_of(decoding.flow(layer)).T[:, shown]
    tables = []
    for column, one in enumerate(shown):
        key = H[:, one] if by == "code" else shares[:, column]
        best = np.argsort(-key, kind="stable")
        best = best[H[best, one] != 0][:count]
        columns = {
            "sample": best,
            "sample_name": labels[best],
            "code": H[best, one],
            "share": shares[best, column],
        }
        tables.append(_ranking(layer, one, names[one], columns))
    return joined(tables, SAMPLE_COLUMNS)


def _ranking(layer: int, part: int, name: str, columns: dict[str, np.ndarray]) -> pd.DataFrame:
    """The rows of a part, the best first, with these columns behind the part and the rank."""
    import pandas as pd

    size = len(next(iter(columns.values())))
    return pd.DataFrame(
        {"layer": layer, "part": part, "name": name, "rank": np.arange(1, size + 1), **columns}
    )


def joined(tables: Sequence[pd.DataFrame], columns: Any) -> pd.DataFrame:
    """One table of several, with these columns even if there is no row."""
    import pandas as pd

    filled = [table for table in tables if len(table)]
    if not filled:
        return tables[0] if tables else pd.DataFrame(columns=list(columns))
    return pd.concat(filled, ignore_index=True)
