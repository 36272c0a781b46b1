"""The parts that the laws are held over: a new part is one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import deepnmf
from deepnmf import DeepNMF
from deepnmf.links import Identity, Link, Root, Sigmoid, Softplus, Tanh
from deepnmf.penalties import Penalty, Ridge, SquaredL1, Zero
from deepnmf.solvers import Auto, Nesterov, ProjectedGradient, Solver
from deepnmf.starts import Nnsvd, Random, Start

NONLINEAR: list[Link] = [Root(), Tanh(), Sigmoid(), Softplus()]
LINKS: list[Link] = [Identity(), *NONLINEAR]
PENALTIES: list[Penalty] = [Zero(), SquaredL1(0.3), Ridge(0.7)]
SOLVERS: list[Solver] = [
    Auto(),  # Coordinate for NumPy arrays
    Nesterov(),
    Nesterov(max_steps=1000, min_steps=10, tol=1e-3, sharpen=True),
    Nesterov(max_steps=1000, min_steps=10, tol=1e-3, sharpen=True, joint=True),
    ProjectedGradient(joint=True),
    ProjectedGradient(),
]
STARTS: list[Start] = [Nnsvd("zero"), Nnsvd("mean"), Nnsvd("random"), Nnsvd(0.1), Random()]
DEEP: list[Callable[..., DeepNMF]] = [
    deepnmf.dnmf,
    deepnmf.sdnmf_l,
    deepnmf.sdnmf_r,
    deepnmf.sdnmf_rl1,
    deepnmf.sdnmf_rl2,
]
SINGLE: list[Callable[..., DeepNMF]] = [deepnmf.nenmf, deepnmf.pgnmf]


def named(part: object) -> str:
    """A readable test id."""
    return getattr(part, "__name__", None) or repr(part)


LENGTHS = ["short", "full"]
"""Of fits: "full" is for the long tests."""


def long(parts: Iterable[Any], *slow: str) -> list[Any]:
    """Parts for a table, of which those with these names are left to the long tests."""
    return [
        pytest.param(part, marks=pytest.mark.long) if _name(part) in slow else part
        for part in parts
    ]


def _name(part: object) -> str:
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)
