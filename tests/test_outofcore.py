"""Samples by blocks: the same model as in one piece, in bounded memory."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf.arrays.blocks import Layout, split
from deepnmf.arrays.stores import FileBlocks
from deepnmf.models.settings import memory
from deepnmf.samples.disk import to_rows
from deepnmf.starts import Given
from tests import laws
from tests.laws import ends_as_in_one_piece
from tests.tables import DEAD, DEEP, DTYPES, LINKS, NONLINEAR, SCALINGS, each, mode, some

QUICK: dict[str, Any] = {"max_iter": 10, "pretrain_iter": 8, "tol": 0.0, "random_state": 0}


@pytest.fixture(scope="module")
def X():
    """With noise: where X is nearly of low rank, rounding alone changes the path of a search."""
    rng = np.random.default_rng(0)
    return rng.random((200, 5)) @ rng.random((5, 30)) + 0.5 * rng.random((200, 30))


def in_list(X, folder):
    del folder
    return [X[:70], X[70:71], X[71:150], X[150:]]


def in_sparse_list(X, folder):
    return [scipy.sparse.csr_array(part) for part in in_list(X, folder)]


def in_memmap(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def in_hdf5(X, folder):
    h5py = pytest.importorskip("h5py")
    return h5py.File(folder / "X.h5", "w").create_dataset("X", data=X, chunks=(64, 30))


def in_zarr(X, folder):
    zarr = pytest.importorskip("zarr")
    store = zarr.open(str(folder / "X.zarr"), mode="w", shape=X.shape, chunks=(64, 30), dtype="f8")
    store[:] = X
    return store


def in_memory(X, folder):
    del folder
    return X


KINDS = [in_list, in_sparse_list, in_memmap, in_hdf5, in_zarr, in_memory]


@DEAD
@some(
    "link,preset,scaling",
    [
        *zip([LINKS[0]] * len(DEEP), DEEP, itertools.cycle(SCALINGS)),
        (NONLINEAR[0], deepnmf.sdnmf_l, "fixed"),
        (NONLINEAR[1], deepnmf.sdnmf_rl1, "paper"),
    ],
    LINKS,
    DEEP,
    SCALINGS,
)
def test_many_blocks_are_one_block(link, preset, scaling, X):
    settings = {"link": link, **mode(scaling, link), **QUICK}
    blocks = preset((8, 5), **settings).fit(in_list(X, None))
    ends_as_in_one_piece(lambda: preset((8, 5), **settings), X, blocks)
    assert blocks.score(in_list(X, None)) == pytest.approx(blocks.score(X), rel=1e-9)
    np.testing.assert_allclose(
        blocks.transform(in_list(X, None)), blocks.transform(X), rtol=1e-6, atol=1e-8
    )


CHOICES: list[dict[str, Any]] = [
    {"start": "random"}, {"fill": "zero"}, {"fill": "mean"}, {"fill": 0.1},
    {"solver": "nesterov"}, {"solver": "projected_gradient"}, {"project_codes": True},
]  # fmt: skip


@each("settings,link", CHOICES, ["identity", "root"])
def test_every_choice_works_on_blocks(settings, link, X):
    settings = {"link": link, **QUICK, **settings}
    whole = deepnmf.sdnmf_rl1((8, 5), **settings).fit(X)
    blocks = deepnmf.sdnmf_rl1((8, 5), **settings)
    codes = blocks.fit_transform(in_list(X, None))
    if settings.get("solver") == "projected_gradient":
        # Armijo's rule accepts or halves: a rounding error at the border leads to other steps.
        laws.same_until_searched(whole, blocks, rel=1e-5)
    else:
        last = whole.history_[-1]["objective"]
        assert blocks.history_[-1]["objective"] == pytest.approx(last, rel=1e-5)
    assert codes.shape == (200, 5)
    assert blocks.code_scale_ == pytest.approx(whole.code_scale_, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_wherever_the_samples_are(kind, dtype, X, tmp_path):
    X = X.astype(dtype)
    given = kind(X, tmp_path)
    small: dict[str, Any] = {} if isinstance(given, list) else {"max_memory": "60kB"}
    here = deepnmf.sdnmf_l((8, 5), **QUICK).fit(X)
    there = deepnmf.sdnmf_l((8, 5), **small, **QUICK).fit(given)
    end = here.history_[-1]["objective"]
    assert there.history_[-1]["objective"] == pytest.approx(
        end, rel=1e-5 if dtype == "float64" else 1e-3
    )
    single = dtype == "float32" and kind is not in_zarr
    assert there.weights_[0].dtype == ("float32" if single else "float64")
    codes = there.transform(given)
    np.testing.assert_allclose(codes, there.transform(X), rtol=1e-3, atol=1e-4)
    # Too small for memory, codes are in a file that is mapped; the same numbers.
    assert isinstance(codes, np.memmap) == (bool(small) and codes.nbytes > 4 * 60e3 / 8)


@pytest.mark.parametrize("shape", [(200, 30), (30, 40), (20, 7000)])
def test_more_features_than_samples_and_parts_than_rank(shape, rng):
    X = rng.random((shape[0], 4)) @ rng.random((4, shape[1])) + 0.3 * rng.random(shape)
    model = deepnmf.dnmf((25, 6), **QUICK | {"max_iter": 4, "pretrain_iter": 4})
    here = model.fit(X).history_[-1]["objective"]
    there = model.fit([X[:7], X[7:]]).history_[-1]["objective"]
    # Past 6000 features the SVD is by subspace iteration, from other random numbers.
    assert there == pytest.approx(here, rel=1e-5 if shape[1] < 6000 else 2e-2)


def test_a_given_start_and_few_samples(X):
    model = deepnmf.sdnmf_l((8, 5), **QUICK).fit(X)
    settings = QUICK | {"start": Given(model.weights_, model.transform(X))}
    here = deepnmf.sdnmf_l((8, 5), **settings).fit(X)
    there = deepnmf.sdnmf_l((8, 5), **settings).fit(in_list(X, None))
    end = here.history_[-1]["objective"]
    assert there.history_[-1]["objective"] == pytest.approx(end, rel=1e-5)


def test_stored_codes_come_back(rng):
    layout = Layout((3, 5, 2), room=0)
    blocks = FileBlocks(layout, 4, "float32")
    parts = [rng.random((4, width)).astype("float32") for width in layout.widths]
    for index in (2, 0, 1):
        blocks[index] = parts[index]
    for index, part in enumerate(parts):
        np.testing.assert_array_equal(blocks[index], part)
    whole = np.concatenate(parts, axis=1)
    rows = to_rows(split(whole, layout))
    assert isinstance(rows, np.memmap)
    np.testing.assert_array_equal(rows, whole.T)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda blocks: blocks[2].__setitem__((5, 3), np.nan), "block 2 (samples 71 to 149"),
        (lambda blocks: blocks[3].__setitem__((0, 0), -1), "block 3"),
        (lambda blocks: blocks.__setitem__(1, np.ones((1, 29))), "29 features, block 0 has 30"),
        (lambda blocks: blocks.__setitem__(1, np.ones((1, 30), "f4")), "block 1 is float32"),
        (lambda blocks: blocks.__setitem__(slice(None), [np.ones((0, 30))]), "0 samples"),
    ],
)
def test_bad_blocks_are_named(spoil, words, X):
    blocks = in_list(X.copy(), None)
    spoil(blocks)
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        deepnmf.dnmf(4).fit(blocks)


def test_bad_settings_are_refused(X):
    for amount in ("much", "-3MB", 0, True, "1.2.3GB"):
        with pytest.raises(ValueError, match="max_memory"):
            deepnmf.dnmf(4, max_memory=amount).fit(X)
    assert [memory(text) for text in ("600MB", "2 GB", "1.5g", 1000, None)] == [
        6e8, 2e9, 1.5e9, 1000, None,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="blocks is fitted on the CPU"):
        deepnmf.dnmf(4, device="cuda").fit(in_list(X, None))
    model = deepnmf.dnmf(4, **QUICK).fit(X)
    with pytest.raises(ValueError, match="29 features, but DeepNMF is expecting 30"):
        model.transform([np.ones((3, 29))])


MEASURED = """
import re, sys
from pathlib import Path
import numpy as np
import deepnmf

