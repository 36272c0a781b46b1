"""Sets of parts are compared up to order and scale."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from deepnmf.evaluation.matching import agreement, matched


def test_parts_in_another_order_and_scale_are_the_same(rng):
    parts = rng.random((5, 30))
    order = rng.permutation(5)
    match, cosines = matched(parts, (parts * rng.uniform(0.5, 2, (5, 1)))[order])
    np.testing.assert_array_equal(order[match], np.arange(5))
    np.testing.assert_allclose(cosines, 1)


def test_no_other_matching_has_a_larger_sum(rng):
    A, B = rng.random((4, 6)), rng.random((4, 6))
    unit_A, unit_B = (F / np.linalg.norm(F, axis=1, keepdims=True) for F in (A, B))
    cosines = unit_A @ unit_B.T
    best = max(cosines[range(4), list(order)].sum() for order in itertools.permutations(range(4)))
    assert matched(A, B)[1].sum() == pytest.approx(best)


def test_parts_without_a_match_have_none(rng):
    A = np.eye(4)
    match, cosines = matched(A, A[[2, 0]])
    np.testing.assert_array_equal(match, [1, -1, 0, -1])
    np.testing.assert_array_equal(cosines, [1, 0, 1, 0])


def test_agreement_is_the_mean_over_the_others():
    first, second = np.eye(10)[:5], np.eye(10)[5:]
    assert agreement([first, second, first[::-1]]) == pytest.approx([0.5, 0, 0.5])
    assert np.isnan(agreement([first])).all()
