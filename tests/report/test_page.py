"""The page in a real browser: clicks, keys, search, links, and no network."""

from __future__ import annotations

import copy
import os
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from deepnmf import sdnmf_l
from deepnmf.data import Dataset, load_digits, load_reuters
from deepnmf.report import write_report
from tests.report.pages import blank, choice, columns, mixed_scene, record_of, with_support
from tests.tables import BRIEF

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    BRIEF,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed here"),
    pytest.mark.xdist_group("browser"),  # one process has the browser that tests share
]
FEW: dict[str, Any] = {
    "max_iter": 8,
    "pretrain_iter": 8,
    "random_state": 0,
    "mu": 1e-3,
    "scaling": "fixed",
}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = running.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def digits_model():
    digits = load_digits()
    data = replace(digits, X=normalize(digits.X))
    return sdnmf_l((24, 14, 10), **FEW).fit(data.X), data


@pytest.fixture(scope="module")
def digits_page(digits_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "report.html"
    model, data = digits_model
    return write_report(model, data, path, {"model": "sdnmf/l"})


class Reader:
    """A reader of a page, who notes every error and every request."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self.requested)
        self.address = path.as_uri()

    def requested(self, request):
        if not request.url.startswith((self.address, "data:")):
            self.errors.append(f"requested {request.url}")

    def go(self, place=""):
        self.page.goto("about:blank")
        self.page.goto(self.address + place)
        self.page.wait_for_selector("h1")

    def title(self):
        return self.page.inner_text("h1")

    def place(self):
        return self.page.evaluate("location.hash")

    def cards(self, column):
        return self.page.locator(".columns > .column").nth(column).locator("a.card")

    def wait(self, title):
        self.page.wait_for_function("text => document.querySelector('h1').innerText === text",
                                    arg=title)  # fmt: skip

    def focused(self):
        return self.page.evaluate("document.activeElement.innerText")

    def wide(self):
        return self.page.evaluate("document.documentElement.scrollWidth")


@pytest.fixture
def reader(browser):
    readers = []

    def read(path, **options):
        readers.append(Reader(browser, path, **options))
        return readers[-1]

    yield read
    for page_reader in readers:
        assert page_reader.errors == []
        page_reader.context.close()


def test_from_a_class_down_to_layer_1_and_back(reader, digits_page, digits_model):
    model = digits_model[0]
    read = reader(digits_page)
    read.go()
    page = read.page
    page.click("nav >> text=Explore")
    page.click("a.tile:has-text('Class 4')")
    read.wait("Class 4")
    titles, weights = ["Class 4"], model.weights_
    above = None
    for column, layer in ((1, 3), (2, 2), (3, 1)):
        card = read.cards(column).first
        unit = int(card.get_attribute("data-unit"))
        shown = float(card.locator(".weight").inner_text())
        if above is not None:
            assert shown == pytest.approx(weights[layer][unit, above], rel=0.006)
        card.click()
        read.wait(f"Part {unit} of layer {layer}")
        titles.append(read.title())
        above = unit
    assert page.locator(".edges path").count() > 3
    assert page.locator(".column.leaf canvas").count() == 1
    for title in reversed(titles[:-1]):
        page.go_back()
        read.wait(title)
    for title in titles[1:]:
        page.go_forward()
        read.wait(title)
    page.click("ol.crumbs a:has-text('Class 4')")
    read.wait("Class 4")


def test_every_shown_weight_is_in_the_page_and_in_the_model(reader, digits_page, digits_model):
    record = record_of(digits_page.read_text())
    W = digits_model[0].weights_[2]
    read = reader(digits_page)
    for unit in range(3):
        read.go(f"#/part/3/{unit}")
        while read.page.locator(".columns > .column:nth-of-type(2) .more:visible").count():
            read.page.click(".columns > .column:nth-of-type(2) .more")
        index, weight, _ = columns(record["layers"][2]["edges"])[unit]
        cards = read.cards(1)
        assert cards.count() == len(index)
        for at, (child, value) in enumerate(zip(index, weight, strict=True)):
            assert cards.nth(at).get_attribute("data-unit") == str(child)
            text = cards.nth(at).locator(".weight").inner_text()
            assert float(text) == pytest.approx(float(value), rel=0.006)
            assert value == np.float32(W[child, unit])


def test_by_keyboard_alone(reader, digits_page):
    read = reader(digits_page)
    read.go()
    keys = read.page.keyboard
    keys.press("Tab")
    assert read.focused() == "Skip to content"
    keys.press("Enter")
    assert read.page.evaluate("document.activeElement.id") == "main"
    for _ in range(40):
        keys.press("Tab")
        if read.focused() == "Explore classes and samples":
            break
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert read.page.evaluate(outline) == "solid"  # the focus is visible
    keys.press("Enter")
    read.wait("Explore")
    assert read.focused() == "Explore"
    keys.press("Tab")
    keys.press("Tab")
    keys.press("Enter")
    read.wait("Class 1")
    assert read.focused() == "Class 1"
    read.cards(1).first.focus()
    keys.press("ArrowDown")
    second = read.cards(1).nth(1).get_attribute("data-unit")
    assert read.page.evaluate("document.activeElement.dataset.unit") == second
    keys.press("Enter")
    read.wait(f"Part {second} of layer 3")
    assert read.focused() == "Parts in layer 2"
    keys.press("Tab")
    third = read.cards(2).first.get_attribute("data-unit")
    assert read.page.evaluate("document.activeElement.dataset.unit") == third
    keys.press("ArrowLeft")
    assert read.page.evaluate("document.activeElement.dataset.unit") == second
    keys.press("ArrowRight")
    keys.press("Enter")
    read.wait(f"Part {third} of layer 2")
    read.page.go_back()
    read.wait(f"Part {second} of layer 3")
    # The focus is back on the card that was left.
    assert read.page.evaluate("document.activeElement.dataset.unit") == third


def test_a_link_shows_the_same_again(reader, digits_page):
    read = reader(digits_page)
    read.go("#/class/7")
    unit = read.cards(1).nth(1).get_attribute("data-unit")
    read.cards(1).nth(1).click()
    read.wait(f"Part {unit} of layer 3")
    place, before = read.place(), read.page.inner_text("main")
    assert place == f"#/class/7/{unit}"
    again = reader(digits_page)
    again.go(place)
    assert again.page.inner_text("main") == before
    assert again.page.locator("a[aria-current=true]").get_attribute("data-unit") == unit


@pytest.mark.parametrize(
    "place", ["#/class/99", "#/part/0/1", "#/part/4/0", "#/part/1/0/0", "#/nowhere", "#/class/x",
              "#/feature/64", "#/sample/-1", "#/%E0%A4%A"],
)  # fmt: skip
def test_a_wrong_link_says_so(reader, digits_page, place):
    read = reader(digits_page)
    read.go(place)
    assert read.title() == "Not in this page"
    read.page.click("main a")
    read.wait("sdnmf/l on digits")


def test_a_screen_reader_finds_names(reader, digits_page):
    read = reader(digits_page)
    read.go("#/class/2")
    tree = read.page.locator("main").aria_snapshot()
    assert 'heading "Class 2" [level=1]' in tree
    assert 'region "Parts of layer 3 in Class 2"' in tree
    assert "weight " in tree
    for tag in ("a", "button", "input", "select", "canvas"):
        for element in read.page.locator(f"{tag}:visible").all()[:40]:
            name = element.evaluate(
                "e => e.ariaLabel || e.innerText || (e.labels && e.labels[0].textContent) || ''"
            )
            assert name.strip(), element.evaluate("e => e.outerHTML")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["#/", "#/layer/1", "#/explore", "#/class/0/1", "#/feature/20"])
def test_a_phone_has_room_for_every_view(reader, digits_page, scheme, place):
    read = reader(digits_page, viewport={"width": 375, "height": 800}, color_scheme=scheme)
    read.go(place)
    assert read.wide() <= 375
    paper = read.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(18, 21, 28)") == (scheme == "dark")


def test_a_page_of_the_size_of_pie_is_small_and_builds_only_what_it_shows(reader, tmp_path):
    rng = np.random.default_rng(0)
    model, _ = blank((600, 160), 1024, 2, rng)
    X = rng.random((680, 1024), dtype=np.float32)  # noise: no picture is harder to pack
    data = Dataset(X, np.arange(680) % 68, image_shape=(32, 32))
    path = write_report(model, data, tmp_path / "report.html", scores=[{"model": "noise"}])
    assert path.stat().st_size < 5e6
    read = reader(path)
    read.go("#/class/3")
    assert read.page.evaluate("document.querySelectorAll('*').length") < 1000
    assert read.cards(1).count() == 8


def test_layers_and_samples(reader, digits_page):
    read = reader(digits_page)
    read.go("#/layer/1")
    assert read.page.locator("a.tile").count() == 24
    read.page.select_option("#order", "number")
    assert read.page.locator("a.tile .caption span").first.inner_text() == "Part 0"
    read.go("#/explore")
    samples = read.page.locator(".grid.small a.tile")
    before = samples.count()
    read.page.click("section:has(.grid.small) > .more")
    assert samples.count() == 2 * before
    samples.first.click()
    assert read.place() == "#/sample/0"
    assert read.cards(1).count() > 0


def test_how_many_parts(reader, digits_model, digits_page, tmp_path):
    model, data = copy.copy(digits_model[0]), digits_model[1]
    model.choice_ = choice(stability=0.9)
    read = reader(write_report(model, data, tmp_path / "report.html"))
    read.go()
    section = read.page.locator("section", has=read.page.locator("#sizes"))
    assert section.locator("code").inner_text() == "layer_sizes=(8,)"
    assert "Layer 2 does not help" in section.inner_text()
    first, second = section.locator("svg").all()
    assert "chosen: 8 (0.22)" in first.get_attribute("aria-label")
    assert first.locator("text.chosen-size").text_content() == "8"
    assert first.locator("circle.dot.colour-0").count() == 3
    assert section.locator("figure.idle svg").count() == 1
    x = [float(first.locator(".dot.colour-0").nth(at).get_attribute("cx")) for at in range(3)]
    assert (x[2] - x[1]) / (x[1] - x[0]) == pytest.approx(np.log2(5) / 2)
    section.locator("summary").focus()
    read.page.keyboard.press("Enter")
    assert section.locator("tr:has-text('8 (chosen)')").inner_text().split()[-1] == "0.90"
    plain = reader(digits_page)
    plain.go()
    assert plain.page.locator("#sizes").count() == 0


@pytest.fixture(scope="module")
def consensus_page(digits_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("consensus") / "report.html"
    return write_report(with_support(digits_model[0]), digits_model[1], path)


def test_support_is_shown_with_parts_and_edges(reader, consensus_page, digits_model):
    support = with_support(digits_model[0]).edge_support_[1]
    read = reader(consensus_page)
    read.go()
    assert "Sweeps" not in read.page.inner_text("main")
    assert "Convergence" not in read.page.inner_text("main")
    read.go("#/layer/1")
    tiles = read.page.locator("a.tile")
    assert read.page.locator("a.tile .badge").count() == tiles.count() == 24
    poor = read.page.locator("a.tile.poor")
    assert poor.count() == 1
    assert poor.locator("[title='found in 25 % of the fits: poorly supported']").count() == 1
    assert "25 % of fits, poorly supported" in poor.text_content()
    read.go("#/part/3/9")
    assert read.page.locator(".subject .badge.poor").count() == 1
    for card in read.cards(1).all():
        share = f"{100 * support[int(card.get_attribute('data-unit')), 9]:.0f} %"
        assert card.locator(".badge").last.inner_text() == f"edge {share}"
        assert f"edge found in {share} of the fits" in card.get_attribute("aria-label")
    rare = sum(
        support[int(card.get_attribute("data-unit")), 9] < 0.5 for card in read.cards(1).all()
    )
    assert read.page.locator(".edges path:not(.ahead)[stroke-dasharray]").count() == rare
    assert "25 % of the fits have it." in read.page.inner_text(".about")
    read.go("#/search/part 23")
    assert read.page.locator(".results a .badge.poor").count() == 1


@pytest.mark.parametrize("place", ["#/", "#/layer/1", "#/part/3/9", "#/class/0/1"])
def test_a_phone_has_room_for_support(reader, consensus_page, place):
    read = reader(consensus_page, viewport={"width": 375, "height": 800})
    read.go(place)
    assert read.wide() <= 375


def test_words_of_text_are_found(reader, data_file, tmp_path):
    data_file("reuters")
    reuters = load_reuters()
    rows = np.sort(np.random.default_rng(0).permutation(reuters.X.shape[0])[:1500])
    data = replace(reuters, X=normalize(reuters.X[rows]), y=reuters.y[rows])
    model = sdnmf_l((30, 12), **FEW).fit(data.X)
    path = write_report(model, data, tmp_path / "report.html", {"model": "sdnmf/l"})
    read = reader(path)
    read.go()
    page = read.page
    page.click("nav >> text=Explore")
    page.click("a.tile:has-text('Class 1')")
    read.cards(1).first.click()
    page.wait_for_selector(".column a[aria-current=true]")
    read.cards(2).first.click()
    page.wait_for_selector(".column.leaf .features a")
    word = page.locator(".column.leaf .features .name").first.inner_text()
    layer_1 = read.title()
    page.go_back()
    page.go_back()
    read.wait("Class 1")
    page.fill("#words", word.upper())
    page.wait_for_selector(".results a")
    assert page.locator(".results a").first.inner_text() == word
    assert "Found: " in page.inner_text("#status")
    page.keyboard.press("Enter")
    assert read.focused() == word
    page.keyboard.press("Enter")
    read.wait(word)
    held = [text.split("\n")[-3:] for text in page.locator("a.tile").all_inner_texts()]
    assert any(layer_1.startswith(name + " ") for parts in held for name in parts)
    page.locator("a.tile").last.click()
    page.wait_for_selector(".columns")
    assert read.title().endswith("of layer 1")
    for _ in range(3):
        page.go_back()
    read.wait("Class 1")
    page.fill("#words", "no such word")
    page.wait_for_selector("text=Nothing matches")


def test_plain_numbers_without_labels(reader, low_rank, tmp_path):
    model = sdnmf_l((6, 4), **FEW).fit(low_rank.T)
    path = write_report(model, Dataset(low_rank.T), tmp_path / "report.html")
    read = reader(path)
    for place in ("#/", "#/layer/2", "#/explore", "#/sample/3", "#/part/1/2", "#/search/feature 2"):
        read.go(place)
        assert read.title() != "Not in this page"
    read.go("#/part/2/1")
    assert read.page.locator(".columns svg.line").count() > 1
    read.go("#/class/0")
    assert read.title() == "Not in this page"


def test_parts_have_their_names_and_hidden_ones_are_not_listed(reader, digits_model, tmp_path):
    model, data = copy.deepcopy(digits_model[0]), digits_model[1]
    evil = "<b>ring</b><script>document.title='x'</script>"
    model.part_names_ = [None, None, [evil, "a stroke", *[None] * 8]]
    model.hidden_parts_ = [None, None, [3]]
    read = reader(write_report(model, data, tmp_path / "named.html", {}))
    read.go("#/layer/3")
    captions = read.page.locator("a.tile .caption span:first-child").all_inner_texts()
    assert {evil, "a stroke", "Part 2"} <= set(captions)
    assert "Part 3" not in captions
    assert "1 hidden part not shown." in read.page.inner_text("main")
    read.page.click("a.tile:has-text('a stroke')")
    read.wait("a stroke")
    assert "part 1 of layer 3" in read.page.inner_text(".about")
    read.go("#/search/stroke")
    assert "a stroke (part 1 of layer 3)" in read.page.inner_text("main")
    read.go("#/search/part 3 of layer 3")
    assert "Nothing matches" in read.page.inner_text("main")
    read.go("#/part/3/0")
    read.wait(evil)
    read.go("#/sample/0")
    units = read.cards(1).evaluate_all("cards => cards.map(card => card.dataset.unit)")
    assert "3" not in units


def test_long_names_of_parts_fit_a_phone(reader, digits_model, tmp_path):
    model, data = copy.deepcopy(digits_model[0]), digits_model[1]
    model.part_names_ = [[f"{part}_{'x' * 150}" for part in range(size)] for size in (24, 14, 10)]
    page = write_report(model, data, tmp_path / "long.html", {})
    read = reader(page, viewport={"width": 390, "height": 800})
    for place in ("#/class/3/0/1", "#/layer/2", "#/part/2/1", "#/feature/20", "#/search/xxx"):
        read.go(place)
        assert read.wide() <= 390, place


@pytest.mark.parametrize("wide", [1280, 375])
def test_spectra_and_maps_are_drawn(reader, tmp_path, wide):
    scene = mixed_scene()
    model = sdnmf_l((5, 3), **FEW).fit(scene.X)
    path = write_report(model, replace(scene, y=np.arange(96) % 2), tmp_path / "report.html")
    read = reader(path, viewport={"width": wide, "height": 800})
    read.go()
    first = read.page.locator(".panels > section").first
    assert first.locator("h2").inner_text() == "Parts of layer 2"
    assert first.locator("a.tile svg.line path.open").count() == 3
    assert first.locator("a.tile canvas.place").count() == 3
    bright = read.page.evaluate(
        """async () => {
          const canvas = document.querySelector("canvas.place");
          await layerOfFirst();
          function layerOfFirst() { return new Promise((done) => setTimeout(done, 300)); }
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return [canvas.width, canvas.height, Math.max(...data.filter((_, at) => at % 4 === 0))];
        }"""
    )
    assert bright == [12, 8, 255]
    first.locator("a.tile").first.click()
    read.page.wait_for_selector(".columns")
    chart = read.page.locator(".subject svg.chart text").all_text_contents()
    assert {"400", "700", "wavelength (nm)"} <= set(chart)
    read.page.locator(".subject summary").click()
    assert read.page.locator(".subject .features .name").first.inner_text().endswith(" nm")
    for place in ("#/layer/1", "#/explore", "#/sample/3", "#/class/1", "#/search/450"):
        read.go(place)
        assert read.title() != "Not in this page"
        assert read.wide() <= wide
    read.go("#/sample/3")
    assert read.title().startswith("Pixel ")
