"""The checks of X, in one place and one wording. Messages name the first bad entry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from deepnmf.arrays import (
    Array,
    dense,
    is_sparse,
    largest_entry,
    namespace,
    squared_norm,
    stored_entries,
    to_device,
)
from deepnmf.arrays.blocks import Applied, Block, Blocked
from deepnmf.arrays.tensors import is_tensor
from deepnmf.links import Link
from deepnmf.samples.admission import admitted

if TYPE_CHECKING:
    from deepnmf.samples.base import Needs


def canonical(X: Array) -> Array:
    """X with every entry of a sparse matrix stored once, so that its data can be summed over."""
    if not is_sparse(X) or X.has_canonical_format:
        return X
    summed = X.copy()
    summed.sum_duplicates()
    return summed


def check_size(shape: tuple[int, ...], needs: Needs, kind: str) -> None:
    """Refuse too few samples, and another number of features than a fitted model has."""
    samples, features = shape
    least = 2 if needs.fitting else 1
    if samples < least or features < 1:
        raise ValueError(
            f"Found {kind} with {samples} sample(s) and {features} feature(s) while a minimum of "
            f"{least} and 1 is required by {needs.whom}."
        )
    if needs.features is not None and features != needs.features:
        raise ValueError(
            f"X has {features} features, but {needs.whom} is expecting {needs.features} features "
            "as input."
        )


def check_samples(X: Array, needs: Needs) -> None:
    """Check the entries of X (n, m) in memory."""
    largest = check_entries(X, needs.whom, needs.signed)
    if needs.fitting:
        _check_faint(largest, X)


def check_blocks(X: Blocked, needs: Needs, kind: str) -> None:
    """Check the entries of X (m, n) in one pass over its blocks, which messages call `kind`."""
    check = Applied(_checked, (X.node, needs.whom, needs.signed))
    [results] = X.layout.sweep(gather=[check]).gathered
    for number, (start, (_, problem)) in enumerate(zip(X.layout.starts(), results, strict=True)):
        if problem is not None:
            end = start + X.layout.widths[number] - 1
            raise ValueError(
                f"{kind} {number} (samples {start} to {end}; rows count from {start}): {problem}"
            )
    if needs.fitting:
        _check_faint(max(largest for largest, _ in results), X)


def _checked(block: Block, whom: str, signed: bool) -> tuple[float, str | None]:
    """The largest entry of a block (m, width), and what is wrong with its entries."""
    try:
        return check_entries(block.T, whom, signed), None
    except ValueError as problem:
        return 0.0, str(problem)


def check_entries(X: Array, whom: str, signed: bool = False) -> float:
    """Refuse NaN, infinite and (unless `signed`) negative entries, and entries so large that their
    products would overflow. Returns the largest absolute entry."""
    values = stored_entries(X)
    xp = namespace(values)
    if values.shape[0] == 0:
        return 0.0
    # A sum is finite unless an entry is not, or it overflows. Then the search decides.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(xp.isfinite(xp.sum(values)))
    if not finite:
        _refuse(X, ~xp.isfinite(values), whom)
    if not signed and bool(xp.min(values) < 0):
        _refuse(X, values < 0, whom)
    largest = largest_entry(values)
    if values.dtype in (xp.float32, xp.float64):
        # Products of four entries are formed. The norm is computed only where it may be too large.
        room = float(xp.finfo(values.dtype).max) ** 0.25
        if largest * math.prod(values.shape) ** 0.5 > room and _norm(values, largest) > room:
            raise too_large(largest, _type_name(values))
    return largest


def _check_faint(largest: float, X: Array | Blocked) -> None:
    """Refuse X if all its entries are so small that their products are rounded to 0."""
    if 0 < largest < float(np.finfo(_type_name(X)).tiny) ** 0.25:
        raise too_small(largest, _type_name(X))


def too_large(largest: float, dtype: str) -> ValueError:
    """The refusal of X with entries up to `largest` in this precision."""
    return ValueError(
        f"X is too large for its precision: entries up to {largest:g} in {dtype} would overflow in "
        "products. Divide X by its maximum, or use float64."
    )


def too_small(largest: float, dtype: str) -> ValueError:
    """The refusal of X with entries of at most `largest` in this precision."""
    return ValueError(
        f"X is too small for its precision: products of entries up to {largest:g} would be rounded "
        f"to 0 in {dtype}. Divide X by its maximum, or use float64."
    )


def _norm(values: Array, largest: float) -> float:
    """The Frobenius norm of entries whose squares may overflow."""
    if largest == 0 or not math.isfinite(largest):
        return largest
    # Stored entries of a sparse matrix have one axis.
    return largest * math.sqrt(float(squared_norm((values / largest).reshape(1, -1))))


def _type_name(X: Array | Blocked) -> str:
    return f"{X.dtype}".removeprefix("torch.")


def check_codes(Z: Array, weights: list[Array], link: Link) -> Array:
    """Codes (n, k) of the last of these layers, finite and on the device of its weights. A link
    other than the identity can only decode codes ≥ 0."""
    Z = dense(admitted(Z, "inverse_transform"))
    Z = Z if is_tensor(Z) else np.asarray(Z)
    if not is_tensor(Z) and Z.dtype not in (np.float32, np.float64):
        Z = Z.astype(float)  # torch knows neither long doubles nor the other byte order
    layer, size = len(weights), weights[-1].shape[-1]
    if Z.ndim != 2 or Z.shape[1] != size:
        raise ValueError(
            f"inverse_transform: codes of layer {layer} have shape (n_samples, {size}), got "
            f"{tuple(Z.shape)}."
        )
    with np.errstate(over="ignore"):  # an overflow is found below
        codes = to_device(Z, weights[0])
    finite = namespace(codes).isfinite(codes)
    where = _first(codes, ~(finite if link.linear else finite & (codes >= 0)))
    if where is not None:
        needed = "" if link.linear else f" and, through the link {type(link).__name__}, ≥ 0"
        raise ValueError(
            f"inverse_transform: Z[{where[0]}, {where[1]}] = {float(Z[where])} is not a code of "
            f"layer {layer}: codes are finite numbers in {_type_name(codes)}{needed}."
        )
    return codes


def check_decoded(X: Array) -> Array:
    """What codes decode to. Refuses the codes if it is not finite."""
    if not bool(namespace(X).all(namespace(X).isfinite(X))):
        raise ValueError(
            f"inverse_transform: the codes are too large to be decoded in {_type_name(X)}. Pass "
            "codes as `transform` returns them."
        )
    return X


def _refuse(X: Array, bad: Array, whom: str) -> None:
    where = _first(X, bad)
    if where is None:
        return
    row, column = where
    value = float((X.tocsr() if is_sparse(X) else X)[row, column])
    xp = namespace(bad)
    count = int(xp.sum(xp.astype(bad, xp.int64)))
    place = f"the first is X[{row}, {column}] = {value}, of {count}"
    if math.isfinite(value):
        raise ValueError(
            f"Negative values in data passed to {whom}: {place}. {whom} needs entries ≥ 0: shift "
            "or rescale the features (sklearn.preprocessing.MinMaxScaler), or clip at 0 if they "
            "are noise."
        )
    kind = "NaN" if math.isnan(value) else "infinite"
    raise ValueError(
        f"Input X contains {kind} values (NaN or infinity): {place}. {whom} needs finite entries: "
        "drop those samples or features, or impute them first (sklearn.impute.SimpleImputer)."
    )


def _first(X: Array, bad: Array) -> tuple[int, int] | None:
    """Row and column of the first bad entry in reading order."""
    if is_sparse(X):
        marked = type(X)((np.asarray(bad, dtype=float), X.indices, X.indptr), shape=X.shape)
        entries = scipy.sparse.csr_array(marked).tocoo()
        chosen = entries.data > 0
        if not chosen.any():
            return None
        rows, columns = entries.row[chosen], entries.col[chosen]
        first = int(np.lexsort((columns, rows))[0])
        return int(rows[first]), int(columns[first])
    xp = namespace(bad)
    if not bool(xp.any(bad)):
        return None
    position = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int8)))
    return position // X.shape[1], position % X.shape[1]
