from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from deepnmf.core import arrays as ours


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 8), st.integers(1, 8)),
        elements=st.floats(0, 1e3, allow_subnormal=False),
    )
)
def test_spectral_bound_is_never_below_the_norm(W):
    A = W.T @ W
    bound = float(ours.spectral_bound(A)[0, 0])
    assert bound >= np.linalg.norm(A, 2)


def test_spectral_bound_is_tight(place, rng):
    W = rng.random((50, 20))
    A = place(W.T @ W)
    exact = np.linalg.norm(W.T @ W, 2)
    assert exact <= float(ours.spectral_bound(A)[0, 0]) <= 1.001 * exact


def test_spectral_bound_of_weakly_coupled_blocks(rng):
    A = np.diag([5.0, 3.0, 0.0])
    A[0, 1] = A[1, 0] = 1e-9
    assert 5 <= float(ours.spectral_bound(A)[0, 0]) <= np.linalg.norm(A)


def test_sparse_products_equal_dense_ones(rng):
    X = scipy.sparse.random(30, 20, density=0.2, random_state=3, format="csc")
    A, H = rng.random((30, 4)), rng.random((4, 20))
    dense = X.toarray()
    np.testing.assert_allclose(ours.transposed_product(A, X), A.T @ dense)
    np.testing.assert_allclose(ours.product_transposed(X, H), dense @ H.T)
    np.testing.assert_allclose(ours.squared_norm(X), np.sum(dense**2))
    np.testing.assert_allclose(ours.mean(X), [[dense.mean()]])


def test_a_stack_draws_what_its_runs_draw(place):
    like = place(np.zeros((2, 3, 4)))
    stack = ours.draw("normal", (3, 4), [np.random.default_rng(s) for s in (1, 2)], like)
    for run, seed in enumerate((1, 2)):
        alone = ours.draw("normal", (3, 4), [np.random.default_rng(seed)], like[run])
        np.testing.assert_array_equal(np.asarray(stack[run]), np.asarray(alone))


def test_one_generator_per_run():
    with pytest.raises(ValueError, match="one per run"):
        ours.draw("normal", (3, 4), [np.random.default_rng(1)], np.zeros((2, 3, 4)))
