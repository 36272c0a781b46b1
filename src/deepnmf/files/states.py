"""The state of a fit in a file: every array a tensor of safetensors, the rest JSON in its header.

Codes by blocks of samples are written and read block by block, so that no more than one of them is
in memory. There is no pickle: a file can hold only what `STATES` lists.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deepnmf.arrays import Array
from deepnmf.arrays.blocks import Blocked, Node
from deepnmf.core.extrapolation import Moving
from deepnmf.core.linear import Factors
from deepnmf.core.nonlinear import NonlinearFactors
from deepnmf.core.passes import Sums
from deepnmf.core.watch import Point
from deepnmf.samples.checks import is_tensor
from deepnmf.solvers.coordinate import Work
from deepnmf.solvers.projected_gradient import Memory
from deepnmf.solvers.stopping import Pace

STATES: dict[str, Any] = {
    one.__name__: one
    for one in (Point, Factors, NonlinearFactors, Moving, Sums, Work, Memory, Pace)
}
"""What a state is made of, besides arrays, tuples, numbers and text."""
TYPES = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "bool": "BOOL"}


class Writer:
    """Collects the tensors of a state, each made when it is written."""

    def __init__(self, like: Array) -> None:
        self.like = like
        self.entries: list[tuple[np.dtype, tuple[int, ...], Callable[[], np.ndarray]]] = []

    def told(self, value: Any) -> Any:
        """A state as JSON, in which arrays are names of tensors."""
        if isinstance(value, np.ndarray | np.generic) or is_tensor(value):
            return self._array(value)
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Blocked):
            blocks = iter(value.each())  # one after the other, as they are written
            rows = value.shape[0]
            names = [
                self._add(value.dtype, (rows, width), lambda: next(blocks))
                for width in value.layout.widths
            ]
            return {"blocks": names, "rows": rows, "dtype": value.dtype.name}
        if isinstance(value, Node):
            return {"each": [self.told(one) for one in self.like.layout.each(value)]}
        if type(value).__name__ in STATES:
            told = {name: self.told(getattr(value, name)) for name in _fields(value)}
            return {"state": type(value).__name__, "fields": told}
        if isinstance(value, tuple):
            return {"items": [self.told(entry) for entry in value]}
        raise ValueError(
            f"checkpoint: the solver remembers a {type(value).__name__}, which cannot be kept. Use "
            "a solver of deepnmf.solvers, or checkpoint=None."
        )

    def write(self, file: Any, metadata: dict[str, str]) -> None:
        """The whole file."""
        header: dict[str, Any] = {"__metadata__": metadata}
        place = 0
        for name, (dtype, shape, _) in enumerate(self.entries):
            end = place + int(np.prod(shape)) * dtype.itemsize
            header[str(name)] = {
                "dtype": TYPES[dtype.name], "shape": list(shape), "data_offsets": [place, end],
            }  # fmt: skip
            place = end
        raw = json.dumps(header).encode()
        raw += b" " * (-len(raw) % 8)
        file.write(struct.pack("<Q", len(raw)))
        file.write(raw)
        for dtype, _, make in self.entries:
            file.write(np.ascontiguousarray(make(), dtype=dtype).data)

    def _array(self, value: Any) -> dict[str, Any]:
        array = value.detach().cpu().numpy() if is_tensor(value) else np.asarray(value)
        # As it lies in memory: products round by how their factors lie.
        turned = array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous
        array = array.T if turned else array
        return {"tensor": self._add(array.dtype, array.shape, lambda: array), "turned": turned}

    def _add(self, dtype: Any, shape: Sequence[int], make: Callable[[], np.ndarray]) -> str:
        self.entries.append((np.dtype(dtype), tuple(int(size) for size in shape), make))
        return str(len(self.entries) - 1)


@dataclasses.dataclass
class Reader:
    """A state from a file, its arrays brought to where the data lives."""

    file: Any
    like: Array

    def value(self, told: Any) -> Any:
        """What `Writer.told` was given."""
        if not isinstance(told, dict):
            return told
        if "tensor" in told:
            return self._array(told)
        if "blocks" in told:
            blocks = (self.file.get_tensor(name) for name in told["blocks"])
            return self.like.layout.put(blocks, told["rows"], np.dtype(told["dtype"]))
        if "each" in told:
            return self.like.layout.keep([self.value(one) for one in told["each"]])
        if "items" in told:
            return tuple(self.value(entry) for entry in told["items"])
        fields = {name: self.value(entry) for name, entry in told["fields"].items()}
        return STATES[told["state"]](**fields)

    def _array(self, told: dict[str, Any]) -> Any:
        found = self.file.get_tensor(told["tensor"])
        if is_tensor(self.like):
            import torch

            tensor = torch.from_numpy(np.array(found)).to(self.like.device)
            return tensor.mT if told["turned"] else tensor
        return found.T if told["turned"] else found[()]


def _fields(value: Any) -> list[str]:
    """Names of the fields of a named tuple or a dataclass."""
    if isinstance(value, tuple):
        return list(getattr(value, "_fields"))  # noqa: B009
    return [field.name for field in dataclasses.fields(value)]
