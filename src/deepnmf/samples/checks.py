"""What comes in: checked once, with the place of the first bad entry in the message."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from deepnmf.arrays import Array, is_sparse, namespace, squared_norm, to_device
from deepnmf.links import Link


def is_tensor(X: Any) -> bool:
    """Whether X is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, torch.Tensor)


def check_data(
    model: Any, X: Any, *, fitting: bool, signed: bool = False, accept_sparse: bool = True
) -> Array:
    """X as a floating-point (n_samples, n_features) array, sparse matrix or tensor, all ≥ 0 unless
    `signed`.

    float32 and float64 stay as they are; everything else becomes float64.
    """
    if is_tensor(X):
        X = _check_tensor(model, X, fitting)
    else:
        X = validate_data(
            model,
            X,
            reset=fitting,
            accept_sparse=("csr", "csc") if accept_sparse else False,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=2 if fitting else 1,
        )
        X = canonical(X)
    check_entries(X, type(model).__name__, signed)
    if fitting:
        _check_faint(X)
    return X


def canonical(X: Array) -> Array:
    """X with every entry of a sparse matrix stored once, so that its data can be summed over."""
    if is_sparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_entries(X: Array, whom: str, signed: bool = False) -> None:
    """Refuse NaN, infinite and (unless `signed`) negative entries, and say where the first is."""
    values = X.data if is_sparse(X) else X
    xp = namespace(values)
    if values.shape[0] == 0:
        return
    # A sum is finite unless something is wrong (or overflows, which the search then settles).
    if not bool(xp.isfinite(xp.sum(values))):
        _refuse(X, ~xp.isfinite(values), whom)
    if not signed and bool(xp.min(values) < 0):
        _refuse(X, values < 0, whom)
    if values.dtype in (xp.float32, xp.float64):
        # Products of four are formed. The norm itself only where it may be too large.
        room = float(xp.finfo(values.dtype).max) ** 0.25
        largest = _largest(values)
        if largest * math.prod(values.shape) ** 0.5 > room and _norm(values, largest) > room:
            raise ValueError(
                f"X is too large for its precision: entries up to {largest:g} in "
                f"{_type_name(values)} would overflow in products. Divide X by its maximum, or "
                "use float64."
            )


def _check_faint(X: Array) -> None:
    """Refuse data all of whose entries are so small that products of them vanish."""
    values = X.data if is_sparse(X) else X
    if math.prod(values.shape) == 0:
        return
    largest = _largest(values)
    if 0 < largest < float(namespace(values).finfo(values.dtype).tiny) ** 0.25:
        raise ValueError(
            f"X is too small for its precision: products of entries up to {largest:g} would be "
            f"rounded to 0 in {_type_name(values)}. Divide X by its maximum, or use float64."
        )


def _largest(values: Array) -> float:
    """The largest absolute entry, without a copy."""
    xp = namespace(values)
    return max(float(xp.max(values)), -float(xp.min(values)))


def _norm(values: Array, largest: float) -> float:
    """The Frobenius norm of entries whose squares may overflow."""
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(float(squared_norm(values / largest)))


def _type_name(values: Array) -> str:
    return f"{values.dtype}".removeprefix("torch.")


def check_codes(Z: Any, weights: Sequence[Array], link: Link) -> Array:
    """Codes (n, k) of the last of these layers, where its weights are; those that a link other
    than the identity can decode are ≥ 0 and finite."""
    Z = Z if is_tensor(Z) else np.asarray(Z)
    layer, size = len(weights), weights[-1].shape[-1]
    if Z.ndim != 2 or Z.shape[1] != size:
        raise ValueError(
            f"inverse_transform: codes of layer {layer} have shape (n_samples, {size}), got "
            f"{tuple(Z.shape)}."
        )
    Z = to_device(Z, weights[0])
    where = None if link.linear else _first(Z, ~((Z >= 0) & namespace(Z).isfinite(Z)))
    if where is not None:
        raise ValueError(
            f"inverse_transform: Z[{where[0]}, {where[1]}] = {float(Z[where])} is no code of layer "
            f"{layer}: through the link {type(link).__name__} codes are finite and ≥ 0."
        )
    return Z


