"""What is not a matrix of real numbers is refused at once, at every door, in the same words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf import DeepNMF
from deepnmf.arrays import to_device
from deepnmf.arrays.sparse import trusted
from deepnmf.baselines import GraphNMF, SemiNMF
from deepnmf.data import load_digits

X = np.random.default_rng(0).random((40, 6))
QUICK = {"max_iter": 2, "pretrain_iter": 2, "tol": 0, "random_state": 0}


def model(**settings):
    return DeepNMF((4, 2), **QUICK, **settings)


def on_disk(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def dask_array(X):
    chunks = (10, -1)
    return pytest.importorskip("dask.array").from_array(X, chunks=chunks, asarray=False)


FITTED = model().fit(X)
DOORS = {
    "in memory": lambda X, _: model().fit(X),
    "max_memory": lambda X, _: model(max_memory="1MB").fit(X),
    "list of blocks": lambda X, _: model().fit([X[:20], X[20:]]),
    "Dask": lambda X, _: model().fit(dask_array(X)),
    "partial_fit": lambda X, _: model().partial_fit(X),
    "baseline": lambda X, _: SemiNMF(2).fit(X),
    "transform": lambda X, _: FITTED.transform(X),
    "score of blocks": lambda X, _: FITTED.score([X, X]),
    "lazy transform": lambda X, _: FITTED.transform(dask_array(X)).compute(),
    "inverse_transform": lambda X, _: FITTED.inverse_transform(X[:, :2]),
    "memmap": lambda X, folder: model(max_memory="1MB").fit(on_disk(X, folder)),
    "small memmap": lambda X, folder: model().fit(on_disk(X, folder)),
}
REFUSED = {
    "complex": (X + 1j, r"Complex data not supported: X has entries of type complex128; \w+ needs"),
    "datetime": ((100 * X).astype("M8[s]"), r"X has entries of type datetime64\[s\]; \w+ needs"),
    "timedelta": ((100 * X).astype("m8[s]"), r"X has entries of type timedelta64\[s\]; \w+ needs"),
    "text": (X.astype("U4"), r"X has entries of type <U4; \w+ needs"),
    "bytes": (X.astype("S4"), r"X has entries of type \|S4; \w+ needs"),
    "structured": (np.zeros(X.shape, [("a", float)]), r"X has entries of type \[\('a'.*structured"),
    "masked": (np.ma.masked_array(X, X > 0.9), r"X is a masked array.*X.filled"),
    "objects of text": (X.astype("U4").astype(object), "X has entries of type str; .* needs real"),
    "complex objects": ((X + 1j).astype(object), "Complex data not supported.* of type complex"),
    "times as objects": (
        np.array([[np.timedelta64(5, "s"), *range(5)]] * 40, dtype=object),
        "X has entries of type timedelta64; .* needs real",
    ),
}
NOT_IN_FILES = ("masked", "objects of text", "complex objects", "times as objects")
CASES = [
    (kind, door)
    for kind in REFUSED
    for door in DOORS
    if "memmap" not in door or kind not in NOT_IN_FILES
]


@pytest.mark.parametrize(("kind", "door"), CASES)
def test_entries_that_are_not_real_numbers(kind, door, tmp_path):
    bad, message = REFUSED[kind]
    with pytest.raises(ValueError, match=message):
        DOORS[door](bad, tmp_path)


@pytest.mark.parametrize("door", ["in memory", "max_memory", "list of blocks", "Dask", "transform"])
def test_objects_that_are_numbers_are_numbers(door, tmp_path):
    DOORS[door](X.astype(object), tmp_path)


class Cells:
    """Like AnnData: it has a length and entries, but it is not an array."""

    def __init__(self):
        self.X, self.obs, self.shape = X, {}, X.shape

    def __len__(self):
        return len(self.X)

    def __getitem__(self, key):
        return self


NOT_ARRAYS = {
    "AnnData": (Cells, "of type Cells.*Pass its X, such as adata.X"),
    "list of AnnData": (lambda: [Cells(), Cells()], "Pass its X, such as adata.X"),
    "Dataset": (load_digits, "of type Dataset.*such as data.X"),
    "text": (lambda: "X.npy", "Read the file first: deepnmf.data.read"),
    "path": (lambda: Path("X.npy"), "Read the file first: deepnmf.data.read"),
    "dict": (lambda: {"data": X}, r'such as X\["data"\]'),
    "set": (lambda: {1, 2}, "of type set"),
    "generator": (lambda: (row for row in X), r"list\(X\).*partial_fit"),
    "None": (lambda: None, "of type NoneType"),
    "list of dicts": (lambda: [{"a": 1}, {"a": 2}], "of type dict"),
    "bytes": (lambda: b"12", "of type bytes"),
    "class": (lambda: np.ndarray, "of type type"),
}


@pytest.mark.parametrize("kind", NOT_ARRAYS)
def test_what_is_not_an_array_is_refused_at_once(kind):
    make, message = NOT_ARRAYS[kind]
    for door in (model().fit, model().partial_fit, FITTED.transform, FITTED.score):
        with pytest.raises(TypeError, match=message):
            door(make())
    with pytest.raises(TypeError, match=message):
        FITTED.inverse_transform(make())


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["1", "2", "3"], "column 'b': X has entries of type str"),
        (np.asarray(["2020-01-01"] * 3, "M8[s]"), "column 'b': X has entries of type datetime64"),
        ("category", "column 'b': X has entries of type category"),
        ([1j, 1, 2], "column 'b': Complex data not supported"),
        ([None, "x", 1], "column 'b': X has entries of type str"),
    ],
    ids=["text", "dates", "categories", "complex", "mixed"],
)
def test_columns_that_are_not_numbers(column, message):
    pd = pytest.importorskip("pandas")
    column = pd.Categorical([1, 2, 1]) if isinstance(column, str) else column
    frame = pd.DataFrame({"a": [1.0, 2, 3], "b": column})
    for given in (frame, [frame, frame]):
        with pytest.raises(ValueError, match=message):
            model().fit(given)
    frame["b"] = pd.array([1, 2, 3], dtype="Int64")
    model().fit(frame)


def tensors():
    torch = pytest.importorskip("torch")
    return {
        "meta": (torch.empty((5, 4), device="meta"), "on the device meta"),
        "complex": (torch.ones((5, 4), dtype=torch.complex64), "Complex data not supported"),
        "sparse": (torch.eye(5).to_sparse(), "scipy.sparse matrix instead"),
        "compressed": (torch.eye(5).to_sparse_csr(), "scipy.sparse matrix instead"),
        "nested": (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested"),
    }


@pytest.mark.parametrize("kind", ["meta", "complex", "sparse", "compressed", "nested"])
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested")
def test_tensors_without_real_numbers(kind):
    bad, message = tensors()[kind]
    with pytest.raises(ValueError, match=message):
        model().fit(bad)
    with pytest.raises(ValueError, match=message):
        FITTED.transform(bad)


@pytest.mark.parametrize(
    "make", [model, lambda: SemiNMF(2, max_iter=2, tol=0)], ids=["deep", "semi"]
)
def test_numpy_data_for_a_model_of_tensors(make):
    torch = pytest.importorskip("torch")
    fitted = make().fit(torch.from_numpy(X))
    expected = fitted.score(torch.from_numpy(X))
    assert fitted.score(X) == pytest.approx(expected)
    assert fitted.score(scipy.sparse.csr_array(X)) == pytest.approx(expected)
    # NumPy reads neither tensors with gradients nor tensors on a card.
    tracked = torch.ones(3, requires_grad=True)
    assert isinstance(to_device(tracked, X), np.ndarray)


@pytest.mark.parametrize("make", [lambda X: [X, X], lambda X: X, dask_array])
def test_samples_without_features(make):
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        model(max_memory="1MB").fit(make(np.zeros((5, 0))))


def broken(form, **arrays):
    """A sparse matrix with some of its arrays replaced, past the checks of its class."""
    matrix = scipy.sparse.csr_array(np.eye(4)).asformat(form)
    for name, array in arrays.items():
        setattr(matrix, name, array)
    return matrix


def int32(*values):
    return np.asarray(values, np.int32)


BROKEN = {
    "index too large": lambda: broken("csr", indices=int32(0, 1, 2, 9999999)),
    "index negative": lambda: broken("csc", indices=int32(0, 1, 2, -1)),
    "indptr falls": lambda: broken("csr", indptr=int32(0, 3, 1, 3, 4)),
    "indptr too long": lambda: broken("csr", indptr=int32(0, 1, 2, 3, 4, 4)),
    "indptr ends too late": lambda: broken("csr", indptr=int32(0, 1, 2, 3, 99999)),
    "indptr starts late": lambda: broken("csr", indptr=int32(1, 1, 2, 3, 4)),
    "few indices": lambda: broken("csr", indices=int32(0, 1)),
    "few entries": lambda: broken("csr", data=np.ones(2)),
    "entries in two axes": lambda: broken("csr", data=np.ones((4, 1))),
    "indices are floats": lambda: broken("csr", indices=np.ones(4)),
    "coordinates": lambda: broken("coo", coords=(int32(0, 1, 2, 99999), int32(0, 1, 2, 3))),
    "few coordinates": lambda: broken("coo", coords=(int32(0, 1), int32(0, 1))),
    "diagonals": lambda: broken("dia", offsets=int32(0, 1)),
    "blocks": lambda: broken("bsr", indices=int32(0, 1, 2, 9999)),
    "lists": lambda: broken("lil", data=np.array([[1.0] * 99, [], [], []], dtype=object)),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_damaged_sparse_matrices_are_refused(kind):
    """SciPy would read or write foreign memory."""
    good = scipy.sparse.csr_array(np.eye(4))
    for X in (BROKEN[kind](), [good, BROKEN[kind]()]):
        with pytest.raises(ValueError, match="the sparse matrix is damaged: .*Build it again"):
            model().fit(X)
    with pytest.raises(ValueError, match="the sparse matrix is damaged"):
        model(max_memory="1MB").fit(BROKEN[kind]())
    with pytest.raises(ValueError, match="the sparse matrix is damaged"):
        GraphNMF(2, graph=BROKEN[kind]()).fit(np.eye(4))


def test_damaged_chunks_of_a_dask_array_are_refused():
    da = pytest.importorskip("dask.array")
    bad = BROKEN["index too large"]()
    given = da.from_array(np.eye(4), chunks=(4, 4)).map_blocks(lambda _: bad, dtype=float)
    with pytest.raises(ValueError, match="the sparse matrix is damaged"):
        model().fit(given)


def test_flags_of_a_sparse_matrix_are_not_believed():
    repeated = scipy.sparse.csr_matrix(
        (np.arange(1.0, 6), int32(0, 0, 1, 2, 2), int32(0, 2, 3, 5)), shape=(3, 3)
    )
    repeated.has_canonical_format = True
    assert not trusted(repeated).has_canonical_format
    fitted = deepnmf.dnmf(2, start="random", **QUICK).fit(repeated)
    expected = deepnmf.dnmf(2, start="random", **QUICK).fit(repeated.toarray())
    assert fitted.reconstruction_err_ == pytest.approx(expected.reconstruction_err_)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia", "dok", "lil", "bsr"])
def test_sound_sparse_matrices_stay_as_they_are(form):
    for kind in (scipy.sparse.csr_array, scipy.sparse.csr_matrix):
        given = kind(X * (X > 0.7)).asformat(form)
        np.testing.assert_array_equal(trusted(given).toarray(), given.toarray())
        assert isinstance(trusted(given), scipy.sparse.spmatrix) == (kind.__name__ == "csr_matrix")


def test_half_precision_that_numpy_does_not_have():
    torch = pytest.importorskip("torch")
    given = torch.from_numpy(X).to(torch.bfloat16)
    fitted = model().fit(given)
    codes = fitted.transform(given)
    rounded = FITTED.inverse_transform(codes.to(torch.bfloat16))
    np.testing.assert_allclose(rounded, FITTED.inverse_transform(codes), rtol=0.02)


@pytest.mark.parametrize("dtype", ["longdouble", ">f8", "float16", "bool"])
def test_codes_of_any_type_for_a_model_of_tensors(dtype):
    torch = pytest.importorskip("torch")
    fitted = model().fit(torch.from_numpy(X))
    codes = (X[:, :2] > 0.5).astype(dtype)
    expected = fitted.inverse_transform(codes.astype(float))
    assert torch.equal(fitted.inverse_transform(codes), expected)
