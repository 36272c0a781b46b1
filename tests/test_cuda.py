"""A real card, where there is one."""

from __future__ import annotations

import numpy as np
import pytest

import deepnmf
from tests.tables import DEEP, LINKS, named

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device is available to torch"
)


@pytest.mark.parametrize("link", LINKS, ids=named)
@pytest.mark.parametrize("model", DEEP, ids=named)
def test_the_card_equals_the_cpu(model, link, low_rank, dtype):
    X = low_rank.T.astype(dtype)
    settings = {"link": link, "max_iter": 10, "pretrain_iter": 10, "tol": 0, "random_state": 0}
    here = model((8, 5), solver="nesterov", **settings).fit(X)
    there = model((8, 5), device="cuda", **settings).fit(X)
    # Armijo's rule can turn a rounding error into another path: in single precision such links
    # end near each other, not in the same place.
    rel = 1e-6 if dtype == "float64" else 2e-2 if link.degree is not None else 0.2
    assert isinstance(there.components_, np.ndarray)
    assert there.reconstruction_err_ == pytest.approx(here.reconstruction_err_, rel=rel)
    assert there.transform(X).shape == (40, 5)
    assert there.score(X) == pytest.approx(here.score(X), rel=2 * rel)


def test_tensors_stay_on_the_card(low_rank):
    X = torch.from_numpy(low_rank.T.copy()).cuda()
    fitted = deepnmf.sdnmf_l((8, 5), random_state=0, max_iter=5).fit(X)
    Z = fitted.transform(X)
    assert Z.is_cuda
    assert fitted.weights_[0].is_cuda
    assert fitted.inverse_transform(Z).is_cuda
    assert fitted.set_params(device="cpu").transform(X).device.type == "cuda"


def test_a_fitted_model_moves_between_card_and_cpu(low_rank, tmp_path):
    X = low_rank.T
    fitted = deepnmf.sdnmf_l((8, 5), device="cuda", random_state=0, max_iter=5).fit(X)
    fitted.save(tmp_path / "model.safetensors")
    loaded = deepnmf.load(tmp_path / "model.safetensors").set_params(device="cpu")
    np.testing.assert_allclose(loaded.transform(X), fitted.transform(X), rtol=1e-4, atol=1e-6)
