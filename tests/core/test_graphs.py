"""How factors are taken apart and copied; recordings are tested where there is a card."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deepnmf.arrays.cuda.graphs import LARGEST, _arrays_of, _copied, is_small
from deepnmf.core.linear import Factors
from deepnmf.core.passes import Sums

torch = pytest.importorskip("torch")


def factors() -> Factors:
    W, H = torch.rand(4, 3), torch.rand(5, 3).mT
    return Factors((W,), H, Sums(H @ H.mT, None), (None, torch.ones(3)), torch.zeros(()))


def test_a_copy_has_the_same_numbers_in_memory_of_its_own():
    one = factors()
    gram = one.basis_gram  # worked out, and kept
    other = _copied(one)
    assert torch.equal(other.H, one.H)
    assert other.H.stride() == one.H.stride()
    one.H.zero_()
    gram.zero_()
    assert (other.H > 0).all()
    assert (vars(other)["basis_gram"] > 0).all()
    assert other.sums.Q is None
    assert isinstance(other.sums, Sums)


def test_an_array_that_is_there_twice_stays_one():
    one = factors()
    assert one.basis is one.weights[0]
    other = _copied(one)
    assert other.basis is other.weights[0]
    assert len(_arrays_of(one)[1]) == len({id(array) for array in _arrays_of(one)[1]})


def test_what_has_been_worked_out_belongs_to_the_form():
    one = factors()
    before, _ = _arrays_of(one)
    assert before == _arrays_of(factors())[0]
    _ = one.basis_gram
    assert before != _arrays_of(one)[0]


def test_large_factors_are_not_recorded():
    one = factors()
    assert is_small(one)
    assert not is_small(replace(one, H=torch.empty(1).expand(2, LARGEST)))
    assert not is_small(replace(one, weights=(one.weights[0], torch.empty(1).expand(3, LARGEST))))
