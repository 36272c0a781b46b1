"""Users' files, read into a `Dataset` by their extension."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from deepnmf.data.dataset import DataError, Dataset
from deepnmf.data.h5ad import open_h5ad, read_h5ad
from deepnmf.data.images import read_images
from deepnmf.data.limits import all_entries, check_text, checked_sparse
from deepnmf.data.matlab import read_matlab
from deepnmf.data.matrix_market import read_matrix_market
from deepnmf.data.numpy_files import load_npy, npz_shapes, sparse_from_npz
from deepnmf.data.tables import read_csv, read_parquet

if TYPE_CHECKING:
    from deepnmf.arrays import Data


def read(path: str | Path, layer: str | None = None) -> Dataset:
    """Samples from a file or folder.

    .npy, .npz (an array, or a scipy.sparse matrix), .csv and .tsv (header and index column are
    recognised), .parquet, .mtx and .mtx.gz, .mat, .h5ad, .h5 and .hdf5, .zarr, or a folder of
    images of one size, whose sub-folders are the labels. All samples are read into memory, up to
    half of it (DEEPNMF_READ_LIMIT=20GB sets another limit); for more there is `open_on_disk`.
    `layer` names the layer of an .h5ad file to read in place of its X.
    """
    path = Path(path)
    _check_layer(path, layer)
    if path.is_dir() and path.suffix.lower() != ".zarr":
        return read_images(path)
    _check_exists(path)
    name = path.name.lower()
    for extension, reader in READERS.items():
        if name.endswith(extension):
            try:
                return reader(path) if layer is None else read_h5ad(path, layer)
            except DataError:
                raise
            except ImportError as problem:
                raise DataError(
                    f"{path}: reading {extension} needs {problem.name}: pip install "
                    "'deepnmf[files]'."
                ) from problem
            except Exception as problem:
                raise DataError(
                    f"{path}: could not be read as {extension} ({_line(problem)}). Is it damaged, "
                    "or of another format?"
                ) from problem
    raise DataError(
        f"{path}: unknown kind of file. Known are {', '.join(READERS)} and folders of images."
    )


def open_on_disk(path: str | Path, layer: str | None = None) -> Dataset:
    """Samples that stay in their file (.npy, .h5ad, .h5, .hdf5 or .zarr) and are read in slices.
    `layer` names the layer of an .h5ad file to read in place of its X."""
    path = Path(path)
    _check_layer(path, layer)
    _check_exists(path)
    opened = ON_DISK.get(path.suffix.lower())
    if opened is None:
        raise DataError(
            f"{path}: only {', '.join(ON_DISK)} can be read piece by piece. Convert the data to "
            "one of them (numpy.save), or work without a memory limit and without Dask."
        )
    try:
        return opened(path) if layer is None else open_h5ad(path, layer)
    except DataError:
        raise
    except ImportError as problem:
        raise DataError(
            f"{path}: reading {path.suffix} needs {problem.name}: pip install 'deepnmf[files]'."
        ) from problem
    except Exception as problem:
        raise DataError(
            f"{path}: could not be opened as {path.suffix} ({_line(problem)}). Is it damaged, or "
            "of another format?"
        ) from problem


def _check_layer(path: Path, layer: str | None) -> None:
    if layer is not None and path.suffix.lower() != ".h5ad":
        raise DataError(f"{path}: only .h5ad files have layers. Leave the layer out.")


def _line(problem: Exception) -> str:
    """What an error says, as part of a line."""
    return " ".join(str(problem).split()).rstrip(".")


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    if not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: is not a file, but a pipe or device. Give a file.")


def read_labels(path: str | Path) -> np.ndarray:
    """Labels from .npy, from text with one label per line, or from the last column of a .csv or
    .tsv. A first line such as "label" or "class" is a header."""
    return read_named_labels(path)[1]


def read_named_labels(path: str | Path) -> tuple[np.ndarray | None, np.ndarray]:
    """The names of samples, if a .csv or .tsv has them in its first column, and their labels."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        labels = load_npy(path)
        if labels.ndim != 1:
            raise DataError(f"{path}: labels must be one-dimensional, got shape {labels.shape}.")
        return None, labels
    if suffix not in ("", ".txt", ".labels", ".csv", ".tsv"):
        raise DataError(f"{path}: labels are read from .npy, .txt, .csv or .tsv.")
    check_text(path)
    lines = [line.strip() for line in _text(path).splitlines() if line.strip()]
    rows = [[line] for line in lines]
    if suffix in (".csv", ".tsv"):
        rows = _cells(path, lines, "\t" if suffix == ".tsv" else ",")
    if rows and rows[0][-1].strip().lower() in HEADINGS:
        rows = rows[1:]
    if not rows:
        raise DataError(f"{path}: holds no labels.")
    named = all(len(row) > 1 for row in rows)
    names = np.asarray([row[0].strip() for row in rows], object) if named else None
    return names, np.asarray([row[-1].strip() for row in rows])


