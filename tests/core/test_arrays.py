from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from deepnmf.arrays import operations as ours
from deepnmf.arrays import spectra


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 8), st.integers(1, 8)),
        elements=st.floats(0, 1e3, allow_subnormal=False),
    )
)
def test_spectral_bound_is_never_below_the_norm(W):
    A = W.T @ W
    bound = float(spectra.spectral_bound(A)[0, 0])
    assert bound >= np.linalg.norm(A, 2)


def test_spectral_bound_is_tight(place, rng):
    W = rng.random((50, 20))
    A = place(W.T @ W)
    exact = np.linalg.norm(W.T @ W, 2)
    assert exact <= float(spectra.spectral_bound(A)[0, 0]) <= 1.001 * exact


@pytest.mark.parametrize("scale", [1e-18, 1e-25, 1e-33, 0])
def test_spectral_bound_where_squares_underflow(place, scale, rng):
    A = rng.random((7, 7))
    A = (scale * (A + A.T)).astype(np.float32)
    bound = float(spectra.spectral_bound(place(A))[0, 0])
    assert np.linalg.norm(A.astype(float), 2) <= bound <= 7 * A.max() * 1.01


def test_spectral_bound_of_weakly_coupled_blocks(rng):
    A = np.diag([5.0, 3.0, 0.0])
    A[0, 1] = A[1, 0] = 1e-9
    assert 5 <= float(spectra.spectral_bound(A)[0, 0]) <= np.linalg.norm(A)


def test_sparse_products_equal_dense_ones(rng):
    X = scipy.sparse.random(30, 20, density=0.2, random_state=3, format="csc")
    A, H = rng.random((30, 4)), rng.random((4, 20))
    dense = X.toarray()
    np.testing.assert_allclose(ours.transposed_product(A, X), A.T @ dense)
    np.testing.assert_allclose(ours.product_transposed(X, H), dense @ H.T)
    np.testing.assert_allclose(ours.squared_norm(X), np.sum(dense**2))
    np.testing.assert_allclose(ours.mean(X), [[dense.mean()]])


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("columns", [1, 5, 33])
def test_products_with_sparse_matrices_in_threads(form, columns, dtype, rng, use_threads):
    use_threads(3)
    X = scipy.sparse.random(60, 45, density=0.2, random_state=3, format=form, dtype=dtype)
    A, H = rng.random((60, columns)).astype(dtype), rng.random((columns, 45)).astype(dtype)
    rtol = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(ours.transposed_product(A, X), A.T @ X.toarray(), rtol=rtol)
    np.testing.assert_allclose(ours.product_transposed(X, H), X.toarray() @ H.T, rtol=rtol)
    assert ours.transposed_product(A, X).dtype == dtype


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_sparse_matrix_is_stored_the_other_way_once(form, rng, monkeypatch):
    X = scipy.sparse.random(60, 45, density=0.2, random_state=3, format=form)
    turned = []
    for name in ("tocsr", "tocsc"):
        convert = getattr(type(X), name)

        def counted(X, to=convert):
            turned.append(X)
            return to(X)

        monkeypatch.setattr(type(X), name, counted)
    for _ in range(3):
        ours.transposed_product(rng.random((60, 4)), X)
        ours.product_transposed(X, rng.random((4, 45)))
    assert len(turned) == 1


def test_products_that_do_not_fit_are_refused(rng):
    X = scipy.sparse.random(60, 45, density=0.2, random_state=3, format="csr")
    with pytest.raises(ValueError, match=r"X \(60, 45\) and D \(44, 4\): they do not fit"):
        ours.product_transposed(X, rng.random((4, 44)))
    with pytest.raises(ValueError, match=r"Xᵀ D .* they do not fit"):
        ours.transposed_product(rng.random((59, 4)), X)


def test_orthonormal_columns_span_the_same_space(place, dtype, rng):
    A = rng.random((3, 40, 6)) * 10.0 ** np.arange(0, -6, -1)
    exact = A.astype(dtype)
    Q = np.asarray(spectra.orthonormal(place(A)))
    atol = 1e-10 if dtype == "float64" else 2e-3
    np.testing.assert_allclose(
        np.swapaxes(Q, -1, -2) @ Q, np.eye(6) + np.zeros((3, 6, 6)), atol=atol
    )
    left = exact - Q @ (np.swapaxes(Q, -1, -2) @ exact)
    assert np.abs(left).max() < (1e-10 if dtype == "float64" else 1e-3) * np.abs(exact).max()


