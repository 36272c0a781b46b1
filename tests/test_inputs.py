"""What comes in: odd data that work, and what is refused, with words that help."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import deepnmf
from deepnmf import DeepNMF
from deepnmf.baselines import SparseNMF
from deepnmf.penalties import SquaredL1
from deepnmf.starts import Given
from tests.tables import SCALINGS, mode, pairs

QUICK: dict[str, Any] = {"max_iter": 15, "pretrain_iter": 10, "tol": 0, "random_state": 0}


@pytest.fixture
def X(low_rank):
    """40 samples of 30 features."""
    return low_rank.T.copy()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer_sizes": (8, 0)}, "layer_sizes: 0 is too small"),
        ({"layer_sizes": (-8, 5)}, "layer_sizes: -8 is too small"),
        ({"layer_sizes": (8.5, 5)}, "8.5 is not a whole number"),
        ({"layer_sizes": ()}, "layer_sizes is empty"),
        ({"layer_sizes": "8,5"}, "not a whole number"),
        ({"layer_sizes": None}, "not a whole number"),
        ({"layer_sizes": (8, 10**20)}, "layer_sizes is too large: give at most 1,000,000,000"),
        ({"link": "squareroot"}, "link must be one of 'identity'"),
        ({"solver": "nestrov"}, "Did you mean 'nesterov'"),
        ({"solver": 3}, "solver must be one of 'auto'.*, or a Solver, got 3"),
        ({"start": "svd"}, "start must be one of 'nnsvd', 'random'"),
        ({"fill": "ones"}, "fill must be"),
        ({"scaling": "free"}, "scaling must be one of 'paper', 'fixed'"),
        ({"device": "gpu"}, "device must be one of 'cpu', 'cuda', 'auto'"),
        ({"penalty_W": 0.1}, r"penalty_W must be None, a Penalty such as SquaredL1"),
        ({"penalty_H": [0.1, None]}, r"0.1 is not a Penalty. Write SquaredL1\(0.1\)"),
        ({"decoding_weight": -1}, "decoding_weight: -1 must be a finite number"),
        ({"max_iter": -1}, "max_iter: -1 is too small"),
        ({"max_iter": 10**20}, "max_iter is too large: give at most 1,000,000,000"),
        ({"max_iter": 2.5}, "max_iter: 2.5 is not a whole number"),
        ({"pretrain_iter": "many"}, "pretrain_iter: 'many' is not a whole number"),
        ({"tol": -1}, "tol: -1 must be a finite number"),
        ({"tol": float("nan")}, "tol: nan must be"),
        ({"tol": 10**400}, "tol: 1000.* must be a finite number"),
        ({"callback": 3}, "callback must be a function"),
        ({"fill": np.zeros((2, 2))}, r"fill must be .*, got array\(\[\[0., 0.\], \[0., 0.\]\]\)"),
        ({"max_memory": np.zeros((2, 2))}, r"max_memory: array\(.*\) is not an amount of memory"),
        ({"checkpoint": np.zeros((2, 2))}, r"checkpoint: array\(.*\) is not a path"),
        (
            {"objective": "end_to_end", "penalty_W": (SquaredL1(1), None)},
            "the scale can escape to the codes",
        ),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_before_any_work(settings, message, X):
    model = DeepNMF((8, 5)).set_params(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X)


def test_presets_refuse_what_they_do_not_have():
    with pytest.raises(ValueError, match="finite number ≥ 0"):
        deepnmf.sdnmf_l(mu=-1)
    with pytest.raises(ValueError, match="finite number ≥ 0"):
        deepnmf.sdnmf_rl2(lam=float("nan"))
    with pytest.raises(TypeError, match="max_itr"):
        deepnmf.sdnmf_l(max_itr=3)
    with pytest.raises(ValueError, match="nenmf has one layer"):
        deepnmf.nenmf((8, 5))


def test_presets_keep_what_makes_them(X):
    assert deepnmf.pgnmf(solver="auto").solver == deepnmf.pgnmf().solver
    assert deepnmf.nenmf(solver="auto").solver == deepnmf.nenmf().solver
    assert deepnmf.pgnmf(solver="nesterov").solver == "nesterov"
    with pytest.raises(ValueError, match="one layer"):
        deepnmf.nenmf(cast(Any, np.array([8, 5])))
    with pytest.raises(ValueError, match="3 entries for 2 layers"):
        deepnmf.sdnmf_rl1((8, 5), lam=(1, 2, 3)).fit(X)
    assert deepnmf.sdnmf_l(mu=cast(Any, np.array(0.5))).penalty_W == SquaredL1(0.5)


def test_repeated_entries_of_a_sparse_matrix_are_added(X):
    rows, columns = np.array([0, 0, 1, 2, 2]), np.array([0, 0, 1, 2, 2])
    indptr = np.array([0, 2, 3, 5])
    repeated = scipy.sparse.csr_matrix((np.arange(1.0, 6), columns, indptr), shape=(3, 3))
    assert not repeated.has_canonical_format
    settings: dict[str, Any] = {"random_state": 0, "max_iter": 3, "tol": 0, "start": "random"}
    sparse = deepnmf.dnmf(2, **settings).fit(repeated)
    dense = deepnmf.dnmf(2, **settings).fit(repeated.toarray())
    assert sparse.reconstruction_err_ == pytest.approx(dense.reconstruction_err_)
    assert len(rows) == repeated.nnz


def test_what_would_overflow_is_refused(X):
    with pytest.raises(ValueError, match="too large for its precision"):
        deepnmf.sdnmf_l((8, 5), link="root").fit((X * 1e15).astype(np.float32))
    deepnmf.sdnmf_l((8, 5), **QUICK, link="root").fit(X * 1e15)


@pytest.mark.parametrize("sparse", [False, True])
def test_what_would_vanish_is_refused(X, sparse):
    faint = (X * 1e-14).astype(np.float32)
    model = deepnmf.sdnmf_l((8, 5), **QUICK)
    with pytest.raises(ValueError, match=r"too small for its precision.*use float64"):
        model.fit(scipy.sparse.csr_array(faint) if sparse else faint)
    model.fit(X * 1e-14)
    # A faint sample among others is one like others, and so is a sample of zeros.
    model.fit(X.astype(np.float32))
    assert np.isfinite(model.transform(faint[:1])).all()
    assert not model.transform(0 * faint[:1]).any()


@pytest.mark.parametrize("scaling", ["paper", "fixed"])
def test_large_entries_in_single_precision(scaling, X):
    """Up to where X would be refused; what counts there is the norm, not the largest entry."""
    large = (X * (4e9 / np.linalg.norm(X))).astype(np.float32)
    model = DeepNMF(5, scaling=scaling, random_state=0)
    reached = model.fit(X).reconstruction_err_ / np.linalg.norm(X)
    found = model.fit(large)
    assert found.reconstruction_err_ / 4e9 == pytest.approx(reached, abs=3e-3)
    assert np.isfinite([record["kkt"] for record in found.history_]).all()
    with pytest.raises(ValueError, match="too large for its precision"):
        model.fit(2 * large)
    sparse = np.zeros((40, 30), np.float32)
    sparse[:2] = 1e9 * np.eye(2, 30)
    model.set_params(layer_sizes=2).fit(sparse)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e72, 1e74, 1e75, 1e307])
@pytest.mark.parametrize("link", ["identity", "root"])
@pytest.mark.parametrize("solver", ["coordinate", "nesterov", "projected_gradient"])
def test_near_the_largest_number_a_fit_is_finite_or_refused(solver, link, scale, X):
    model = deepnmf.sdnmf_l((8, 5), **QUICK, solver=solver, link=link)
    refusal = None
    try:
        model.fit(X * scale)
    except ValueError as problem:
        refusal = str(problem)
    if refusal is not None:
        assert "Divide X by its maximum" in refusal
        return
    numbers = [record[name] for record in model.history_ for name in ("objective", "kkt")]
    assert np.isfinite([*numbers, model.reconstruction_err_, model.score(X * scale)]).all()
    assert np.isfinite(model.transform(X * scale)).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_penalties_that_overflow_are_refused(X):
    with pytest.raises(ValueError, match="penalty_W of layer 1: SquaredL1 is too strong"):
        deepnmf.sdnmf_l((8, 5), mu=1e308).fit(X)
    with pytest.raises(ValueError, match="not a finite number after sweep 1.* too large"):
        SparseNMF(5, eta=1e200).fit(X)


def test_an_objective_that_is_no_number_is_an_error(X):
    start = Given([np.full((30, 5), 1e30)], np.full((40, 5), 1e30))
    model = DeepNMF(5, start=start, solver="nesterov")
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"not a finite number.*float64"),
    ):
        model.fit(X.astype(np.float32))


def test_sizes_changed_after_the_fit_are_noticed(X):
    model = deepnmf.sdnmf_l((8, 5), **QUICK).fit(X).set_params(layer_sizes=(8, 4))
    with pytest.raises(ValueError, match="fit it again"):
        model.transform(X)


def test_tensors_that_do_not_fit(X):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"scipy.sparse matrix instead"):
        deepnmf.dnmf(3).fit(torch.from_numpy(X).to_sparse())
    tracked = torch.from_numpy(X).requires_grad_()
    Z = deepnmf.sdnmf_l((8, 5), **QUICK, link="root").fit_transform(tracked)
    assert not Z.requires_grad


@pytest.mark.parametrize("link", ["sigmoid", "softplus"])
def test_codes_that_g_cannot_take_are_warned_of(link, X):
    with pytest.warns(UserWarning, match=r"of the codes are outside the domain"):
        deepnmf.sdnmf_l((8, 5), **QUICK, link=link, project_codes=True).fit(X)


def spoil(X, value, at=(3, 7)):
    X = X.copy()
    X[at] = value
    X[10, 10] = value
    return X


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_array])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1.0, r"Negative values.*X\[3, 7\] = -1.0, of 2"),
        (np.nan, r"NaN values.*X\[3, 7\] = nan, of 2"),
        (np.inf, r"infinite values.*X\[3, 7\] = inf, of 2"),
    ],
)
def test_bad_entries_are_named(form, value, message, X):
    with pytest.raises(ValueError, match=message):
        DeepNMF((8, 5)).fit(form(spoil(X, value)))
    fitted = DeepNMF((8, 5), **QUICK).fit(X)
    with pytest.raises(ValueError, match=message):
        fitted.transform(form(spoil(X, value)))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((0, 5)), "0 sample"),
        (np.zeros((5, 0)), "0 feature"),
        (np.ones((1, 5)), "1 sample"),
        (np.ones(5), "1D array"),
        (np.ones((5, 4, 3)), "dim 3|3D"),
        (np.array([["a", "b"], ["c", "d"]]), "entries of type <U1"),
    ],
    ids=str,
)
def test_bad_shapes_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        DeepNMF((3, 2)).fit(bad)


def test_bad_calls_of_a_fitted_model(X):
    model = DeepNMF((8, 5), **QUICK)
    with pytest.raises(NotFittedError):
        model.transform(X)
    with pytest.raises(ValueError, match="not fitted"):
        model.save("nowhere.safetensors")
    model.fit(X)
    with pytest.raises(ValueError, match="X has 29 features, but DeepNMF is expecting 30"):
        model.transform(X[:, 1:])
    with pytest.raises(ValueError, match="has 2 layers"):
        model.transform(X, layer=3)
    with pytest.raises(ValueError, match="layer: 0"):
        model.basis(0)
    with pytest.raises(ValueError, match=r"codes of layer 1 have shape \(n_samples, 8\)"):
        model.inverse_transform(np.ones((3, 5)), layer=1)
    codes = np.full((3, 5), np.finfo(float).max)
    with pytest.raises(ValueError, match="codes are too large to be decoded in float64"):
        model.inverse_transform(codes)
    codes[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"Z\[1, 2\] = nan is not a code of layer 2: .* finite"):
        model.inverse_transform(codes)
    with pytest.raises(ValueError, match="CUDA"):
        _without_cuda(model.set_params(device="cuda")).transform(X)


def _without_cuda(model):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here, so asking for it is no error")
    return model


def odd_inputs():
    rng = np.random.default_rng(3)
    X = rng.random((12, 6))
    zero_row, zero_column, constant = X.copy(), X.copy(), X.copy()
    zero_row[[0, 5]] = 0
    zero_column[:, [1, 4]] = 0
    constant[:, 2] = 3
    return {
        "zero rows": zero_row,
        "zero columns": zero_column,
        "all zero": np.zeros((12, 6)),
        "constant column": constant,
        "constant": np.ones((12, 6)),
        "duplicates": np.repeat(X[:2], 6, axis=0),
        "integers": rng.integers(0, 9, (12, 6)),
        "uint8": rng.integers(0, 255, (12, 6)).astype(np.uint8),
        "booleans": rng.random((12, 6)) > 0.5,
        "float16": X.astype(np.float16),
        "tiny": X * 1e-12,
        "huge": X * 1e12,
        "one feature": X[:, :1],
        "two samples": X[:2],
        "fortran order": np.asfortranarray(X),
        "read only": np.broadcast_to(X[0], (12, 6)),
        "sparse integers": scipy.sparse.csr_matrix(rng.integers(0, 2, (12, 6))),
        "empty sparse": scipy.sparse.csr_matrix((12, 6)),
    }


# One feature, sdnmf_r, a loss on every layer: a sweep rises, is discarded, and is warned of.
@pytest.mark.filterwarnings("ignore:stopped after sweep")
@pairs(
    "name,model,scaling",
    list(odd_inputs()),
    [deepnmf.sdnmf_l, deepnmf.sdnmf_r, deepnmf.sdnmf_rl2],
    SCALINGS,
)
def test_odd_but_legal_data_work(name, model, scaling):
    X = odd_inputs()[name]
    # More parts than the rank, in both layers.
    fitted = model((20, 8), **mode(scaling), **QUICK)
    Z = fitted.fit_transform(X)
    assert Z.shape == (X.shape[0], 8)
    assert np.isfinite(Z).all()
    assert all(np.isfinite(W).all() for W in fitted.weights_)
    assert np.isfinite(fitted.reconstruction_err_)
    assert fitted.reason_ != "stalled"
