"""Marker genes: what is high in one part and low in the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepnmf.cells.annotate import KEY
from deepnmf.cells.genes import checked
from deepnmf.models.settings import one_of, whole_number

if TYPE_CHECKING:
    import pandas as pd
    from anndata import AnnData

ORDERS = ("specificity", "weight")


def markers(
    adata: AnnData,
    n_genes: int = 10,
    *,
    layer: int | None = None,
    by: str = "specificity",
    key: str = KEY,
) -> pd.DataFrame:
    """The top genes of every part that `fit` wrote into `adata`.

    weight is the entry w of the gene in the part; share is w relative to the sum over all parts of
    the layer, 1 for a gene of this part alone. A gene that is high in every part marks none: by
    "specificity", the order is that of weight times share; by "weight", that of weight alone.

    Parameters
    ----------
    adata : AnnData that `fit` or `from_model` wrote into
    n_genes : int, default=10
        The most genes per part; genes of weight 0 are left out.
    layer : int or None, default=None
        The layer of the model: 1 … L; None: the last.
    by : "specificity" or "weight", default="specificity"
    key : str, default="deepnmf"
        The name that `fit` wrote under.

    Returns
    -------
    frame : DataFrame with the columns part (from 0), rank (from 1), gene, weight and share
    """
    import pandas as pd

    adata = checked(adata, "cells.markers")
    one_of("by", by, ORDERS)
    count = whole_number("n_genes", n_genes, least=1)
    weights = np.asarray(adata.varm[_name(adata, key, layer)], dtype=float)
    sums = weights.sum(axis=1, keepdims=True)
    shares = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
    scores = weights * shares if by == "specificity" else weights
    rows: list[dict[str, Any]] = []
    for part in range(weights.shape[1]):
        best = np.argsort(-scores[:, part], kind="stable")[:count]
        rows += [
            {
                "part": part, "rank": rank, "gene": str(adata.var_names[place]),
                "weight": weights[place, part], "share": shares[place, part],
            }
            for rank, place in enumerate(best[scores[best, part] > 0], 1)
        ]  # fmt: skip
    return pd.DataFrame(rows, columns=["part", "rank", "gene", "weight", "share"])


def _name(adata: AnnData, key: str, layer: int | None) -> str:
    """The name of the parts of a layer in varm."""
    if key not in adata.varm:
        raise ValueError(f"adata.varm has no {key!r}. Fit a model with deepnmf.cells.fit first.")
    if layer is None or f"{key}_{layer}" in adata.varm:
        return key if layer is None else f"{key}_{layer}"
    below = sum(name.removeprefix(f"{key}_").isdecimal() for name in adata.varm)
    if layer != below + 1:
        raise ValueError(f"layer: {layer}, but the model has the layers 1 to {below + 1}.")
    return key
