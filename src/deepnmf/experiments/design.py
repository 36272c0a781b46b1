"""An experiment: data, models, folds, runs, and how codes are scored; read from TOML."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from deepnmf.models.base import MatrixFactorization
from deepnmf.models.registry import MODELS
from deepnmf.models.settings import start_of
from deepnmf.starts import Given, Nnsvd, Random, Start

TITLES = {
    "dnmf": "DNMF", "sdnmf/l": "SDNMF/L", "sdnmf/r": "SDNMF/R", "sdnmf/rl1": "SDNMF/RL1",
    "sdnmf/rl2": "SDNMF/RL2", "nenmf": "NeNMF", "pgnmf": "PgNMF",
    "deep-semi-nmf": "Deep Semi-NMF", "multilayer-nmf": "Multi-layer NMF",
}  # fmt: skip

Table = Mapping[str, Any]
"""A table of a TOML file."""
SMALL_ONLY = ("settings", "scale", "random", "vary")


@dataclass(frozen=True)
class Scoring:
    """One row of a table or one box of a figure: how K-means gets the codes of a fit."""

    name: str
    project: bool = False
    """K-means on g(H_L): the paper's Square_2."""
    normalize: str | None = None
    """"l2": codes of unit norm."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """The paper's figures, by score."""
    group: str = ""
    """The group of a box in a figure."""


@dataclass(frozen=True)
class Fit:
    """A model with its layers and options, and the scorings of its codes."""

    model: str
    layers: tuple[int, ...]
    options: Mapping[str, object]
    scorings: tuple[Scoring, ...]

    @property
    def key(self) -> str:
        """A text that no other fit of the experiment has."""
        options = ",".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.model} {'-'.join(map(str, self.layers))} {options}".strip()

    @property
    def estimator(self) -> MatrixFactorization:
        """The model, not fitted."""
        sizes = self.layers if len(self.layers) > 1 else self.layers[0]
        return MODELS[self.model].estimator({"layer_sizes": sizes, **self.options})

    @property
    def deterministic(self) -> bool:
        """Whether all seeds give the same fit: given factors, or NNSVD with a fill that is not
        random."""
        start = self.start
        return isinstance(start, Given) or (isinstance(start, Nnsvd) and start.fill != "random")

    @property
    def start(self) -> Start | Given:
        """Where its fits begin. A model without the choice starts at random."""
        parameters = self.estimator.get_params()
        if "start" not in parameters:
            return Random()
        return start_of(parameters["start"], parameters["fill"])


@dataclass(frozen=True)
class Experiment:
    """Fits of several models to the folds of a data set."""

    name: str
    title: str
    data: str
    fits: tuple[Fit, ...]
    normalize: str = "l2"
    dtype: str = "float32"
    folds: int = 7
    first_folds: int = 7
    """How many of the folds are used. 0: the training samples are coded, none are held out."""
    runs: int = 20
    kmeans: int = 10
    """K-means runs per fit; 0 without labels."""
    kmeans_start: str = "plain"
    """As in `cluster_scores`."""
    stability: bool = False
    """Whether the parts that different random starts find are compared. Models that start in
    another way are then fitted again from random starts, as often as they have seeds."""
    classes: int | None = None
    """Use only the samples of the first so many classes."""
    boxes: tuple[str, ...] = ()
    """The scores that box plots show."""
    lines: tuple[str, ...] = ()
    """The scores that are drawn as lines over the settings that vary."""
    sizes: bool = False
    """Whether the held-out error and the stability are drawn over the sizes of the layers."""
    small: bool = False
    """Whether it is a small version of one of the paper's."""


def load(name: str, full: bool = False) -> Experiment:
    """The experiment of that name, at the paper's size or small."""
    common, table = (read_table(file) for file in ("common", name))
    for section in ("settings", "small"):
        table[section] = merged(common[section], table.get(section, {}))
    return from_table(name, table, full)


