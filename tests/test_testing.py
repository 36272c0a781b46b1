"""The checks for users' own penalties and links hold the library's, and catch broken ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from deepnmf.arrays import inner, namespace
from deepnmf.links import LINKS, Link, Root
from deepnmf.penalties import PENALTIES, Penalty, Ridge
from deepnmf.testing import check_link, check_penalty


@pytest.mark.parametrize("name", PENALTIES)
def test_named_penalties_keep_the_laws(name):
    check_penalty(PENALTIES[name]())


@pytest.mark.parametrize("name", LINKS)
def test_named_links_keep_the_laws(name):
    check_link(LINKS[name]())


@dataclass(frozen=True)
class Elastic(Penalty):
    """R(F) = ½ λ ‖F‖² + ℓ ⟨1, F⟩."""

    strength: float = 0.5

    def gradient(self, F):
        return self.strength * F + self.linear

    def lipschitz(self, rows):
        return self.strength

    @property
    def linear(self):
        return 0.2


class Quartic(Ridge):
    def gradient(self, F):
        return F**3


class Coupled(Ridge):
    def gradient(self, F):
        return self.strength * namespace(F).sum(F, axis=-1, keepdims=True) + 0 * F


class OneSided(Ridge):
    def gradient(self, F):
        K = np.triu(np.ones((F.shape[-2], F.shape[-2])))
        return K @ F


class Concave(Ridge):
    def gradient(self, F):
        return -F

    def value(self, F):
        return -inner(F, F) / 2


class Half(Ridge):
    def value(self, F):
        return self.strength * inner(F, F)


class Short(Ridge):
    def lipschitz(self, rows):
        return self.strength / 10


def test_a_penalty_may_have_a_quadratic_form_and_a_linear_term():
    check_penalty(Elastic())


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Quartic(1.0), "not linear in F"),
        (Coupled(1.0), "other columns"),
        (OneSided(1.0), "not symmetric"),
        (Concave(1.0), "negative eigenvalue"),
        (Half(1.0), "value"),
        (Short(1.0), "too long"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_broken_penalties_are_named(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_penalty(broken)


class WrongInverse(Root):
    def project(self, H):
        return H


class WrongSlope(Root):
    def slope(self, A):
        return A


class WrongDegree(Root):
    degree = 3.0


@dataclass(frozen=True)
class Falling(Link):
    domain = (0.1, 1.0)

    def project(self, H):
        return 1 / self.clipped(H)

    def decode(self, A):
        return 1 / A

    def slope(self, A):
        return -1 / A**2


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WrongInverse(), "decode must undo project"),
        (WrongSlope(), "derivative"),
        (WrongDegree(), "degree"),
        (Falling(), "increase"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_broken_links_are_named(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_link(broken)


@pytest.mark.parametrize("check", [check_link, check_penalty])
def test_other_things_are_refused(check):
    with pytest.raises(AssertionError, match="is not a deepnmf"):
        check("root")
