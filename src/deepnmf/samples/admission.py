"""What X may be: a matrix of real numbers. One rule and one wording for data in memory, in blocks,
on disk and on a cluster. Nothing here reads more than it must: a refusal takes no time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Set
from datetime import date, timedelta
from typing import Any

import numpy as np

from deepnmf.arrays import is_sparse
from deepnmf.arrays.sparse import trusted
from deepnmf.arrays.tensors import is_tensor, why_not_dense

ADVICE = {
    "c": "Take abs(X), or the real and imaginary parts as features",
    "M": "Leave dates out, or turn them into numbers",
    "m": "Leave times out, or turn them into numbers",
    "V": "Turn the fields into columns (numpy.lib.recfunctions.structured_to_unstructured)",
}
CONVERT = "Convert X with X.astype(float) if it holds numbers"
NOT_NUMBERS = (
    str, bytes, complex, date, timedelta, np.character, np.complexfloating, np.datetime64,
    np.timedelta64,
)  # fmt: skip
"""Objects that NumPy would convert to floats, or refuse in other words."""


def admitted(X: Any, whom: str) -> Any:
    """X as an array, a sparse matrix, a tensor, a DataFrame or a list of these.

    Refused is what is not an array, and entries that are not real numbers. The indices of sparse
    matrices are checked.
    """
    if is_sparse(X):
        float_type(X.dtype, whom)
        return trusted(X)
    if is_tensor(X):
        why = why_not_dense(X)
        if why is not None:
            raise ValueError(f"{whom} cannot work on this tensor: {why}.")
        if X.is_complex():
            raise _not_real("c", X.dtype, whom)
        return X
    if isinstance(X, list | tuple):
        return _admitted_list(X, whom)
    if not _is_array(X):
        raise TypeError(_not_an_array(X, whom))
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError(
            f"X is a masked array; {whom} needs all entries. Fill them with X.filled(value), or "
            "drop the samples or features that are masked."
        )
    if isinstance(X, np.matrix):
        raise TypeError(f"X is a numpy.matrix; {whom} needs an array. Pass numpy.asarray(X).")
    if _is_frame(X):
        _check_columns(X, whom)
        return X
    if hasattr(X, "__dataframe__"):  # of another library; scikit-learn knows its names
        _numbers(_as_array(X, whom), whom)
        return X
    return _numbers(X if hasattr(X, "dtype") else _as_array(X, whom), whom)


def float_type(dtype: Any, whom: str) -> np.dtype:
    """float32 and float64 stay as they are; other numbers become float64, the rest is refused.

    Objects become float64 where each of them turns out to be a number.
    """
    kind = getattr(dtype, "kind", "V")
    if kind not in "fiubO":
        raise _not_real(kind, dtype, whom)
    return dtype if dtype in (np.float32, np.float64) else np.dtype(float)


def _not_real(kind: str, entries: object, whom: str) -> ValueError:
    complex_data = "Complex data not supported: " if kind == "c" else ""
    return ValueError(
        f"{complex_data}X has entries of type {entries}; {whom} needs real numbers. "
        f"{ADVICE.get(kind, CONVERT)}."
    )


def _numbers(X: Any, whom: str) -> Any:
    """X with entries of a type of numbers. Objects in memory are converted one by one."""
    float_type(X.dtype, whom)
    if X.dtype != object or not isinstance(X, np.ndarray):
        return X
    for kind in set(map(type, X.flat)):
        if issubclass(kind, NOT_NUMBERS):
            letter = "c" if issubclass(kind, complex | np.complexfloating) else "O"
            raise _not_real(letter, kind.__name__, whom)
    return X.astype(float)


def _admitted_list(X: list[Any] | tuple[Any, ...], whom: str) -> Any:
    """A list of blocks of samples, each admitted; a list of rows as an array."""
    blocks = [getattr(block, "ndim", 0) == 2 and not is_tensor(block) for block in X]
    if X and all(blocks):
        return [admitted(block, whom) for block in X]
    for row in X:
        if not isinstance(row, list | tuple | int | float | complex | str) and not _is_array(row):
            raise TypeError(_not_an_array(row, whom))
    return _numbers(_as_array(X, whom), whom)


def _as_array(X: Any, whom: str) -> np.ndarray:
    try:
        return np.asarray(X)
    except Exception as problem:
        raise ValueError(
            f"X, a {type(X).__name__}, cannot be made an array for {whom}: {problem}"
        ) from problem


def _is_array(X: Any) -> bool:
    """Whether X is a number, an array of some library, or memory that NumPy reads as one."""
    if isinstance(X, type | str | bytes | Mapping | Set) or hasattr(X, "to_dask_array"):
        return False
    if isinstance(X, memoryview | int | float | complex):
        return True
    on_disk = hasattr(X, "chunks") and hasattr(X, "dtype")
    return on_disk or any(hasattr(X, name) for name in ("__array__", "__array_interface__"))


def _not_an_array(X: Any, whom: str) -> str:
    """Says what X is, and what to pass instead."""
    what = f"X is of type {type(X).__name__}; {whom} needs a matrix (n_samples, n_features)."
    if X is None:
        return what
    if isinstance(X, str | os.PathLike):
        return f"{what} Read the file first: deepnmf.data.read(path).X."
    if hasattr(X, "X"):
        return f"{what} Pass its X, such as {'adata' if hasattr(X, 'obs') else 'data'}.X."
    if isinstance(X, Mapping) and "data" in X:
        return f'{what} Pass one of its arrays, such as X["data"].'
    if isinstance(X, Iterator):
        return f"{what} Pass list(X) if it yields blocks, or call partial_fit for each."
    if hasattr(X, "to_dask_array"):
        return f"{what} Pass X.to_dask_array(lengths=True)."
    return f"{what} Pass an array, a sparse matrix, a DataFrame or a tensor."


def _is_frame(X: Any) -> bool:
    """Whether X is a pandas DataFrame, without importing pandas."""
    module = sys.modules.get("pandas")
    return module is not None and isinstance(X, module.DataFrame)


def _check_columns(X: Any, whom: str) -> None:
    """Refuse a DataFrame with a column that does not hold numbers."""
    for place, dtype in enumerate(X.dtypes):
        try:
            float_type(dtype, whom)
            if str(dtype) == "category":
                raise _not_real("O", dtype, whom)
            if dtype.kind == "O":
                _numbers(np.asarray(X.iloc[:, place].to_numpy(), dtype=object), whom)
        except ValueError as problem:
            raise ValueError(f"column {X.columns[place]!r}: {problem}") from None
