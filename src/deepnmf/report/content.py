"""The data of the page, as a record that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deepnmf.arrays import Array, is_sparse
from deepnmf.arrays.tensors import to_numpy
from deepnmf.data import Dataset
from deepnmf.evaluation import cluster_scores
from deepnmf.evaluation.metrics import SCORES
from deepnmf.explain.decoding import (
    Decoding,
    codes_of,
    decoder,
    edge_flow,
    parts_of,
    shares_of,
)
from deepnmf.explain.hierarchy import LayerSummary, distinctions, summaries_of
from deepnmf.explain.measures import relative_error
from deepnmf.links import Link
from deepnmf.models.base import MatrixFactorization
from deepnmf.models.choice.record import FEW_FITS, Choice
from deepnmf.models.part_names import given_names
from deepnmf.report import packing
from deepnmf.report.choice import size_curve
from deepnmf.report.plots import codes_plane
from deepnmf.report.quality import convergence, spread, warnings_of
from deepnmf.report.records import (
    Axis,
    Columns,
    Page,
    PageChoice,
    PageClasses,
    PageLayer,
    PageSamples,
    Pictures,
    ScoreTable,
    Sprite,
)
from deepnmf.version import __version__

EDGES, CODES, LEAST = 300_000, 100_000, 24
"""The most weights per layer and codes in the page; of each unit at least LEAST."""
HOLDERS = 5
"""How many parts per layer the page names for a feature."""
FEATURES = 30
"""How many features the page names for a part."""
CLASSES = 1000
SAMPLES = 1000
PIXELS = 700_000
"""The most classes and samples in the page, and the most pixels of all samples together."""
MAP, SMALL = 128, 16
"""The most pixels of a side of a map of codes, and what remains where there are very many parts."""
LOOKED_AT = 2000
"""How many samples the importance of parts is computed from."""


def content(
    model: MatrixFactorization,
    data: Dataset,
    notes: Mapping[str, object],
    scores: Sequence[Mapping[str, str | float]] | None = None,
    samples: Array | None = None,
) -> Page:
    """Everything in the page. `data.X` is as the model sees it; `scores` are rows for the table of
    scores, instead of the scores of this model alone. `samples` is what the model encodes, by
    default `data.X`: a frame, whose names of features the model checks."""
    weights, link = decoder(model)
    samples = data.X if samples is None else samples
    H = codes_of(model, samples)
    Z = model.transform(samples) if getattr(model, "project_codes", False) else H
    error = relative_error(model, Z, data.X)
    layers = summaries_of(weights, link, H.T)
    y = None if data.y is None else np.asarray(data.y)
    warnings = warnings_of(model, layers)
    classes = 0 if y is None else len(np.unique(y))
    if classes > CLASSES:
        y = None
        warnings.append(
            f"Labels: {classes} classes are more than the {CLASSES} that a page can show, so it "
            "shows none. Give labels of fewer classes with --labels."
        )
    kind, names = _kind(data), data.feature_names
    decoded = Decoding.of(weights, link, H[spread(len(H), LOOKED_AT)].T)
    maps = {} if data.grid is None else _maps(data.grid, model, samples)
    return {
        "title": f"{notes.get('model') or type(model).__name__} on {data.name or 'data'}",
        "facts": _facts(model, data, notes, weights, error),
        "warnings": warnings,
        "scores": _scores(to_numpy(Z), y, scores),
        "convergence": convergence(model.history_),
        "choice": _choice(getattr(model, "choice_", None)),
        "few_fits": FEW_FITS,
        "linear": bool(link.linear),
        "features": {
            "count": len(weights[0]),
            "kind": kind,
            "shape": data.image_shape,
            "names": None if names is None else [str(name) for name in names],
            "axis": _axis(data) if kind == "axis" else None,
        },
        "grid": data.grid,
        "layers": [
            {
                **_layer(
                    model, weights[: summary.layer], link, summary, decoded, data.image_shape, kind
                ),
                "maps": maps.get(summary.layer),
            }
            for summary in layers
        ],
        "classes": None if y is None else _classes(weights, link, H, y, data, kind),
        "samples": _samples(weights, link, H, y, data, kind),
        "version": __version__,
    }


def _kind(data: Dataset) -> str:
    """What the features are, which says how parts are drawn."""
    if data.image_shape:
        return "image"
    if data.axis is not None:
        return "axis"
    return "numbers" if data.feature_names is None else "names"


def _axis(data: Dataset) -> Axis:
    values = data.axis
    assert values is not None
    low, high = float(values[0]), float(values[-1])
    points = values[packing.first_of_points(len(values))]
    return {
        "label": data.axis_label,
        "low": low,
        "high": high,
        "at": [round(float(place), 4) for place in (points - low) / (high - low)],
    }


def _maps(grid: tuple[int, int], model: MatrixFactorization, samples: Array) -> dict[int, Sprite]:
    """The codes of every layer as images: by layer, one image per part."""
    maps = {}
    for layer in range(1, len(model.weights_) + 1):
        codes = to_numpy(model.transform(samples, layer=layer)).astype(np.float32)
        side = max(SMALL, min(MAP, int((PIXELS / codes.shape[1]) ** 0.5)))
        maps[layer] = packing.sprite(np.ascontiguousarray(codes.T), grid, side)
    return maps


def _facts(
    model: MatrixFactorization,
    data: Dataset,
    notes: Mapping[str, object],
    weights: Sequence[np.ndarray],
    error: float,
) -> list[tuple[str, str]]:
    sizes = " → ".join(str(size) for size in (len(weights[0]), *(W.shape[1] for W in weights)))
    link = getattr(model, "link", "identity")
    facts = [
        ("Model", str(notes.get("model") or type(model).__name__)),
        ("Data", f"{data.name or 'data'}: {data.X.shape[0]} samples of {len(weights[0])} features"),
        ("Layers", f"{sizes} (features → parts of layer 1 → …)"),
        ("Link", link if isinstance(link, str) else type(link).__name__),
        ("Samples scaled", {"l2": "to unit norm"}.get(str(notes.get("normalize")), "no")),
        ("Relative error", f"{error:.4f} (‖X − X̂‖ / ‖X‖ on these data)"),
    ]
    if model.history_ or model.n_iter_:
        facts.append(("Sweeps", f"{model.n_iter_} of fine-tuning"))
    if model.history_:
        facts.append(("Time to fit", f"{model.history_[-1]['seconds']:.1f} s"))
    return [*facts, ("Status", model.status_)]


def _scores(
    Z: np.ndarray, y: np.ndarray | None, table: Sequence[Mapping[str, str | float]] | None
) -> ScoreTable | None:
    """The table of scores: the one given, or K-means on the codes; None without labels to score."""
    if table is not None:
        rows = [{name: _rounded(value) for name, value in row.items()} for row in table]
        return {"head": list(rows[0]), "rows": [list(row.values()) for row in rows]}
    classes = 0 if y is None else len(np.unique(y))
    if y is None or not 1 < classes <= len(Z):
        return None
    scores = cluster_scores(Z, y)
    deviations = [_rounded(scores[f"{name}_std"]) for name in SCORES]
    return {
        "head": ["", *SCORES.values()],
        "rows": [
            ["mean", *(_rounded(scores[name]) for name in SCORES)],
            ["deviation", *deviations],
        ],
    }


def _rounded(value: str | float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _choice(choice: Choice | None) -> PageChoice | None:
    if choice is None:
        return None
    return {
        "sentences": choice.sentences(),
        "layers": [size_curve(layer) for layer in choice.layers],
    }


def _layer(
    model: MatrixFactorization,
    weights: Sequence[np.ndarray],
    link: Link,
    summary: LayerSummary,
    decoded: Decoding,
    shape: tuple[int, int] | None,
    kind: str,
) -> PageLayer:
    """The parts of a layer: their pictures, what they are made of, and which hold each feature."""
    parts = parts_of(weights, link).astype(np.float32)
    peak = np.abs(parts).max(1)
    level = summary.layer - 1
    mass = decoded.flow(summary.layer).mean(1)
    prominence = parts / np.where(peak > 0, peak, 1)[:, None]
    support = getattr(model, "support_", None)
    record: PageLayer = {
        "layer": summary.layer,
        "parts": summary.parts,
        "names": given_names(model._checked_names()[level]),
        "hidden": model._checked_hidden()[level],
        "zeros": summary.zeros,
        "sparseness": summary.sparseness,
        "dead": list(summary.dead),
        "redundant": [
            (first, second, round(cosine, 4)) for first, second, cosine in summary.redundant[:200]
        ],
        "pairs": len(summary.redundant),
        "importance": packing.array(mass / mass.sum() if mass.sum() else mass, "f4"),
        "peak": packing.array(peak, "f4"),
        "support": None if support is None else [round(float(one), 4) for one in support[level]],
        "features": packing.largest(parts, FEATURES),
        "holders": packing.largest(np.ascontiguousarray(prominence.T), HOLDERS),
        "edges": None,
        "maps": None,
        **_pictures(parts, shape, kind),
    }
    if level:
        flow = edge_flow(weights, link)
        edges = getattr(model, "edge_support_", None)
        edge_support = None if edges is None else edges[level - 1]
        record["edges"] = _edges(weights[-1], flow, EDGES, edge_support)
    return record


def _edges(
    values: np.ndarray, flow: np.ndarray, most: int, support: np.ndarray | None = None
) -> Columns:
    """The columns of weights, ranked by the share of what flows along them."""
    return packing.columns(
        values, shares_of(flow), max(LEAST, most // max(1, values.shape[1])), support
    )


def _pictures(rows: np.ndarray, shape: tuple[int, int] | None, kind: str) -> Pictures:
    if shape is not None:
        return {"sprite": packing.sprite(rows, shape)}
    return {"profiles": packing.profiles(rows)} if kind in ("numbers", "axis") else {}


def _classes(
    weights: Sequence[np.ndarray],
    link: Link,
    H: np.ndarray,
    y: np.ndarray,
    data: Dataset,
    kind: str,
) -> PageClasses:
    labels = np.unique(y)
    codes = np.stack([H[y == label].mean(0) for label in labels])
    means = np.stack([np.ravel(data.X[np.flatnonzero(y == label)].mean(0)) for label in labels])
    means = means.astype(np.float32)
    distinct = []
    for label in labels:
        leading = [unit for unit in distinctions(H, y, label)[:8] if unit.difference > 0]
        distinct.append(
            [(unit.unit, unit.inside, unit.outside, _finite(unit.difference)) for unit in leading]
        )
    return {
        "names": [str(label) for label in labels.tolist()],
        "counts": [int((y == label).sum()) for label in labels],
        "codes": _codes(weights, link, codes),
        "distinct": distinct,
        "features": packing.largest(means, FEATURES),
        **_pictures(means, data.image_shape, kind),
    }


def _samples(
    weights: Sequence[np.ndarray],
    link: Link,
    H: np.ndarray,
    y: np.ndarray | None,
    data: Dataset,
    kind: str,
) -> PageSamples:
    """Some of the samples, spread evenly over the classes."""
    most = SAMPLES if not data.image_shape else min(SAMPLES, PIXELS // math.prod(data.image_shape))
    classes = np.zeros(len(H), int) if y is None else np.unique(y, return_inverse=True)[1]
    groups = [np.flatnonzero(classes == number) for number in range(classes.max() + 1)]
    each = max(2, most // len(groups))
    chosen = np.concatenate([group[spread(len(group), each)] for group in groups])
    rows = data.X[chosen]
    rows = np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float32)
    names = data.sample_names
    plane = codes_plane(H)
    low, span = plane.min(0), np.ptp(plane, axis=0)
    plane = 2 * (plane - low) / np.where(span > 0, span, 1) - 1
    return {
        "total": len(H),
        "rows": packing.array(chosen, "u4"),
        "classes": None if y is None else packing.array(classes[chosen], "u2"),
        "names": None if names is None else [str(names[row]) for row in chosen],
        "codes": _codes(weights, link, H[chosen]),
        "plane": packing.array(np.round(plane[chosen] * 32000), "i2"),
        "features": packing.largest(rows, FEATURES // 2),
        **_pictures(rows, data.image_shape, kind),
    }


def _codes(weights: Sequence[np.ndarray], link: Link, H: np.ndarray) -> Columns:
    """Codes (n, k), with the share of x̂ that goes through each unit."""
    flow = Decoding.of(weights, link, H.T).flow(len(weights))
    return _edges(H.T, flow, CODES)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
