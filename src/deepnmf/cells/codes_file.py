"""Codes added to a .h5ad file. Everything else in it stays as it was, byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from deepnmf.data.dataset import DataError
from deepnmf.files.atomic import write_atomically

if TYPE_CHECKING:
    import h5py

MAPPING = {"encoding-type": "dict", "encoding-version": "0.1.0"}
ARRAY = {"encoding-type": "array", "encoding-version": "0.2.0"}
AT_ONCE = 1 << 24
"""How many bytes are copied at a time."""


def write_codes(source: Path, target: Path, codes: Mapping[str, np.ndarray]) -> None:
    """Copy a .h5ad file with these codes in its `obsm`. `target` may be `source` itself."""
    import h5py

    def write(file: BinaryIO) -> None:
        with source.open("rb") as original:
            shutil.copyfileobj(original, file, AT_ONCE)
        file.flush()
        with h5py.File(file, "r+") as cells:
            _add(cells, source, codes)

    write_atomically(target, write)


def _add(cells: h5py.File, source: Path, codes: Mapping[str, np.ndarray]) -> None:
    """Add codes to the open file, in place of those of the same name."""
    from h5py import Group

    if not isinstance(cells.get("obsm", cells), Group):
        raise DataError(
            f"{source}: was written by an old anndata. Read it with anndata and write it again."
        )
    obsm = cells["obsm"] if "obsm" in cells else cells.create_group("obsm")
    obsm.attrs.update(MAPPING)
    for name, array in codes.items():
        if name in obsm:
            del obsm[name]
        obsm.create_dataset(name, data=np.ascontiguousarray(array)).attrs.update(ARRAY)