def read_table(name: str) -> dict[str, Any]:
    """The content of the settings file of that name."""
    text = (files("deepnmf.experiments") / "settings" / f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def from_table(name: str, table: Table, full: bool) -> Experiment:
    """An experiment from its TOML table; unless `full`, the entries of `small` replace others."""
    table = dict(table)
    small = table.pop("small", {})
    if not full:
        table |= {key: value for key, value in small.items() if key not in SMALL_ONLY}
        table["settings"] = merged(table.get("settings", {}), small.get("settings", {}))
        if "random" in small:
            random = {**table["grid"]["random"], **small["random"]}
            table["grid"] = {**table["grid"], "random": random}
        if "vary" in small:
            table["grid"] = {**table["grid"], "vary": small["vary"]}
    scale = 1.0 if full else small.get("scale", 1.0)
    settings = table.pop("settings", {})
    fits = [_fit(entry, settings, scale) for entry in table.pop("fit", [])]
    fits += _grid(table.pop("grid", None), settings, scale)
    folds = int(table.get("folds", 7))
    return Experiment(
        name=name,
        title=str(table["title"]),
        data=str(table["data"]),
        fits=tuple(fits),
        folds=folds,
        first_folds=int(table.get("first_folds", folds)),
        boxes=tuple(table.get("boxes", ())),
        lines=tuple(table.get("lines", ())),
        small=not full,
        **{key: table[key] for key in ("normalize", "runs", "kmeans", "classes") if key in table},
    )


def merged(settings: Table, changes: Table) -> dict[str, Any]:
    """Settings with changes, also within the sections of single models."""
    changed = dict(settings)
    for name, value in changes.items():
        is_section = isinstance(value, Mapping)
        changed[name] = {**changed.get(name, {}), **value} if is_section else value
    return changed


def _fit(entry: Table, settings: Table, scale: float) -> Fit:
    model = str(entry["model"])
    options = options_for(model, settings, entry.get("options", {}))
    scorings = tuple(
        Scoring(
            name=row["name"],
            project=bool(row.get("project", False)),
            normalize=row.get("normalize"),
            paper=dict(row.get("paper", {})),
            group=str(row.get("group", "")),
        )
        for row in entry["row"]
    )
    return Fit(model, scaled(entry["layers"], scale), options, scorings)


def _grid(grid: Table | None, settings: Table, scale: float) -> list[Fit]:
    """Every model with every choice of layers, one box each; further links are further boxes."""
    if grid is None:
        return []
    choices: Iterable[list[int]] = grid.get("layers", [])
    drawn = grid.get("random")
    if drawn is not None:
        choices = _random_layers(drawn)
    fits = []
    links = grid.get("links", ["identity"])
    for model, layers, link, own in itertools.product(
        grid["models"], list(choices), links, _combinations(grid.get("vary", {}))
    ):
        if model in grid.get("fixed_layers", {}):
            layers = [*grid["fixed_layers"][model], *layers[1:]]
        if MODELS[model].one_layer:
            layers = layers[-1:]
        options = options_for(model, settings, {"link": link, **own})
        group = f"L = {len(layers)}" if drawn is not None else ", ".join(map(str, layers))
        if own:
            group = ", ".join(f"{name} = {own[name]:g}" for name in own if name in options)
        rows = [Scoring(name=TITLES[model], group=group)]
        if len(links) > 1:
            kinds = ["linear"] if link == "identity" else ["Square_1", "Square_2"]
            rows = [
                Scoring(
                    name=f"{TITLES[model]} ({kind})" if own else TITLES[model],
                    group=group if own else kind,
                    project=kind == "Square_2",
                )
                for kind in kinds
            ]
        fits.append(Fit(model, scaled(layers, scale), options, tuple(rows)))
    # A model of the last layer alone is kept once, whatever the layers below.
    unique = {(fit.key, tuple(row.group for row in fit.scorings)): fit for fit in fits}
    return list(unique.values())


def _combinations(vary: Mapping[str, Iterable[float]]) -> list[dict[str, float]]:
    """Every combination of the settings that vary."""
    return [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]


def _random_layers(drawn: Table) -> list[list[int]]:
    """Sizes of hidden layers from an exponential distribution, lower layers larger."""
    rng = np.random.default_rng(int(drawn.get("seed", 0)))
    top = int(drawn["top"])
    layers = []
    for depth in drawn["depths"]:
        for _ in range(int(drawn["draws"])):
            sizes = np.clip(rng.exponential(drawn["mean"], depth - 1), top + 1, drawn["largest"])
            layers.append([*sorted((int(size) for size in sizes), reverse=True), top])
    return layers


def options_for(model: str, settings: Table, own: Mapping[str, object]) -> dict[str, object]:
    """The options of a model: the shared settings it takes, then those in a section with its name,
    then its own."""
    takes = MODELS[model].options
    shared = {name: value for name, value in settings.items() if not isinstance(value, Mapping)}
    chosen = {**shared, **settings.get(model, {})}
    options = {name: value for name, value in {**chosen, **own}.items() if name in takes}
    if options.get("link") == "identity":
        del options["link"]
    return options


def scaled(layers: Iterable[int], scale: float) -> tuple[int, ...]:
    """Sizes of layers, scaled for a small version."""
    return tuple(max(2, round(size * scale)) for size in layers)
