"""The numbers in the page are the model's, and the page stays small."""

from __future__ import annotations

import io
import re
import warnings
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest

from deepnmf import DeepNMF, sdnmf_l
from deepnmf.cli.main import main
from deepnmf.data import Dataset, load_digits
from deepnmf.explain.decoding import parts
from deepnmf.explain.hierarchy import distinctions, explain, summaries
from deepnmf.models.baselines import SemiNMF
from deepnmf.report import write_pictures, write_report
from deepnmf.report.content import content
from deepnmf.report.plots import class_hierarchy, convergence
from tests.report.pages import (
    blank,
    choice,
    columns,
    mixed_scene,
    numbers,
    record_of,
    with_support,
)
from tests.tables import BRIEF

pytestmark = BRIEF
FEW = {"max_iter": 5, "pretrain_iter": 5, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    digits = load_digits()
    return replace(digits, X=digits.X / 16)


@pytest.fixture(scope="module", params=["identity", "root", "softplus"])
def model(request, data):
    scaling = "paper" if request.param == "softplus" else "fixed"
    settings = {"link": request.param, "scaling": scaling, **FEW}
    return sdnmf_l((20, 12, 6), mu=1e-3, **settings).fit(data.X)


@pytest.fixture(scope="module")
def Z(model, data):
    return model.transform(data.X)


@pytest.fixture(scope="module")
def record(model, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    return record_of(write_report(model, data, path, {"model": "sdnmf/l"}).read_text())


def test_the_weights_on_the_edges_are_the_models(model, record):
    for layer in (2, 3):
        W = model.weights_[layer - 1]
        edges = columns(record["layers"][layer - 1]["edges"])
        assert len(edges) == W.shape[1]
        for unit, (index, weight, _) in enumerate(edges):
            assert set(index) == set(np.flatnonzero(W[:, unit].astype(np.float32)))
            np.testing.assert_array_equal(weight, W[index, unit].astype(np.float32))


def test_the_shares_on_the_edges_are_those_of_the_tree(model, data, record):
    for unit, (index, _, share) in enumerate(columns(record["layers"][2]["edges"])):
        tree = explain(model, unit=unit, top=None)
        wanted = {node.unit: node.share for node in tree.children[0].children}
        np.testing.assert_allclose(share / 65535, [wanted[i] for i in index], atol=1e-5)
        assert (np.diff(share.astype(int)) <= 0).all()
    fours = data.y == 4
    tree = explain(model, data.X[fours], label=4, labels=data.y[fours], top=None)
    index, weight, share = columns(record["classes"]["codes"])[4]
    np.testing.assert_allclose(weight, tree.code[index], rtol=1e-6)
    wanted = {node.unit: node.share for node in tree.children}
    np.testing.assert_allclose(share / 65535, [wanted[i] for i in index], atol=1e-5)


def test_features_of_parts_and_parts_of_features(model, record):
    for layer in (1, 2, 3):
        P = parts(model, layer).astype(np.float32)
        table = record["layers"][layer - 1]["features"]
        index = numbers(table["index"]).reshape(len(P), table["each"])
        value = numbers(table["weight"]).reshape(len(P), table["each"])
        np.testing.assert_array_equal(value, np.take_along_axis(P, index.astype(int), 1))
        np.testing.assert_allclose(value, -np.sort(-P, axis=1)[:, : table["each"]])
        held = record["layers"][layer - 1]["holders"]
        peak = np.abs(P).max(1)
        prominence = P / np.where(peak > 0, peak, 1)[:, None]
        value = numbers(held["weight"]).reshape(64, held["each"])
        np.testing.assert_allclose(value, -np.sort(-prominence.T, axis=1)[:, : held["each"]])


def test_samples_of_every_class_with_their_codes(Z, data, record):
    samples = record["samples"]
    rows = numbers(samples["rows"])
    assert len(rows) == len(set(rows)) == 1000
    assert samples["total"] == 1797
    np.testing.assert_array_equal(numbers(samples["classes"]), data.y[rows])
    assert np.bincount(data.y[rows]).min() == 100
    index, weight, _ = columns(samples["codes"])[7]
    np.testing.assert_allclose(weight, Z[rows[7], index], rtol=1e-5, atol=1e-6)
    assert record["classes"]["names"] == [str(label) for label in range(10)]
    for label in range(10):
        units = distinctions(Z.astype(float), data.y, label)
        expected = [(unit.unit, unit.difference) for unit in units if unit.difference > 0]
        shown = [(unit, gap) for unit, _, _, gap in record["classes"]["distinct"][label]]
        assert [unit for unit, _ in shown] == [unit for unit, _ in expected]
        assert [gap for _, gap in shown] == pytest.approx([gap for _, gap in expected])


def test_pictures_are_the_parts(model, record):
    from PIL import Image

    sprite = record["layers"][0]["sprite"]
    sheet = np.asarray(Image.open(io.BytesIO(b64decode(sprite["png"]))))
    P = parts(model, 1)
    for unit, part in enumerate(P):
        row, column = divmod(unit, sprite["across"])
        picture = sheet[8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
        peak = part.max() or 1
        np.testing.assert_allclose(picture / 255, part.reshape(8, 8) / peak, atol=1 / 500)


def test_summaries_and_warnings(model, data, record):
    for shown, summary in zip(record["layers"], summaries(model, data.X), strict=True):
        assert shown["dead"] == list(summary.dead)
        assert shown["zeros"] == pytest.approx(summary.zeros)
        warned = [text for text in record["warnings"] if f"Layer {summary.layer}:" in text]
        assert len(warned) == bool(summary.dead) + bool(summary.redundant)
    stopped = model.reason_ == "limit"
    assert any(text.startswith("Not converged") for text in record["warnings"]) == stopped
    assert stopped or model.link == "softplus"
    importance = numbers(record["layers"][0]["importance"])
    assert importance.sum() == pytest.approx(1, abs=1e-5)


def test_many_features_and_many_units_stay_small(tmp_path):
    rng = np.random.default_rng(0)
    model, X = blank((1000, 40), 20_000, 60, rng)
    names = np.asarray([f"a gene of some length {index}" for index in range(20_000)], object)
    data = Dataset(X, np.arange(60) % 5, feature_names=names)
    path = write_report(model, data, tmp_path / "report.html")
    assert path.stat().st_size < 20e6
    record = record_of(path.read_text())
    index, weight, share = columns(record["layers"][1]["edges"])[3]
    W = model.weights_[1]
    np.testing.assert_array_equal(weight, W[index, 3])
    assert len(index) == (W[:, 3] != 0).sum() - numbers(record["layers"][1]["edges"]["more"])[3]


def test_weights_that_are_left_out_are_counted(monkeypatch):
    from deepnmf.report import content as module

    monkeypatch.setattr(module, "EDGES", 0)
    monkeypatch.setattr(module, "LEAST", 4)
    rng = np.random.default_rng(0)
    model, X = blank((30, 8), 50, 20, rng)
    edges = content(model, Dataset(X), {})["layers"][1]["edges"]
    W = model.weights_[1]
    for unit, (index, _weight, share) in enumerate(columns(edges)):
        assert len(index) == 4
        assert numbers(edges["more"])[unit] == (W[:, unit] != 0).sum() - 4
        total = share.sum() + int(numbers(edges["left"])[unit])
        assert total / 65535 == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("labels", [None, np.zeros(30, int), np.arange(30)], ids=["no", "1", "30"])
def test_plain_numbers_one_layer_any_labels(labels, low_rank, tmp_path):
    X = low_rank.T[:30]
    record = content(DeepNMF(4, max_iter=3, random_state=0).fit(X), Dataset(X, labels), {})
    assert record["features"]["kind"] == "numbers"
    assert record["layers"][0]["profiles"]["points"] == 30
    assert (record["classes"] is None) == (labels is None)
    assert (record["scores"] is None) == (labels is None or len(set(labels)) == 1)


def test_scores_are_those_of_the_codes_that_transform_gives(data):
    from deepnmf.evaluation import cluster_scores

    few = replace(data, X=data.X[:300], y=data.y[:300])
    model = sdnmf_l((12, 8), link="root", project_codes=True, **FEW).fit(few.X)
    shown = content(model, few, {})["scores"]
    wanted = cluster_scores(model.transform(few.X), few.y)
    assert shown["head"][1:3] == ["NMI", "NP"]
    assert shown["rows"][0][1] == f"{wanted['nmi']:.3f}"


def test_more_classes_than_a_page_can_show(monkeypatch):
    from deepnmf.report import content as module

    monkeypatch.setattr(module, "CLASSES", 10)
    model, X = blank((6, 4), 12, 30, np.random.default_rng(0))
    record = content(model, Dataset(X, np.arange(30) % 11), {})
    assert record["classes"] is None
    assert record["scores"] is None
    assert "11 classes are more than the 10" in record["warnings"][-1]


def test_parts_of_any_sign(low_rank, tmp_path):
    X = low_rank.T - low_rank.mean()
    path = write_report(SemiNMF(4, max_iter=5).fit(X), Dataset(X), tmp_path / "report.html")
    assert record_of(path.read_text())["layers"][0]["parts"] == 4


def test_how_the_sizes_were_chosen():
    model, X = blank((8,), 20, 30, np.random.default_rng(0))
    assert content(model, Dataset(X), {})["choice"] is None
    model.choice_ = choice()
    shown = content(model, Dataset(X), {})["choice"]
    assert shown["sentences"] == model.choice_.sentences()
    first, second = shown["layers"]
    assert (first["chosen"], first["best"]) == (8, 40)
    assert [(layer["helps"], layer["doubling"]) for layer in (first, second)] == [
        (True, True),
        (False, False),
    ]
    assert list(zip(first["size"], first["error"], strict=True)) == [(2, 0.5), (8, 0.22), (40, 0.2)]


def test_support_of_parts_and_edges():
    model, X = blank((9, 4), 20, 30, np.random.default_rng(0))
    plain = content(model, Dataset(X), {})["layers"]
    assert (plain[0]["support"], plain[1]["support"]) == (None, None)
    assert plain[1]["edges"]["support"] is None
    model = with_support(model)
    record = content(model, Dataset(X), {})
    edges = record["layers"][1]["edges"]
    support, start = numbers(edges["support"]) / 65535, numbers(edges["start"])
    for unit, (index, _, _) in enumerate(columns(edges)):
        wanted = model.edge_support_[0][index, unit]
        np.testing.assert_allclose(support[start[unit] : start[unit + 1]], wanted, atol=1e-5)
    assert [layer["support"][-2:] for layer in record["layers"]] == [[1, 0.25]] * 2
    warned = [text for text in record["warnings"] if "of the fits" in text]
    assert len(warned) == 2
    assert "Layer 2: 1 of 4 parts is found in fewer than 50% of the fits: it depends" in warned[1]


def test_a_model_without_a_history(data, model, tmp_path):
    """A consensus has none: the page and the pictures leave out what there is not."""
    record = content(with_support(model), data, {})
    assert record["convergence"] == []
    facts = dict(record["facts"])
    assert not facts.keys() & {"Sweeps", "Time to fit"}
    assert facts["Status"] == "consensus of 4 models."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written = write_pictures(with_support(model), data, tmp_path)
        convergence([]).savefig(tmp_path / "empty.png")
    assert [path.stem for path in written] == [f"parts-layer-{layer}" for layer in (1, 2, 3)]


def test_names_cannot_break_the_page(low_rank, tmp_path):
    evil = "</script><script>alert(1)</script>\u2028<!--"
    names = np.asarray([evil, *(f"größe {index}" for index in range(29))], object)
    model = sdnmf_l((5, 3), **FEW).fit(low_rank.T)
    data = Dataset(low_rank.T, np.asarray(["<b>&", "ü"] * 20), feature_names=names, name="<i>x")
    text = write_report(model, data, tmp_path / "r.html").read_text()
    assert "<script>alert" not in text
    assert "<i>x" not in text
    assert record_of(text)["features"]["names"] == names.tolist()
    assert record_of(text)["classes"]["names"] == ["<b>&", "ü"]


@pytest.fixture
def call(capsys):
    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


def test_the_command(call, low_rank, tmp_path):
    data, model, page = tmp_path / "d.npy", tmp_path / "m.safetensors", tmp_path / "report.html"
    np.save(data, low_rank.T)
    few = ("--max-iter", "3", "--pretrain-iter", "3", "--normalize", "l2")
    assert call("fit", data, "-o", model, "--layers", "8,5", *few)[0] == 0
    code, out, err = call("report", model, data, "-o", page)
    assert (code, err) == (0, "")
    assert "40 samples, layers [8, 5]" in out
    assert f"written  {page} (" in out
    record = record_of(page.read_text())
    assert record["classes"] is None
    assert ["Samples scaled", "to unit norm"] in record["facts"]
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\n" * 20)
    assert call("report", model, data, "--labels", labels, "-o", page)[0] == 0
    assert record_of(page.read_text())["classes"]["counts"] == [20, 20]


def test_wrong_use_of_the_command(call, low_rank, tmp_path):
    data, model = tmp_path / "d.npy", tmp_path / "m.safetensors"
    np.save(data, low_rank.T)
    call("fit", data, "-o", model, "--layers", "8,5", "--max-iter", "3", "--pretrain-iter", "3")
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\n")
    narrow = tmp_path / "narrow.npy"
    np.save(narrow, np.ones((4, 3)))
    page = tmp_path / "r.html"
    for arguments, code, words in [
        ((model, data, "-o", tmp_path / "r.pdf"), 2, "must end in .html"),
        ((model, data), 2, "Missing option '-o'"),
        ((model, data, "-o", tmp_path / "no" / "r.html"), 1, "there is no folder"),
        ((tmp_path / "absent", data, "-o", page), 1, "no such model file"),
        ((model, tmp_path / "absent.npy", "-o", page), 1, "no data set of that name"),
        ((model, narrow, "-o", page), 1, "expecting 30 features"),
        ((model, data, "--labels", labels, "-o", page), 1, "holds 2 labels for 40"),
    ]:
        returned, _, err = call("report", *arguments)
        assert (returned, err.count("\n")) == (code, 1), err
        assert words in err
    assert not page.exists()


def test_samples_alone_and_frames_are_taken(tmp_path):
    """Without a `Dataset`: an array, or a frame whose columns are the names of features."""
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).random((30, 4))
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = DeepNMF((3, 2), max_iter=3, pretrain_iter=3, random_state=0).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the model gets the names of its features
        text = write_report(model, frame, tmp_path / "frame.html").read_text()
    assert '"a","b","c","d"' in text
    model = DeepNMF((3, 2), max_iter=3, pretrain_iter=3, random_state=0).fit(X)
    assert write_report(model, X, tmp_path / "array.html").stat().st_size > 10_000
    figure = class_hierarchy(model.fit(frame), frame, np.arange(30) % 2, 1)
    figure.savefig(tmp_path / "frame.png")


def test_names_of_parts_and_hidden_ones(low_rank, tmp_path):
    evil = "</script><script>alert(1)</script>"
    model = sdnmf_l((5, 3), **FEW).fit(low_rank.T)
    plain = content(model, Dataset(low_rank.T), {})["layers"]
    assert [(layer["names"], layer["hidden"]) for layer in plain] == [(None, [])] * 2
    model.part_names_, model.hidden_parts_ = [None, [evil, None, "$x"]], [[4], []]
    text = write_report(model, Dataset(low_rank.T), tmp_path / "r.html").read_text()
    assert "<script>alert" not in text
    first, second = record_of(text)["layers"]
    assert (first["names"], first["hidden"]) == (None, [4])
    assert (second["names"], second["hidden"]) == ([evil, None, "$x"], [])


def test_pictures_have_names_as_they_are(low_rank, tmp_path):
    model = sdnmf_l((5, 3), **FEW).fit(low_rank.T)
    model.part_names_ = [None, ["$\\frac{", "oil", "a name that is longer than a picture is wide"]]
    figure = class_hierarchy(model, low_rank.T, np.arange(40) % 2, 1)
    shown = {axes.get_xlabel() for axes in figure.axes}
    assert {"$\\frac{", "oil", "a name that is longer t…"} <= shown
    assert any(re.fullmatch(r"part \d", label) for label in shown)  # of layer 1
    figure.savefig(tmp_path / "named.png")  # nothing is read as a formula


def test_codes_on_the_grid_and_parts_over_the_axis_are_the_models(tmp_path):
    from PIL import Image

    scene = mixed_scene()
    model = sdnmf_l((5, 3), **FEW).fit(scene.X)
    record = record_of(write_report(model, scene, tmp_path / "report.html").read_text())
    assert record["features"]["kind"] == "axis"
    axis = record["features"]["axis"]
    assert (axis["low"], axis["high"], axis["at"][15]) == (400, 700, 0.5)
    for number in (1, 2):
        layer, sheet = record["layers"][number - 1], parts(model, number)
        points = numbers(layer["profiles"]["values"]).reshape(len(sheet), 31)
        np.testing.assert_allclose(points / 255, sheet / sheet.max(1, keepdims=True), atol=0.01)
        maps = layer["maps"]
        image = np.asarray(Image.open(io.BytesIO(b64decode(maps["png"]))))
        codes = model.transform(scene.X, layer=number)
        for part in range(len(sheet)):
            row, column = divmod(part, maps["across"])
            shown = image[row * 8 : row * 8 + 8, column * 12 : column * 12 + 12] / 255
            expected = codes[:, part] / max(codes[:, part].max(), 1e-12)
            np.testing.assert_allclose(shown.ravel(), expected, atol=0.01)
    write_pictures(model, scene, tmp_path)
    names = {path.name for path in tmp_path.glob("*.png")}
    assert names >= {f"{kind}-layer-{layer}.png" for kind in ("parts", "maps") for layer in (1, 2)}


def test_many_parts_on_a_large_grid_stay_small(monkeypatch):
    monkeypatch.setattr("deepnmf.report.content.PIXELS", 1200)
    rng = np.random.default_rng(0)
    model, _ = blank((3,), 8, 4, rng)
    X = rng.random((20 * 30, 8)).astype(np.float32)
    [layer] = content(model, Dataset(X, grid=(20, 30)), {})["layers"]
    assert (layer["maps"]["high"], layer["maps"]["wide"]) == (10, 15)
