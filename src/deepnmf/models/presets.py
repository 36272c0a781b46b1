"""The models of the paper, and the two single-layer models it compares them with.

Each is a function that returns a `DeepNMF`. Besides `mu` and `lam`, it takes what `DeepNMF` takes.
`mu` and `lam` are a number, or one number per layer.

    f = ½‖X − X̂‖² + ½ Σ_l μ_l ‖1ᵀW_l‖² + R(H_L)
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np

from deepnmf.models.deep import DeepNMF
from deepnmf.models.strengths import STRENGTHS
from deepnmf.penalties import Penalty, Ridge, SquaredL1, TopLayer
from deepnmf.solvers import Nesterov, ProjectedGradient, Solver
from deepnmf.terminal.text import one_line

Sizes = Sequence[int] | int | str
Strength = float | Sequence[float]


def dnmf(layer_sizes: Sizes = (64, 16), **settings: Any) -> DeepNMF:
    """DNMF: no penalty."""
    return _model("dnmf", layer_sizes, {}, settings)


def sdnmf_l(layer_sizes: Sizes = (64, 16), *, mu: Strength = 2e-4, **settings: Any) -> DeepNMF:
    """SDNMF/L: sparse parts. ½ μ_l Σ_j (Σ_i W_ij)² on the weights of every layer."""
    return _model("sdnmf_l", layer_sizes, {"penalty_W": _each(SquaredL1, mu)}, settings)


def sdnmf_r(layer_sizes: Sizes = (64, 16), *, lam: Strength = 1e-3, **settings: Any) -> DeepNMF:
    """SDNMF/R: sparse codes. ½ λ_l Σ_j (Σ_i H_ij)² on the codes of every layer."""
    return _model("sdnmf_r", layer_sizes, {"penalty_H": _each(SquaredL1, lam)}, settings)


def sdnmf_rl1(
    layer_sizes: Sizes = (64, 16), *, mu: Strength = 2e-4, lam: Strength = 1e-3, **settings: Any
) -> DeepNMF:
    """SDNMF/RL1: sparse parts, and sparse codes in the last layer."""
    penalties = {"penalty_W": _each(SquaredL1, mu), "penalty_H": _top(SquaredL1, lam)}
    return _model("sdnmf_rl1", layer_sizes, penalties, settings)


def sdnmf_rl2(
    layer_sizes: Sizes = (64, 16), *, mu: Strength = 2e-4, lam: Strength = 1e-3, **settings: Any
) -> DeepNMF:
    """SDNMF/RL2: sparse parts, and small, smooth codes in the last layer (½ λ_L ‖H_L‖²)."""
    penalties = {"penalty_W": _each(SquaredL1, mu), "penalty_H": _top(Ridge, lam)}
    return _model("sdnmf_rl2", layer_sizes, penalties, settings)


def nenmf(
    layer_sizes: Sizes = 16, *, max_iter: int = 1000, tol: float = 1e-7, **settings: Any
) -> DeepNMF:
    """NeNMF (Guan et al.): one layer, no penalty, a random start, and Nesterov's method with its
    own inner stopping rule.

    The published tolerance of 1e-5 is one of the gradient. For the decrease of the objective it
    would be too large, and would stop fits on plateaus up to 2% above their end; so `tol` is 1e-7.
    """
    solver = Nesterov(max_steps=1000, min_steps=10, tol=1e-3, sharpen=True, joint=True)
    return _single("nenmf", layer_sizes, solver, {"max_iter": max_iter, "tol": tol}, settings)


def pgnmf(
    layer_sizes: Sizes = 16, *, max_iter: int = 1000, tol: float = 1e-7, **settings: Any
) -> DeepNMF:
    """PgNMF (Lin): one layer, no penalty, a random start, and projected gradient."""
    solver = ProjectedGradient(max_steps=1000, joint=True)
    return _single("pgnmf", layer_sizes, solver, {"max_iter": max_iter, "tol": tol}, settings)


def _model(
    name: str, layer_sizes: Sizes, fixed: dict[str, Any], settings: dict[str, Any]
) -> DeepNMF:
    """A `DeepNMF` with the settings that make a preset, and those of the user."""
    own = {name: option for name, option in STRENGTHS.items() if option in fixed}
    first, *others = (parameter.name for parameter in fields(DeepNMF))
    options = [first, *own, *(option for option in others if option not in own.values())]
    for option in settings:
        if option in fixed:
            raise TypeError(
                f"{name}: {option} is what makes this preset. To choose it, use "
                f"DeepNMF({option}=…)."
            )
        if option in ("mu", "lam"):
            sparse = "sdnmf_l" if option == "mu" else "sdnmf_r"
            raise TypeError(f"{name} has no {option}: {sparse}, sdnmf_rl1 and sdnmf_rl2 have it.")
        if option == "n_components":
            raise TypeError(
                f"{name} has no n_components: give the number of parts in each layer as "
                "layer_sizes, such as (64, 16), or 16 for one layer."
            )
        if option not in options:
            near = difflib.get_close_matches(option, options, 1)
            hint = f" Did you mean {near[0]!r}?" if near else f" It takes {', '.join(options)}."
            raise TypeError(f"{name} has no option {option!r}.{hint}")
    return DeepNMF(layer_sizes, **fixed, **settings)


def _single(
    name: str,
    layer_sizes: Sizes,
    solver: Solver,
    limits: dict[str, Any],
    settings: dict[str, Any],
) -> DeepNMF:
    """A model of one layer, with a random start and this solver unless the user set others."""
    if isinstance(layer_sizes, Iterable) and len(list(layer_sizes)) != 1:
        raise ValueError(
            f"{name} has one layer, got layer_sizes={one_line(repr(layer_sizes))}: give one "
            "size, or use dnmf for several layers without penalty."
        )
    if settings.get("solver") == "auto":
        del settings["solver"]
    paper = {"scaling": "paper", "start": "random", "solver": solver}
    return _model(name, layer_sizes, limits, paper | settings)


def _each(penalty: Callable[[float], Penalty], strength: Strength) -> Penalty | tuple[Penalty, ...]:
    """The penalty for all layers, or one penalty per layer."""
    if np.ndim(strength) == 0:
        return penalty(_number(strength))
    return tuple(penalty(entry) for entry in cast("Sequence[float]", strength))


def _top(
    penalty: Callable[[float], Penalty], strength: Strength
) -> TopLayer | tuple[Penalty | None, ...]:
    """The penalty for the last layer only. With one strength per layer, only the last counts."""
    if np.ndim(strength) == 0:
        return TopLayer(penalty(_number(strength)))
    entries = [penalty(entry) for entry in cast("Sequence[float]", strength)]
    return (*(None for _ in entries[:-1]), *entries[-1:])


def _number(strength: Any) -> float:
    """A number, also if it comes as an array without axes."""
    return strength.item() if isinstance(strength, np.ndarray) else strength
