from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from deepnmf.data import datasets, load_digits, load_orl, load_pie, load_reuters, load_worm
from deepnmf.data.dataset import DataError


def test_digits():
    data = load_digits()
    assert data.X.shape == (1797, 64)
    assert len(np.unique(data.y)) == 10
    assert data.image_shape == (8, 8)


def is_upright(faces: np.ndarray) -> bool:
    """A face is closer to its mirror image than to itself upside down or turned on its side."""
    mean = faces.mean(axis=0)
    size = min(mean.shape)
    square = mean[:size, :size]
    across = np.linalg.norm(mean - mean[:, ::-1])
    return across < np.linalg.norm(mean - mean[::-1]) and across < np.linalg.norm(square - square.T)


def test_pie(data_file):
    data_file("pie")
    data = load_pie()
    assert data.X.shape == (2856, 1024)
    assert list(np.bincount(data.y)[1:]) == [42] * 68
    assert is_upright(data.X.reshape(-1, 32, 32).astype(float))


def test_orl(data_file):
    data_file("orl")
    data = load_orl()
    assert data.X.shape == (400, 10304)
    assert list(np.bincount(data.y)[1:]) == [10] * 40
    assert is_upright(data.X.reshape(-1, 112, 92).astype(float))


def test_reuters(data_file):
    data_file("reuters")
    data = load_reuters()
    assert data.X.shape == (8293, 18933)
    assert scipy.sparse.issparse(data.X)
    assert len(np.unique(data.y)) == 65
    assert len(data.feature_names) == 18933


def test_worm(data_file):
    data_file("worm")
    pytest.importorskip("h5py")
    data = load_worm()
    assert data.X.shape == (4186, 13488)
    assert scipy.sparse.issparse(data.X)
    assert data.X.nnz < 0.02 * 4186 * 13488
    assert list(np.unique(data.y)) == list(range(1, 11))
    assert len(data.feature_names) == 13488


def test_a_file_with_other_content_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(datasets.FOLDER, str(tmp_path))
    (tmp_path / datasets.PIE.file).write_text("something else")
    with pytest.raises(DataError, match="is not the expected file"):
        load_pie()


def test_a_fetch_that_fails_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv(datasets.FOLDER, raising=False)
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path)
    nowhere = datasets.Remote("absent.mat", "http://localhost:1/absent.mat", "0" * 64)
    with pytest.raises(DataError, match="set DEEPNMF_DATA to its folder"):
        datasets.fetch(nowhere)


def test_a_fetched_file_is_checked_and_kept(tmp_path, monkeypatch):
    import functools
    import hashlib
    import http.server
    import threading

    content = b"some data"
    served, cache = tmp_path / "served", tmp_path / "cache"
    served.mkdir()
    (served / "file.bin").write_bytes(content)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(served))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.delenv(datasets.FOLDER, raising=False)
    monkeypatch.setattr(datasets, "cache_folder", lambda: cache)
    address = f"http://127.0.0.1:{server.server_port}/file.bin"
    good = datasets.Remote("file.bin", address, hashlib.sha256(content).hexdigest())
    try:
        with pytest.raises(DataError, match="could not be fetched"):
            datasets.fetch(datasets.Remote("file.bin", address, "0" * 64))
        assert datasets.fetch(good).read_bytes() == content
    finally:
        server.shutdown()
        server.server_close()
    assert datasets.fetch(good) == cache / "file.bin"
