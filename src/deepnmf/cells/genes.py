"""Which genes a model uses, and where they are in an AnnData."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepnmf.samples.annotated import is_anndata

if TYPE_CHECKING:
    from anndata import AnnData

HIGHLY_VARIABLE = "highly_variable"


def checked(adata: AnnData, whom: str) -> AnnData:
    """adata, if it is an AnnData."""
    if is_anndata(adata):
        return adata
    try:
        import anndata  # noqa: F401
    except ImportError as problem:
        raise ImportError(
            "deepnmf.cells needs anndata: pip install 'deepnmf[cells]'.", name="anndata"
        ) from problem
    raise TypeError(
        f"{whom} takes an AnnData, not a {type(adata).__name__}. Fit a model to a matrix with "
        "model.fit(X), or wrap it: anndata.AnnData(X)."
    )


def places_to_fit(adata: AnnData, use_highly_variable: bool | None) -> np.ndarray | None:
    """The places of the genes to fit; None: all of them."""
    there = HIGHLY_VARIABLE in adata.var
    if use_highly_variable is None:
        use_highly_variable = there
    if not use_highly_variable:
        return None
    if not there:
        raise ValueError(
            "use_highly_variable: adata.var has no column highly_variable. Call "
            "scanpy.pp.highly_variable_genes first, or leave it out to use all genes."
        )
    marked = np.asarray(adata.var[HIGHLY_VARIABLE].fillna(False), dtype=bool)
    if not marked.any():
        raise ValueError("use_highly_variable: adata.var marks no gene as highly variable.")
    return None if marked.all() else np.flatnonzero(marked)


def places_of(adata: AnnData, names: np.ndarray | None, features: int) -> np.ndarray | None:
    """The places of the genes of a model, in its order; None: all genes as they are."""
    if names is None:
        if adata.n_vars != features:
            raise ValueError(
                f"adata has {adata.n_vars} genes, and the model {features} without names. Give "
                "the genes that it was fitted to: adata[:, genes]."
            )
        return None
    there = np.asarray(adata.var_names.astype(str), dtype=object)
    if np.array_equal(there, names):
        return None
    place = {name: number for number, name in enumerate(there)}
    if len(place) < len(there):
        raise ValueError(
            "adata has genes of the same name. Call adata.var_names_make_unique() before the fit."
        )
    absent = [name for name in names if name not in place]
    if absent:
        others = f" and {len(absent) - 1} other genes" if len(absent) > 1 else ""
        raise ValueError(
            f"adata lacks {absent[0]!r}{others} of the {len(names)} that the model was fitted to. "
            "Give cells that have all of them."
        )
    return np.asarray([place[name] for name in names])


def spread_over_genes(parts: Any, places: np.ndarray | None, genes: int) -> np.ndarray:
    """Parts (k, m) as (genes, k): 0 for the genes that the model does not use."""
    if places is None:
        return np.ascontiguousarray(parts.T)
    spread = np.zeros((genes, parts.shape[0]), parts.dtype)
    spread[places] = parts.T
    return spread
