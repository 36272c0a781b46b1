"""The paper's Figure 8: a class of faces, its codes, its parts and their parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.preprocessing import normalize

from deepnmf.data import Dataset
from deepnmf.experiments import design
from deepnmf.explain.hierarchy import explain
from deepnmf.explain.tree import Node, Tree
from deepnmf.models.advice import complete
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.storage import load, save
from deepnmf.report.plots import class_hierarchy

FIGURE_COLUMNS = ("layer", "unit", "parent", "weight", "share")


@dataclass(frozen=True)
class Hierarchy:
    """A fit, its data, and the class that the figure shows."""

    fit: design.Fit
    data: str
    label: int
    classes: int | None


def settings(full: bool) -> Hierarchy:
    """The settings at the paper's size, or small: few classes and small layers."""
    table, common = design.read_table("fig8"), design.read_table("common")
    small, changes = table.pop("small"), {}
    if not full:
        table, changes = {**table, **small}, common["small"]["settings"]
    chosen = design.merged(common["settings"], changes)
    model = str(table["model"])
    layers = design.scaled(table["layers"], table["scale"])
    fit = design.Fit(model, layers, design.options_for(model, chosen, {}), ())
    return Hierarchy(fit, str(table["data"]), int(table["label"]), table.get("classes"))


def samples(hierarchy: Hierarchy, dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The samples of the chosen classes, scaled to unit norm, and their labels."""
    assert dataset.y is not None
    classes = np.unique(dataset.y)[: hierarchy.classes]
    chosen = np.isin(dataset.y, classes)
    return normalize(dataset.X[chosen].astype(np.float32)), dataset.y[chosen]


def fitted(hierarchy: Hierarchy, X: np.ndarray, path: Path, device: str) -> MatrixFactorization:
    """The fitted model: read from its file, or fitted and written there first."""
    if not path.exists():
        model = complete(hierarchy.fit.estimator.set_params(device=device, random_state=0).fit(X))
        notes = {"model": hierarchy.fit.model, "data": hierarchy.data, "normalize": "l2"}
        save(model, path, notes)
    return load(path)


def rows(tree: Tree) -> pd.DataFrame:
    """What the figure shows: the parts of the class, then those of the first of them, and so on."""
    lines: list[dict[str, str | float]] = []
    parent: Node | None = None
    nodes = tree.children
    while nodes and nodes[0].layer:
        for node in nodes:
            above = "class" if parent is None else parent.unit
            values = (node.layer, node.unit, above, node.weight, node.share)
            lines.append(dict(zip(FIGURE_COLUMNS, values, strict=True)))
        parent, nodes = nodes[0], nodes[0].children
    return pd.DataFrame(lines, columns=list(FIGURE_COLUMNS))


def draw(
    hierarchy: Hierarchy,
    model: MatrixFactorization,
    X: np.ndarray,
    y: np.ndarray,
    shape: tuple[int, int] | None,
) -> tuple[Figure, pd.DataFrame]:
    """The figure, and the numbers on it."""
    tree = explain(model, X, label=hierarchy.label, labels=y, top=5, depth=None, order="weight")
    return class_hierarchy(model, X, y, hierarchy.label, image_shape=shape), rows(tree)
