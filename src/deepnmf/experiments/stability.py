"""Stability: how alike the parts are that one model learns from different random starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from deepnmf.evaluation.matching import agreement
from deepnmf.models.base import MatrixFactorization

NAN = float("nan")


class Stability(NamedTuple):
    """The mean cosine of the matched parts of a model and of others. NaN: not measured."""

    top: float = NAN
    """Parts of the top layer, as features."""
    lowest: float = NAN
    """Parts of layer 1. NaN with a single layer, which is the top layer."""


def stabilities(models: Sequence[MatrixFactorization]) -> list[Stability]:
    """The stability of each of these fits of one model to the same samples."""
    top = agreement([fitted.components_ for fitted in models])
    lowest = [NAN] * len(models)
    if len(models[0].weights_) > 1:
        lowest = agreement([fitted.basis(1) for fitted in models])
    return [Stability(*pair) for pair in zip(top, lowest, strict=True)]
