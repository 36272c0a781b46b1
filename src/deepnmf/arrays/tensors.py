"""Everything that needs torch, which is imported on first use, here and in `arrays.cuda` only."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import scipy.sparse

from deepnmf.arrays.array import Array

if TYPE_CHECKING:
    import torch


ENTRIES_AT_ONCE = 2**26
"""Similarities that are held at a time."""


def is_tensor(X: object) -> TypeGuard[torch.Tensor]:
    """Whether X is a torch tensor, without importing torch."""
    loaded = sys.modules.get("torch")
    return loaded is not None and isinstance(X, loaded.Tensor)


def why_not_dense(X: torch.Tensor) -> str | None:
    """Why a tensor is not an array of real numbers; None if it is one."""
    import torch

    if X.is_meta:
        return "it is on the device meta, which stores no entries. Create it on a real device"
    if X.is_quantized:
        return "it is quantized. Pass X.dequantize()"
    if X.is_nested:
        return "it is nested. Pass X.to_padded_tensor(0)"
    if X.is_sparse or X.layout != torch.strided:
        return "it is sparse. Give sparse data as a scipy.sparse matrix instead"
    return None


def to_numpy(array: object) -> np.ndarray:
    """A tensor or array as a NumPy array."""
    if not is_tensor(array):
        return np.asarray(array)
    import torch

    tensor = array.detach().cpu()
    known = (torch.float16, torch.float32, torch.float64)
    # NumPy has no bfloat16, and no smaller floats.
    return np.asarray(
        tensor.float() if tensor.is_floating_point() and tensor.dtype not in known else tensor
    )


def copied(array: Array) -> Array:
    """The same array in memory of its own."""
    return array.clone() if is_tensor(array) else np.array(array)


def tensor_like(array: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """A NumPy array as a tensor on the device of `like`, in its own type."""
    import torch

    return torch.from_numpy(np.array(array)).to(like.device)


def sparse_like(A: scipy.sparse.csr_array, like: torch.Tensor) -> torch.Tensor:
    """A sparse matrix as a sparse tensor, in the type and on the device of `like`."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(A.indptr.astype(np.int64)),
            torch.from_numpy(A.indices.astype(np.int64)),
            torch.from_numpy(np.array(A.data)).to(like.dtype),
            size=A.shape,
            device=like.device,
            check_invariants=False,
        )


def largest_similarities(Z: torch.Tensor, k: int) -> torch.Tensor:
    """For every row z of Z the places of the k others with the largest products ⟨z, z'⟩."""
    import torch

    width = max(1, ENTRIES_AT_ONCE // max(1, len(Z)))
    places = []
    for low in range(0, len(Z), width):
        block = Z[low : low + width] @ Z.mT
        rows = torch.arange(len(block), device=block.device)
        block[rows, low + rows] = -torch.inf
        places.append(block.topk(k, dim=-1).indices)
    return torch.cat(places)


def has_cuda() -> bool:
    """Whether torch has a CUDA device. Without a driver, torch is not even imported."""
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


def to_cuda(X: Array) -> torch.Tensor:
    """X as a tensor on the current CUDA device."""
    import torch

    return torch.as_tensor(X, device="cuda")


def is_on_cuda(X: object) -> TypeGuard[torch.Tensor]:
    """Whether X is a tensor on a CUDA device."""
    return is_tensor(X) and bool(X.is_cuda)


def runs_kernels(X: object) -> bool:
    """Whether Triton kernels can be launched for X: a tensor on the current CUDA device."""
    if not is_on_cuda(X) or not _has_triton():
        return False
    import torch

    return bool(X.device.index == torch.cuda.current_device())


def free_on_cuda() -> int:
    """Free bytes of memory on the CUDA device."""
    import torch

    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


@contextmanager
def tensor_cores(X: object, wanted: bool) -> Iterator[None]:
    """Let products on a CUDA device round their input to TF32 (10 bits), if wanted."""
    if not wanted or not is_on_cuda(X):
        yield
        return
    import torch

    settings = torch.backends.cuda.matmul
    name, on = (
        ("fp32_precision", "tf32") if hasattr(settings, "fp32_precision") else ("allow_tf32", True)
    )
    before = getattr(settings, name)
    setattr(settings, name, on)
    try:
        yield
    finally:
        setattr(settings, name, before)


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
