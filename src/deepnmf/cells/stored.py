"""A model in `uns`: arrays, numbers and words alone, so that it can be written to .h5ad and .zarr.

| in uns[key] | |
| --- | --- |
| params | how the model was fitted, as scanpy has it |
| weights | W_1 … W_L |
| history | one array per column of `history_` |
| results | support, if the model is a consensus, and what else it stores |
| header | everything else, as JSON |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from deepnmf.files.model import Packed
from deepnmf.models.storage import Stored, contents, rebuilt

if TYPE_CHECKING:
    from deepnmf.models.base import MatrixFactorization

HISTORY = "history_"


def packed_for_uns(
    model: MatrixFactorization, params: Mapping[str, Any], notes: Mapping[str, Any]
) -> dict[str, Any]:
    """A model as `uns` can hold it."""
    packed = contents(model, dict(notes))
    groups: dict[str, dict[str, np.ndarray]] = {"weights": {}, "history": {}, "results": {}}
    for name, array in packed.tensors.items():
        group = _group_of(name)
        groups[group][name.removeprefix(HISTORY)] = np.asarray(array)
    settings = {name: value for name, value in params.items() if value is not None}
    filled = {group: arrays for group, arrays in groups.items() if arrays}
    return {"params": settings, "header": json.dumps(packed.header), **filled}


def model_in(entry: Any, where: str, classes: Iterable[type]) -> Stored:
    """The model that `packed_for_uns` packed, and its notes."""
    if not isinstance(entry, Mapping) or "header" not in entry or "weights" not in entry:
        raise ValueError(f"{where} holds no model of deepnmf. Write one with deepnmf.cells.fit.")
    tensors: dict[str, np.ndarray] = {}
    for group in ("weights", "history", "results"):
        prefix = HISTORY if group == "history" else ""
        for name, array in entry.get(group, {}).items():
            tensors[prefix + name] = np.asarray(array)
    try:
        header = json.loads(str(entry["header"]))
    except ValueError:
        header = {}  # refused with everything else that is damaged
    return rebuilt(Packed(tensors, header), where, classes)


def _group_of(name: str) -> str:
    if name.startswith("W_"):
        return "weights"
    return "history" if name.startswith(HISTORY) else "results"
