from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from deepnmf.data import open_on_disk, read, read_labels
from deepnmf.data.dataset import DataError

X = np.array([[1.0, 0.0, 2.5], [0.0, 3.0, 1.0]])
SPARSE = scipy.sparse.csr_matrix(X)


def write_h5ad(path, X=SPARSE):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"] = "csr_matrix"
        group.attrs["shape"] = X.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(X, name)
        for table, names in (("var", ["g1", "g2", "g3"]), ("obs", ["c1", "c2"])):
            frame = file.create_group(table)
            frame.attrs["_index"] = "_index"
            frame["_index"] = np.asarray(names, dtype="S")
        write_columns(file["obs"])


def write_columns(obs):
    """Every kind of column that anndata writes, for two cells."""
    obs["donor"] = np.asarray(["d1", "d2"], dtype="S")
    obs["depth"] = [10, 20]
    obs["type/categories"] = np.asarray(["B", "T"], dtype="S")
    obs["type/codes"] = np.asarray([1, -1], dtype="i1")
    # Unknown kinds and damaged columns are left out.
    obs["doublet/values"], obs["doublet/mask"] = [True, False], [False, True]
    obs["far/categories"], obs["far/codes"] = np.asarray(["B"], dtype="S"), [0, 7]
    obs["nested/categories/values"], obs["nested/codes"] = np.asarray(["B"], dtype="S"), [0, 0]
    obs["scalar"], obs["table"] = 3, [[1, 2], [3, 4]]
    obs["bytes"] = np.asarray([b"\xff", b"a"], dtype="S")
    obs["__categories/old"] = np.asarray(["x", "y"], dtype="S")
    obs["old"] = np.asarray([0, 1], dtype="i1")
    obs["old"].attrs["categories"] = obs["__categories/old"].ref