def peak():  # of this process alone: ru_maxrss would count the one that started it
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))

X = np.load(sys.argv[1], mmap_mode="r")
settings = {"link": sys.argv[2], "max_iter": 2, "pretrain_iter": 2}
deepnmf.sdnmf_l((32, 8), **settings).fit(np.array(X[:100]))
before = peak()
for limit in ("40MB", None):  # the peak only grows: the smaller one first
    deepnmf.sdnmf_l((32, 8), max_memory=limit, **settings).fit(X)
    print((peak() - before) / 1000)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to measure memory")
@pytest.mark.parametrize("link", ["identity", "root"])
def test_memory_is_bounded(link, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "X.npy"
    X = np.lib.format.open_memmap(path, "w+", dtype="float32", shape=(200_000, 128))
    for low in range(0, len(X), 20_000):
        X[low : low + 20_000] = rng.random((20_000, 128), dtype="float32")
    X.flush()
    del X
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path), link], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    bounded, unbounded = map(float, done.stdout.split())
    # Of 102 MB of data and 26 MB of codes, several times.
    assert bounded < 60
    assert unbounded > 200


REUTERS = """
import re, sys
from pathlib import Path
import numpy as np
import deepnmf
from deepnmf.data import load_reuters
from sklearn.feature_extraction.text import TfidfTransformer

X = TfidfTransformer().fit_transform(load_reuters().X).astype(np.float32)
settings = {"link": sys.argv[1], "scaling": sys.argv[2], "max_iter": 5, "pretrain_iter": 10}
deepnmf.sdnmf_l((100, 20), random_state=0, **settings).fit(X)
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to measure memory")
@pytest.mark.parametrize("link", ["identity", "root"])
@pytest.mark.parametrize(("scaling", "megabytes"), [("paper", 400), ("fixed", 460)])
def test_reuters_takes_little_memory(link, scaling, megabytes, data_file):
    """All of the process: interpreter, libraries and the fit. A loss on every layer keeps the codes
    of all layers."""
    data_file("reuters")
    command = [sys.executable, "-W", "ignore", "-c", REUTERS, link, scaling]
    for _ in range(2):  # the first may compile kernels, which takes memory that a fit does not
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < megabytes * 1e6
