"""What the laws are held over. Named links, penalties, starts and solvers are found by their names:
a new one needs no line here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import pytest

import deepnmf
from deepnmf import DeepNMF, links, penalties, solvers, starts
from deepnmf.links import LINKS as LINK_TABLE
from deepnmf.links import Link
from deepnmf.penalties import Penalty
from deepnmf.solvers import Coordinate, Nesterov, ProjectedGradient, Solver
from deepnmf.starts import Fill, Start

T = TypeVar("T")


def _strong(make: type[Penalty]) -> Penalty:
    """A penalty that counts: the default strengths are too small to be seen in a test."""
    weighted = is_dataclass(make) and "strength" in {field.name for field in fields(make)}
    settings: dict[str, Any] = {"strength": 0.5} if weighted else {}
    return make(**settings)


LINKS: list[Link] = [make() for make in links.LINKS.values()]
NONLINEAR: list[Link] = [link for link in LINKS if not link.linear]
PENALTIES: list[Penalty] = [_strong(make) for make in penalties.PENALTIES.values()]
SOLVERS: list[Solver] = [
    *(make() for make in solvers.SOLVERS.values() if make is not Coordinate),  # Auto on NumPy
    Nesterov(max_steps=1000, min_steps=10, tol=1e-3, sharpen=True),
    Nesterov(max_steps=1000, min_steps=10, tol=1e-3, sharpen=True, joint=True),
    ProjectedGradient(joint=True),
]
FILLS: list[Fill] = ["zero", "mean", "random", 0.1]
STARTS: list[Start] = list(
    dict.fromkeys(make.with_fill(fill) for make in starts.STARTS.values() for fill in FILLS)
)
DEEP: list[Callable[..., DeepNMF]] = [
    deepnmf.dnmf,
    deepnmf.sdnmf_l,
    deepnmf.sdnmf_r,
    deepnmf.sdnmf_rl1,
    deepnmf.sdnmf_rl2,
]
SINGLE: list[Callable[..., DeepNMF]] = [deepnmf.nenmf, deepnmf.pgnmf]
SCALINGS = ["paper", "fixed", "layers"]
"""The paper's objective, with fixed scales, and with fixed scales and a loss on every layer."""


def mode(scaling: str, link: str | Link = "identity") -> dict[str, str]:
    """The parameters of a model for one of `SCALINGS`. A loss on every layer needs a link that is a
    power; through others it is fixed scales alone."""
    power = (LINK_TABLE[link] if isinstance(link, str) else link).degree is not None
    if scaling == "layers" and power:
        return {"scaling": "fixed", "objective": "layers"}
    return {"scaling": "paper" if scaling == "paper" else "fixed", "objective": "end_to_end"}


LIBRARIES = ["numpy", "torch"]
DTYPES = ["float64", "float32"]
BRIEF = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
"""For tests of what comes after a fit, however brief it was."""
DEAD = pytest.mark.filterwarnings("ignore:.* parts are dead")
"""For fits through links that lose parts, which is not what is tested."""


def named(value: object) -> str:
    """A readable test id."""
    return getattr(value, "__name__", None) or str(value)


def long(values: Iterable[Any], *slow: str) -> list[Any]:
    """Values for a table, of which those with these names are left to the long tests."""
    return [
        pytest.param(value, marks=pytest.mark.long) if _name(value) in slow else value
        for value in values
    ]


def _name(value: object) -> str:
    if isinstance(value, str | tuple | float):
        return str(value)
    return getattr(value, "__name__", type(value).__name__)


def each(names: str, *axes: Sequence[Any], full: bool = False) -> pytest.MarkDecorator:
    """All combinations: every value is in one of the fast tests, the other combinations are long.

    For laws that a value breaks in any company.
    """
    return _thinned(names, axes, together=1, full=full)


def pairs(names: str, *axes: Sequence[Any], full: bool = False) -> pytest.MarkDecorator:
    """All combinations: every two values meet in one of the fast tests, the others are long.

    For laws that two choices can break together, though each keeps them apart.
    """
    return _thinned(names, axes, together=2, full=full)


def some(
    names: str, fast: Sequence[tuple[Any, ...]], *axes: Sequence[Any], full: bool = False
) -> pytest.MarkDecorator:
    """All combinations, of which these are fast and the others long.

    For laws that take seconds to hold.
    """
    places = {
        tuple(axis.index(value) for axis, value in zip(axes, values, strict=True))
        for values in fast
    }
    return _rows(names, axes, places, full)


def _thinned(
    names: str, axes: Sequence[Sequence[Any]], together: int, full: bool
) -> pytest.MarkDecorator:
    """The product of the axes: `_cover` is fast, the rest is long."""
    return _rows(names, axes, _cover([range(len(axis)) for axis in axes], together), full)


def _rows(
    names: str, axes: Sequence[Sequence[Any]], fast: set[tuple[int, ...]], full: bool
) -> pytest.MarkDecorator:
    """The product of the axes: those whose places are in `fast` are fast, the rest is long.

    With `full` the test has one more argument, first of all: whether it runs at full length. The
    fast tests do not; the long ones do, for all combinations.
    """
    rows = []
    for places in itertools.product(*(range(len(axis)) for axis in axes)):
        values = [axis[place] for axis, place in zip(axes, places, strict=True)]
        name = "-".join(map(named, values))
        if places in fast:
            rows.append(pytest.param(*([False] if full else []), *values, id=name))
        if full:
            rows.append(pytest.param(True, *values, id=f"full-{name}", marks=pytest.mark.long))
        elif places not in fast:
            rows.append(pytest.param(*values, id=name, marks=pytest.mark.long))
    return pytest.mark.parametrize(f"full,{names}" if full else names, rows)


def _cover(axes: Sequence[Iterable[int]], together: int) -> set[tuple[int, ...]]:
    """Few combinations in which every `together` values of different axes occur: greedily, that
    with most of what is missing, and of these the one with most new pairs."""

    def groups(places: tuple[int, ...], size: int) -> set[tuple[tuple[int, int], ...]]:
        return set(itertools.combinations(enumerate(places), size))

    combinations = list(itertools.product(*axes))
    wanted = {places: groups(places, together) for places in combinations}
    paired = {places: groups(places, 2) for places in combinations}
    missing, unpaired = set().union(*wanted.values()), set().union(*paired.values())
    chosen: set[tuple[int, ...]] = set()
    while missing:
        best = max(
            combinations,
            key=lambda places: (len(wanted[places] & missing), len(paired[places] & unpaired)),
        )
        missing -= wanted[best]
        unpaired -= paired[best]
        chosen.add(best)
    return chosen
