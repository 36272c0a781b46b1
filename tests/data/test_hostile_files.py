"""Files that are damaged, or declare what they do not hold, are refused in one line: no crash, no
hang, and no memory for what is not there."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from deepnmf.data import open_on_disk, read
from deepnmf.data.dataset import DataError
from deepnmf.data.limits import amount_of_memory, physical_memory, read_limit

MTX = "%%MatrixMarket matrix coordinate real general\n"
DENSE_MTX = "%%MatrixMarket matrix array real general\n"
CSR = {
    "data": np.ones(3),
    "indices": np.array([0, 1, 2], np.int32),
    "indptr": np.array([0, 1, 2, 3], np.int32),
}
BILLION = 1_000_000_000


def npz(**changed):
    """A sparse .npz file with some of its arrays changed."""
    arrays = {"format": np.array(b"csr"), "shape": np.array([3, 3]), **CSR, **changed}
    return lambda path: np.savez(path, **arrays)


def h5ad(shape=(3, 3), **changed):
    def write(path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            group = file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", shape
            for name, array in {**CSR, **changed}.items():
                group[name] = array

    return write


def hdf5(name, **settings):
    """A file that declares 10⁹ x 1000 entries and stores none."""

    def write(path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset(name, (BILLION, 1000), dtype="f8", **settings)

    return write


def text(content):
    return lambda path: path.write_text(content)


def npy(shape, after=b""):
    """A .npy file that declares a shape."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return lambda path: path.write_bytes(header.getvalue() + after)


def npz_of(shape):
    def write(path):
        npy(shape)(path)
        member = path.read_bytes()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", member)

    return write


