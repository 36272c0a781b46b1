"""Users' files, read into a `Dataset` by their extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from deepnmf.data.dataset import DataError, Dataset, complete_labels
from deepnmf.data.h5ad import open_h5ad, read_h5ad
from deepnmf.data.images import read_images
from deepnmf.data.labels import read_names
from deepnmf.data.limits import all_entries, checked_sparse
from deepnmf.data.matlab import read_matlab
from deepnmf.data.matrix_market import read_matrix_market
from deepnmf.data.numpy_files import load_npy, npz_shapes, sparse_from_npz
from deepnmf.data.tables import column_names, read_csv, read_parquet
from deepnmf.terminal.text import one_line

if TYPE_CHECKING:
    from deepnmf.arrays import Data


def read(
    path: str | Path,
    *,
    labels: str | Sequence[str] | None = None,
    feature_names: str | Path | None = None,
    layer: str | None = None,
) -> Dataset:
    """Samples from a file or folder.

    .npy, .npz (an array, or a scipy.sparse matrix), .csv and .tsv (header and index column are
    recognised), .parquet, .mtx and .mtx.gz, .mat, .h5ad, .h5 and .hdf5, .zarr, or a folder of
    images of one size, whose sub-folders are the labels. All samples are read into memory, up to
    half of it (DEEPNMF_READ_LIMIT=20GB sets another limit); for more there is `open_on_disk`.

    `labels` is a column of a table (.csv, .tsv, .parquet) or of `obs` (.h5ad): it becomes `y` and
    no feature. Of several, the first becomes `y`. `feature_names` is a file of names for data that
    have none, such as the words of a .mtx: one per line (.txt), the first column of a .csv or .tsv,
    or text in .npy. `layer` names the layer of an .h5ad file to read in place of its X.
    """
    path = Path(path)
    _check_layer(path, layer)
    columns = (labels,) if isinstance(labels, str) else tuple(labels or ())
    dataset = _labelled(path, _read(path, columns, layer), columns)
    return dataset if feature_names is None else with_feature_names(dataset, feature_names)


def with_feature_names(dataset: Dataset, file: str | Path) -> Dataset:
    """The data with the names in a file as the names of the features."""
    names, features = read_names(file), int(dataset.X.shape[1])
    if len(names) != features:
        header = f" Remove the first line if {str(names[0])!r} is a header."
        raise DataError(
            f"{file}: holds {len(names)} names for {features} features."
            + (header if len(names) == features + 1 else "")
        )
    return replace(dataset, feature_names=names)


def _labelled(path: Path, dataset: Dataset, labels: Sequence[str]) -> Dataset:
    """The data with the first of these columns as labels."""
    for name in labels:
        if name not in dataset.columns:
            known = ", ".join(sorted(dataset.columns))
            has = f"Its columns are {known}" if known else "It has no columns besides the samples"
            raise DataError(f"{path}: has no column {one_line(name, 40)!r} for the labels. {has}.")
    if not labels:
        return dataset
    return replace(dataset, y=complete_labels(labels[0], dataset.columns[labels[0]]))


def _read(path: Path, labels: Sequence[str], layer: str | None) -> Dataset:
    """Samples from a file or folder; of a table, without the columns of labels."""
    if path.is_dir() and path.suffix.lower() != ".zarr":
        return read_images(path)
    _check_exists(path)
    name = path.name.lower()
    for extension, reader in READERS.items():
        if name.endswith(extension):
            try:
                if layer is not None:
                    return read_h5ad(path, layer)
                return TABLES[extension](path, labels) if extension in TABLES else reader(path)
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
        f"{path}: unknown kind of file. Known are {', '.join(READERS)} and folders of images. For "
        "texts, give --text, or use read_texts."
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


def has_column(path: str | Path, name: str) -> bool:
    """Whether a file is a table with a column of this name."""
    path = Path(path)
    is_table = path.name.lower().endswith(tuple(TABLES)) and path.is_file()
    return is_table and name in column_names(path)


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    if not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: is not a file, but a pipe or device. Give a file.")


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
        image = " Make a row of every pixel of an image: X.reshape(-1, bands), with --grid."
        raise DataError(
            f"{path}: samples must be a matrix (n_samples, n_features), got shape {X.shape}."
            + (image if len(X.shape) == 3 else "")
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
TABLES = {
    extension: read_parquet if extension == ".parquet" else read_csv
    for extension in (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
}
"""The readers that can leave a column of labels out of the samples."""
ON_DISK: dict[str, Callable[[Path], Dataset]] = {
    ".npy": _open_npy,
    ".h5ad": open_h5ad,
    ".h5": _open_hdf5,
    ".hdf5": _open_hdf5,
    ".zarr": _open_zarr,
}
