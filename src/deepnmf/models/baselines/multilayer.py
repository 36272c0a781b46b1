"""Multi-layer NMF: nonsmooth NMF in every layer (Song and Lee 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepnmf.arrays import Array
from deepnmf.core.encoding import layer_input
from deepnmf.core.loop import descend
from deepnmf.core.passes import nonnegative_least_squares
from deepnmf.core.training import Trained
from deepnmf.core.watch import Watch
from deepnmf.links import Link
from deepnmf.models.baselines.base import Layered, layer_start
from deepnmf.models.baselines.ns import Smoothed, smooth, smoothness
from deepnmf.penalties import Zero
from deepnmf.starts import Start


@dataclass(eq=False, repr=False, kw_only=True)
class MultilayerNMF(Layered):
    """`NsNMF` in layers, without fine-tuning.

    X ≈ W_1 S_1 H_1, then g(H_{l−1}) ≈ W_l S_l H_l, each layer fitted as in `NsNMF`. The paper's
    Multi-layer NMF is linear with link="identity", Square_1 with link="root", and Square_2 with
    link="root" and project_codes=True, all with θ = 0.001.

    Parameters
    ----------
    layer_sizes : tuple of int, default=(64, 16)
        The number of parts in each layer, from the data up: (k_1, …, k_L).
    theta : float in [0, 1], or one per layer, default=0.001
        The smoothness θ of S_l, as in `NsNMF`.
    link : "identity", "root", "tanh", "sigmoid", "softplus" or Link, default="identity"
        The function between layers.
    project_codes : bool, default=False
        Return g(H_L) instead of H_L.
    max_iter, tol : as in `DeepNMF`, for each layer
    start, fill, callback, random_state : as in `DeepNMF`

    References
    ----------
    H. A. Song, S.-Y. Lee, Hierarchical representation using NMF, ICONIP 2013.
    """

    name = "multilayer-nmf"
    purpose = "nsNMF layer by layer, not fine-tuned"
    stacks = True

    theta: float | Sequence[float] = 0.001
    project_codes: bool = False
    start: str | Start = "nnsvd"
    fill: str | float = "mean"

    def _sizes(self) -> tuple[int, ...]:
        sizes = super()._sizes()
        layer_start(self.start, self.fill)
        self._thetas(len(sizes))
        return sizes

    def _thetas(self, layers: int) -> tuple[float, ...]:
        thetas = (self.theta,) * layers if np.ndim(self.theta) == 0 else tuple(self.theta)  # type: ignore[arg-type]
        if len(thetas) != layers:
            raise ValueError(
                f"theta has {len(thetas)} entries for {layers} layers: give one per layer, or one "
                "for all."
            )
        return tuple(smoothness(theta) for theta in thetas)

    def _train(self, X: Array, watch: Watch) -> Trained:
        start, link, sizes = layer_start(self.start, self.fill), self._link(), self._sizes()
        weights: list[Array] = []
        H: Array = X
        for layer, (size, theta) in enumerate(zip(sizes, self._thetas(len(sizes)), strict=True), 1):
            data = H
            if layer > 1:
                weights[-1], data = layer_input(link, weights[-1], H)
            problem = Smoothed(data, theta)
            ended = descend(
                problem, problem.begin(*start.factors(data, size, watch.generators)), self.tol,
                self.max_iter, watch, layer=layer,
                stage_name="finetune" if layer == len(sizes) else "pretrain",
            )  # fmt: skip
            weights.append(ended.factors.weights[0])
            H = ended.factors.H
        return Trained(tuple(weights), H, watch.history, ended.sweeps, ended.reasons)

    def _encode(self, X: Array, weights: Sequence[Array]) -> Array:
        bases, link = self._decoder(weights)
        H = X
        for below, V in enumerate(bases):
            H = nonnegative_least_squares(link.project(H) if below else X, V, Zero())
        return H

    def _decoder(self, weights: Sequence[Array]) -> tuple[Sequence[Array], Link]:
        thetas = self._thetas(len(self._sizes()))
        bases = [smooth(W, theta) for W, theta in zip(weights, thetas, strict=False)]
        return bases, self._link()
