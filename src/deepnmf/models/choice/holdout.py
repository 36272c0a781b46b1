"""Bi-cross-validation (Owen and Perry 2009): how well parts predict entries they have not seen.

Rows and columns of X are held out at once:

    X = [ A  B ]      A: entries to predict
        [ C  D ]      D: what a layer is fitted to, D ≈ H W

Codes of the rows of A come from B and the parts W, weights of its columns from C and the codes H:

    H_A = argmin_{F ≥ 0} ‖B − F W‖,   W_A = argmin_{F ≥ 0} ‖C − H F‖,   error ‖A − H_A W_A‖²/‖A‖²

Parts that describe noise do not predict it: the error is lowest at the number of parts that X has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from deepnmf.arrays import Array, inner, squared_norm, to_double
from deepnmf.core.passes import nonnegative_least_squares
from deepnmf.models.deep import DeepNMF
from deepnmf.models.many import fit_many, stackable, transform_many
from deepnmf.penalties import Zero
from deepnmf.samples.place import works_on_card

FEW = 200
"""With fewer columns than this over the number of folds, a fold holds out fewer of them: a third of
nine columns would leave six, which do not show nine parts."""
MOST_FOLDS = 9


class Holdout(NamedTuple):
    """The rows and columns of A, and those of D."""

    rows: np.ndarray
    columns: np.ndarray
    other_rows: np.ndarray
    other_columns: np.ndarray


def holdouts(shape: Sequence[int], folds: int, repeats: int, seed: int) -> list[Holdout]:
    """All hold-outs of a matrix, of equal shapes, so that fits to them can be one stack.

    Each repeat has its own random order. Fold f holds out the f-th share of the rows together with
    the f-th share of the columns; where there are few columns, their shares are smaller, and the
    shares of the rows come round again.
    """
    n, m = (int(size) for size in shape)
    across = min(max(folds, min(math.ceil(FEW / m), MOST_FOLDS)), m)
    cut = []
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        row_order, column_order = rng.permutation(n), rng.permutation(m)
        for fold in range(max(folds, across)):
            rows, other_rows = _cut(row_order, fold % folds, folds)
            columns, other_columns = _cut(column_order, fold % across, across)
            cut.append(Holdout(rows, columns, other_rows, other_columns))
    return cut


def _cut(order: np.ndarray, fold: int, folds: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a fold and all others, both in ascending order."""
    size = len(order) // folds
    held = order[fold * size : (fold + 1) * size]
    return np.sort(held), np.sort(np.setdiff1d(order, held))


def held_out_errors(
    X: Array, cuts: Sequence[Holdout], model: DeepNMF, seed: int
) -> Iterator[float]:
    """The error of every hold-out of X (n, m), by a model of one layer. On a card, all fits are one
    stack."""
    together = stackable(model) and works_on_card(X, model.device)
    groups = [list(cuts)] if together else [[cut] for cut in cuts]
    for group in groups:
        yield from _errors_of(X, group, model, seed)


def _errors_of(X: Array, cuts: Sequence[Holdout], model: DeepNMF, seed: int) -> Iterator[float]:
    seen = [X[cut.other_rows] for cut in cuts]
    inside = [rows[:, cut.other_columns] for rows, cut in zip(seen, cuts, strict=True)]
    beside = [X[cut.rows][:, cut.other_columns] for cut in cuts]
    fitted = fit_many(inside, model, seeds=[seed])
    codes, new_codes = transform_many(fitted, inside), transform_many(fitted, beside)
    for place, (rows, cut) in enumerate(zip(seen, cuts, strict=True)):
        H, H_A = codes[place], new_codes[place]
        A = X[cut.rows][:, cut.columns]
        W_A = nonnegative_least_squares(rows[:, cut.columns], H, Zero())
        yield _relative_error(A, H_A, W_A)


def _relative_error(A: Array, H: Array, W: Array) -> float:
    """‖A − HW‖²/‖A‖² from small products; 0/0 is 0."""
    square, crossed = float(squared_norm(A)), to_double(A @ W.T)
    H, W = to_double(H), to_double(W)
    product = float(inner(H.T @ H, W @ W.T))
    if square == 0:
        return 0.0 if product == 0 else 1.0
    return max(0.0, square - 2 * float(inner(crossed, H)) + product) / square
