"""Multi-layer NMF: nonsmooth NMF in every layer (Song and Lee 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deepnmf.arrays import Array, spread, to_device
from deepnmf.core.training import Trained, decode, descend, nonnegative_least_squares
from deepnmf.core.watch import Watch
from deepnmf.links import Link
from deepnmf.models.baselines.base import Callback, Layered, layer_start
from deepnmf.models.baselines.ns import Smoothed, smooth, smoothness
from deepnmf.models.settings import link_of
from deepnmf.penalties import Zero
from deepnmf.starts import Generators


class MultilayerNMF(Layered):
    """g(H_{l−1}) ≈ W_l S_l H_l from X ≈ W_1 S_1 H_1 up, each layer as in `NsNMF`; no fine-tuning.

    The paper's Multi-layer NMF is linear with link="identity", Square_1 with link="root", Square_2
    with link="root" and project_codes=True, θ = 0.001.

    Parameters
    ----------
    layer_sizes : tuple of int
    theta : float in [0, 1], or one per layer, default=0.001
    link : "identity", "root", "tanh", "sigmoid", "softplus" or Link
    project_codes : bool, default=False
        Return g(H_L) instead of H_L.
    start, fill, callback, random_state : as in `DeepNMF`
    max_iter, tol : per layer

    References
    ----------
    H. A. Song, S.-Y. Lee, Hierarchical representation using NMF, ICONIP 2013.
    """

    stacks = True

    def __init__(
        self,
        layer_sizes: Any = (64, 16),
        *,
        theta: Any = 0.001,
        link: str | Link = "identity",
        project_codes: bool = False,
        start: Any = "nnsvd",
        fill: Any = "mean",
        max_iter: int = 500,
        tol: float = 1e-5,
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> None:
        self.layer_sizes = layer_sizes
        self.theta = theta
        self.link = link
        self.project_codes = project_codes
        self.start = start
        self.fill = fill
        self.max_iter = max_iter
        self.tol = tol
        self.callback = callback
        self.random_state = random_state

    def _sizes(self) -> tuple[int, ...]:
        sizes = super()._sizes()
        layer_start(self.start, self.fill)
        link_of(self.link)
        self._thetas(len(sizes))
        return sizes

    def _thetas(self, layers: int) -> tuple[float, ...]:
        given = (self.theta,) * layers if np.ndim(self.theta) == 0 else tuple(self.theta)
        if len(given) != layers:
            raise ValueError(
                f"theta has {len(given)} entries for {layers} layers: give one per layer, or one "
                "for all."
            )
        return tuple(smoothness(theta) for theta in given)

    def _link(self) -> Link:
        return link_of(self.link)

    def _train(self, X: Array, generators: Generators, watch: Watch) -> Trained:
        start, link, sizes = layer_start(self.start, self.fill), self._link(), self._sizes()
        weights: list[Array] = []
        H: Array = X
        sweeps: Any = 0
        reason: Any = "limit"
        for layer, (size, theta) in enumerate(zip(sizes, self._thetas(len(sizes)), strict=True), 1):
            data = H
            if layer > 1:
                R = link.scale(H)
                weights[-1] = weights[-1] * R
                data = link.project(H / R)
            problem = Smoothed(data, theta)
            begun = problem.begin(*start.factors(data, size, generators))
            last = layer == len(sizes)
            state, sweeps, reason = descend(
                problem, begun, self.tol, self.max_iter, watch,
                stage_name="finetune" if last else "pretrain", layer=layer,
            )  # fmt: skip
            weights.append(state.weights[0])
            H = state.H
        return Trained(tuple(weights), H, watch.history, sweeps, reason)

    def _keep(self, trained: Trained, error: Any) -> None:
        R = self._link().scale(trained.H)
        self.code_scale_ = R if isinstance(R, float) else float(R[0, 0])
        super()._keep(trained, error)

    def _encode_stack(
        self, X: Array, weights: Sequence[Array], models: Sequence[Sequence[Any]], layer: int
    ) -> Array:
        H = self._coded(spread(X), weights)
        if not self.project_codes or layer < len(self._sizes()):
            return H
        scales = np.asarray([[one.code_scale_ for one in row] for row in models])
        return self._link().project(H / to_device(scales[..., None, None], H))

    def _smoothed(self, weights: Sequence[Array]) -> list[Array]:
        thetas = self._thetas(len(self._sizes()))
        return [smooth(W, theta) for W, theta in zip(weights, thetas, strict=False)]

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        H = self._coded(X, weights)
        last = len(weights) == len(self._sizes())
        return self._projected(H) if self.project_codes and last else H

    def _coded(self, X: Array, weights: Sequence[Array]) -> Array:
        """H_l, not g(H_l)."""
        link, H = self._link(), X
        for below, V in enumerate(self._smoothed(weights)):
            H = nonnegative_least_squares(link.project(H) if below else X, V, Zero())
        return H

    def _decode(self, weights: Sequence[Array], H: Array) -> Array:
        if self.project_codes and len(weights) == len(self._sizes()):
            H = self._link().decode(H) * self.code_scale_
        return decode(self._smoothed(weights), self._link(), H)

    def _fitted(self, weights: Sequence[Array], H: Array) -> Array:
        return decode(self._smoothed(weights), self._link(), H)

    def _projected(self, H: Array) -> Array:
        return self._link().project(H / self.code_scale_)
