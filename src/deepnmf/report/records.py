"""The records in a page: what Python packs and the page's script unpacks."""

from __future__ import annotations

from typing import TypedDict


class Numbers(TypedDict):
    """An array of numbers: its kind ("f4", "u4", …) and its bytes in base64."""

    type: str
    data: str


class Columns(TypedDict):
    """The entries of the columns of a matrix, one column after the other."""

    start: Numbers
    """Where each column starts."""
    index: Numbers
    weight: Numbers
    share: Numbers
    more: Numbers
    """How many entries of each column are left out."""
    left: Numbers
    """The share of the entries that are left out."""
    support: Numbers | None
    """For edges of a consensus: the share of the fits that have each entry."""


class Largest(TypedDict):
    """The largest entries of the rows of a matrix."""

    each: int
    """How many per row."""
    index: Numbers
    weight: Numbers


class Sprite(TypedDict):
    """Images on one sheet."""

    png: str
    across: int
    """How many images stand side by side."""
    high: int
    wide: int


class Profiles(TypedDict):
    """Rows as lines."""

    points: int
    values: Numbers


class Pictures(TypedDict, total=False):
    """How parts, classes or samples look: as images, as lines, or (text) as neither."""

    sprite: Sprite
    profiles: Profiles


class ScoreTable(TypedDict):
    """The table of scores."""

    head: list[str]
    rows: list[list[str]]


class Curve(TypedDict):
    """The objective over the sweeps of one stage."""

    name: str
    sweeps: int
    sweep: list[int]
    seconds: list[float]
    objective: list[float]


class SizeCurve(TypedDict):
    """The numbers of parts that were tried for a layer, and how well they predict."""

    layer: int
    chosen: int
    best: int
    helps: bool
    doubling: bool
    """Whether the sizes are drawn on a logarithmic axis."""
    size: list[int]
    error: list[float]
    spread: list[float]
    stability: list[float | None]


class PageChoice(TypedDict):
    """How the numbers of parts were chosen."""

    sentences: list[str]
    layers: list[SizeCurve]


class Axis(TypedDict):
    """Where the points of a line stand."""

    label: str
    low: float
    """The value of the first feature."""
    high: float
    """The value of the last."""
    at: list[float]
    """The place of every point, from 0 to 1."""


class Features(TypedDict):
    """What the features are."""

    count: int
    kind: str
    """"image", "axis", "names" or "numbers"."""
    shape: tuple[int, int] | None
    names: list[str] | None
    axis: Axis | None


class PageLayer(Pictures):
    """The parts of a layer."""

    layer: int
    parts: int
    names: list[str | None] | None
    """The names that parts were given; None for those that keep their number, or if all do."""
    hidden: list[int]
    """The parts that the page does not list."""
    zeros: float
    sparseness: float
    dead: list[int]
    redundant: list[tuple[int, int, float]]
    pairs: int
    importance: Numbers
    peak: Numbers
    support: list[float] | None
    """For a consensus: the share of the fits that have each part."""
    features: Largest
    holders: Largest
    edges: Columns | None
    maps: Sprite | None
    """Where samples are the pixels of an image: the codes of each part as an image."""


class PageClasses(Pictures):
    """The classes, each by its mean."""

    names: list[str]
    counts: list[int]
    codes: Columns
    distinct: list[list[tuple[int, float, float, float | None]]]
    features: Largest


class PageSamples(Pictures):
    """Some of the samples."""

    total: int
    rows: Numbers
    classes: Numbers | None
    names: list[str] | None
    codes: Columns
    plane: Numbers
    features: Largest


class Page(TypedDict):
    """Everything in the page."""

    title: str
    facts: list[tuple[str, str]]
    warnings: list[str]
    scores: ScoreTable | None
    convergence: list[Curve]
    choice: PageChoice | None
    few_fits: float
    """Parts and edges in a smaller share of the fits are poorly supported."""
    linear: bool
    features: Features
    grid: tuple[int, int] | None
    layers: list[PageLayer]
    classes: PageClasses | None
    samples: PageSamples
    version: str
