"""Imports and compiles once what every process that runs cases needs."""

from __future__ import annotations

import contextlib
import importlib
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np

import deepnmf
from deepnmf.cli.main import main
from deepnmf.links import LINKS

IMPORTED = (
    "h5py", "pyarrow.parquet", "scipy.io", "sklearn.preprocessing", "zarr", "tests.fuzz.api",
    "tests.fuzz.files", "tests.fuzz.models",
)  # fmt: skip


def warm_up(folder: Path) -> None:
    """Fit through every link in both precisions, and run some commands."""
    X = np.random.default_rng(0).random((12, 8))
    for dtype in ("float32", "float64"):
        for link in LINKS:
            model = deepnmf.sdnmf_l((4, 2), link=link, max_iter=2, pretrain_iter=2)
            model.fit(X.astype(dtype)).transform(X.astype(dtype))
    np.save(folder / "x.npy", X)
    data, fitted = str(folder / "x.npy"), str(folder / "m.safetensors")
    main(["fit", data, "-o", fitted, "--max-iter", "1", "--layers", "2"])
    main(["transform", fitted, data, "-o", str(folder / "codes.csv")])
    main(["info", fitted, "--json"])


for name in IMPORTED:
    importlib.import_module(name)
with (
    tempfile.TemporaryDirectory() as place,
    contextlib.redirect_stdout(io.StringIO()),
    warnings.catch_warnings(),
):
    warnings.simplefilter("ignore")
    warm_up(Path(place))
