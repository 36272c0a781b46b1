"""`deepnmf models`: what can be fitted."""

from __future__ import annotations

from deepnmf.cli.screen import say


def models() -> None:
    """List the models and what they are for."""
    from deepnmf.models.registry import MODELS

    width = max(len(name) for name in MODELS)
    for model in MODELS.values():
        options = [
            f"--{name}" if name in ("mu", "lam") else f"--set {name}=" for name in model.own_options
        ]
        say(f"{model.name:<{width}}  {model.purpose}")
        details = (
            "only from Python: it takes several data sets" if model.several else " ".join(options)
        )
        if details:
            say(f"{'':<{width}}    {details}")
