"""Laws that several tests state."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deepnmf.links import Softplus


def ends_as_in_one_piece(make: Callable, X: np.ndarray, model, rel: float = 1e-5) -> None:
    """A fit by blocks ends where the fit of X in one piece does.

    Through softplus layer 2 may have nothing to learn, and rounding decides the way: there, no
    further apart than fits in one piece of data whose last bits are others.
    """
    end = make().fit(X).history_[-1]["objective"]
    apart = abs(model.history_[-1]["objective"] / end - 1)
    if apart <= rel:
        return
    assert model.link == "softplus" or isinstance(model.link, Softplus), apart
    others = [
        make().fit(X * (1 + 2e-16 * rng.standard_normal(X.shape))).history_[-1]["objective"]
        for rng in map(np.random.default_rng, range(4))
    ]
    assert apart < 3 * max(abs(other / end - 1) for other in others)
