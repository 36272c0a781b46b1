"""Sparse deep nonnegative matrix factorization."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from deepnmf.version import __version__

if TYPE_CHECKING:
    from deepnmf.estimator import DeepNMF
    from deepnmf.presets import dnmf, nenmf, pgnmf, sdnmf_l, sdnmf_r, sdnmf_rl1, sdnmf_rl2
    from deepnmf.stacks import fit_many, transform_many
    from deepnmf.storage import load

__all__ = [
    "DeepNMF",
    "__version__",
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
    "DeepNMF": "deepnmf.estimator",
    "fit_many": "deepnmf.stacks",
    "transform_many": "deepnmf.stacks",
    "load": "deepnmf.storage",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'deepnmf' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME.get(name, "deepnmf.presets")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
