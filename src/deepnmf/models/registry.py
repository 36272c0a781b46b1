"""Every model by name, for the command line and the experiments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deepnmf.models import baselines, presets
from deepnmf.models.base import Factorization


@dataclass(frozen=True)
class Model:
    """A model's name, the function that makes it, and one line that says what it is for."""

    name: str
    make: Callable[..., Any]
    purpose: str
    several: bool = False
    """Whether it takes several data sets, which only Python can give it."""

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The parameters of `make` by name; presets also take those of `DeepNMF`."""
        options = dict(inspect.signature(self.make).parameters)
        if options.pop("settings", None) is None:
            return options
        inherited = dict(inspect.signature(presets.DeepNMF).parameters)
        del inherited["penalty_W"], inherited["penalty_H"]
        return inherited | options

    @property
    def one_layer(self) -> bool:
        """Whether it always has a single layer."""
        return "layer_sizes" not in self.options or self.make in (presets.nenmf, presets.pgnmf)

    @property
    def own_options(self) -> list[str]:
        """The options that not every model has."""
        return [name for name in self.options if name not in COMMON]

    def estimator(self, settings: Mapping[str, Any]) -> Factorization:
        """The estimator with these settings, checked. `layer_sizes` also sets `n_components`."""
        settings = dict(settings)
        options = self.options
        if "layer_sizes" in settings and "layer_sizes" not in options:
            sizes = settings.pop("layer_sizes")
            sizes = list(sizes) if isinstance(sizes, list | tuple) else [sizes]
            if len(sizes) != 1:
                raise ValueError(f"{self.name} has one layer, got sizes {sizes}: give one size.")
            settings["n_components"] = sizes[0]
        for name in settings:
            if name not in options:
                own = ", ".join(self.own_options) or "none of its own"
                raise ValueError(f"{name}: {self.name} has no such option; it has {own}.")
        estimator: Factorization = self.make(**settings)
        estimator.check()
        return estimator


COMMON = {
    "layer_sizes", "n_components", "link", "project_codes", "scaling", "objective",
    "layer_weights", "decoding_weight", "graph", "graph_strength", "start", "fill", "solver",
    "max_iter", "pretrain_iter", "tol", "device", "max_memory", "checkpoint", "callback", "verbose",
    "random_state",
}  # fmt: skip

PRESETS = (
    Model("dnmf", presets.dnmf, "deep NMF without penalty: the plain hierarchy of parts"),
    Model("sdnmf/l", presets.sdnmf_l, "sparse parts in every layer: the first to try"),
    Model("sdnmf/r", presets.sdnmf_r, "sparse codes in every layer: few parts per sample"),
    Model("sdnmf/rl1", presets.sdnmf_rl1, "sparse parts, and sparse codes in the last layer"),
    Model("sdnmf/rl2", presets.sdnmf_rl2, "sparse parts, and small, smooth codes at the top"),
    Model("nenmf", presets.nenmf, "plain NMF by Nesterov's method (Guan et al.)"),
    Model("pgnmf", presets.pgnmf, "plain NMF by projected gradient (Lin)"),
)
BASELINES: tuple[type[Factorization], ...] = tuple(
    getattr(baselines, name) for name in baselines.__all__
)
"""The methods that deep NMF is compared with."""
MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        *PRESETS,
        *(Model(kind.name, kind, kind.purpose, kind.several) for kind in BASELINES),
    )
}
"""Every model, by its name on the command line."""
