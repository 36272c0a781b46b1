"""`deepnmf models`: what can be fitted."""

from __future__ import annotations

import inspect

from deepnmf.cli.screen import say


def models() -> None:
    """List the models and what they are for."""
    from deepnmf.presets import MODELS

    rows = []
    for name, preset in MODELS.items():
        options = [
            f"--{key}" for key in ("mu", "lam") if key in inspect.signature(preset).parameters
        ]
        about = " ".join((preset.__doc__ or "").split())
        rows.append(f"{name:<10} {' '.join(options):<11} {about}")
    say("\n".join(rows))
