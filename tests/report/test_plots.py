"""Still pictures show the numbers of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from deepnmf import sdnmf_l
from deepnmf.cli.main import main
from deepnmf.data import load_digits, load_pie
from deepnmf.experiments import fig8
from deepnmf.explain.hierarchy import summaries
from deepnmf.report import plots
from deepnmf.report.choice import choice_figure
from tests.report.pages import choice, mixed_scene
from tests.tables import BRIEF

pytestmark = BRIEF


@pytest.fixture(scope="module")
def data():
    return load_digits()


@pytest.fixture(scope="module")
def model(data):
    few = {"max_iter": 5, "pretrain_iter": 5, "random_state": 0}
    return sdnmf_l((12, 8, 5), mu=1e-3, **few).fit(data.X / 16)


def shown(figure):
    """The numbers over the parts, from the top down."""
    return [text.get_title() for text in figure.axes if text.get_title().replace(".", "").isdigit()]


@pytest.mark.parametrize("shape", [(8, 8), None], ids=["images", "names"])
def test_the_hierarchy_of_a_class_has_its_coefficients_on_the_edges(model, data, shape, tmp_path):
    names = None if shape else [f"f{index}" for index in range(64)]
    figure = plots.class_hierarchy(
        model, data.X / 16, data.y, 4, image_shape=shape, feature_names=names, top=4
    )
    mean = model.transform(data.X[data.y == 4] / 16).mean(0)
    expected, column = [], mean
    for W in [*reversed(model.weights_[1:]), None]:
        ranked = [index for index in np.argsort(-column, kind="stable")[:4] if column[index]]
        expected += [f"{column[index]:.3g}" for index in ranked]
        column = None if W is None else W[:, ranked[0]]
    assert shown(figure) == [text for text in expected if "e" not in text]
    figure.savefig(tmp_path / "class.png")


def test_codes_of_other_classes_are_elsewhere_on_the_map(tmp_path):
    rng = np.random.default_rng(0)
    Z = np.repeat(np.eye(5)[[0, 1, 2]], 20, axis=0) + 0.05 * rng.random((60, 5))
    plane = plots.codes_plane(Z)
    centres = plane.reshape(3, 20, 2).mean(1)
    spread = np.linalg.norm(plane.reshape(3, 20, 2) - centres[:, None], axis=-1).max()
    apart = np.linalg.norm(centres[[0, 0, 1]] - centres[[1, 2, 2]], axis=-1).min()
    assert apart > 5 * spread
    # The norm of a code does not matter.
    np.testing.assert_allclose(plots.codes_plane(3 * Z), plane)
    assert plots.codes_plane(np.ones((4, 1))).shape == (4, 2)
    plots.codes_map(Z, np.repeat(["a", "b", "c"], 20)).savefig(tmp_path / "map.png")
    plots.codes_map(Z).savefig(tmp_path / "map.png")


def test_sparsity_per_layer(model, data, tmp_path):
    layers = summaries(model, data.X / 16)
    figure = plots.sparsity(layers)
    bars: Any = figure.axes[0].patches
    heights = [bar.get_height() for bar in bars]
    assert heights == [layer.zeros for layer in layers] + [layer.sparseness for layer in layers]
    figure.savefig(tmp_path / "sparsity.png")


@pytest.mark.parametrize("stability", [None, 0.9])
def test_the_curves_of_a_choice(stability, tmp_path):
    figure = choice_figure(choice(stability=stability))
    assert len(figure.axes) == (2 if stability is None else 4)
    first, second = figure.axes[:2]
    assert (first.get_title(), second.get_title()) == ("layer 1", "layer 2: does not help")
    assert (first.get_xscale(), second.get_xscale()) == ("log", "linear")
    assert [text.get_text() for text in first.texts] == ["8"]
    marks = {line.get_label(): line.get_xydata().tolist() for line in first.lines}
    assert marks["chosen: 8"] == [[8, 0.22]]
    assert marks["predicts best: 40"] == [[40, 0.2]]
    bars: Any = first.collections[0]
    middle = [0.48, 0.52], [0.19, 0.25], [0.2, 0.2]
    np.testing.assert_allclose([bar[:, 1] for bar in bars.get_segments()], middle)
    assert {line.get_color() for line in second.lines} == {"0.6", "0.75"}
    if stability is not None:
        below, other = figure.axes[2:]
        assert below.lines[0].get_xydata().tolist() == [[8, 0.9], [40, 0.9]]
        assert [text.get_text() for text in other.texts] == ["not measured"]
    figure.savefig(tmp_path / "choose.png")


def test_figure_8_small(tmp_path, data_file, capsys):
    data_file("pie")
    assert main(["reproduce", "fig8", "-o", str(tmp_path)]) == 0
    from deepnmf import load

    model = load(tmp_path / "fig8.safetensors")
    assert [W.shape[1] for W in model.weights_] == [29, 21, 6]
    rows = pd.read_csv(tmp_path / "fig8.csv")
    assert rows["layer"].tolist() == [3] * 5 + [2] * 5 + [1] * 5
    for row in rows[rows["parent"] != "class"].itertuples():
        weight = model.weights_[row.layer][row.unit, int(row.parent)]
        assert row.weight == pytest.approx(weight, rel=1e-6)
    for _, below in rows[rows["parent"] != "class"].groupby("layer"):
        W = model.weights_[below["layer"].iloc[0]][:, int(below["parent"].iloc[0])]
        np.testing.assert_allclose(below["weight"], np.sort(W)[::-1][:5], rtol=1e-6)
    assert {"fig8.png", "fig8.svg"} <= {path.name for path in tmp_path.iterdir()}
    other = tmp_path / "again"
    again = ["reproduce", "fig8", "-o", str(other), "--from-rows"]
    assert main([*again, str(tmp_path / "fig8.safetensors")]) == 0
    pd.testing.assert_frame_equal(pd.read_csv(other / "fig8.csv"), rows)
    assert main([*again, str(tmp_path / "absent")]) == 1
    assert "give a model file" in capsys.readouterr().err


@pytest.mark.long
def test_figure_8_shows_what_the_paper_says_of_it(tmp_path, data_file):
    """A class is mainly made of one part of layer 3; the weights of every layer are sparse. Which
    classes are is decided by rounding: it leads the fit to one minimum or another."""
    data_file("pie")
    assert main(["reproduce", "fig8", "--full", "-o", str(tmp_path)]) == 0
    assert pd.read_csv(tmp_path / "fig8.csv")["layer"][0] == 3
    from deepnmf import load

    X, y = fig8.samples(fig8.settings(full=True), load_pie())
    fitted = load(tmp_path / "fig8-full.safetensors")
    Z = fitted.transform(X)
    codes = np.sort([Z[y == label].mean(axis=0) for label in np.unique(y)], axis=1)
    assert np.median(codes[:, -1] / codes[:, -2]) > 2
    layers = summaries(fitted)
    assert [layer.parts for layer in layers] == [193, 141, 40]
    assert all(layer.zeros > 0.5 for layer in layers)


def test_figure_8_has_the_papers_size():
    full = fig8.settings(full=True)
    assert (full.fit.model, full.fit.layers, full.label) == ("sdnmf/l", (193, 141, 40), 36)
    assert (full.data, full.classes) == ("pie", None)


def test_parts_are_lines_over_the_axis_beside_what_they_should_be(tmp_path):
    scene = mixed_scene()
    known = np.stack([*scene.references.values()])
    figure = plots.part_lines(2 * known[::-1], scene.axis, scene.axis_label, scene.references)
    assert [panel.get_title() for panel in figure.axes] == [
        f"part {part}, and {name} (dashed)" for part, name in ((2, "a"), (1, "b"), (0, "c"))
    ]
    for panel in figure.axes:
        part, reference = panel.get_lines()
        np.testing.assert_array_equal(part.get_xdata(), scene.axis)
        np.testing.assert_allclose(part.get_ydata(), reference.get_ydata(), atol=1e-12)
    assert figure.get_supxlabel() == "wavelength (nm)"
    figure.savefig(tmp_path / "parts.png")
    plain = plots.part_lines(known[:1])
    np.testing.assert_array_equal(plain.axes[0].get_lines()[0].get_xdata(), np.arange(31))


def test_maps_of_codes_stand_upright(tmp_path):
    scene = mixed_scene()
    shares = np.stack([*scene.columns.values()], axis=1)
    figure = plots.code_maps(shares, scene.grid, ["a", "b", "c"])
    panels = [panel for panel in figure.axes if panel.get_title()]
    assert [panel.get_title() for panel in panels] == ["a", "b", "c"]
    for panel, share in zip(panels, shares.T, strict=True):
        image = panel.images[0]
        np.testing.assert_array_equal(image.get_array(), share.reshape(8, 12))
        assert image.get_clim() == (0, 1)
    assert plots.code_maps(5 * shares, scene.grid).axes[0].images[0].get_clim()[1] > 1
    figure.savefig(tmp_path / "maps.png")
    with pytest.raises(ValueError, match="a grid of 8 x 13 has 104 cells"):
        plots.code_maps(shares, (8, 13))


def test_the_hierarchy_of_a_class_draws_lines_over_an_axis():
    scene = mixed_scene()
    model = sdnmf_l((4, 3), max_iter=5, pretrain_iter=5, random_state=0).fit(scene.X)
    y = np.arange(96) % 2
    figure = plots.class_hierarchy(model, scene.X, y, 1, axis=scene.axis, top=2)
    lines = [line for panel in figure.axes for line in panel.get_lines()]
    assert len(lines) >= 10 + 2
    assert not any(panel.patches for panel in figure.axes)
