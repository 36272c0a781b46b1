"""`parts_table`, `edges_table` and `codes_table`: a model as tables to hand over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deepnmf.explain.decoding import (
    codes_of,
    decoder,
    decodings,
    edge_flow,
    layer_of,
    parts_of,
    shares_of,
    transformed,
)
from deepnmf.explain.hierarchy import summaries_of
from deepnmf.explain.labels import check_count, sample_labels, shown_parts
from deepnmf.explain.rankings import joined, top_features
from deepnmf.models.base import MatrixFactorization

if TYPE_CHECKING:
    import pandas as pd

    from deepnmf.links import Link

PARTS_COLUMNS = {
    "layer": "the layer of the part, from 1",
    "part": "the number of the part in its layer, from 0",
    "name": "the name of the part",
    "share": "the share of the decoded samples that goes through the part; without samples, "
    "of what the model decodes if every code of the last layer is 1",
    "used": "the share of the samples that have the part; empty without samples",
    "mean_code": "how much of the part samples have on average; empty without samples",
    "features": "its features with the highest scores",
    "made_of": "the parts of the layer below with the largest shares of it; empty for layer 1",
    "nearest": "the number of the most similar part of its layer",
    "cosine": "how similar that is, 1 for the same direction",
    "support": "the share of the fits that have the part; empty unless the model is a consensus",
    "dead": "whether it has no weights, or nothing uses it",
    "hidden": "whether it is hidden",
}
"""The columns of `parts_table`."""
EDGES_COLUMNS = {
    "layer": "the layer of the part, from 2",
    "part": "the number of the part in its layer, from 0",
    "name": "the name of the part",
    "below": "the number of a part of the layer below that it is made of",
    "below_name": "the name of that part",
    "weight": "the weight of that part in it, an entry of the weights of the layer",
    "share": "the share of it that goes through that part; the shares of a part add up to 1",
    "support": "the share of the fits that have the edge; empty unless the model is a consensus",
}
"""The columns of `edges_table`."""
MADE_OF = 5
"""How many parts below a part are named in its row."""
SMALL = 0.01
"""Parts with a smaller share are not named there."""


def parts_table(
    model: MatrixFactorization,
    X: Any = None,
    feature_names: Sequence[str] | None = None,
    *,
    by: str = "weight",
    lam: float = 0.6,
    count: int | None = 10,
    hidden: bool = False,
) -> pd.DataFrame:
    """One row per part of every layer: what it is about, and how much it matters.

    Parameters
    ----------
    model : a fitted model
    X : array (n_samples, n_features), default=None
        Samples, for `share`, `used` and `mean_code`.
    feature_names, by, lam, count : as in `top_features`
    hidden : bool, default=False
        Whether hidden parts are in the table.

    Returns
    -------
    table : DataFrame
        The last layer first, and in each layer the parts in the order of their numbers. Columns:
        layer, part, name; share of the decoded samples (without X: if all codes are 1), used (the
        share of the samples that have the part), mean_code; features, made_of (as text); nearest
        (the most similar part of the layer) and cosine; support (of a consensus); dead; hidden.
    """
    import pandas as pd

    check_count("count", count)
    weights, link = decoder(model)
    H = np.ones((1, weights[-1].shape[1])) if X is None else codes_of(model, X)
    names, left_out = model._checked_names(), model._checked_hidden()
    amounts = _amounts(weights, link, H, known=X is not None)
    layers = summaries_of(weights, link, None if X is None else H.T)
    support = getattr(model, "support_", None)
    edges = edges_table(model, hidden=hidden)
    tables = []
    for layer in range(len(weights), 0, -1):
        shown = shown_parts(model, layer, hidden=hidden)
        leading = top_features(
            model, None, layer, feature_names, by=by, lam=lam, count=count, X=X, hidden=hidden
        )
        tables.append(
            pd.DataFrame(
                {
                    "layer": layer,
                    "part": shown,
                    "name": [names[layer - 1][part] for part in shown],
                    **{name: values[shown] for name, values in amounts[layer - 1].items()},
                    "features": _texts(leading, shown),
                    "made_of": _made_of(edges, layer, shown),
                    **_nearest(parts_of(weights[:layer], link), shown),
                    "support": math.nan if support is None else support[layer - 1][shown],
                    "dead": np.isin(shown, layers[layer - 1].dead),
                    "hidden": np.isin(shown, left_out[layer - 1]),
                }
            )
        )
    return joined(tables, PARTS_COLUMNS)


def _amounts(
    weights: Sequence[np.ndarray], link: Link, H: np.ndarray, *, known: bool
) -> list[dict[str, np.ndarray]]:
    """Per layer, what samples with codes H (n, k_L) have of each part, unless they are unknown."""
    found = []
    zeros = [link.at_zero] * (len(weights) - 1) + [0.0]
    sums = [[np.zeros(W.shape[1]) for _ in range(3)] for W in weights]
    for _, decoding in decodings(weights, link, H):
        for layer, (flow, used, codes) in enumerate(sums, 1):
            own = decoding.codes[layer - 1]
            flow += decoding.flow(layer).sum(1)
            used += (own != zeros[layer - 1]).sum(1)
            codes += own.sum(1)
    for flow, used, codes in sums:
        nothing = np.full(len(flow), math.nan)
        found.append(
            {
                "share": shares_of(flow),
                "used": used / len(H) if known else nothing,
                "mean_code": codes / len(H) if known else nothing,
            }
        )
    return found


def _texts(leading: pd.DataFrame, shown: np.ndarray) -> list[str]:
    """The leading features of each part on one line."""
    words = {part: ", ".join(rows["feature_name"]) for part, rows in leading.groupby("part")}
    return [words.get(part, "") for part in shown]


def _made_of(edges: pd.DataFrame, layer: int, shown: np.ndarray) -> list[str]:
    """What each part of a layer is made of, on one line."""
    own = edges[(edges["layer"] == layer) & (edges["share"] >= SMALL)]
    texts = {}
    for part, rows in own.groupby("part"):
        pairs = zip(rows["below_name"][:MADE_OF], rows["share"][:MADE_OF], strict=True)
        texts[part] = ", ".join(f"{name} {share:.0%}" for name, share in pairs)
    return [texts.get(part, "") for part in shown]


def _nearest(P: np.ndarray, shown: np.ndarray) -> dict[str, Any]:
    """The most similar other part of each, and its cosine; none for a part alone or of zeros."""
    import pandas as pd

    norms = np.linalg.norm(P, axis=1)
    units = P / np.where(norms > 0, norms, 1)[:, None]
    cosines = units @ units.T
    cosines[:, norms == 0] = -math.inf
    np.fill_diagonal(cosines, -math.inf)
    best = cosines.argmax(1)
    cosine = np.where(norms > 0, cosines[np.arange(len(P)), best], -math.inf)
    numbers = [int(best[part]) if np.isfinite(cosine[part]) else None for part in shown]
    near = np.where(np.isfinite(cosine), np.clip(cosine, -1, 1), math.nan)[shown]
    return {"nearest": pd.array(numbers, dtype="Int64"), "cosine": near}


def edges_table(
    model: MatrixFactorization, layer: int | None = None, *, hidden: bool = False
) -> pd.DataFrame:
    """One row per edge between two layers: which parts a part is made of.

    Parameters
    ----------
    model : a fitted model
    layer : int, default=None
        The layer of the upper parts, from 2. None: all of them, the last first.
    hidden : bool, default=False
        Whether edges of hidden parts are in the table. Shares count them in any case.

    Returns
    -------
    table : DataFrame
        Columns: layer, part, name; below (the number of the lower part), below_name; weight (the
        entry of W_layer), share (of what the upper part decodes to), support (of a consensus).
        Part by part, the largest share first. A model of one layer has no edges.
    """
    import pandas as pd

    weights, link = decoder(model)
    depth, names = len(weights), model._checked_names()
    if layer is not None and layer_of(layer, depth) == 1:
        raise ValueError(
            "layer: parts of layer 1 are made of features: use top_features, or basis(1)."
        )
    support, tables = getattr(model, "edge_support_", None), []
    for upper in range(depth, 1, -1) if layer is None else [layer]:
        W = weights[upper - 1]
        shares = shares_of(edge_flow(weights[:upper], link))
        lower = set(shown_parts(model, upper - 1, hidden=hidden).tolist())
        for part in shown_parts(model, upper, hidden=hidden):
            order = np.lexsort((-W[:, part], -shares[:, part]))
            below = [int(one) for one in order if W[one, part] != 0 and one in lower]
            tables.append(
                pd.DataFrame(
                    {
                        "layer": upper,
                        "part": part,
                        "name": names[upper - 1][part],
                        "below": below,
                        "below_name": [names[upper - 2][one] for one in below],
                        "weight": W[below, part],
                        "share": shares[below, part],
                        "support": math.nan if support is None else support[upper - 2][below, part],
                    }
                )
            )
    return joined(tables, EDGES_COLUMNS)


def codes_table(
    model: MatrixFactorization,
    X: Any,
    layer: int | None = None,
    sample_names: Sequence[Any] | None = None,
    *,
    hidden: bool = False,
) -> pd.DataFrame:
    """The codes of samples under the names of the parts.

    Parameters
    ----------
    model : a fitted model
    X : array (n_samples, n_features)
        The samples, as the model takes them.
    layer : int, default=None
        The layer of the codes, by default the last.
    sample_names : sequence, default=None
        By default the index of a frame, or else the numbers of the rows.
    hidden : bool, default=False
        Whether hidden parts have columns.

    Returns
    -------
    table : DataFrame
        What `transform(X, layer)` gives: one row per sample, whose name is the index, and one
        column per part, whose name is the title.
    """
    import pandas as pd

    layer = layer_of(layer, len(decoder(model)[0]))
    Z = transformed(model, X, layer)
    index = pd.Index(sample_labels(X, sample_names, len(Z)), name="sample")
    shown, names = shown_parts(model, layer, hidden=hidden), model._checked_names()[layer - 1]
    return pd.DataFrame(Z[:, shown], index=index, columns=[names[part] for part in shown])
