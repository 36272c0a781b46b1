"""Numbers and pictures packed as text for the page: small, and exact to the digits shown."""

from __future__ import annotations

import base64
import io
import math

import numpy as np
from numpy.typing import ArrayLike

from deepnmf.report.records import Columns, Largest, Numbers, Profiles, Sprite

SIDE = 48
POINTS = 240
"""The most points of a line."""


def array(values: ArrayLike, kind: str) -> Numbers:
    """Numbers of one kind ("f4", "u4", "u2", "u1", "i2"), little-endian, in base64."""
    raw = np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<")).tobytes()
    return {"type": kind, "data": base64.b64encode(raw).decode()}


def indices(values: ArrayLike, size: int) -> Numbers:
    """Indices below `size`, in as few bytes as they need."""
    return array(values, "u2" if size <= 65536 else "u4")


def shares(values: np.ndarray) -> Numbers:
    """Shares between 0 and 1, to a hundredth of a percent or better."""
    return array(np.round(np.clip(values, 0, 1) * 65535), "u2")


def columns(
    weights: np.ndarray, fractions: np.ndarray, most: int, support: np.ndarray | None = None
) -> Columns:
    """The entries of each column of `weights` that are not 0, and what is left out.

    `fractions` are their shares of the column: the largest come first, at most `most` per column.
    `support` is the share of the fits that have each entry, if it is known.
    """
    weights = weights.astype(np.float32)
    rows = weights.shape[0]
    kept = min(most, rows)
    if kept < rows:
        best = np.argpartition(-fractions, kept - 1, axis=0)[:kept]
    else:
        best = _all(weights.shape)
    order = np.argsort(-np.take_along_axis(fractions, best, 0), axis=0, kind="stable")
    best = np.take_along_axis(best, order, 0)
    value = np.take_along_axis(weights, best, 0).T
    share = np.take_along_axis(fractions, best, 0).T
    present = value != 0
    counts = present.sum(1)
    total = (weights != 0).sum(0)
    missing = np.clip(fractions.sum(0) - (share * present).sum(1), 0, 1)
    left = np.where(total > counts, missing, 0)
    return {
        "start": array(np.concatenate([[0], np.cumsum(counts)]), "u4"),
        "index": indices(best.T[present], rows),
        "weight": array(value[present], "f4"),
        "share": shares(share[present]),
        "more": array(total - counts, "u4"),
        "left": shares(left),
        "support": (
            None if support is None else shares(np.take_along_axis(support, best, 0).T[present])
        ),
    }


def _all(shape: tuple[int, ...]) -> np.ndarray:
    return np.repeat(np.arange(shape[0])[:, None], shape[1], 1)


def largest(rows: np.ndarray, most: int) -> Largest:
    """The largest entries of each row, with their columns: `most` per row, with zeros where a row
    has fewer entries that are not 0."""
    kept = min(most, rows.shape[1])
    size = np.abs(rows)
    best = np.argpartition(-size, kept - 1, axis=1)[:, :kept]
    order = np.argsort(-np.take_along_axis(size, best, 1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, 1)
    values = np.take_along_axis(rows, best, 1)
    return {
        "each": kept,
        "index": indices(best, rows.shape[1]),
        "weight": array(values, "f4"),
    }


def sprite(rows: np.ndarray, shape: tuple[int, int], side: int = SIDE) -> Sprite:
    """Images on one PNG sheet, each scaled to its own largest entry: bright is large. They are
    shrunk until no side has more pixels than `side`."""
    from PIL import Image

    images = _bytes(rows).reshape(-1, *shape)
    step = -(-max(shape) // side)
    if step > 1:
        high, wide = -(-shape[0] // step), -(-shape[1] // step)
        images = np.stack(
            [np.asarray(Image.fromarray(image).resize((wide, high), Image.Resampling.BOX))
             for image in images]
        )  # fmt: skip
    count, high, wide = images.shape
    across = max(1, math.ceil(math.sqrt(count)))
    sheet = np.zeros((-(-count // across) * high, across * wide), np.uint8)
    for place, image in enumerate(images):
        row, column = divmod(place, across)
        sheet[row * high : (row + 1) * high, column * wide : (column + 1) * wide] = image
    buffer = io.BytesIO()
    Image.fromarray(sheet).save(buffer, "PNG", optimize=True)
    text = base64.b64encode(buffer.getvalue()).decode()
    return {"png": text, "across": across, "high": high, "wide": wide}


def profiles(rows: np.ndarray) -> Profiles:
    """Rows as lines of at most POINTS points; a point is the largest of the entries it covers."""
    starts = first_of_points(rows.shape[1])
    folded = np.maximum.reduceat(np.abs(rows), starts, axis=1)
    return {"points": len(starts), "values": array(_bytes(folded), "u1")}


def first_of_points(features: int) -> np.ndarray:
    """The first of the features that each point of a line covers."""
    points = min(features, POINTS)
    return np.linspace(0, features, points, endpoint=False).astype(int)


def _bytes(rows: np.ndarray) -> np.ndarray:
    """Rows as bytes: 0 is the smallest entry of the row, or 0 if none is below, 255 the largest."""
    low = np.minimum(rows.min(1, keepdims=True), 0)
    span = rows.max(1, keepdims=True) - low
    scaled = (rows - low) / np.where(span > 0, span, 1)
    return np.round(255 * scaled).astype(np.uint8)