def write_parquet(path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.DataFrame(X, columns=["a", "b", "c"]).to_parquet(path)


WRITERS = {
    "dense.npy": lambda path: np.save(path, X),
    "dense.npz": lambda path: np.savez(path, X=X, y=[3, 4]),
    "one.npz": lambda path: np.savez(path, whatever=X),
    "sparse-coo.npz": lambda path: scipy.sparse.save_npz(path, SPARSE.tocoo()),
    "sparse-dia.npz": lambda path: scipy.sparse.save_npz(path, SPARSE.todia()),
    "sparse.npz": lambda path: scipy.sparse.save_npz(path, SPARSE),
    "matrix.mtx": lambda path: scipy.io.mmwrite(path, SPARSE),
    "matrix.mat": lambda path: scipy.io.savemat(path, {"fea": SPARSE, "gnd": [[3], [4]]}),
    "cells.h5ad": write_h5ad,
    "table.parquet": write_parquet,
    "plain.csv": lambda path: path.write_text("1,0,2.5\n0,3,1\n"),
    "header.csv": lambda path: path.write_text("a,b,c\n1,0,2.5\n0,3,1\n"),
    "names.csv": lambda path: path.write_text(",a,b,c\nr1,1,0,2.5\nr2,0,3,1\n"),
    "numbered.csv": lambda path: path.write_text(",a,b,c\n0,1,0,2.5\n1,0,3,1\n"),
    "index.tsv": lambda path: path.write_text("gene\ta\tb\tc\nr1\t1\t0\t2.5\nr2\t0\t3\t1\n"),
    "bare.tsv": lambda path: path.write_text("r1\t1\t0\t2.5\nr2\t0\t3\t1\n"),
    "counted.csv": lambda path: path.write_text("gene,1,2,3\nr1,1,0,2.5\nr2,0,3,1\n"),
    "european.csv": lambda path: path.write_text(";a;b;c\nr1;1;0;2,5\nr2;0;3;1\n"),
    "semicolons.csv": lambda path: path.write_text("a;b;c\n1;0;2.5\n0;3;1\n"),
    "commas.csv": lambda path: path.write_text("1,0;0,0;2,5\n0;3;1\n"),
    "tabs.csv": lambda path: path.write_text("a\tb\tc\n1\t0\t2.5\n0\t3\t1\n"),
    "ids.csv": lambda path: path.write_text("Sample_ID,a,b,c\n1001,1,0,2.5\n1002,0,3,1\n"),
    "short.csv": lambda path: path.write_text("a,b,c\nr1,1,0,2.5\nr2,0,3,1\n"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)
    data = read(path)
    dense = data.X.toarray() if scipy.sparse.issparse(data.X) else data.X
    np.testing.assert_array_equal(dense, X)
    if "sparse" in name or name.endswith((".mtx", ".mat", ".h5ad")):
        assert scipy.sparse.issparse(data.X)


def with_layer(path, kind="csr_matrix"):
    """A .h5ad file with X, and 2 X as the layer "counts"."""
    write_h5ad(path)
    stored = 2 * (SPARSE if kind == "csr_matrix" else SPARSE.tocsc())
    with pytest.importorskip("h5py").File(path, "a") as file:
        group = file.create_group("layers/counts")
        group.attrs["encoding-type"], group.attrs["shape"] = kind, X.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(stored, name)
    return path


def test_words_as_anndata_writes_them_with_pandas_3(tmp_path):
    path = tmp_path / "cells.h5ad"
    write_h5ad(path)
    with pytest.importorskip("h5py").File(path, "a") as file:
        del file["var/_index"]
        words = {"var/_index": ["g1", "g2", "g3"], "obs/tissue": ["skin", "gut"]}
        for name, values in words.items():
            group = file.create_group(name)
            group.attrs["encoding-type"] = "nullable-string-array"
            group["values"] = np.asarray(values, dtype="S")
            group["mask"] = np.arange(len(values)) == 1
    data = read(path)
    assert list(data.feature_names) == ["g1", "g2", "g3"]
    assert list(data.columns["tissue"]) == ["skin", None]


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix"])
def test_layers_of_h5ad(kind, tmp_path):
    path = with_layer(tmp_path / "cells.h5ad", kind)
    np.testing.assert_array_equal(read(path, layer="counts").X.toarray(), 2 * X)
    opened = open_on_disk(path, layer="counts")
    np.testing.assert_array_equal(opened.X[:].toarray(), 2 * X)
    assert list(opened.feature_names) == ["g1", "g2", "g3"]
    with pytest.raises(DataError, match=r"no layer 'raw'\. It has the layers counts"):
        read(path, layer="raw")
    np.save(tmp_path / "X.npy", X)
    for reader in (read, open_on_disk):
        with pytest.raises(DataError, match="only .h5ad files have layers"):
            reader(tmp_path / "X.npy", layer="counts")


def test_a_sparse_matrix_on_disk_is_read_by_rows(tmp_path):
    path = with_layer(tmp_path / "cells.h5ad", "csc_matrix")
    stored = open_on_disk(path).X
    assert (stored.shape, stored.dtype, stored.nnz) == (X.shape, X.dtype, SPARSE.nnz)
    for rows in (slice(0, 1), slice(1, 2), slice(1, 1), slice(0, 9)):
        np.testing.assert_array_equal(stored[rows].toarray(), X[rows])
    by_columns = open_on_disk(path, layer="counts").X
    with pytest.raises(DataError, match=r"stored by columns \(CSC\).*tocsr"):
        by_columns[0:1]


@pytest.mark.parametrize("indptr", [[0, 2], [0, 3, 2], [1, 2, 4], [0, 2, 9], [0.0, 2.0, 4.0]])
def test_a_damaged_sparse_matrix_on_disk_is_refused(indptr, tmp_path):
    path = with_layer(tmp_path / "cells.h5ad")
    with pytest.importorskip("h5py").File(path, "a") as file:
        del file["X/indptr"]
        file["X/indptr"] = indptr
    with pytest.raises(DataError, match="damaged"):
        open_on_disk(path)


@pytest.mark.parametrize(
    ("name", "features", "samples"),
    [
        ("plain.csv", None, None),
        ("header.csv", ["a", "b", "c"], None),
        ("names.csv", ["a", "b", "c"], ["r1", "r2"]),
        ("numbered.csv", ["a", "b", "c"], [0, 1]),
        ("index.tsv", ["a", "b", "c"], ["r1", "r2"]),
        ("short.csv", ["a", "b", "c"], ["r1", "r2"]),
        ("european.csv", ["a", "b", "c"], ["r1", "r2"]),
        ("semicolons.csv", ["a", "b", "c"], None),
        ("commas.csv", None, None),
        ("tabs.csv", ["a", "b", "c"], None),
        ("ids.csv", ["a", "b", "c"], [1001, 1002]),
        ("table.parquet", ["a", "b", "c"], None),
        ("cells.h5ad", ["g1", "g2", "g3"], ["c1", "c2"]),
    ],
)
def test_names_are_recognised(name, features, samples, tmp_path):
    WRITERS[name](tmp_path / name)
    data = read(tmp_path / name)
    assert (data.feature_names is None) == (features is None)
    assert features is None or list(data.feature_names) == features
    assert (data.sample_names is None) == (samples is None)
    assert samples is None or list(data.sample_names) == samples


def test_columns_that_are_counted_are_a_header(tmp_path):
    """pandas writes such a header for a table without names."""
    path = tmp_path / "counted.csv"
    path.write_text("0,1,2,3,4\n5,6,7,8,9\n1,2,3,4,5\n")
    assert read(path).X.tolist() == [[5, 6, 7, 8, 9], [1, 2, 3, 4, 5]]
    path.write_text("0,1\n5,6\n")
    assert read(path).X.tolist() == [[0, 1], [5, 6]]


def test_rows_longer_than_the_header_are_refused(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,b\n1,2,3,4\n5,6,7,8\n")
    with pytest.raises(DataError, match=r"rows have 4 entries, the first row has 2.*decimal comma"):
        read(path)


def test_the_columns_of_a_file_of_cells(tmp_path):
    write_h5ad(tmp_path / "cells.h5ad")
    columns = read(tmp_path / "cells.h5ad").columns
    assert {name: values.tolist() for name, values in columns.items()} == {
        "donor": ["d1", "d2"], "depth": [10, 20], "type": ["T", None], "old": ["x", "y"],
    }  # fmt: skip


def test_labels_that_come_with_the_data(tmp_path):
    for name in ("dense.npz", "matrix.mat"):
        WRITERS[name](tmp_path / name)
        assert list(read(tmp_path / name).y) == [3, 4]


def test_compressed_matrix_market(tmp_path):
    WRITERS["matrix.mtx"](tmp_path / "matrix.mtx")
    packed = tmp_path / "matrix.mtx.gz"
    packed.write_bytes(gzip.compress((tmp_path / "matrix.mtx").read_bytes()))
    np.testing.assert_array_equal(read(packed).X.toarray(), X)


def test_a_folder_of_images(tmp_path):
    from PIL import Image

    for person in ("ann", "bob"):
        (tmp_path / person).mkdir()
        for number in range(2):
            pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) + number
            Image.fromarray(pixels).save(tmp_path / person / f"{number}.png")
    data = read(tmp_path)
    assert data.X.shape == (4, 12)
    assert data.image_shape == (3, 4)
    assert list(data.y) == ["ann", "ann", "bob", "bob"]
    np.testing.assert_array_equal(data.X[1].reshape(3, 4), np.arange(12).reshape(3, 4) + 1)
    assert next(iter(data.sample_names)) == "ann/0.png"
    Image.fromarray(np.zeros((5, 5), np.uint8)).save(tmp_path / "odd.png")
    with pytest.raises(DataError, match="Bring all images to one size"):
        read(tmp_path)
    (tmp_path / "odd.png").write_bytes(b"not an image")
    with pytest.raises(DataError, match="odd.png: could not be read as an image"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.csv", "a,b,c\n1,x,2\n3,4,5\n", "column 'b' holds text \\('x'\\)"),
        ("text2.csv", "1,2,3\n4,oops,6\n", "column 2 holds text \\('oops'\\)"),
        ("first.csv", "1,,3\n4,5,6\n", "data row 1, column 2, is missing"),
        ("first2.csv", ",2,3\n4,5,6\n", "data row 1, column 1, is missing"),
        ("first3.csv", "1,NA,3\n4,5,6\n", "data row 1, column 2, is missing"),
        ("gap.csv", "a,b\n1,\n3,4\n", "data row 1, column 'b', is missing"),
        ("empty.csv", "", "is empty"),
        ("head.csv", "a,b,c\n", "no rows"),
        ("ragged.csv", "1,2\n3,4,5\n", "could not be read as .csv"),
        ("broken.npy", "junk", "broken.npy"),
        ("broken.npz", "junk", "broken.npz"),
        ("broken.mat", "junk", "could not be read as .mat"),
        ("broken.mtx", "junk", "could not be read as .mtx"),
        ("broken.h5ad", "junk", "could not be read as .h5ad"),
        ("broken.parquet", "junk", "could not be read as .parquet"),
        ("notes.docx", "junk", "unknown kind of file. Known are .npy"),
    ],
)
def test_bad_files_say_what_is_wrong(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read(path)


def test_other_bad_input(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read(tmp_path / "absent.npy")
    with pytest.raises(DataError, match="holds no images"):
        read(tmp_path)
    np.save(tmp_path / "cube.npy", np.ones((2, 2, 2)))
    with pytest.raises(DataError, match=r"got shape \(2, 2, 2\)"):
        read(tmp_path / "cube.npy")
    np.save(tmp_path / "text.npy", np.array([["a", "b"]]))
    with pytest.raises(DataError, match="not numbers"):
        read(tmp_path / "text.npy")
    np.save(tmp_path / "object.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="object.npy"):
        read(tmp_path / "object.npy")
    np.savez(tmp_path / "two.npz", a=X, b=X)
    with pytest.raises(DataError, match="holds a, b. Name the samples X"):
        read(tmp_path / "two.npz")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("lines.txt", "cat\ndog\ncat\n", ["cat", "dog", "cat"]),
        ("column.csv", "label\n1\n2\n", ["1", "2"]),
        ("pairs.csv", "id,label\na,x\nb,y\n", ["x", "y"]),
        ("places.txt", "Paris, France\nLyon, France\n", ["Paris, France", "Lyon, France"]),
        ("quoted.csv", 'a,"Paris, France"\nb,"Lyon, France"\n', ["Paris, France", "Lyon, France"]),
    ],
)
def test_labels(name, content, expected, tmp_path):
    (tmp_path / name).write_text(content)
    assert list(read_labels(tmp_path / name)) == expected


def test_deep_greys_are_kept(tmp_path):
    from PIL import Image

    pixels = np.array([[0, 4000], [8000, 65535]], dtype=np.uint16)
    Image.fromarray(pixels).save(tmp_path / "deep.png")
    Image.fromarray(pixels).save(tmp_path / "other.png")
    np.testing.assert_array_equal(read(tmp_path).X[0].reshape(2, 2), pixels)


def test_bad_labels(tmp_path):
    (tmp_path / "labels.mat").write_bytes(b"x")
    with pytest.raises(DataError, match="labels are read from"):
        read_labels(tmp_path / "labels.mat")
    np.save(tmp_path / "labels.npy", np.ones((2, 2)))
    with pytest.raises(DataError, match="one-dimensional"):
        read_labels(tmp_path / "labels.npy")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match="no labels"):
        read_labels(tmp_path / "empty.txt")
    with pytest.raises(FileNotFoundError):
        read_labels(tmp_path / "absent.txt")
    (tmp_path / "latin.txt").write_bytes("Zürich\nGenève\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin.txt: is not text in UTF-8 \(byte 1 is 0xfc\)"):
        read_labels(tmp_path / "latin.txt")
    (tmp_path / "long.csv").write_text("a" * 200_000)
    with pytest.raises(DataError, match="not a table of labels"):
        read_labels(tmp_path / "long.csv")


def test_labels_that_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "labels.txt").write_text("Zürich\nGenève\n", encoding="utf-8-sig")
    assert list(read_labels(tmp_path / "labels.txt")) == ["Zürich", "Genève"]
