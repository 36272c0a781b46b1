"""Where the work is done: one table for single fits and for stacks."""

from __future__ import annotations

from typing import Literal

from deepnmf.arrays import Array, is_sparse
from deepnmf.arrays.tensors import has_cuda, is_on_cuda, is_tensor, to_cuda

DEVICES = ("cpu", "cuda", "auto")


def place_of(X: Array, device: str | None) -> Literal["here", "cpu", "cuda"]:
    """Where the work on X is done. "here" is where X is.

    | device | dense X                          | sparse X |
    | ---    | ---                              | ---      |
    | None   | here                             | here     |
    | "cpu"  | cpu                              | cpu      |
    | "auto" | cuda if there is one, else here  | here     |
    | "cuda" | cuda                             | refused  |
    """
    if device is None:
        return "here"
    if device == "cpu":
        return "cpu"
    if device == "auto":
        return "cuda" if not is_sparse(X) and has_cuda() else "here"
    if is_sparse(X):
        raise ValueError(
            'device="cuda": sparse X is fitted on the CPU. Use device="cpu", or densify X if it '
            "fits the card's memory."
        )
    if not has_cuda():
        raise ValueError(
            'device="cuda": no CUDA device is available to torch here. Install deepnmf[gpu] on a '
            'machine with an NVIDIA card, or use device="auto" or "cpu".'
        )
    return "cuda"


def placed(X: Array, device: str | None) -> Array:
    """X, moved to where the work is done."""
    place = place_of(X, device)
    if place == "cuda":
        return to_cuda(X)
    return X.cpu() if place == "cpu" and is_tensor(X) else X


def works_on_card(X: Array, device: str | None) -> bool:
    """Whether the work on X is done on a CUDA device."""
    return device == "cuda" or place_of(X, device) == "cuda" or (device is None and is_on_cuda(X))


def refuse_card(device: str | None) -> None:
    """Refuse a CUDA device for data in blocks."""
    if device == "cuda":
        raise ValueError(
            'device="cuda": data in blocks is fitted on the CPU. Use device="cpu", or give X as '
            "one array without max_memory."
        )
