"""X of every kind: ordinary data, data at the limits of numbers, and what is no data at all."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from tests.fuzz.case import pick
from tests.fuzz.strange import STRANGE, TAKEN


@dataclass(frozen=True)
class Hostile:
    """An X, and what is known about it."""

    X: Any
    about: str
    dense: np.ndarray | None
    """The numbers in X, if X holds numbers in rows and columns."""
    refuse: bool
    """Whether every model must refuse X."""

    @property
    def negative(self) -> bool:
        return self.dense is not None and bool((self.dense < 0).any())

    @property
    def ordinary(self) -> bool:
        """Whether every model must take X."""
        return not self.refuse and "plain" in self.about


SIZES = ((2, 1), (2, 2), (3, 5), (5, 3), (8, 6), (6, 8), (13, 7), (20, 12), (40, 5), (5, 40))
EDGES = ((0, 0), (0, 3), (3, 0), (1, 1), (1, 4), (4, 1), (1, 300), (300, 1), (2, 900), (900, 2))
VALUES = {
    "plain": 30, "counts": 5, "zero": 3, "constant": 3, "rank one": 3, "duplicated": 3,
    "mostly zero": 5, "zero row": 3, "zero column": 3, "faint": 4, "denormal": 4, "huge": 4,
    "mixed": 4, "spike": 4, "minus zero": 2, "nan": 4, "inf": 3, "minus inf": 2, "negative": 3,
    "barely negative": 2,
}  # fmt: skip
REAL = {
    "float64": 30, "float32": 15, "float16": 2, "longdouble": 2, "int64": 2, "int8": 1, "uint8": 2,
    "uint64": 1, "bool": 2, ">f8": 2, "<i2": 1, "object": 2,
}  # fmt: skip
UNREAL = ("complex128", "complex64", "S3", "U4", "datetime64[s]", "timedelta64[ms]", "record",
          "None", "V8")  # fmt: skip
CONTAINERS = {
    "array": 20, "fortran": 3, "strided": 3, "backwards": 2, "read only": 2, "list": 3, "tuple": 1,
    "csr": 5, "csc": 3, "coo": 2, "bsr": 2, "dia": 2, "dok": 2, "lil": 2, "csr matrix": 2,
    "duplicates": 2, "unsorted": 2, "memmap": 2, "frame": 3, "tensor": 4, "dask": 2, "blocks": 3,
    "hdf5": 1, "zarr": 1, "matrix": 1, "masked": 1, "malformed": 6, "strange": 6,
}  # fmt: skip


def hostile(rng: np.random.Generator) -> Hostile:
    """A random X."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _hostile(rng)


def _hostile(rng: np.random.Generator) -> Hostile:
    shape = pick(rng, SIZES) if rng.random() < 0.85 else pick(rng, EDGES)
    values = pick(rng, VALUES)
    dense = _values(values, rng, shape)
    if rng.random() < 0.04:
        name = pick(rng, UNREAL)
        return Hostile(_unreal(dense, name), f"{values} {shape} as {name}", None, refuse=True)
    dtype, container = pick(rng, REAL), pick(rng, CONTAINERS)
    if container == "strange":
        name = pick(rng, [*STRANGE])
        return Hostile(STRANGE[name](), f"{name}", None, refuse=name not in TAKEN)
    typed = dense.astype(dtype) if dtype != "bool" else dense > 0.5
    dense = np.asarray(typed, float)
    about = f"{values} {shape} {dtype} {container}"
    if container == "malformed" and dense.size:
        return Hostile(_malformed(typed, rng), about, None, refuse=True)
    wrong = container == "masked" or not np.isfinite(dense).all()
    X = _contained(typed, container, rng)
    if shape in EDGES or dtype in ("object", "float16") or container == "matrix":
        about = about.replace("plain", "odd")
    return Hostile(X, about, dense, refuse=wrong or 0 in shape)


