"""Fit a model to an AnnData, and write what it finds into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepnmf.arrays.tensors import to_numpy
from deepnmf.cells.genes import checked, places_of, places_to_fit, spread_over_genes
from deepnmf.cells.stored import model_in, packed_for_uns
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.baselines import BatchNMF
from deepnmf.models.presets import sdnmf_l
from deepnmf.models.settings import layer_sizes
from deepnmf.models.storage import load
from deepnmf.samples.annotated import of_anndata

if TYPE_CHECKING:
    from anndata import AnnData

KEY = "deepnmf"
SIZES = (30, 10)


def fit(
    adata: AnnData,
    model: MatrixFactorization | Sequence[int] | int | None = None,
    *,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
    batch_key: str | None = None,
    key_added: str = KEY,
) -> MatrixFactorization:
    """Fit a model to the cells of `adata`, and write what it finds into `adata`.

    X is read as it is: in memory, block by block from its file (backed) or by Dask; sparse data
    stay sparse.

    Parameters
    ----------
    adata : AnnData
        Cells by genes, entries ≥ 0: log(1 + x) of counts that were scaled to one total per cell.
    model : a model, layer sizes or None, default=None
        Sizes are those of an `sdnmf_l` with random_state=0, and with a batch key the number of
        parts of a `BatchNMF`; None: (30, 10), and 10. A model is fitted in place.
    layer : str or None, default=None
        The layer to fit in place of X.
    use_highly_variable : bool or None, default=None
        Fit the genes that `adata.var["highly_variable"]` marks. None: if there is such a column.
    batch_key : str or None, default=None
        The column of `obs` that names the batch of every cell. The model is then a `BatchNMF`:
        shared parts, and what each batch adds to them. Other models do not know of batches.
    key_added : str, default="deepnmf"
        The name under which results are written.

    Returns
    -------
    model : the fitted model. It is written into `adata` as well:

        obsm["X_deepnmf"] : codes of the last layer, one column per part; obsm["X_deepnmf_1"] … are
        those of the layers below it.
        varm["deepnmf"] : the parts, one column each, over all genes; 0 for genes that were not
        fitted. varm["deepnmf_1"] … are those of the layers below. With a batch key,
        varm["deepnmf_own_a"] is what batch a adds to each part.
        uns["deepnmf"] : params, weights between the layers (W_1 …), history, results (the support
        of parts) and header, from which `to_model` makes the model again.

    Examples
    --------
    >>> from deepnmf import cells
    >>> model = cells.fit(adata, (30, 10))                          # doctest: +SKIP
    >>> cells.markers(adata, 5)                                     # doctest: +SKIP
    """
    adata = checked(adata, "cells.fit")
    model = _asked(model, batch_key)
    batches = _batches(adata, model, batch_key)
    samples = of_anndata(adata, layer, places_to_fit(adata, use_highly_variable))
    places_of(adata, samples.names, len(samples.names))  # refuses genes of one name
    if isinstance(model, BatchNMF):
        model.fit(samples, batches=batches)
    else:
        model.fit(samples)
    return _written(adata, model, Cells(layer, batch_key, key_added))


def transform(
    adata: AnnData,
    model: MatrixFactorization | str,
    *,
    layer: str | None = None,
    batch_key: str | None = None,
    key_added: str = KEY,
) -> None:
    """Write the codes of cells under a fitted model: obsm["X_deepnmf"], obsm["X_deepnmf_1"] …

    `model` is a fitted model or the path of its file. Genes are found by their names, and those
    that the model does not know are left out. `layer` is the layer to encode in place of X. With
    the `batch_key` of a `BatchNMF`, cells of the batches that were fitted have their own parts;
    without it, the shared parts alone describe every cell.
    """
    adata = checked(adata, "cells.transform")
    model = load(model) if isinstance(model, str) else model
    model._fitted_layer(None)
    _write_codes(adata, model, Cells(layer, batch_key, key_added))


def from_model(
    model: MatrixFactorization | str,
    adata: AnnData,
    *,
    layer: str | None = None,
    batch_key: str | None = None,
    key_added: str = KEY,
) -> MatrixFactorization:
    """Write a fitted model, or that of a file, into `adata`, as `fit` does. Returns the model."""
    adata = checked(adata, "cells.from_model")
    model = load(model) if isinstance(model, str) else model
    model._fitted_layer(None)
    return _written(adata, model, Cells(layer, batch_key, key_added))


def to_model(adata: AnnData, key: str = KEY, classes: Iterable[type] = ()) -> MatrixFactorization:
    """The model in `adata.uns[key]`, ready to encode other cells. `classes` as in `load`."""
    adata = checked(adata, "cells.to_model")
    if key not in adata.uns:
        raise ValueError(f"adata.uns has no {key!r}. Fit a model with deepnmf.cells.fit first.")
    return model_in(adata.uns[key], f"adata.uns[{key!r}]", classes).model


@dataclass(frozen=True)
class Cells:
    """What of an AnnData is encoded, and under which name the result is written."""

    layer: str | None
    batch_key: str | None
    key: str


def _asked(model: Any, batch_key: str | None) -> MatrixFactorization:
    """The model to fit."""
    if isinstance(model, MatrixFactorization):
        return model
    if isinstance(model, type) or callable(getattr(model, "fit", None)):
        raise TypeError(
            f"cells.fit: {model!r} is not a model of deepnmf. Give one, such as "
            "sdnmf_l((30, 10)), or layer sizes."
        )
    if batch_key is None:
        return sdnmf_l(SIZES if model is None else model, random_state=0)
    sizes = SIZES[-1:] if model is None else layer_sizes(model)
    if len(sizes) > 1:
        raise ValueError(
            f"batch_key: a model of batches has one layer, got sizes {sizes}: give one size."
        )
    return BatchNMF(sizes[0], random_state=0)


def _batches(adata: AnnData, model: MatrixFactorization, batch_key: str | None) -> Any:
    """The batch of every cell."""
    if batch_key is None:
        return None
    if not isinstance(model, BatchNMF):
        raise ValueError(
            f"batch_key: {type(model).__name__} does not know of batches. Give "
            "deepnmf.baselines.BatchNMF(10), or leave batch_key out."
        )
    if batch_key not in adata.obs:
        there = ", ".join(map(str, adata.obs.columns)) or "none"
        raise ValueError(f"batch_key: adata.obs has no column {batch_key!r}; it has {there}.")
    return adata.obs[batch_key].to_numpy()


def _samples(adata: AnnData, model: MatrixFactorization, layer: str | None) -> Any:
    """The cells with the genes of the model, in its order."""
    samples = of_anndata(adata, layer, _places(adata, model))
    return samples if hasattr(model, "feature_names_in_") else samples.X


def _places(adata: AnnData, model: MatrixFactorization) -> np.ndarray | None:
    """Where the genes of the model are in `adata`."""
    return places_of(adata, getattr(model, "feature_names_in_", None), model.n_features_in_)


def _written(adata: AnnData, model: MatrixFactorization, cells: Cells) -> MatrixFactorization:
    """Write codes, parts and the model itself."""
    places = _places(adata, model)
    params = {
        "model": type(model).__name__,
        "layer_sizes": np.asarray(model._sizes()),
        "layer": cells.layer,
        "batch_key": cells.batch_key,
        "some_genes": places is not None,
    }
    entry = packed_for_uns(model, params, {"layer": cells.layer, "batch": cells.batch_key})
    _write_codes(adata, model, cells)
    parts = {name: model.basis(number) for number, name in names_of_layers(model, cells.key)}
    if isinstance(model, BatchNMF):
        own = model.own_parts_
        for name, V in zip(own.names, own.parts, strict=True):
            parts[f"{cells.key}_own_{name}".replace("/", "-")] = V
    for name, array in parts.items():
        adata.varm[name] = spread_over_genes(to_numpy(array), places, adata.n_vars)
    adata.uns[cells.key] = entry
    return model


def _write_codes(adata: AnnData, model: MatrixFactorization, cells: Cells) -> None:
    """Codes of every layer, in memory also where X is not."""
    samples, batches = _samples(adata, model, cells.layer), _batches(adata, model, cells.batch_key)
    for number, name in names_of_layers(model, cells.key):
        if isinstance(model, BatchNMF):
            codes = model.transform(samples, batches=batches)
        else:
            codes = model.transform(samples, layer=number)
        adata.obsm[f"X_{name}"] = np.asarray(to_numpy(codes))


def names_of_layers(model: MatrixFactorization, key: str = KEY) -> list[tuple[int, str]]:
    """The layers, and the names under which they are written: the last has no number."""
    depth = len(model.weights_)
    return [(number, f"{key}_{number}") for number in range(1, depth)] + [(depth, key)]
