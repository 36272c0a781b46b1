from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import deepnmf
from deepnmf.links import Link, Sigmoid, Softplus, Tanh
from tests.tables import LINKS, named


def inside(link: Link) -> np.ndarray:
    low, high = link.domain
    return np.linspace(low, min(high, low + 3), 50)[None, :]


@pytest.mark.parametrize("link", LINKS, ids=named)
def test_g_and_phi_are_inverse(link, place, dtype):
    tolerance = 1e-9 if dtype == "float64" else 1e-3
    x = place(inside(link))
    np.testing.assert_allclose(np.asarray(link.decode(link.project(x))), x, atol=tolerance)
    a = place(np.linspace(0, 2, 50)[None, :])
    np.testing.assert_allclose(np.asarray(link.project(link.decode(a))), a, atol=tolerance)


@pytest.mark.parametrize("link", LINKS, ids=named)
def test_slope_equals_finite_differences(link, place, dtype):
    a, step = np.linspace(1e-3, 4, 60)[None, :], 1e-6
    slope = (link.decode(a + step) - link.decode(a - step)) / (2 * step)
    found = np.asarray(link.slope(place(a)))
    np.testing.assert_allclose(found, slope, rtol=1e-6 if dtype == "float64" else 1e-4)
    assert (slope > 0).all()


@pytest.mark.parametrize("link", LINKS, ids=named)
def test_at_the_edges_of_the_domain(link, place):
    """Whatever is ≥ 0 goes through g and comes out finite and ≥ 0, clipped to the domain."""
    x = np.array([[0, 1e-30, 0.1, 0.5, math.log(2), 0.7, 1, 1.7159, 2, 80]])
    found = np.asarray(link.project(place(x)), dtype=np.float64)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert (np.diff(found) >= 0).all()
    low, high = link.domain
    clipped = np.clip(x, low, high)
    np.testing.assert_allclose(found, np.asarray(link.project(clipped)), rtol=1e-2, atol=1e-3)


def test_the_edges_that_the_docstrings_state():
    assert Sigmoid().project(np.array([[0.0, 0.3, 0.5]])).tolist() == [[0, 0, 0]]
    assert Sigmoid().decode(np.array([[0.0]])) == 0.5
    assert Sigmoid().project(np.array([[1.0]])) == pytest.approx(math.log(999))
    assert Softplus().project(np.array([[0.0, 0.5]])).tolist() == [[0, 0]]
    assert Softplus().decode(np.array([[0.0]])) == pytest.approx(math.log(2))
    assert Softplus().decode(np.array([[1e3]])) == pytest.approx(1e3)
    assert Tanh().decode(np.array([[1e3]])) == pytest.approx(1.7159)
    assert np.isfinite(Tanh().project(np.array([[5.0]]))).all()


@pytest.mark.parametrize("link", LINKS, ids=named)
def test_codes_are_scaled_into_the_domain(link, place, rng):
    for largest in (0.01, 1.0, 30.0):
        H = place(largest * rng.random((4, 5)))
        R = link.scale(H)
        scaled = np.asarray(H / R)
        if link.rescales:
            assert scaled.max() <= 1 + 1e-6
        else:
            assert R == 1
        if link.domain[0] > 0:
            # Something is left above the lower edge for the next layer to learn.
            assert np.asarray(link.project(H / R)).max() > 0


@pytest.mark.parametrize("link", LINKS, ids=named)
def test_what_a_link_claims_about_itself(link, rng):
    A, B = rng.random((2, 3, 4))
    expansion = link.expansion(A, B)
    if expansion is not None:
        for t in (-0.3, 0.5, 2.0):
            exact = link.decode(A + t * B)
            np.testing.assert_allclose(
                link.decode(A) + t * expansion[0] + t**2 * expansion[1], exact
            )
    if link.degree is not None:
        np.testing.assert_allclose(link.decode(3 * A), 3**link.degree * link.decode(A))


@dataclass(frozen=True)
class Cube(Link):
    """g(x) = x^(1/3), φ(x) = x³: somebody's own link."""

    degree = 3.0

    def project(self, H):
        return self.clipped(H) ** (1 / 3)

    def decode(self, A):
        return A**3

    def slope(self, A):
        return 3 * A**2


@pytest.mark.parametrize("scaling", ["paper", "fixed"])
def test_a_link_of_ones_own_is_one_dataclass(low_rank, scaling, tmp_path):
    model = deepnmf.sdnmf_l(
        (8, 5), link=Cube(), scaling=scaling, random_state=0, max_iter=30, tol=0
    )
    model.fit(low_rank.T)
    values = [r["objective"] for r in model.history_ if r["stage"] == "finetune"]
    assert np.diff(values).max() <= 1e-9
    model.save(tmp_path / "model.safetensors")
    loaded = deepnmf.load(tmp_path / "model.safetensors", classes=[Cube])
    np.testing.assert_array_equal(loaded.transform(low_rank.T), model.transform(low_rank.T))


def test_a_link_without_its_slope_is_refused(low_rank):
    class Half(Link):
        def project(self, H):
            return H

        def decode(self, A):
            return A

    with pytest.raises(TypeError, match="slope"):
        Half()  # type: ignore[abstract]
    with pytest.raises(ValueError, match="or a Link"):
        deepnmf.dnmf(link=np.sqrt).fit(low_rank.T)
