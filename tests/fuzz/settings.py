"""Models with random settings, legal and illegal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepnmf.links import LINKS
from deepnmf.models.presets import DeepNMF
from deepnmf.models.registry import MODELS, PRESETS, Model
from deepnmf.penalties import L1, Ridge, SquaredL1
from deepnmf.solvers import SOLVERS
from tests.fuzz.case import pick

SINGLE = [*(model for model in MODELS.values() if not model.several)]
GENERAL = Model("DeepNMF", DeepNMF, "")
BASELINES = [model for model in SINGLE if model not in PRESETS]
ENDLESS = 10**20
NONSENSE: tuple[Any, ...] = (
    -1, 0, 0.5, -1e-9, 1e308, float("nan"), float("inf"), True, None, "x", "", b"x", (), [], {},
    [None],
    (3, -1), (3, 0), (2.5,), "3,2", np.nan, np.array([1.0, 2.0]), np.zeros((2, 2)), object, "nan",
    "-5MB", "1e400GB", "\x1b[31m", ENDLESS, {"a": 1}, ("root", "tanh"), [[]], complex(1, 1),
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A model to make, with its settings."""

    model: Model
    settings: dict[str, Any]
    legal: bool

    def __call__(self) -> Any:
        return self.model.make(**self.settings)

    def __str__(self) -> str:
        words = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{self.model.name}({words})"


def made(rng: np.random.Generator) -> Made:
    """A random model. One in ten has a setting that makes no sense."""
    model = pick(rng, SINGLE) if rng.random() < 0.8 else GENERAL
    settings = _legal(model, rng)
    if rng.random() > 0.1:
        return Made(model, settings, legal=True)
    name = pick(rng, [name for name in model.options if name not in ("callback", "verbose")])
    value = pick(rng, NONSENSE)
    if name in ("max_iter", "pretrain_iter") and value is ENDLESS:
        value = -ENDLESS  # so many sweeps are legal, and take as long as they take
    return Made(model, settings | {name: value}, legal=False)


def _legal(model: Model, rng: np.random.Generator) -> dict[str, Any]:
    depth = 1 if model.one_layer else int(rng.choice([1, 2, 2, 2, 3, 4]))
    sizes = tuple(int(size) for size in rng.integers(1, 9, depth))
    values: dict[str, Any] = {
        "layer_sizes": sizes,
        "n_components": sizes[0],
        "max_iter": int(rng.integers(0, 6)),
        "pretrain_iter": int(rng.integers(0, 4)),
        "random_state": int(rng.integers(100)),
        "tol": float(pick(rng, [0, 1e-4, 1e-2, 10])),
    }
    legal = {name: value for name, value in values.items() if name in model.options}
    for name, choices in OPTIONAL.items():
        if name in model.options and rng.random() < 0.25:
            legal[name] = pick(rng, choices)
    if model.name == "deep-semi-nmf" and legal.get("link") == "root":
        legal["link"] = "tanh"  # the root is refused there
    if legal.get("objective") == "layers" and _refuses_layers(model.make(**legal)):
        del legal["objective"]
    if isinstance(legal.get("penalty_W"), L1) and legal.get("objective") != "layers":
        legal["scaling"] = "paper"  # elsewhere a linear penalty on W is refused
    elif isinstance(legal.get("penalty_W"), L1):
        legal["penalty_W"] = SquaredL1(0.1)
    if "graph" in legal and _refuses_graph(model.make(**legal)):
        del legal["graph"]
    return legal


def _refuses_layers(model: DeepNMF) -> bool:
    """Whether a loss on every layer is refused with the other settings."""
    return model.scaling == "paper" or LINKS[str(model.link)].degree is None


def _refuses_graph(model: Any) -> bool:
    """Whether a graph is refused with the other settings, or can only be a matrix."""
    try:
        model.check()
    except ValueError as problem:
        return str(problem).startswith("graph:")
    return not isinstance(model, DeepNMF)


OPTIONAL: dict[str, tuple[Any, ...]] = {
    "link": tuple(LINKS),
    "project_codes": (True, False),
    "mu": (0.0, 1e-3, 1.0, 1e4),
    "lam": (0.0, 1e-3, 1.0, 1e4),
    "penalty_W": (None, SquaredL1(1e-2), L1(0.1), Ridge(1.0)),
    "penalty_H": (None, SquaredL1(1e-2), L1(0.1), Ridge(1.0)),
    "scaling": ("paper", "fixed"),
    "objective": ("layers", "end_to_end"),
    "layer_weights": (1e-3, 1.0, 100.0),
    "decoding_weight": (0.0, 0.1, 100.0),
    "graph": ("codes", "data"),
    "graph_strength": (0.0, 0.1, 100.0),
    "start": ("nnsvd", "random"),
    "fill": ("zero", "mean", "random", 0.1, 0.0),
    "solver": tuple(SOLVERS),
    "max_memory": ("1KB", "20KB", "1MB", 10**9),
    "theta": (0.0, 0.5, 1.0),
    "loss": ("frobenius", "kullback-leibler"),
    "side": ("left", "right"),
    "beta": (0.0, 0.1, 10.0),
    "nonzeros_H": (1, 2, None),
    "sparseness_H": (0.2, 0.8, None),
    "strength": (0.0, 0.1, 100.0),
    "neighbors": (1, 2),
}
