"""Damaged files, and files that lie about what they hold.

`read` gives a matrix that a model takes or refuses, or says in one line what is wrong.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import deepnmf
from deepnmf.data import open_on_disk, read, read_labels
from tests.fuzz.case import Case, numbered, pick
from tests.fuzz.hostile import folder
from tests.fuzz.mutation import mutated
from tests.fuzz.verdict import demand, judged

POLITE = (ValueError, TypeError, OSError)
LARGEST = 200_000
"""Entries of a matrix that is fitted as well."""


def cases(seed: int, count: int) -> Iterator[Case]:
    return numbered("files", seed, count)


def run(case: Case) -> str | None:
    """What went wrong, or None."""
    rng = case.generator()
    place = folder() / "files"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    make = pick(rng, WRITERS)
    path = make(place, rng)
    finding = judged(lambda: _read(path, rng), POLITE)
    return finding and f"{finding}; {make.__name__} {path.name}"


def _read(path: Path, rng: np.random.Generator) -> None:
    if path.suffix in (".txt", ".labels"):
        demand(read_labels(path).ndim == 1, "other: labels are not a list |")
        return
    on_disk = path.suffix in (".npy", ".h5", ".zarr") and rng.random() < 0.3
    X = (open_on_disk if on_disk else read)(path).X
    demand(len(X.shape) == 2, "accepted: not a matrix |")
    demand(X.dtype.kind in "biuf", "accepted: entries that are not numbers |")
    if X.shape[0] * X.shape[1] > LARGEST:
        return
    model = deepnmf.dnmf(2, max_iter=1, tol=0, random_state=0).fit(X)
    W = model.weights_[0]
    demand(np.isfinite(W).all() and (W >= 0).all(), "nan: a model of a damaged file |")


def _matrix() -> np.ndarray:
    return np.random.default_rng(0).poisson(2.0, (7, 5)).astype(float)


def _sparse(rng: np.random.Generator) -> Any:
    """A CSR or CSC matrix, half of the time with indices that lie."""
    M = (
        scipy.sparse.csr_array(_matrix())
        if rng.random() < 0.6
        else scipy.sparse.csc_array(_matrix())
    )
    M = M.copy()
    if rng.random() < 0.3:
        return M
    name = pick(rng, ["indices", "indptr", "data"])
    array = getattr(M, name)
    wrong = pick(rng, [-1, 2**30, -(2**31), 10**6, 5, 7, 8, M.nnz, M.nnz + 1, 0])
    at = int(rng.integers(len(array)))
    if rng.random() < 0.3:
        setattr(M, name, array[:at] if rng.random() < 0.5 else np.append(array, array[:at]))
    elif name == "data":
        array[at] = pick(rng, [np.nan, np.inf, -1.0, 1e308])
    else:
        array[at] = wrong
    return M


def npy(place: Path, rng: np.random.Generator) -> Path:
    """A header that tells of another shape, type or order."""
    X = _matrix()
    shape = pick(rng, ["(7, 5)", "(35,)", "(7, 5, 1)", "(5, 7)", "(-7, -5)", "(700, 500)", "()",
                       "(1000000000, 1000000)", "(0, 5)", "(7.0, 5)", "('7', 5)",
                       "(99999999999999999999, 1)"])  # fmt: skip
    kind = pick(rng, ["'<f8'", "'<i8'", "'|O'", "'<c16'", "'<U2'", "'<M8[s]'", "'<f4'", "'V8'",
                      "'>f8'", "[('a', '<f8')]", "'<f99'", "None", "__import__('os')",
                      "'|b1'"])  # fmt: skip
    order = pick(rng, ["False", "True", "None", "2"])
    text = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}"
    text += " " * (-len(text) % 64) + "\n"
    length = pick(rng, [len(text), len(text), len(text) - 3, 65535, 0])
    magic = pick(
        rng, [b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x09\x00", b"\x80\x04"]
    )
    return _put(place / "x.npy", magic + struct.pack("<H", length) + text.encode() + X.tobytes())


def npz(place: Path, rng: np.random.Generator) -> Path:
    """A sparse matrix whose arrays do not fit together."""
    M = _sparse(rng)
    parts: dict[str, Any] = {
        "data": M.data, "indices": M.indices, "indptr": M.indptr,
        "format": np.array(M.format.encode()), "shape": np.array(M.shape),
    }  # fmt: skip
    if rng.random() < 0.4:
        name = pick(rng, [*parts])
        other = pick(rng, [np.array(3), np.zeros((2, 2)), np.array([b"x"]), np.array([]),
                           np.array([-7, 5]), np.array([10**9, 10**9]), np.array([np.nan] * 4),
                           np.array(b"coo"), np.array("dia"), None])  # fmt: skip
        if other is None:
            del parts[name]
        else:
            parts[name] = other
    np.savez(place / "x.npz", **parts)
    return place / "x.npz"


def mtx(place: Path, rng: np.random.Generator) -> Path:
    """A Matrix Market file whose words and numbers are exchanged."""
    kind = pick(rng, ["coordinate", "coordinate", "array", "vector", ""])
    field = pick(rng, ["real", "integer", "pattern", "complex", "text"])
    form = pick(rng, ["general", "symmetric", "hermitian", "skew-symmetric", "odd"])
    sizes = pick(rng, ["3 3 3", "3 3 2", "3 3 9", "1000000000 1000000000 3", "-1 3 3", "0 0 0",
                       "3 3",
                       "3 3 3 3", "a b c", "9999999999999999999999 3 3", "3 3 99999999999",
                       "3e0 3 3"])  # fmt: skip
    lines = [
        " ".join(
            pick(
                rng,
                [
                    "1",
                    "2",
                    "3",
                    "1",
                    "2",
                    "3",
                    "0",
                    "4",
                    "-1",
                    "1.5",
                    "nan",
                    "1e999",
                    "x",
                    "",
                    "0x1",
                ],
            )
            for _ in range(int(rng.choice([1, 2, 3, 3, 3, 4])))
        )
        for _ in range(int(rng.integers(0, 6)))
    ]
    text = "\n".join([f"%%MatrixMarket matrix {kind} {field} {form}", "% a comment", sizes, *lines])
    text = text if rng.random() < 0.7 else text[: int(rng.integers(len(text) + 1))]
    return _put(place / "x.mtx", (text + pick(rng, ["\n", "", " ", "\x00"])).encode())


CELLS = (
    "1", "2.5", "0", "3e2", "-1", "nan", "inf", "", "x", "1e999", "1,5", '"', '"2"', "=1+1", "\x00",
    "∞", "١", "0x10", "1_000", "true", "2020-01-01", " 4 ", "\t", "\ufeff1", "\x1b[31m", "NA",
    "1e-400",
)  # fmt: skip


def csv(place: Path, rng: np.random.Generator) -> Path:
    """A table of odd cells, of rows of different length, with a header or without."""
    usual = rng.random() < 0.5
    width = int(rng.integers(1, 6))
    rows = []
    for _ in range(int(rng.integers(0, 8))):
        own = width if rng.random() < 0.9 else int(rng.integers(0, 9))
        rows.append(
            [pick(rng, CELLS[:4] if usual and rng.random() < 0.9 else CELLS) for _ in range(own)]
        )
    between = pick(rng, [",", ",", ";", "\t", " ", "|", ", ", "\x00"])
    lines = [between.join(row) for row in rows]
    if rng.random() < 0.5:
        lines.insert(0, between.join(f"f{i}" if rng.random() < 0.9 else "f0" for i in range(width)))
    text = pick(rng, ["\n", "\n", "\r\n", "\r"]).join(lines) + pick(rng, ["\n", ""])
    codec = pick(rng, ["utf-8", "utf-8", "utf-16", "latin-1", "utf-8-sig"])
    name = pick(rng, ["x.csv", "x.tsv", "x.csv", "x.txt"])
    return _put(place / name, text.encode(codec, "replace"))


def hdf5(place: Path, rng: np.random.Generator) -> Path:
    """Arrays of odd shapes and types, some of them far larger than their file."""
    import h5py

    path = place / "x.h5"
    with h5py.File(path, "w") as file:
        name = pick(rng, ["X", "data", "other", "a/b/X"])
        kind = pick(rng, ["matrix", "huge", "text", "empty", "scalar", "complex", "cube", "link",
                          "outside", "record", "nan", "two"])  # fmt: skip
        if kind == "huge":
            file.create_dataset(name, (10**9, 1000), "f8", chunks=(1000, 1000))
        elif kind == "empty":
            file[name] = h5py.Empty("f8")
        elif kind == "link":
            file[name] = h5py.SoftLink("/nowhere")
        elif kind == "outside":
            file[name] = h5py.ExternalLink("missing.h5", "/X")
        elif kind == "two":
            file["one"], file["two"] = _matrix(), _matrix()
        else:
            file[name] = {
                "matrix": _matrix(), "text": np.full((3, 2), b"ab"), "scalar": 3.0,
                "complex": _matrix() * 1j, "cube": np.ones((2, 2, 2)), "nan": _matrix() * np.nan,
                "record": np.zeros((3, 2), [("a", "f8")]),
            }[kind]  # fmt: skip
    return path


def h5ad(place: Path, rng: np.random.Generator) -> Path:
    """Cells whose sparse matrix or whose names do not fit."""
    import h5py

    path, M = place / "x.h5ad", _sparse(rng)
    n, m = M.shape
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        kind = pick(rng, ["csr_matrix", "csc_matrix", "csr", "dense", "", 3])
        group.attrs["encoding-type"] = f"{M.format}_matrix" if rng.random() < 0.7 else kind
        group.attrs["encoding-version"] = "0.1.0"
        shape = (
            [n, m]
            if rng.random() < 0.7
            else pick(rng, [[m, n], [10**9, 10**9], [-1, 5], [7], [n, m, 1], [7.5, 5]])
        )
        if rng.random() < 0.95:
            group.attrs["shape"] = shape
        for name in ("data", "indices", "indptr"):
            if rng.random() < 0.97:
                group[name] = getattr(M, name)
        for name, size in (("obs", n), ("var", m)):
            size = size if rng.random() < 0.85 else size + 1
            table = file.create_group(name)
            table.attrs["_index"] = pick(rng, ["_index", "_index", "_index", "gone", 3])
            table.attrs["encoding-type"] = "dataframe"
            table.attrs["column-order"] = []
            values = [f"{name}{i}".encode() for i in range(size)]
            table["_index"] = values if rng.random() < 0.9 else np.arange(size)
    return path


def images(place: Path, rng: np.random.Generator) -> Path:
    """A folder of images, some damaged, of other sizes, or enormous by their header."""
    from PIL import Image

    for number in range(int(rng.integers(0, 4))):
        size = (4, 3) if rng.random() < 0.8 else (3, 4)
        mode = pick(rng, ["L", "L", "RGB", "I;16", "1", "P", "RGBA", "F"])
        suffix = "tiff" if mode == "F" else pick(rng, ["png", "pgm", "bmp", "gif", "jpg", "tiff"])
        buffer = io.BytesIO()
        try:
            Image.new(mode, size).save(buffer, {"jpg": "jpeg", "pgm": "ppm"}.get(suffix, suffix))
        except (OSError, ValueError):
            Image.new("L", size).save(buffer, "png")
            suffix = "png"
        content = buffer.getvalue()
        chance = rng.random()
        if chance < 0.3:
            content = mutated(content, rng)
        elif chance < 0.4 and suffix == "png":
            content = content[:16] + struct.pack(">II", 40_000, 40_000) + content[24:]
        below = place / "images" / pick(rng, ["", "a", "b"])
        below.mkdir(parents=True, exist_ok=True)
        (below / f"{number}.{suffix}").write_bytes(content)
    (place / "images").mkdir(exist_ok=True)
    return place / "images"


def zarr(place: Path, rng: np.random.Generator) -> Path:
    """A zarr array with a value of its description exchanged, or a chunk damaged."""
    path = place / "x.zarr"
    shutil.copytree(_original("x.zarr"), path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    file = pick(rng, files)
    if file.suffix == ".json" or file.name.startswith(".z"):
        _put(file, _exchanged(file.read_bytes(), rng))
    elif rng.random() < 0.2:
        file.unlink()
    else:
        _put(file, mutated(file.read_bytes(), rng))
    return path


def _exchanged(content: bytes, rng: np.random.Generator) -> bytes:
    """JSON with another value somewhere."""
    tree = json.loads(content)
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                visit(node[key])

    visit(tree)
    node, key = pick(rng, places)
    node[key] = pick(
        rng, [None, -1, 0, 10**9, 1e300, "x", [], {}, [10**9, 10**9], True, "<c16", "NaN"]
    )
    return json.dumps(tree).encode()


def damaged(place: Path, rng: np.random.Generator) -> Path:
    """A good file with damaged bytes."""
    name = pick(rng, ORIGINALS)
    return _put(place / name, mutated(_original(name).read_bytes(), rng))


ORIGINALS = ("x.npy", "s.npz", "d.npz", "x.csv", "x.tsv", "x.csv.gz", "x.mtx", "a.mtx", "x.mtx.gz",
             "x.mat", "s.mat", "x.h5", "x.h5ad", "x.parquet", "y.txt")  # fmt: skip


@cache
def _originals() -> Path:
    """Good files of every kind."""
    import gzip

    import h5py
    import pandas
    import scipy.io
    import zarr as zarr_library

    place = folder() / "originals"
    place.mkdir()
    X, M = _matrix(), scipy.sparse.csr_matrix(_matrix())
    np.save(place / "x.npy", X)
    np.savez(place / "d.npz", X=X, y=np.arange(len(X)))
    scipy.sparse.save_npz(place / "s.npz", M)
    frame = pandas.DataFrame(X, columns=[*"abcde"])
    frame.to_csv(place / "x.csv", index=False)
    frame.to_csv(place / "x.tsv", sep="\t")
    frame.to_parquet(place / "x.parquet")
    scipy.io.mmwrite(place / "x.mtx", M)
    scipy.io.mmwrite(place / "a.mtx", X)
    for name in ("x.csv", "x.mtx"):
        (place / f"{name}.gz").write_bytes(gzip.compress((place / name).read_bytes()))
    scipy.io.savemat(place / "x.mat", {"X": X, "y": np.arange(len(X))})
    scipy.io.savemat(
        place / "s.mat", {"fea": M.tocsc(), "gnd": np.arange(len(X))}, do_compression=True
    )
    with h5py.File(place / "x.h5", "w") as file:
        file["X"] = X
    h5ad(place, _Honest())  # type: ignore[arg-type]
    (place / "y.txt").write_text("label\n" + "\n".join("abcabca"))
    zarr_library.save_array(str(place / "x.zarr"), X)
    return place


class _Honest:
    """A generator that never lies."""

    def random(self) -> float:
        return 0.0

    def integers(self, *_: Any) -> int:
        return 0


def _original(name: str) -> Path:
    return _originals() / name


def _put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


WRITERS: tuple[Callable[[Path, np.random.Generator], Path], ...] = (
    damaged, damaged, damaged, damaged, npy, npz, npz, mtx, mtx, csv, csv, hdf5, h5ad, h5ad,
    images, zarr,
)  # fmt: skip