def _values(name: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Numbers of this kind."""
    X = rng.random(shape)
    if not X.size:
        return X
    place = tuple(int(rng.integers(size)) for size in shape)
    if name == "counts":
        return rng.poisson(2, shape).astype(float)
    if name in ("zero", "constant"):
        return np.full(shape, 0.0 if name == "zero" else float(rng.random() * 10))
    if name == "rank one":
        return np.outer(X[:, 0], X[0])
    if name == "duplicated":
        return np.repeat(X[:1], shape[0], axis=0)
    if name == "mostly zero":
        return X * (rng.random(shape) < 0.2)
    if name == "zero row":
        X[place[0]] = 0
    elif name == "zero column":
        X[:, place[1]] = 0
    elif name == "faint":
        X *= 10.0 ** -rng.integers(10, 300)
    elif name == "denormal":
        X *= 5e-324 * 10.0 ** rng.integers(0, 16)
    elif name == "huge":
        X *= 10.0 ** rng.integers(10, 308)
    elif name == "mixed":
        X = 10.0 ** rng.uniform(-200, 200, shape)
    else:
        X[place] = SPECIAL.get(name, X[place])
    return X


SPECIAL = {"nan": np.nan, "inf": np.inf, "minus inf": -np.inf, "negative": -0.3,
           "barely negative": -1e-300, "minus zero": -0.0, "spike": 1e12}  # fmt: skip


def _unreal(dense: np.ndarray, name: str) -> Any:
    """An array whose entries are not real numbers."""
    whole = np.nan_to_num(dense * 10).clip(-1e6, 1e6)
    if name == "record":
        return np.zeros(dense.shape, [("a", float), ("b", int)])
    if name == "None":
        return np.full(dense.shape, None)
    if name == "V8":
        return np.zeros(dense.shape, "V8")
    if name in ("S3", "U4"):
        return np.full(dense.shape, "abc").astype(name)
    return whole.astype(complex if name.startswith("complex") else int).astype(name)


def _contained(X: np.ndarray, name: str, rng: np.random.Generator) -> Any:
    """The same numbers in another kind of container."""
    if name in PLAIN:
        return PLAIN[name](X)
    if name in SPARSE:
        return SPARSE[name](X if X.dtype.name in SPARSE_TYPES else X.astype(float))
    return FAR[name](X, rng)


def _strided(X: np.ndarray) -> np.ndarray:
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.flags.writeable = False
    return X


def _frame(X: np.ndarray) -> Any:
    import pandas

    return pandas.DataFrame(_native(X), columns=[f"f{i}" for i in range(X.shape[1])])


def _native(X: np.ndarray) -> np.ndarray:
    return np.asarray(X, float) if X.dtype.byteorder == ">" or X.dtype.itemsize == 16 else X


PLAIN: dict[str, Any] = {
    "array": lambda X: X,
    "fortran": np.asfortranarray,
    "strided": _strided,
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read only": _read_only,
    "list": lambda X: X.tolist(),
    "tuple": lambda X: tuple(map(tuple, X.tolist())),
    "matrix": lambda X: X.view(np.matrix),
    "masked": np.ma.masked_array,
    "frame": _frame,
    "malformed": lambda X: X,
}


def _duplicates(X: np.ndarray) -> Any:
    """A COO matrix in which every entry is stored as two halves."""
    whole = scipy.sparse.coo_array(X)
    half = whole.data / 2
    data = np.concatenate([half, whole.data - half])
    rows, columns = (np.concatenate([index, index]) for index in (whole.row, whole.col))
    return scipy.sparse.coo_array((data, (rows, columns)), shape=X.shape)


def _unsorted(X: np.ndarray) -> Any:
    """A CSR matrix whose rows are stored from right to left."""
    csr = scipy.sparse.csr_array(X)
    for start, end in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        csr.indices[start:end] = csr.indices[start:end][::-1].copy()
        csr.data[start:end] = csr.data[start:end][::-1].copy()
    csr.has_sorted_indices = False
    return csr


SPARSE_TYPES = ("float32", "int64", "int8", "uint8", "uint64", "bool", "int16")
SPARSE: dict[str, Any] = {
    name: getattr(scipy.sparse, f"{name}_array")
    for name in ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
} | {
    "csr matrix": scipy.sparse.csr_matrix,
    "duplicates": _duplicates,
    "unsorted": _unsorted,
}


@cache
def folder() -> Path:
    """A folder of this process for files of cases."""
    import atexit
    import shutil

    made = Path(tempfile.mkdtemp(prefix="deepnmf-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _memmap(X: np.ndarray, rng: np.random.Generator) -> Any:
    X = np.asarray(X, float) if X.dtype == object else X
    np.save(folder() / "x.npy", X)
    return np.load(folder() / "x.npy", mmap_mode="r" if X.size else None)


def _tensor(X: np.ndarray, rng: np.random.Generator) -> Any:
    import torch

    X = np.asarray(X, float) if X.dtype.name in ("object", "longdouble", "float128") else _native(X)
    return torch.from_numpy(np.ascontiguousarray(X))


def _dask(X: np.ndarray, rng: np.random.Generator) -> Any:
    import dask.array

    chunks = tuple(max(1, size // int(rng.integers(1, 4))) for size in X.shape)
    return dask.array.from_array(X, chunks=(chunks[0], max(1, X.shape[1])))  # type: ignore[no-untyped-call]


def _blocks(X: np.ndarray, rng: np.random.Generator) -> Any:
    cuts = np.sort(rng.integers(0, X.shape[0] + 1, int(rng.integers(0, 3))))
    blocks = np.split(X, cuts)
    return [scipy.sparse.csr_array(B) for B in blocks] if _sparse_too(X, rng) else blocks


def _sparse_too(X: np.ndarray, rng: np.random.Generator) -> bool:
    return bool(rng.random() < 0.3) and X.dtype in (np.float32, np.float64)


def _hdf5(X: np.ndarray, rng: np.random.Generator) -> Any:
    import h5py

    _close_files()
    path = folder() / f"x{rng.integers(10**9)}.h5"
    with h5py.File(path, "w") as file:
        file["X"] = np.asarray(X, float) if X.dtype == object else X
    opened = h5py.File(path, "r")
    OPENED.append(opened)
    return opened["X"]


OPENED: list[Any] = []


def _close_files() -> None:
    """Close and delete the HDF5 files of earlier cases."""
    while OPENED:
        file = OPENED.pop()
        path = Path(file.filename)
        file.close()
        path.unlink(missing_ok=True)


def _zarr(X: np.ndarray, rng: np.random.Generator) -> Any:
    import zarr

    X = np.asarray(X, float) if X.dtype == object or X.dtype.itemsize == 16 else X
    # Chunks that are not stored, as those of zeros by default, are refused: they may be lost.
    return zarr.array(X, config={"write_empty_chunks": True})


FAR: dict[str, Any] = {
    "memmap": _memmap, "tensor": _tensor, "dask": _dask, "blocks": _blocks, "hdf5": _hdf5,
    "zarr": _zarr,
}  # fmt: skip


def _malformed(X: np.ndarray, rng: np.random.Generator) -> Any:
    """A sparse matrix whose indices lie."""
    X = np.asarray(X, float)
    X[0, 0] = X[-1, -1] = 1.0
    kind = scipy.sparse.csr_array if rng.random() < 0.6 else scipy.sparse.csc_array
    M = kind(X)
    wrong = pick(rng, ["high", "negative", "far", "decreasing", "beyond", "short", "begin"])
    place = int(rng.integers(M.nnz))
    if wrong in ("high", "negative", "far"):
        width = M.shape[1] if M.format == "csr" else M.shape[0]
        M.indices[place] = {"high": width, "negative": -1, "far": 2**30}[wrong]
    elif wrong == "decreasing":
        M.indptr[-2:] = M.indptr[-1], 0
    elif wrong == "beyond":
        M.indptr[-1] += 1000
    elif wrong == "begin":
        M.indptr[0] = 1 + M.nnz
    else:
        M.data = M.data[:place]
    return M
