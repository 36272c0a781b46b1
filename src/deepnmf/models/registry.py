"""Every model by name: what the command line and the experiments choose from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deepnmf.models import baselines, presets
from deepnmf.models.settings import plan_of


@dataclass(frozen=True)
class Model:
    """A name, what makes the estimator, and a line on what it is for."""

    name: str
    make: Callable[..., Any]
    purpose: str
    several: bool = False
    """Whether it takes several data sets, and so is for Python only."""

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """Everything that `make` takes, by name; the presets also take what `DeepNMF` does."""
        found = dict(inspect.signature(self.make).parameters)
        if found.pop("settings", None) is not None:
            taken = {"penalty_W", "penalty_H"}
            found = {
                name: parameter
                for name, parameter in inspect.signature(presets.DeepNMF).parameters.items()
                if name not in taken
            } | found
        return found

    @property
    def one_layer(self) -> bool:
        """Whether it has one layer only."""
        return "layer_sizes" not in self.options or self.make in (presets.nenmf, presets.pgnmf)

    @property
    def own_options(self) -> list[str]:
        """The options that say what this model is."""
        return [name for name in self.options if name not in COMMON]

    def estimator(self, settings: Mapping[str, Any]) -> Any:
        """The estimator with these settings, checked before any work. Layers by `layer_sizes`."""
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
        made = self.make(**settings)
        if isinstance(made, presets.DeepNMF):
            plan_of(made)
        elif isinstance(made, baselines.Baseline):
            made.check()
        return made


COMMON = {
    "layer_sizes", "n_components", "link", "project_codes", "scaling", "start", "fill", "solver",
    "max_iter", "pretrain_iter", "tol", "device", "max_memory", "checkpoint", "callback", "verbose",
    "random_state",
}  # fmt: skip

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("dnmf", presets.dnmf, "deep NMF without penalty: the plain hierarchy of parts"),
        Model("sdnmf/l", presets.sdnmf_l, "sparse parts in every layer: the first to try"),
        Model("sdnmf/r", presets.sdnmf_r, "sparse codes in every layer: few parts a sample"),
        Model("sdnmf/rl1", presets.sdnmf_rl1, "sparse parts, and sparse codes in the last layer"),
        Model("sdnmf/rl2", presets.sdnmf_rl2, "sparse parts, and small, smooth codes at the top"),
        Model("nenmf", presets.nenmf, "plain NMF by Nesterov's method (Guan et al.)"),
        Model("pgnmf", presets.pgnmf, "plain NMF by projected gradient (Lin)"),
        Model("semi-nmf", baselines.SemiNMF, "X of any sign: parts of any sign, codes ≥ 0"),
        Model("deep-semi-nmf", baselines.DeepSemiNMF, "Semi-NMF in layers, fitted together"),
        Model("multilayer-nmf", baselines.MultilayerNMF, "nsNMF layer by layer, not fine-tuned"),
        Model("ns-nmf", baselines.NsNMF, "sparse parts and codes through a smoothing matrix"),
        Model("up-propagation-nmf", baselines.UpPropagationNMF, "all layers at once, from random"),
        Model("hoyer-nmf", baselines.HoyerNMF, "parts or codes of exactly the sparseness you ask"),
        Model("sparse-nmf", baselines.SparseNMF, "SNMF/R and /L of Kim and Park: L1² penalties"),
        Model("l0-nmf", baselines.L0NMF, "at most so many parts a sample, or features a part"),
        Model("graph-nmf", baselines.GraphNMF, "near samples get near codes, for clustering"),
        Model("joint-nmf", baselines.JointNMF, "several data sets on the same samples", True),
        Model(
            "integrative-nmf", baselines.IntegrativeNMF, "the same, with parts of their own", True
        ),
    )
}
