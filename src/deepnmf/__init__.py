"""Sparse deep nonnegative matrix factorization."""

from __future__ import annotations

import importlib

from deepnmf.version import __version__

TYPE_CHECKING = False  # importing it from typing would slow down the start of commands
if TYPE_CHECKING:
    from typing import Any

    from deepnmf.explain.clusters import Clusters, cluster
    from deepnmf.files.checkpoint import Checkpoint
    from deepnmf.models.choice import Choice, choose_layers
    from deepnmf.models.consensus import consensus
    from deepnmf.models.deep import DeepNMF
    from deepnmf.models.many import fit_many, transform_many
    from deepnmf.models.presets import dnmf, nenmf, pgnmf, sdnmf_l, sdnmf_r, sdnmf_rl1, sdnmf_rl2
    from deepnmf.models.storage import load

__all__ = [
    "Checkpoint",
    "Choice",
    "Clusters",
    "DeepNMF",
    "__version__",
    "choose_layers",
    "cluster",
    "consensus",
    "dnmf",
    "fit_many",
    "load",
    "nenmf",
    "pgnmf",
    "sdnmf_l",
    "sdnmf_r",
    "sdnmf_rl1",
    "sdnmf_rl2",
    "transform_many",
]

# Names are imported when they are first used, so that `deepnmf --help` does not wait for
# scikit-learn.
_HOME = {
    "Checkpoint": "deepnmf.files.checkpoint",
    "Clusters": "deepnmf.explain.clusters",
    "cluster": "deepnmf.explain.clusters",
    "Choice": "deepnmf.models.choice",
    "choose_layers": "deepnmf.models.choice",
    "consensus": "deepnmf.models.consensus",
    "DeepNMF": "deepnmf.models.deep",
    "fit_many": "deepnmf.models.many",
    "transform_many": "deepnmf.models.many",
    "load": "deepnmf.models.storage",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'deepnmf' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME.get(name, "deepnmf.models.presets")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
