"""Checks for your own penalties and links: the laws that training relies on."""

from __future__ import annotations

import numpy as np

from deepnmf import links, penalties

ROWS = (1, 2, 7, 30)
"""Sizes of factors that a penalty is tried on."""


def check_penalty(penalty: penalties.Penalty, rows: int | None = None) -> None:
    """Raise an AssertionError that says which law a penalty breaks.

    R(F) = ½ Σ_j f_jᵀ K f_j + ℓ ⟨1, F⟩: the gradient is K F + ℓ with K symmetric and positive
    semidefinite, the value belongs to the gradient, and the Lipschitz constant is at least ‖K‖₂.
    `rows` is the number of rows of the factor; by default several are tried.
    """
    if not isinstance(penalty, penalties.Penalty):
        raise AssertionError(f"{penalty!r} is not a deepnmf.penalties.Penalty.")
    for size in ROWS if rows is None else (rows,):
        problem = penalties.contradiction(penalty, size, np.empty((1, 1)))
        if problem is not None:
            raise AssertionError(f"{problem} (seen on a factor with {size} rows)")


def check_link(link: links.Link) -> None:
    """Raise an AssertionError that says which law a link breaks.

    φ increases and undoes g on the domain, `slope` is its derivative, both are ≥ 0 there, and
    φ(c a) = cᵖ φ(a) where the link states a degree p.
    """
    if not isinstance(link, links.Link):
        raise AssertionError(f"{link!r} is not a deepnmf.links.Link.")
    problem = links.contradiction(link)
    if problem is not None:
        raise AssertionError(problem)


__all__ = ["check_link", "check_penalty"]
