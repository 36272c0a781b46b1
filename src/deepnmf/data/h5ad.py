"""Files of anndata: X, the names of its rows and columns, and the columns of `obs`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from deepnmf.data.dataset import DataError, Dataset
from deepnmf.data.limits import all_entries, check_array, checked_sparse
from deepnmf.data.stored_sparse import StoredSparse

if TYPE_CHECKING:
    import h5py

    from deepnmf.arrays import Data


def read_h5ad(path: Path, layer: str | None = None) -> Dataset:
    """Samples of a .h5ad file, cells by genes: X, or a layer."""
    import h5py

    with h5py.File(path, "r") as file:
        X = _matrix_of(path, file, layer)
        if isinstance(X, h5py.Group):
            kind = str(X.attrs.get("encoding-type", "csr_matrix"))
            build = scipy.sparse.csc_matrix if kind.startswith("csc") else scipy.sparse.csr_matrix
            arrays = tuple(all_entries(path, X[name]) for name in ("data", "indices", "indptr"))
            shape = tuple(int(size) for size in X.attrs["shape"])
            matrix = checked_sparse(path, build(arrays, shape=shape))
        else:
            matrix = all_entries(path, X)
        return _described(path, file, matrix)


def open_h5ad(path: Path, layer: str | None = None) -> Dataset:
    """Samples that stay in a .h5ad file, sparse as they are."""
    import h5py

    file = h5py.File(path, "r")
    X = _matrix_of(path, file, layer)
    return _described(path, file, StoredSparse(X, str(path)) if isinstance(X, h5py.Group) else X)


def _matrix_of(path: Path, file: h5py.File, layer: str | None) -> h5py.Dataset | h5py.Group:
    if layer is None:
        if "X" not in file:
            raise DataError(f"{path}: has no X.{_layers_to_give(file)}")
        return file["X"]
    if layer not in file.get("layers", ()):
        raise DataError(f"{path}: has no layer {layer!r}.{_layers_to_give(file)}")
    return file["layers"][layer]


def _layers_to_give(file: h5py.File) -> str:
    names = sorted(file.get("layers", ()))
    return f" It has the layers {', '.join(names)}." if names else ""


def _described(path: Path, file: h5py.File, matrix: Data) -> Dataset:
    """The samples with their names and columns."""
    return Dataset(
        matrix,
        feature_names=_index_of(file.get("var")),
        sample_names=_index_of(file.get("obs")),
        columns=_columns(file.get("obs")),
        name=path.stem,
    )


def _index_of(frame: h5py.Group | None) -> np.ndarray | None:
    """The names of a table's rows."""
    if frame is None or _key(frame) not in frame:
        return None
    names = frame[_key(frame)]
    if _holds_words(names):  # as anndata writes them with pandas 3
        names = names["values"]
    check_array(Path(frame.file.filename), names)
    return np.asarray(names.asstr()[:], dtype=object)


def _key(frame: h5py.Group) -> str:
    """The name of the column that holds a table's index."""
    key = getattr(frame, "attrs", {}).get("_index", "_index")
    return key.decode() if isinstance(key, bytes) else str(key)


def _columns(frame: h5py.Group | None) -> dict[str, np.ndarray]:
    """The columns of a table without its index: numbers, words and categories. Columns of another
    kind and damaged ones are left out."""
    import h5py

    if not isinstance(frame, h5py.Group):
        return {}
    columns = {}
    for name in frame:
        try:
            values = None if name in (_key(frame), "__categories") else _column(frame, name)
        except (ValueError, TypeError, KeyError, IndexError, OSError):
            continue
        if values is not None and values.ndim == 1:
            columns[name] = values
    return columns


def _column(frame: h5py.Group, name: str) -> np.ndarray | None:
    """The values of a column, None where its kind is not known. A missing category is None."""
    import h5py

    column = frame[name]
    categories = None
    if _holds_words(column):
        words = _values(column["values"])
        words[_values(column["mask"])] = None
        return words
    if isinstance(column, h5py.Group):
        if "codes" not in column or "categories" not in column:
            return None
        categories, column = column["categories"], column["codes"]
        if _holds_words(categories):
            categories = categories["values"]
    elif "categories" in column.attrs:  # as anndata wrote them before 0.8
        categories = frame.file[column.attrs["categories"]]
    values = _values(column)
    if categories is None:
        return values
    # Code −1, a missing category, picks the last entry: None.
    return np.asarray([*_values(categories), None], dtype=object)[values]


def _holds_words(column: h5py.Group | h5py.Dataset) -> bool:
    """Whether a column is a group of words and a mask of those that are missing."""
    return str(column.attrs.get("encoding-type", "")) == "nullable-string-array"


def _values(column: h5py.Dataset) -> np.ndarray:
    import h5py

    if not isinstance(column, h5py.Dataset):
        raise TypeError(f"{column.name}: a group where values should be.")
    check_array(Path(column.file.filename), column)
    words = h5py.check_string_dtype(column.dtype) is not None
    return np.asarray(column.asstr()[:], dtype=object) if words else np.asarray(column[:])
