"""`mu` and `lam` as parameters: the strengths of the penalties that a model has.

The presets build penalties from them. A model shows them in `get_params` and takes them in
`set_params`, so that a grid can search over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deepnmf.penalties import Penalty, TopLayer

STRENGTHS = {"mu": "penalty_W", "lam": "penalty_H"}
"""The penalties that each strength belongs to."""
WITHOUT = {
    "mu": "no penalty on W. Use sdnmf_l, sdnmf_rl1 or sdnmf_rl2, or penalty_W=SquaredL1(…)",
    "lam": "no penalty on codes. Use sdnmf_r, sdnmf_rl1 or sdnmf_rl2, or penalty_H=SquaredL1(…)",
}


def strengths_of(model: Any) -> dict[str, Any]:
    """`mu` and `lam`, as far as the penalties of a model have a strength."""
    known = {name: _strength(getattr(model, option)) for name, option in STRENGTHS.items()}
    return {name: strength for name, strength in known.items() if strength is not None}


def _strength(setting: Any) -> Any:
    """A number, one per layer, or None."""
    if isinstance(setting, TopLayer):
        return _strength(setting.penalty)
    if isinstance(setting, list | tuple):
        entries = [0.0 if entry is None else _strength(entry) for entry in setting]
        return None if None in entries or not any(setting) else tuple(entries)
    return getattr(setting, "strength", None) if isinstance(setting, Penalty) else None


def with_strength(name: str, setting: Any, strength: Any) -> Any:
    """A setting of `penalty_W` or `penalty_H` with another strength: a number, or one per layer."""
    if _strength(setting) is None:
        raise ValueError(f"{name}: this model has {WITHOUT[name]}.")
    if isinstance(setting, TopLayer):
        last = strength if np.ndim(strength) == 0 else list(strength)[-1]
        return TopLayer(_changed(setting.penalty, last))
    layers: Sequence[Any] = setting if isinstance(setting, list | tuple) else ()
    if np.ndim(strength) == 0:
        if not layers:
            return _changed(setting, strength)
        return tuple(entry and _changed(entry, strength) for entry in layers)
    numbers = list(strength)
    if layers and len(numbers) != len(layers):
        raise ValueError(
            f"{name} has {len(numbers)} entries for {len(layers)} layers: give one per layer, or a "
            "single one for all."
        )
    entries = layers or [setting] * len(numbers)
    return tuple(
        entry and _changed(entry, number) for entry, number in zip(entries, numbers, strict=True)
    )


def _changed(penalty: Any, strength: Any) -> Penalty:
    """The penalty with another strength."""
    changed: Penalty = replace(penalty, strength=strength)
    return changed