def _text(path: Path) -> str:
    """The text of a file. A mark at its start, as Windows writes it, is left out."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as problem:
        place, wrong = problem.start, problem.object[problem.start]
        raise DataError(
            f"{path}: is not text in UTF-8 (byte {place} is {wrong:#x}). Save it as UTF-8, or give "
            "the labels as .npy."
        ) from None


def _cells(path: Path, lines: list[str], separator: str) -> list[list[str]]:
    """The cells of every line of a table."""
    try:
        return list(csv.reader(lines, delimiter=separator))
    except csv.Error as problem:
        raise DataError(f"{path}: is not a table of labels ({_line(problem)}).") from None


HEADINGS = ("label", "labels", "class", "target", "y", "cluster")
"""First lines that are a header and not a label."""


def _read_npy(path: Path) -> Dataset:
    return _matrix(path, load_npy(path))


def _open_npy(path: Path) -> Dataset:
    return _matrix(path, load_npy(path, "r"))


def _open_hdf5(path: Path) -> Dataset:
    import h5py

    file = h5py.File(path, "r")
    content: dict[str, Data] = {}
    file.visititems(
        lambda name, item: content.update({name: item}) if hasattr(item, "shape") else None
    )
    return _matrix(path, content[_only(path, _shapes(content), ("X", "data"))])


def _open_zarr(path: Path) -> Dataset:
    import zarr

    opened: Data = zarr.open(str(path), mode="r")
    if not hasattr(opened, "shape"):
        content = dict(opened.arrays())
        opened = content[_only(path, _shapes(content), ("X", "data"))]
    return _matrix(path, opened)


def _in_memory(open_file: Callable[[Path], Dataset]) -> Callable[[Path], Dataset]:
    """A reader that opens a file with `open_file` and reads all of it into memory."""

    def read_file(path: Path) -> Dataset:
        dataset = open_file(path)
        return replace(dataset, X=all_entries(path, dataset.X))

    return read_file


def _read_npz(path: Path) -> Dataset:
    shapes = npz_shapes(path)
    X: Data = sparse_from_npz(path, shapes)
    with np.load(path, allow_pickle=False) as content:
        if X is None:
            X = content[_only(path, shapes, ("X", "data", "arr_0"))]
        y = next((content[key] for key in ("y", "labels", "target") if key in shapes), None)
    return _matrix(path, X, y)


def _read_mtx(path: Path) -> Dataset:
    return _matrix(path, read_matrix_market(path))


def _read_mat(path: Path) -> Dataset:
    content = read_matlab(path)
    X = content[_only(path, {key: np.shape(content[key]) for key in content}, ("fea", "X", "data"))]
    y = next((content[key] for key in ("gnd", "y", "labels") if key in content), None)
    return _matrix(path, X, y)


def _only(path: Path, shapes: Mapping[str, tuple[int, ...]], usual: tuple[str, ...]) -> str:
    """The name of the samples in a file of arrays: a usual name, or that of the only matrix."""
    for name in usual:
        if name in shapes:
            return name
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(matrices) == 1:
        return matrices[0]
    raise DataError(
        f"{path}: holds {', '.join(sorted(shapes)) or 'nothing'}. Name the samples X, and the "
        "labels y."
    )


def _shapes(content: Mapping[str, Data]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in content.items()}


def _matrix(path: Path, X: Data, y: ArrayLike | None = None) -> Dataset:
    if getattr(X, "ndim", 2) != 2:
        raise DataError(
            f"{path}: samples must be a matrix (n_samples, n_features), got shape {X.shape}."
        )
    if X.dtype.kind not in "biuf":
        raise DataError(f"{path}: entries are of type {X.dtype}, not numbers.")
    if scipy.sparse.issparse(X):
        X = checked_sparse(path, X)
    name = path.name.split(".")[0]
    return Dataset(X, None if y is None else np.asarray(y).ravel(), name=name)


READERS: dict[str, Callable[[Path], Dataset]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".csv.gz": read_csv,
    ".tsv.gz": read_csv,
    ".parquet": read_parquet,
    ".mtx": _read_mtx,
    ".mtx.gz": _read_mtx,
    ".mat": _read_mat,
    ".h5ad": read_h5ad,
    ".h5": _in_memory(_open_hdf5),
    ".hdf5": _in_memory(_open_hdf5),
    ".zarr": _in_memory(_open_zarr),
}
ON_DISK: dict[str, Callable[[Path], Dataset]] = {
    ".npy": _open_npy,
    ".h5ad": open_h5ad,
    ".h5": _open_hdf5,
    ".hdf5": _open_hdf5,
    ".zarr": _open_zarr,
}
