"""`make docs`: the site builds without warnings and opens from disk without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_built(site):
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert {page.stem for page in site.glob("*.html")} == {*pages, "404"}


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed here")
def test_search_works_from_disk_without_network_requests(site):
    playwright = pytest.importorskip("playwright.sync_api")
    faults = []
    with playwright.sync_playwright() as running:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = running.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))

        def watch(request):
            if not request.url.startswith(("file:", "data:")):
                faults.append(request.url)

        page.on("request", watch)
        for built in sorted(site.glob("*.html")):
            if built.stem != "404":
                page.goto(built.as_uri())
        # Typed key by key: the search listens to keys, and filling the field sends none.
        page.click("input.md-search__input")
        page.keyboard.type("Checkpoint")
        page.wait_for_selector(".md-search-result__item")
        assert "deepnmf.Checkpoint" in page.inner_text(".md-search-result__list")
        browser.close()
    assert faults == []
