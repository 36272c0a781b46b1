"""The models of the paper, and the two single-layer ones it compares with, by name.

Each is a function that composes parts and returns a `DeepNMF`; what they take beyond `mu` and
`lam` is what `DeepNMF` takes. `mu` and `lam` are numbers, or one per layer.

    f = ½‖X − X̂‖² + ½ Σ_l μ_l ‖1ᵀW_l‖² + R(H_L)
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np

from deepnmf.models.deep import DeepNMF
from deepnmf.penalties import Penalty, Ridge, SquaredL1, TopLayer
from deepnmf.solvers import Nesterov, ProjectedGradient

Sizes = Sequence[int] | int
Strength = float | Sequence[float]


def dnmf(layer_sizes: Sizes = (64, 16), **settings: Any) -> DeepNMF:
    """DNMF: no penalty at all."""
    return _model("dnmf", layer_sizes, {}, settings)


def sdnmf_l(layer_sizes: Sizes = (64, 16), *, mu: Strength = 1e-3, **settings: Any) -> DeepNMF:
    """SDNMF/L: sparse parts. ½ μ_l Σ_j (Σ_i W_ij)² on the weights of every layer."""
    return _model("sdnmf_l", layer_sizes, {"penalty_W": _each(SquaredL1, mu)}, settings)


def sdnmf_r(layer_sizes: Sizes = (64, 16), *, lam: Strength = 1e-3, **settings: Any) -> DeepNMF:
    """SDNMF/R: sparse codes. ½ λ_l Σ_j (Σ_i H_ij)² on the codes of every layer."""
    return _model("sdnmf_r", layer_sizes, {"penalty_H": _each(SquaredL1, lam)}, settings)


def sdnmf_rl1(
    layer_sizes: Sizes = (64, 16), *, mu: Strength = 1e-3, lam: Strength = 1e-3, **settings: Any
) -> DeepNMF:
    """SDNMF/RL1: sparse parts, and sparse codes in the last layer."""
    parts = {"penalty_W": _each(SquaredL1, mu), "penalty_H": _top(SquaredL1, lam)}
    return _model("sdnmf_rl1", layer_sizes, parts, settings)


def sdnmf_rl2(
    layer_sizes: Sizes = (64, 16), *, mu: Strength = 1e-3, lam: Strength = 1e-3, **settings: Any
) -> DeepNMF:
    """SDNMF/RL2: sparse parts, and small, smooth codes in the last layer (½ λ_L ‖H_L‖²)."""
    parts = {"penalty_W": _each(SquaredL1, mu), "penalty_H": _top(Ridge, lam)}
    return _model("sdnmf_rl2", layer_sizes, parts, settings)


def nenmf(
    layer_sizes: Sizes = 16, *, max_iter: int = 1000, tol: float = 1e-7, **settings: Any
) -> DeepNMF:
    """NeNMF (Guan et al.): one layer, no penalty, a random start, Nesterov's method with its own
    inner stopping rule. `tol` is 1e-7: its published 1e-5 is of the gradient, and as a share of
    the objective it would stop on plateaus, up to 2% above where the fit ends."""
    _one_layer("nenmf", layer_sizes)
    parts: dict[str, Any] = {
        "start": "random",
        "solver": Nesterov(max_steps=1000, min_steps=10, tol=1e-3, sharpen=True, joint=True),
    }
    limits = {"max_iter": max_iter, "tol": tol}
    return _model("nenmf", layer_sizes, limits, _with_own(parts, settings))


def pgnmf(
    layer_sizes: Sizes = 16, *, max_iter: int = 1000, tol: float = 1e-7, **settings: Any
) -> DeepNMF:
    """PgNMF (Lin): one layer, no penalty, a random start, projected gradient."""
    _one_layer("pgnmf", layer_sizes)
    parts: dict[str, Any] = {
        "start": "random",
        "solver": ProjectedGradient(max_steps=1000, joint=True),
    }
    limits = {"max_iter": max_iter, "tol": tol}
    return _model("pgnmf", layer_sizes, limits, _with_own(parts, settings))


def _model(
    name: str, layer_sizes: Sizes, parts: dict[str, Any], settings: dict[str, Any]
) -> DeepNMF:
    """A `DeepNMF` of a preset's parts and what the user set besides."""
    options = [*inspect.signature(DeepNMF).parameters][1:]
    for option in settings:
        if option in parts:
            raise TypeError(
                f"{name}: {option} is what makes this preset. For one of your own use "
                f"DeepNMF({option}=…)."
            )
        if option in ("mu", "lam"):
            others = (
                "sdnmf_l, sdnmf_rl1 and sdnmf_rl2"
                if option == "mu"
                else ("sdnmf_r, sdnmf_rl1 and sdnmf_rl2")
            )
            raise TypeError(f"{name} has no {option}: {others} have it.")
        if option not in options:
            near = difflib.get_close_matches(option, options, 1)
            hint = f" Did you mean {near[0]!r}?" if near else f" It takes {', '.join(options)}."
            raise TypeError(f"{name} has no option {option!r}.{hint}")
    return DeepNMF(layer_sizes, **parts, **settings)


def _with_own(parts: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """A preset's own parts, where no others are asked for; "auto" asks for none."""
    if settings.get("solver") == "auto":
        settings = {name: value for name, value in settings.items() if name != "solver"}
    return parts | settings


def _one_layer(name: str, layer_sizes: Sizes) -> None:
    if isinstance(layer_sizes, Iterable) and len(list(layer_sizes)) != 1:
        raise ValueError(
            f"{name} has one layer, got layer_sizes={layer_sizes!r}: give one size, or use dnmf "
            "for several layers without penalty."
        )


def _each(penalty: Callable[[float], Penalty], strength: Strength) -> Penalty | tuple[Penalty, ...]:
    """The penalty for every layer, or one per layer."""
    if np.ndim(strength) == 0:
        return penalty(_number(strength))
    return tuple(penalty(entry) for entry in cast("Sequence[float]", strength))


def _top(
    penalty: Callable[[float], Penalty], strength: Strength
) -> TopLayer | tuple[Penalty | None, ...]:
    """The penalty for the last layer alone; of one strength per layer the last one counts."""
    if np.ndim(strength) == 0:
        return TopLayer(penalty(_number(strength)))
    entries = [penalty(entry) for entry in cast("Sequence[float]", strength)]
    return (*(None for _ in entries[:-1]), *entries[-1:])


def _number(strength: Any) -> float:
    """A number, also where it comes as an array of one."""
    return strength.item() if isinstance(strength, np.ndarray) else strength
