from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import deepnmf
from deepnmf.models import storage
from deepnmf.models.storage import ModelFileError, load_stored
from deepnmf.penalties import SquaredL1
from deepnmf.solvers import ProjectedGradient
from deepnmf.starts import Given
from tests import laws
from tests.tables import DEEP, SINGLE, named

QUICK: dict[str, Any] = {"max_iter": 5, "pretrain_iter": 5, "tol": 0, "random_state": 0}


@pytest.mark.parametrize("model", [*DEEP, *SINGLE], ids=named)
def test_saved_and_loaded_is_the_same(model, low_rank, tmp_path, dtype):
    X = low_rank.T.astype(dtype)
    fitted = model(5, **QUICK).fit(X)
    loaded = laws.loaded_is_saved(fitted, X, tmp_path / "model.safetensors")
    assert loaded.get_params() == fitted.get_params()
    assert loaded.fit(X).reconstruction_err_ == pytest.approx(fitted.reconstruction_err_)


def test_settings_names_and_notes_travel(low_rank, tmp_path):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(low_rank.T, columns=[f"gene {i}" for i in range(30)])
    weights = [np.ones((30, 8)), np.ones((8, 5))]
    fitted = deepnmf.DeepNMF(
        (8, 5),
        penalty_W=(SquaredL1(0.5), None),
        solver=ProjectedGradient(max_steps=3),
        start=Given(weights),
        callback=lambda _: None,
        **{**QUICK, "random_state": np.random.RandomState(0)},
    ).fit(X)
    path = tmp_path / "model.safetensors"
    storage.save(fitted, path, {"normalize": "l2"})
    loaded, notes = load_stored(path)
    assert notes == {"normalize": "l2"}
    assert loaded.penalty_W == (SquaredL1(0.5), None)
    assert loaded.solver == ProjectedGradient(max_steps=3)
    assert loaded.callback is None
    assert loaded.random_state is None
    np.testing.assert_array_equal(loaded.start.weights[1], weights[1])
    assert list(loaded.feature_names_in_) == list(X.columns)


def test_a_tensor_model_is_saved_as_arrays(low_rank, tmp_path):
    torch = pytest.importorskip("torch")
    fitted = deepnmf.sdnmf_l((8, 5), **QUICK).fit(torch.from_numpy(low_rank.T.copy()))
    fitted.save(tmp_path / "model.safetensors")
    loaded = deepnmf.load(tmp_path / "model.safetensors")
    assert isinstance(loaded.weights_[0], np.ndarray)
    tensor = torch.from_numpy(low_rank.T.copy())
    np.testing.assert_allclose(loaded.transform(tensor), fitted.transform(tensor), rtol=1e-9)
    # Another solver for arrays, the same codes.
    np.testing.assert_allclose(
        loaded.transform(low_rank.T), fitted.transform(tensor), rtol=1e-3, atol=1e-5
    )


class Doubled(SquaredL1):
    """A penalty that somebody wrote."""

    def gradient(self, F):
        return 2 * super().gradient(F)

    def value(self, F):
        return 2 * super().value(F)

    def lipschitz(self, rows):
        return 2 * super().lipschitz(rows)

    @property
    def uniform(self):
        return 2 * self.strength, 0.0


def test_a_part_of_ones_own(low_rank, tmp_path):
    fitted = deepnmf.DeepNMF(5, penalty_W=Doubled(0.1), **QUICK).fit(low_rank.T)
    fitted.save(tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError, match=r"classes=\[Doubled\]"):
        deepnmf.load(tmp_path / "model.safetensors")
    loaded = deepnmf.load(tmp_path / "model.safetensors", classes=[Doubled])
    assert loaded.penalty_W == Doubled(0.1)


@pytest.fixture
def saved(low_rank, tmp_path):
    path = tmp_path / "model.safetensors"
    deepnmf.sdnmf_l((8, 5), **QUICK).fit(low_rank.T).save(path)
    return path


def test_what_is_no_model_is_refused(saved, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such model file"):
        deepnmf.load(tmp_path / "absent.safetensors")
    with pytest.raises(ModelFileError, match="folder"):
        deepnmf.load(tmp_path)
    content = saved.read_bytes()
    for size in (0, 5, 100, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:size])
        with pytest.raises(ModelFileError, match="not a deepnmf model file, or is cut short"):
            deepnmf.load(saved)
    save_file({"a": np.ones(3)}, saved)
    with pytest.raises(ModelFileError, match="not a deepnmf model"):
        deepnmf.load(saved)
    save_file({"a": np.ones(3)}, saved, {"deepnmf": "{"})
    with pytest.raises(ModelFileError, match="header"):
        deepnmf.load(saved)
    save_file({"a": np.ones(3)}, saved, {"deepnmf": json.dumps({"format": 99, "version": "9.0"})})
    with pytest.raises(ModelFileError, match=r"deepnmf 9.0 in model format 99"):
        deepnmf.load(saved)
    save_file({"a": np.ones(3)}, saved, {"deepnmf": json.dumps({"format": 1, "version": "0"})})
    with pytest.raises(ModelFileError, match="damaged"):
        deepnmf.load(saved)


def test_a_link_is_followed_and_a_device_is_not_replaced(saved, low_rank, tmp_path):
    fitted = deepnmf.load(saved)
    alias = tmp_path / "alias.safetensors"
    alias.symlink_to(saved)
    fitted.save(alias)
    assert alias.is_symlink()
    fitted.save("/dev/null")
    assert not Path("/dev/null").is_file()


def test_a_crash_leaves_the_old_file_whole(saved, low_rank, monkeypatch):
    before = saved.read_bytes()
    other = deepnmf.sdnmf_l((8, 5), **{**QUICK, "random_state": 5}).fit(low_rank.T)

    def crash(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.os, "fsync", crash)
    with pytest.raises(OSError, match="No space left"):
        other.save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