def _refuse(X: Array, bad: Array, whom: str) -> None:
    where = _first(X, bad)
    if where is None:
        return
    row, column = where
    if is_sparse(X):
        value = float(X.tocsr()[row, column])
        whole = X.data
    else:
        value, whole = float(X[row, column]), X
    count = int(namespace(whole).sum(namespace(whole).astype(bad, namespace(whole).int64)))
    place = f"the first is X[{row}, {column}] = {value}, of {count}"
    if np.isnan(value) or np.isinf(value):
        kind = "NaN" if np.isnan(value) else "infinite"
        raise ValueError(
            f"Input X contains {kind} values (NaN or infinity): {place}. {whom} needs finite "
            "entries: drop those samples or features, or impute them first "
            "(sklearn.impute.SimpleImputer)."
        )
    raise ValueError(
        f"Negative values in data passed to {whom}: {place}. {whom} needs entries ≥ 0: shift or "
        "rescale the features (sklearn.preprocessing.MinMaxScaler), or clip at 0 if they are noise."
    )


def _first(X: Array, bad: Array) -> tuple[int, int] | None:
    """Row and column of the first bad entry in reading order."""
    if is_sparse(X):
        marked = type(X)((np.asarray(bad, dtype=float), X.indices, X.indptr), shape=X.shape)
        entries = scipy.sparse.csr_array(marked).tocoo()
        found = entries.data > 0
        if not found.any():
            return None
        rows, columns = entries.row[found], entries.col[found]
        first = int(np.lexsort((columns, rows))[0])
        return int(rows[first]), int(columns[first])
    xp = namespace(bad)
    if not bool(xp.any(bad)):
        return None
    position = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int8)))
    return position // X.shape[1], position % X.shape[1]


def _check_tensor(model: Any, X: Any, fitting: bool) -> Any:
    name = type(model).__name__
    X = X.detach()
    if X.is_sparse or X.layout != sys.modules["torch"].strided:
        raise ValueError(
            f"{name} takes dense tensors; give sparse data as a scipy.sparse matrix instead."
        )
    if X.ndim != 2:
        raise ValueError(f"Expected 2D input, got a {X.ndim}D tensor of shape {tuple(X.shape)}.")
    least = 2 if fitting else 1
    if X.shape[0] < least or X.shape[1] < 1:
        raise ValueError(
            f"Found a tensor with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) while at "
            f"least {least} and 1 are required by {name}."
        )
    if fitting:
        model.n_features_in_ = X.shape[1]
        model.__dict__.pop("feature_names_in_", None)
    elif X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {model.n_features_in_} "
            "features as input."
        )
    xp = namespace(X)
    return X if X.dtype in (xp.float32, xp.float64) else xp.astype(X, xp.float64)


def to_compute(X: Array, device: str | None) -> Array:
    """X where the work is to be done: as it is, or as a tensor on a CUDA device."""
    if device is None:
        return X
    if device == "cpu":
        return X.cpu() if is_tensor(X) else X
    if device == "auto" and (is_sparse(X) or not _cuda()):
        return X
    if is_sparse(X):
        raise ValueError(
            'device="cuda": sparse X is fitted on the CPU. Use device="cpu", or densify X if it '
            "fits the card's memory."
        )
    if not _cuda():
        raise ValueError(
            'device="cuda": no CUDA device is available to torch here. Install deepnmf[gpu] on a '
            'machine with an NVIDIA card, or use device="auto" or "cpu".'
        )
    import torch

    return torch.as_tensor(X, device="cuda")


def on_card(X: Any, device: str | None) -> bool:
    """Whether the work on X is to be done on a CUDA device."""
    if device is None:
        return is_tensor(X) and bool(X.is_cuda)
    if device == "auto":
        return not is_sparse(X) and _cuda()
    return device == "cuda"


def free_on_card() -> int:
    """Bytes of memory that are free on the CUDA device."""
    import torch

    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def _cuda() -> bool:
    """Whether torch has a CUDA device; torch is not imported where there is no driver at all."""
    if "torch" not in sys.modules:
        try:
            ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        except OSError:
            return False
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def to_home(array: Array, X: Array) -> Array:
    """A result in the library and on the device in which X came."""
    if is_tensor(X):
        return array.to(X.device)
    return array.cpu().numpy() if is_tensor(array) else array