def zarr_array(path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(str(path), shape=(BILLION, 1000), chunks=(BILLION, 1000), dtype="f8")


def broken_mat(path):
    """A row index that points far outside. SciPy does not check it."""
    X = scipy.sparse.csc_matrix(np.diag([5.0, 6.0, 7.0]))
    X.indices[1] = 77777
    scipy.io.savemat(path, {"X": X})


def image(path, width, height):
    """A file that begins as an image of this size and ends there."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"P5 %d %d 255\n" % (width, height))


FILES = {
    # Sparse matrices with indices that point elsewhere.
    "large.npz": (npz(indices=np.array([0, 1, 99999999])), "damaged: 99999999 among its indices"),
    "negative.npz": (npz(indices=np.array([0, 1, -1])), "damaged: -1 among its indices"),
    "falls.npz": (npz(indptr=np.array([0, 3, 1, 3])), "indptr does not rise"),
    "late.npz": (npz(indptr=np.array([0, 1, 2, 99])), "could not be read as .npz"),
    "short.npz": (npz(data=np.ones(1)), "could not be read as .npz"),
    "columns.npz": (
        npz(format=np.array(b"csc"), indices=np.array([0, 1, 99999999])),
        "damaged: 99999999",
    ),
    "coordinates.npz": (
        npz(format=np.array(b"coo"), row=np.array([0, 1, 9999]), col=np.array([0, 1, 2])),
        "could not be read as .npz",
    ),
    "index.h5ad": (h5ad(indices=np.array([0, 1, 99999999])), "damaged: 99999999 among its indices"),
    "below.h5ad": (h5ad(indices=np.array([0, 1, -7])), "damaged: -7 among its indices"),
    "falls.h5ad": (h5ad(indptr=np.array([0, 3, 1, 3])), "indptr does not rise"),
    "shape.h5ad": (h5ad(shape=(3, 2)), "damaged: 2 among its indices"),
    "index.mat": (broken_mat, "damaged: 77777 among its indices"),
    # Matrix Market files that are cut or wrong.
    "cut.mtx": (text(MTX + "3 3 2\n1 1 5\n2 2 1.5e-"), "could not be read as .mtx: .*complete"),
    "bare.mtx": (text(MTX + "3 3 2\n1 1 5\n2 2"), "could not be read as .mtx"),
    "few.mtx": (text(MTX + "3 3 2\n1 1 5\n"), "declares 2 entries and holds 1"),
    "many.mtx": (text(MTX + "3 3 1\n1 1 5\n2 2 5\n"), "declares 1 entries and holds more"),
    "zero.mtx": (text(MTX + "3 3 1\n0 1 5\n"), "index is not between 1 and 3"),
    "far.mtx": (text(MTX + "3 3 1\n1 99999999 5\n"), "index is not between 1 and 3"),
    "wide.mtx": (text(MTX + "3 3 1\n1 1 5 9\n"), "lines have 4 numbers"),
    "word.mtx": (text(MTX + "3 3 1\n1 1 a\n"), "could not be read as .mtx"),
    "null.mtx": (text(MTX + "3 3 1\n" + "\0" * 99), "could not be read as .mtx"),
    "quote.mtx": (text(MTX + '3 3 2\n1 1 "5\n2 2 5\n'), "could not be read as .mtx"),
    "complex.mtx": (text(MTX.replace("real", "complex") + "1 1 1\n1 1 1 1\n"), "complex numbers"),
    "oblong.mtx": (text(MTX.replace("general", "symmetric") + "3 4 0\n"), "symmetric, but 3 x 4"),
    "minus.mtx": (text(MTX + "-3 3 1\n1 1 1\n"), "sizes of the matrix"),
    "kind.mtx": (text("%%MatrixMarket vector array real general\n3\n"), "first line"),
    "dense.mtx": (text(DENSE_MTX + "2 2\n1\n2\n3\n"), "declares 4 entries and holds 3"),
    # Sizes that are declared and not there.
    "huge.mtx": (text(MTX + f"{BILLION} {BILLION} 1\n1 1 1\n"), "rows and columns without entries"),
    "entries.mtx": (text(MTX + f"3 3 {BILLION}\n1 1 1\n"), "more than its size allows"),
    "hugedense.mtx": (text(DENSE_MTX + f"{BILLION} {BILLION}\n1\n"), "more than its size allows"),
    "shape.npz": (npz(shape=np.array([3, 10**12])), "rows and columns without entries"),
    "empty.h5": (hdf5("X"), "take 8e.03 GB in memory.*DEEPNMF_READ_LIMIT"),
    "chunks.hdf5": (hdf5("X", chunks=(1000, 1000)), "take 8e.03 GB in memory"),
    "empty.h5ad": (hdf5("X"), "take 8e.03 GB in memory"),
    "data.h5ad": (hdf5("X/data"), "could not be read as .h5ad|take"),
    "huge.npy": (npy((BILLION, 1000)), "is cut off"),
    "minus.npy": (npy((-1, 3)), "holds no array of numbers"),
    "huge.npz": (npz_of((BILLION, 1000)), "is cut off"),
    "huge.zarr": (zarr_array, "take 8e.03 GB in memory"),
    # Text that is too wide.
    "wide.csv": (text("1," * 300_000 + "1\n"), "line 1 has more than 200000 columns.*numpy.save"),
    "wide.tsv": (text("a\tb\n" + "1\t" * 300_000 + "1\n"), "line 2 has more than 200000 columns"),
    "line.csv": (text("1" * (1 << 24)), "or no end"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore:ind.* array has non-integer dtype")
def test_hostile_files_are_refused_in_one_line(name, tmp_path):
    write, message = FILES[name]
    write(tmp_path / name)
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path / name)
    assert name in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        content = io.BytesIO()
        np.save(content, np.zeros((3000, 1000)))
        archive.writestr("X.npy", content.getvalue())


def packed(content):
    return lambda path: path.write_bytes(gzip.compress(content))


BOMBS = {
    "bomb.npz": bomb,
    "bomb.npy": lambda path: np.save(path, np.zeros((3000, 1000))),
    "bomb.csv.gz": packed(b"0,0,0,0\n" * 3_000_000),
    "bomb.mtx.gz": packed(MTX.encode() + b"9 9 2\n1 1 1\n1 1 " + b"0" * 20_000_000),
    "bomb.mat": lambda path: scipy.io.savemat(
        path, {"X": np.zeros((3000, 1000))}, do_compression=True
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_limit_that_users_can_raise(name, tmp_path, monkeypatch):
    BOMBS[name](tmp_path / name)
    monkeypatch.setenv("DEEPNMF_READ_LIMIT", "10MB")
    with pytest.raises(DataError, match=r"the limit is 0.01 GB. Set DEEPNMF_READ_LIMIT="):
        read(tmp_path / name)
    monkeypatch.setenv("DEEPNMF_READ_LIMIT", "ten")
    with pytest.raises(DataError, match="DEEPNMF_READ_LIMIT: 'ten' is not an amount of memory"):
        read(tmp_path / name)
    if name in ("bomb.npz", "bomb.mat"):
        monkeypatch.setenv("DEEPNMF_READ_LIMIT", "1GB")
        assert read(tmp_path / name).X.shape == (3000, 1000)


def test_images_are_asked_for_their_size_first(tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPNMF_READ_LIMIT", "100MB")
    for number in range(3):
        image(tmp_path / "many" / f"{number}.pgm", 8000, 8000)
    with pytest.raises(DataError, match=r"many: its data take 0.384 GB in memory"):
        read(tmp_path / "many")
    image(tmp_path / "one" / "a.pgm", 100_000, 100_000)
    with pytest.raises(DataError, match=r"a.pgm: could not be read as an image .*bomb"):
        read(tmp_path / "one")
    image(tmp_path / "cut" / "a.pgm", 4, 4)
    with pytest.raises(DataError, match=r"a.pgm: could not be read as an image"):
        read(tmp_path / "cut")


def test_an_array_without_its_chunks_is_not_read_in_blocks(tmp_path):
    from deepnmf import dnmf

    for settings in ({}, {"chunks": (1000, 1000)}):
        hdf5("X", **settings)(tmp_path / "X.h5")
        with pytest.raises(DataError, match="chunks of the array are not in its file"):
            dnmf(2, max_memory="10MB").fit(open_on_disk(tmp_path / "X.h5").X)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes on this system")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "X.npy")
    for reader in (read, open_on_disk):
        with pytest.raises(DataError, match="is not a file, but a pipe"):
            reader(tmp_path / "X.npy")


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_the_arrays_of_a_sparse_matrix_are_read(form, tmp_path):
    X = scipy.sparse.random_array((5, 4), density=0.5, rng=0).asformat(form)
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(tmp_path / "X.npz", **arrays, y=np.arange(5))
    dataset = read(tmp_path / "X.npz")
    assert scipy.sparse.issparse(dataset.X)
    np.testing.assert_array_equal(dataset.X.toarray(), X.toarray())
    assert list(dataset.y) == list(range(5))


A = scipy.sparse.random_array((6, 6), density=0.4, rng=0)
MATRICES = {
    "general": A, "symmetric": A + A.T, "skew": A - A.T, "integer": (9 * A).astype(int),
    "dense": A.toarray(), "dense symmetric": (A + A.T).toarray(), "dense skew": (A - A.T).toarray(),
    "oblong": A.toarray()[:2], "empty": scipy.sparse.csr_array((3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("kind", MATRICES)
def test_matrix_market_is_read_as_scipy_reads_it(kind, tmp_path):
    path = tmp_path / "X.mtx"
    fields = [None, "pattern"] if kind == "general" else [None]
    for field in fields:
        scipy.io.mmwrite(path, MATRICES[kind], comment="a comment", field=field)
        expected, X = scipy.io.mmread(path), read(path).X
        assert X.dtype == expected.dtype
        assert scipy.sparse.issparse(X) == scipy.sparse.issparse(expected)
        dense, expected = (m.toarray() if hasattr(m, "toarray") else m for m in (X, expected))
        np.testing.assert_array_equal(dense, expected)


def test_the_limit_is_half_of_the_memory(monkeypatch):
    monkeypatch.delenv("DEEPNMF_READ_LIMIT", raising=False)
    assert read_limit() == physical_memory() / 2
    assert amount_of_memory("1.5 GB", "") == 1.5e9


def test_damage_anywhere_in_a_matlab_file(tmp_path):
    """SciPy's reader crashes on some of these."""
    good, bad = tmp_path / "good.mat", tmp_path / "bad.mat"
    scipy.io.savemat(good, {"X": scipy.sparse.csc_matrix(np.eye(3)), "y": [1, 2, 3]})
    content = good.read_bytes()
    np.testing.assert_array_equal(read(good).X.toarray(), np.eye(3))
    for place in range(120, len(content)):
        bad.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
        with contextlib.suppress(DataError):  # what else it raises fails the test
            assert read(bad).X.shape
