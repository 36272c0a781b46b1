"""What decoding does to a code, path by path: the mathematics under `deepnmf.explain.hierarchy`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepnmf.arrays.tensors import to_numpy
from deepnmf.links import Link
from deepnmf.models.base import MatrixFactorization

BLOCK = 4096
"""Samples that are decoded at a time."""


@dataclass(frozen=True, eq=False)
class Decoding:
    """x̂ = W_1 H̃_1, H̃_{l−1} = φ(A_l), A_l = W_l H̃_l, as a sum over paths. With the secant slopes

        D_l = (φ(A_l) − φ(0)) / A_l,  so that  H̃_{l−1} = φ(0) + D_l ∘ W_l H̃_l,

    x̂ = W_1 D_2 W_2 … D_l W_l h + offset, exactly; D = 1 and offset = 0 in a linear model. One
    column a code.
    """

    weights: tuple[np.ndarray, ...]
    link: Link
    codes: tuple[np.ndarray, ...]
    """H̃_1 … H̃_l."""
    slopes: tuple[np.ndarray, ...]
    """D_2 … D_l."""

    @classmethod
    def of(cls, weights: Sequence[np.ndarray], link: Link, H: np.ndarray) -> Decoding:
        """From codes (k_l, n) down, for the weights of layers 1 … l."""
        codes: list[np.ndarray] = [H]
        slopes: list[np.ndarray] = []
        zero = link.at_zero
        for W in reversed(weights[1:]):
            A = W @ codes[0]
            codes.insert(0, np.asarray(link.decode(A)))
            used = A != 0
            gained = np.divide(codes[0] - zero, A, out=np.zeros_like(A), where=used)
            slopes.insert(0, np.ones_like(A) if link.linear else gained)
        return cls(tuple(weights), link, tuple(codes), tuple(slopes))

    @cached_property
    def masses(self) -> list[np.ndarray]:
        """M_1 = |W_1|ᵀ1, M_l = |W_l|ᵀ(D_l ∘ M_{l−1}): Σ|·| of what a unit of each layer adds to x̂
        per amount."""
        found = [np.repeat(np.abs(self.weights[0]).sum(0)[:, None], self.codes[0].shape[1], 1)]
        for W, D in zip(self.weights[1:], self.slopes, strict=True):
            found.append(np.abs(W).T @ (D * found[-1]))
        return found

    def flow(self, layer: int) -> np.ndarray:
        """(k_layer, n): Σ|·| of what goes to x̂ through each unit of a layer."""
        return np.abs(self.codes[layer - 1]) * self.masses[layer - 1]

    @property
    def decoded(self) -> np.ndarray:
        """x̂, (m, n)."""
        return self.weights[0] @ self.codes[0]

    @property
    def offset(self) -> np.ndarray:
        """What φ(0) > 0 gives at these slopes, (m, n)."""
        carried = np.zeros_like(self.codes[-1])
        for W, D in zip(reversed(self.weights[1:]), reversed(self.slopes), strict=True):
            carried = self.link.at_zero + D * (W @ carried)
        return self.weights[0] @ carried


def decodings(
    weights: Sequence[np.ndarray], link: Link, H: np.ndarray
) -> Iterator[tuple[slice, Decoding]]:
    """Codes H (n, k), decoded block by block."""
    for low in range(0, len(H), BLOCK):
        rows = slice(low, low + BLOCK)
        yield rows, Decoding.of(weights, link, H[rows].T)


def edge_flow(weights: Sequence[np.ndarray], link: Link) -> np.ndarray:
    """(k_{l−1}, k_l), for the last of several layers: Σ|·| of what a unit with code 1 sends through
    each unit of the layer below."""
    units = Decoding.of(weights, link, np.eye(weights[-1].shape[1]))
    return np.abs(weights[-1]) * units.slopes[-1] * units.masses[-2]


def shares_of(flow: np.ndarray, axis: int = 0) -> np.ndarray:
    """Flow as shares of its sum along an axis; 0 where nothing flows."""
    total = flow.sum(axis, keepdims=True)
    return np.asarray(flow / np.where(total > 0, total, 1))


def parts(model: Any, layer: int | None = None) -> np.ndarray:
    """(k_layer, m): what a unit adds to what code 0 decodes to; `basis(layer)` if φ(0) = 0."""
    weights, link = decoder(model)
    return parts_of(weights[: layer_of(layer, len(weights))], link)


def parts_of(weights: Sequence[np.ndarray], link: Link) -> np.ndarray:
    """The same for weights of layers 1 … l."""
    if len(weights) == 1:
        return weights[0].T
    H, zero = np.eye(weights[-1].shape[1]), np.zeros((weights[-1].shape[1], 1))
    for W in reversed(weights[1:]):
        H, zero = np.asarray(link.decode(W @ H)), np.asarray(link.decode(W @ zero))
    added = np.where(np.abs(H - zero) > 1e-14 * np.abs(zero), H - zero, 0.0)  # not rounding errors
    return (added.T @ weights[0].T).astype(weights[0].dtype)


def decoder(model: Any) -> tuple[list[np.ndarray], Link]:
    """W_1 … W_L, as decoding uses them, in double precision, and the link between them."""
    if not isinstance(model, MatrixFactorization):
        raise TypeError(
            f"{type(model).__name__} has no hierarchy that can be shown: give a DeepNMF, or a "
            "method of deepnmf.baselines that takes one matrix."
        )
    check_is_fitted(model)
    weights, link = model._decoder(model.weights_)
    return [to_numpy(W).astype(np.float64) for W in weights], link


def codes_of(model: MatrixFactorization, X: Any, layer: int | None = None) -> np.ndarray:
    """H (n, k): the codes of X that decoding starts from, in double precision."""
    Z = transformed(model, X, layer).astype(np.float64)
    top = layer is None or layer == len(model.weights_)
    if top and model.project_codes:
        return decoder(model)[1].decode(Z) * model.code_scale_
    return Z


def transformed(model: MatrixFactorization, X: Any, layer: int | None = None) -> np.ndarray:
    """`model.transform` as an array, whatever container the model is set to return."""
    model = copy.copy(model)
    model._sklearn_output_config = {}  # the copy would share that of the model
    Z = model.set_output(transform="default").transform(X, layer)
    return np.asarray(to_numpy(Z.compute() if hasattr(Z, "compute") else Z))


def layer_of(layer: int | None, depth: int) -> int:
    """A layer from 1 to `depth`, the last unless given."""
    if layer is None:
        return depth
    if not is_whole(layer) or not 1 <= layer <= depth:
        raise ValueError(f"layer: {layer!r}, but this model has the layers 1 to {depth}.")
    return int(layer)


def is_whole(value: Any) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
