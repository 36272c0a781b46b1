"""Spectra: the axis of features, the grid of samples, and the recipe that finds materials."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from deepnmf import sdnmf_r
from deepnmf.cli.main import main
from deepnmf.data import Dataset, load_samson
from deepnmf.data.dataset import DataError
from deepnmf.evaluation import abundances, unmixing_scores
from tests.report.pages import mixed_scene, record_of


@pytest.fixture(scope="module")
def scene():
    return mixed_scene()


def truth(data):
    return np.stack([*data.references.values()]), np.stack([*data.columns.values()], axis=1)


def test_the_axis_is_of_names_that_are_numbers_in_order():
    X = np.ones((2, 9))
    rising = [str(400 + 2.5 * place) for place in range(9)]
    assert Dataset(X, feature_names=np.array(rising)).axis.tolist()[:2] == [400, 402.5]
    assert Dataset(X, feature_names=np.array(rising[::-1])).axis[-1] == 400
    assert Dataset(X, feature_names=np.arange(9.0)).axis[3] == 3
    for names in (None, ["a", *rising[1:]], [*rising[:8], "401"], rising[:5], [*rising[:8], "nan"]):
        given = None if names is None else np.array(names)
        assert Dataset(X, feature_names=given).axis is None


@pytest.mark.parametrize("grid", [(8, 11), (0, 96), (96,), (-8, -12)])
def test_a_grid_that_does_not_fit_is_refused_in_one_line(scene, grid):
    with pytest.raises(DataError, match="grid") as caught:
        replace(scene, grid=grid)
    assert "\n" not in str(caught.value)


def test_perfect_parts_have_perfect_scores(scene):
    spectra, shares = truth(scene)
    norms = np.linalg.norm(spectra, axis=1)
    order = [2, 0, 1]
    parts = 3 * spectra[order] / norms[order, None]
    scores = unmixing_scores(parts, 5 * shares[:, order], spectra, shares)
    assert scores.match == (1, 2, 0)
    np.testing.assert_allclose(scores.angles, 0, atol=1e-12)
    assert scores.abundance_rmse < 1e-12
    np.testing.assert_allclose(abundances(parts, 5 * shares[:, order]), shares[:, order])
    turned = unmixing_scores(
        np.eye(3), np.eye(3), np.array([[1, 1, 0], [0, 1, 1]]), np.eye(3)[:, :2]
    )
    np.testing.assert_allclose(turned.angles, np.pi / 4)


def test_what_cannot_be_scored_is_refused(scene):
    spectra, shares = truth(scene)
    with pytest.raises(ValueError, match="2 parts cannot be 3 materials"):
        unmixing_scores(spectra[:2], shares[:, :2], spectra, shares)
    with pytest.raises(ValueError, match=r"shares must be .* \(96, 3\), got \(3, 96\)"):
        unmixing_scores(spectra, shares, spectra, shares.T)
    assert abundances(np.eye(2), np.array([[0.0, 0], [1, 3]])).tolist() == [[0, 0], [0.25, 0.75]]


@pytest.fixture(scope="module")
def samson():
    from deepnmf.data.datasets import SAMSON, locate

    if locate(SAMSON) is None:
        pytest.skip(f"{SAMSON.file} is not here: set DEEPNMF_DATA to its folder")
    return load_samson()


@pytest.mark.parametrize(
    ("sizes", "settings"),
    [
        (3, {"random_state": 0}), (3, {"random_state": 1, "start": "random"}),
        (3, {"random_state": 2, "start": "random"}), ((6, 3), {"random_state": 0}),
        ((6, 3), {"random_state": 1, "start": "random"}),
    ],
)  # fmt: skip
def test_the_recipe_finds_the_materials_of_samson(samson, sizes, settings):
    X = normalize(samson.X)
    model = sdnmf_r(sizes, lam=1e-2, **settings).fit(X)
    spectra, shares = truth(samson)
    scores = unmixing_scores(model.components_, model.transform(X), spectra, shares)
    assert scores.spectral_angle <= 0.04
    assert scores.abundance_rmse <= 0.05


def test_samson_is_upright_and_complete(samson):
    assert samson.X.shape == (9025, 156)
    assert (samson.axis[0], samson.axis[-1]) == (401, 889)
    _, shares = truth(samson)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
    water = samson.columns["water"].reshape(samson.grid)
    assert water[:, :15].mean() > 0.9  # the lake is on the left
    assert water[:, 50:].mean() < 0.1


def test_the_command_line_keeps_grid_and_axis(tmp_path, capsys, scene):

    data, bands, model, page = (
        tmp_path / name for name in ("x.npy", "b.txt", "m.safetensors", "r.html")
    )
    np.save(data, scene.X)
    bands.write_text("\n".join(str(value) for value in scene.axis))
    fit = [
        "fit",
        str(data),
        "-o",
        str(model),
        "--model",
        "sdnmf/r",
        "--layers",
        "3",
        "--max-iter",
        "5",
    ]
    names = ["--feature-names", str(bands), "--axis-label", "wavelength (nm)"]
    assert main([*fit, *names, "--grid", "8x12"]) == 0
    assert main(["report", str(model), str(data), "-o", str(page)]) == 0
    record = record_of(page.read_text("utf-8"))
    assert record["grid"] == [8, 12]
    assert record["features"]["axis"]["label"] == "wavelength (nm)"
    assert record["layers"][0]["maps"]["wide"] == 12
    capsys.readouterr()
    for words, code, message in (
        (["--grid", "8x13"], 1, "a grid of 8 x 13 has 104 cells, and there are 96 samples."),
        (["--grid", "wide"], 2, "--grid: 'wide' is not a height and a width, such as 95x95."),
    ):
        for command in (fit, ["report", str(model), str(data), "-o", str(page)]):
            assert main([*command, *words]) == code
            err = capsys.readouterr().err
            assert message in err
            assert err.count("\n") == 1
