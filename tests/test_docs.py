"""The README, the docs and the examples run as they stand, and their links and names exist."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from markdown.extensions.toc import slugify

import deepnmf
from deepnmf.cli.commands import app
from deepnmf.links import LINKS
from deepnmf.penalties import PENALTIES
from deepnmf.solvers import SOLVERS
from deepnmf.starts import STARTS
from tests.tables import BRIEF

pytestmark = BRIEF
ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


class Run(NamedTuple):
    """Python from a page, and the data set that it needs."""

    code: list[str]
    data: str | None = None


def data_of(code: str) -> str | None:
    loader = re.search(r"\bload_(pie|orl|reuters|samson|worm)\(", code)
    return loader.group(1) if loader else None


def runs() -> list:
    """The blocks of a page one after the other, as a reader would run them. A block that needs a
    data set, or that follows the line `<!-- long -->`, stands alone, but on pages with the line
    `<!-- one data set -->`."""
    cases = []
    for page in PAGES:
        together = []
        blocks = re.findall(r"(<!-- long -->\n)?```python\n(.*?)```", page.read_text(), re.S)
        if "<!-- one data set -->" in page.read_text():
            code = [code for _, code in blocks]
            cases.append(pytest.param(Run(code, data_of("".join(code))), id=page.name))
            continue
        for number, (long, code) in enumerate(blocks, 1):
            data = data_of(code)
            if long or data:
                marks = [pytest.mark.long] if long else []
                name = f"{page.name}-{number}"
                cases.append(pytest.param(Run([code], data), id=name, marks=marks))
            else:
                together.append(code)
        if together:
            cases.append(pytest.param(Run(together), id=page.name))
    return cases


def need_modules(code: str) -> None:
    """Skip code that needs an extra which is not installed."""
    if re.search(r"^(import|from) anndata", code, re.M):
        pytest.importorskip("anndata")


@pytest.mark.parametrize("run", runs())
def test_the_blocks_run(run, tmp_path, monkeypatch, data_file):
    if run.data:
        data_file(run.data)
    need_modules("".join(run.code))
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, code in enumerate(run.code, 1):
        exec(compile(code, f"block {number}", "exec", dont_inherit=True), names)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_example_runs(example, tmp_path, monkeypatch, data_file):
    code = example.read_text()
    assert len(code.splitlines()) < 40
    if data_of(code):
        data_file(data_of(code))
    need_modules(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.M)
    return {slugify(heading.replace("`", ""), "-") for heading in headings}


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_and_pictures_are_there(page):
    for link in re.findall(r"\]\(([^)]+)\)", without_code(page)):
        if link.startswith("http"):
            continue
        target, _, anchor = link.partition("#")
        there = page.parent / target if target else page
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link


def test_the_tree_in_contributing_is_the_tree():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tree = re.search(r"^src/deepnmf/\n(.*?)^tests/", text, re.S | re.M)
    assert tree
    packages: list[str] = []
    inside: dict[str, set[str]] = {}
    for line in tree.group(1).splitlines():
        listed = re.match(r" *((?:\w+(?:/|\.py) ?)+)", line)
        assert listed, line
        names = [name.removesuffix("/") for name in listed.group(1).split()]
        if line.startswith("    "):
            inside.setdefault(packages[-1], set()).update(names)
        else:
            packages += [name.removesuffix(".py") for name in names]
    assert packages == layers()
    for package, drawn in inside.items():
        folder = ROOT / "src" / "deepnmf" / package
        modules = {path.name for path in folder.iterdir() if not path.name.startswith("__")}
        assert drawn == modules


def layers() -> list[str]:
    """The packages from top to bottom, as the import contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    lines = contracts["contracts"][0]["layers"]
    return [name.removeprefix("deepnmf.") for line in lines for name in re.findall(r"[\w.]+", line)]


def test_the_citation_names_this_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert cited
    assert cited.group(1) == deepnmf.__version__


def public_names() -> list[str]:
    public = [f"deepnmf.{name}" for name in deepnmf.__all__ if not name.startswith("__")]
    modules = "baselines cells data evaluation explain hierarchy report solvers testing"
    for module in modules.split():
        names = importlib.import_module(f"deepnmf.{module}").__all__
        public += [f"deepnmf.{module}.{name}" for name in names]
    plots = importlib.import_module("deepnmf.report.plots")
    public += [
        f"deepnmf.report.plots.{name}"
        for name, function in inspect.getmembers(plots, inspect.isfunction)
        if function.__module__ == plots.__name__ and not name.startswith("_")
    ]
    tables: dict[str, dict[str, Any]] = {
        "links": LINKS,
        "penalties": PENALTIES,
        "starts": STARTS,
        "solvers": SOLVERS,
    }
    for module, table in tables.items():
        public += [f"deepnmf.{module}.{kind.__name__}" for kind in table.values()]
    return public


def commands() -> list:
    """Every command of a page, in a block or inside a sentence."""
    cases = []
    for page in PAGES:
        text = re.sub(r"\\\n\s*", "", page.read_text())
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
        plain = [block for language, block in blocks if not language]
        lines = [line.split(" #")[0].strip() for block in plain for line in block.splitlines()]
        lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", without_code(page))]
        cases += [
            pytest.param(line, id=f"{page.name}-{line}")
            for line in dict.fromkeys(lines)
            if re.match(r"(deepnmf|make) \w|python \w+/", line)
        ]
    return cases


@pytest.mark.parametrize("command", commands())
def test_commands_name_what_is_there(command):
    program, name, *words = shlex.split(command)
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert {name, *(word for word in words if "=" not in word)} <= set(targets)
    elif program == "python":
        assert (ROOT / name).exists()
    else:
        options = options_of(name, words)
        assert {word.split("=")[0] for word in words if word.startswith("-")} <= options


def options_of(name: str, words: list[str]) -> set[str]:
    command: Any = typer.main.get_command(app)
    command = command.commands[name]
    command = command.commands[words[0]] if name == "data" else command
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


def test_every_public_name_is_in_the_reference_and_there():
    listed = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.M)
    assert set(public_names()) <= set(listed)
    for path in listed:
        module, _, name = path.rpartition(".")
        assert inspect.getdoc(getattr(importlib.import_module(module), name)), path


def test_every_model_is_in_the_page_that_helps_to_choose():
    from deepnmf.models.registry import MODELS

    text = (ROOT / "docs" / "choosing.md").read_text()
    for name, model in MODELS.items():
        assert f"| `{name}` | `{model.make.__name__}` |" in text