def test_a_known_vector_gives_a_tight_bound_at_once(place, rng):
    W = rng.random((50, 20))
    _, x = spectra.perron_bound(place(W.T @ W), 30)
    near = (W + 0.01 * rng.random((50, 20))).T @ (W + 0.01 * rng.random((50, 20)))
    near = (near + near.T) / 2
    bound, _ = spectra.perron_bound(place(near), 2, x)
    exact = np.linalg.norm(near, 2)
    assert exact <= float(bound[0, 0]) <= 1.001 * exact


def test_repeated_data_are_stored_once(place, rng):
    X = place(rng.random((2, 5, 4)))
    many = ours.repeated(X, 3)
    assert tuple(many.shape) == (2, 3, 5, 4)
    assert ours.repeats(many)
    assert not ours.repeats(X)
    full = ours.spread(many)
    assert not ours.repeats(full)
    np.testing.assert_array_equal(np.asarray(full)[:, 2], np.asarray(X))


def test_columns_are_taken_and_put_back(place, rng):
    A = place(rng.random((2, 3, 6)))
    places = np.argsort(rng.random((2, 1, 6)), axis=-1)[..., :4]
    if not isinstance(A, np.ndarray):
        import torch

        places = torch.from_numpy(places)
    taken = ours.take_columns(A, places)
    back = ours.put_columns(A, places, 2 * taken)
    np.testing.assert_array_equal(
        np.asarray(ours.take_columns(back, places)), 2 * np.asarray(taken)
    )
    assert np.sum(np.asarray(back) != np.asarray(A)) == 2 * 3 * 4


def test_columns_of_zeros_are_added(rng):
    X = rng.random((5, 3))
    for data in (X, scipy.sparse.csc_matrix(X), scipy.sparse.csr_matrix(X)):
        wide = ours.wider(data, 8)
        assert wide.shape == (5, 8)
        dense = wide.toarray() if scipy.sparse.issparse(wide) else wide
        np.testing.assert_array_equal(dense[:, :3], X)
        assert not dense[:, 3:].any()


@pytest.mark.parametrize("shape", [(1, 1), (16, 40), (33, 65), (5, 300), (2000, 17)])
def test_rows_in_order(shape, rng, dtype, use_threads):
    use_threads(3)
    A = rng.random(shape).astype(dtype)
    for matrix in (A, A.T, np.asfortranarray(A), A[:, ::2], A[None]):
        found = ours.in_order(matrix)
        np.testing.assert_array_equal(found, matrix)
        assert found.flags.c_contiguous


@pytest.mark.parametrize("shape", [(1, 1), (3, 70000), (70000, 3), (200, 300)])
def test_sums_that_cancel_are_in_double_precision(shape, rng):
    U, V = (rng.standard_normal(shape).astype("float32") for _ in range(2))
    exact = np.sum(U.astype(float) * V.astype(float))
    assert float(ours.precise_inner(U, V)) == pytest.approx(exact, rel=1e-12, abs=1e-10)
    square = np.sum(U.astype(float) ** 2)
    for order in (U, np.asfortranarray(U)):
        assert float(ours.squared_norm(order)) == pytest.approx(square, rel=1e-12)


def test_such_sums_do_not_depend_on_threads_or_order(rng, use_threads):
    """Whatever the order in memory, and the same with any number of threads."""
    U, V = (1e4 * rng.standard_normal((700, 130)).astype("float32") for _ in range(2))
    exact = np.sum(U.astype(float) * V)
    scale = float(np.linalg.norm(U) * np.linalg.norm(V))
    orders = [(U, V), (np.asfortranarray(U), np.asfortranarray(V)), (U, np.asfortranarray(V))]
    for one, other in [*orders, (U.T, V.T)]:
        found = []
        for number in (1, 2, 5):
            use_threads(number)
            found.append(float(ours.precise_inner(one, other)))
        assert found[0] == pytest.approx(exact, abs=1e-14 * scale)
        assert found[1:] == found[:1] * 2


def test_looking_ahead_is_one_formula(rng, use_threads):
    """Compiled for arrays that lie alike, by array operations for others: the same numbers."""
    use_threads(3)
    F, before = rng.random((2, 40, 30)).astype("float32")
    beta = np.full((1, 1), 0.7, "float32")
    expected = np.maximum(F + beta * (F - before), 0)
    turned = np.asfortranarray(F), np.asfortranarray(before)
    for one, other in [(F, before), turned, (F, turned[1])]:
        np.testing.assert_array_equal(ours.ahead(one, other, beta), expected)
    stack = ours.ahead(np.stack([F, F]), np.stack([before, before]), beta)
    np.testing.assert_array_equal(stack, np.stack([expected] * 2))
