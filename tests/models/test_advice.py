"""What `fit` says of sizes, data and strengths that cannot end well."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

import deepnmf

QUICK = {"max_iter": 20, "tol": 0, "random_state": 0}


def test_a_sound_fit_says_nothing(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deepnmf.sdnmf_l((32, 16), **QUICK).fit(digits)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((16, 32), r"layer 2 is wider than layer 1 \(32 parts over 16\).*such as \(32, 16\)"),
        ((70, 16), r"layer 1 has 70 parts, but X has 64 features.*at most 64"),
        ((50, 16), r"layer 1 has 50 parts, but X has 40 samples.*at most 40"),
    ],
)
def test_sizes_that_do_not_fit(sizes, message, digits):
    X = digits[:40] if sizes[0] == 50 else digits
    with pytest.warns(UserWarning, match=message):
        deepnmf.sdnmf_l(sizes, **QUICK).fit(X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (deepnmf.sdnmf_l((32, 16), mu=100.0, **QUICK), r"explain 2% of X.*weaker.*mu"),
        (deepnmf.sdnmf_l(32, mu=3.0, **QUICK), r"layer 1 are made of .* of 64.*mu"),
        (deepnmf.sdnmf_r((32, 16), lam=1e5, **QUICK), r"parts are dead.*weaker penalties"),
        (deepnmf.sdnmf_r(16, lam=10.0, **QUICK), r"use .* of 16 parts on average.*lam"),
    ],
)
def test_strengths_that_leave_nothing(model, message, digits):
    with pytest.warns(UserWarning, match=message):
        model.fit(digits)


def counts(rng: np.random.Generator) -> np.ndarray:
    """Words that differ in frequency, in texts that differ in length."""
    rates = rng.gamma(0.1, 20.0, 80) * rng.gamma(1.0, 1.0, (60, 1))
    return rng.poisson(rates).astype(float)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, torch.as_tensor])
def test_raw_counts_get_a_hint(kind, rng):
    X = counts(rng)
    with pytest.warns(UserWarning, match=r"raw counts: whole numbers up to \d+, .*Tfidf"):
        deepnmf.sdnmf_l((8, 4), **QUICK).fit(kind(X))


def test_images_are_not_taken_for_counts(digits):
    pixels = np.round(16 * digits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deepnmf.sdnmf_l((32, 16), **QUICK).fit(pixels)
