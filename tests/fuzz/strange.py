"""Things that are not a matrix of real numbers, or hardly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pandas
import scipy.sparse
import torch


class Lies:
    """An object that says it is an array."""

    shape, ndim, dtype = (4, 3), 2, np.dtype(float)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, key: object) -> str:
        return "not a row"


class Endless:
    """A sequence without an end."""

    def __getitem__(self, key: object) -> float:
        return 1.0


STRANGE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a number": lambda: 3.0,
    "a string": lambda: "digits",
    "bytes": lambda: b"\x00\x01",
    "a dict": lambda: {"X": np.ones((3, 2))},
    "a set": lambda: {1.0, 2.0},
    "a generator": lambda: (row for row in np.ones((3, 2))),
    "an iterator": lambda: iter(np.ones((3, 2))),
    "an object": lambda: object(),
    "a class": lambda: np.ndarray,
    "a function": lambda: len,
    "a path": lambda: Path("x.npy"),
    "a range": lambda: range(5),
    "a ragged list": lambda: [[1.0, 2.0], [3.0]],
    "a ragged array": lambda: np.array([[1.0], [2.0, 3.0]], object),
    "an empty list": list,
    "a list of strings": lambda: ["a", "b"],
    "a list of text rows": lambda: [["1", "b"], ["2", "c"]],
    "a list of None": lambda: [[None, 1.0], [2.0, None]],
    "mixed blocks": lambda: [np.ones((3, 2)), np.ones((3, 4))],
    "blocks of text": lambda: [np.ones((3, 2)), np.full((2, 2), "x")],
    "blocks with NaN": lambda: [np.ones((3, 2)), np.full((2, 2), np.nan)],
    "complex blocks": lambda: [np.ones((3, 2)), np.ones((2, 2), complex)],
    "no axes": lambda: np.array(2.0),
    "one axis": lambda: np.ones(5),
    "three axes": lambda: np.ones((3, 2, 2)),
    "a series": lambda: pandas.Series([1.0, 2.0, 3.0]),
    "a frame of text": lambda: pandas.DataFrame({"a": ["x", "y"], "b": [1, 2]}),
    "a frame of dates": lambda: pandas.DataFrame(
        {"a": np.array(["2020-01-01", "2021-01-01"], "datetime64[ns]")}
    ),
    "a frame with NA": lambda: pandas.DataFrame({"a": pandas.array([1, None], "Int64")}),
    "a frame of categories": lambda: pandas.DataFrame({"a": pandas.Categorical(["x", "y", "x"])}),
    "a sparse row": lambda: scipy.sparse.coo_array(np.ones(4)),
    "a sparse object": lambda: scipy.sparse.csr_array(np.ones((3, 2), complex)),
    "a sparse NaN": lambda: scipy.sparse.csc_array(np.array([[np.nan, 1.0], [0, 2.0]])),
    "a meta tensor": lambda: torch.empty((4, 3), device="meta"),
    "a complex tensor": lambda: torch.ones((4, 3), dtype=torch.complex64),
    "a sparse tensor": lambda: torch.ones((4, 3)).to_sparse(),
    "a NaN tensor": lambda: torch.full((4, 3), float("nan")),
    "a flat tensor": lambda: torch.ones(5),
    "a quantized tensor": lambda: torch.quantize_per_tensor(
        torch.ones((4, 3)), 0.1, 0, torch.quint8
    ),
    "a bfloat16 tensor": lambda: torch.ones((4, 3), dtype=torch.bfloat16),
    "a tensor with a gradient": lambda: torch.ones((4, 3), requires_grad=True),
    "a dask array of text": lambda: dask.array.from_array(np.full((4, 3), "x"), chunks=(2, 3)),
    "a complex dask array": lambda: dask.array.ones((4, 3), dtype=complex),
    "a dask array with NaN": lambda: dask.array.full((4, 3), np.nan),
    "a masked entry": lambda: np.ma.masked_invalid(np.array([[1.0, np.nan], [2.0, 3.0]])),
    "a liar": lambda: Lies(),
    "an endless sequence": lambda: Endless(),
    "a memoryview": lambda: memoryview(np.ones((3, 2))),
    "a module": lambda: np,
}
TAKEN = ("a bfloat16 tensor", "a tensor with a gradient", "a memoryview", "a sparse tensor")
"""Those that a model may take or refuse."""
