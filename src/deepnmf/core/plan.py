"""A model and how to fit it, and the problems that its training solves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepnmf.arrays import Array, Recipe, spread
from deepnmf.core.encoding import encode
from deepnmf.core.extrapolation import Extrapolated
from deepnmf.core.graph import GraphSource, Pull
from deepnmf.core.layer_codes import encode_layers
from deepnmf.core.layer_factors import LayeredFactors
from deepnmf.core.layered import LayeredStage
from deepnmf.core.linear import LinearStage
from deepnmf.core.nonlinear import NonlinearStage
from deepnmf.core.scaling import Scaling
from deepnmf.core.stage import Stage
from deepnmf.core.strengths import mean_square, relative
from deepnmf.links import Identity, Link
from deepnmf.penalties import Penalty
from deepnmf.solvers import Auto, Solver
from deepnmf.starts import Given, Nnsvd, Start

ROUGH = 1e-3
"""The tolerance of pre-training before a loss on every layer."""


@dataclass(frozen=True)
class Plan:
    """A model and how to fit it. Every choice is an object; there is one penalty per layer."""

    sizes: tuple[int, ...]
    penalties_W: tuple[Penalty, ...]
    penalties_H: tuple[Penalty, ...]
    link: Link = Identity()
    fixed_scale: bool = False
    layer_weights: tuple[float, ...] | None = None
    """α_1 … α_L of a loss on every layer; None for the end-to-end loss."""
    decoding: float = 0.0
    """What the relative error of X̂ counts beside a loss on every layer; 0 behind a link."""
    graph: GraphSource | None = None
    """Which samples are to have similar codes in the last layer."""
    start: Start | Given = Nnsvd()
    solver: Solver = Auto()
    max_iter: int = 200
    pretrain_iter: int = 100
    tol: float = 1e-4

    def layer_stage(self, X: Array, layer: int) -> Stage | Extrapolated:
        """The problem of pre-training one layer (0 … L − 1) on its input X."""
        if self.fixed_scale:
            return self._layered(X, slice(layer, layer + 1), (1.0,))
        return self._linear(X, slice(layer, layer + 1), codes_first=True)

    def full_stage(self, X: Array) -> Stage | Extrapolated:
        """The problem of fine-tuning all layers on X; with one layer, of training it."""
        if self.layered:
            return self._layered(X, slice(None), self.layer_weights or (1.0,))
        plan = self.relative_to(X)
        if self.link.linear or len(self.sizes) == 1:
            return plan._linear(X, slice(None), codes_first=len(self.sizes) == 1)
        scaling = plan._scaling(slice(None), self.link.degree)
        penalty_H = plan.penalties_H[-1]
        stage = NonlinearStage(
            X, plan.penalties_W, penalty_H, scaling, self.solver, self.fixed_scale, self.link
        )
        return Extrapolated(stage) if self.solver.extrapolates(X, linear=False) else stage

    @property
    def layered(self) -> bool:
        """Whether there is a loss on every layer. With one layer and fixed scales there is no
        other."""
        return self.layer_weights is not None or (self.fixed_scale and len(self.sizes) == 1)

    @property
    def pretrain_tol(self) -> float:
        """When to stop the pre-training of a layer. With a loss on every layer it is only the
        first pass of one descent. Where it stops must not depend on `tol`, or the end would."""
        return self.tol if self.layer_weights is None else ROUGH

    def encode(
        self,
        X: Array,
        weights: Sequence[Array],
        square: Array | None = None,
        pull: Pull | None = None,
    ) -> Array:
        """The codes of X with the weights of layers 1 … l frozen, for the end-to-end loss.

        `square` is the mean square norm of the samples that the weights were learned from; None if
        these are X.
        """
        plan = self
        if self.fixed_scale and any(R.active for R in self.penalties_H):
            known = mean_square(X) if square is None else square
            plan = self._relative(known, X.shape[-1], weights[0])
        return encode(X, weights, self.link, plan.penalties_H[: len(weights)], pull)

    def relative_to(self, X: Array) -> Plan:
        """The plan for the end-to-end loss on X. With fixed scales, the strengths of penalties are
        relative to X."""
        return self._relative(mean_square(X), X.shape[-1], X) if self.fixed_scale else self

    def _relative(self, square: Array, samples: int, like: Array) -> Plan:
        """The plan with penalties relative to the data."""
        scaling = self._scaling(slice(None), self.link.degree)
        on_W, on_H = relative(self.penalties_W, self.penalties_H, scaling, square, samples, like)
        return replace(self, penalties_W=on_W, penalties_H=on_H)

    def encode_layers(
        self,
        X: Array,
        weights: Sequence[Array],
        importance: Sequence[Array],
        layer: int,
        pull: Pull | None = None,
    ) -> Array:
        """The codes of X at a layer (1 … L) with all weights frozen, for a loss on every layer."""
        return encode_layers(
            spread(X), weights, importance, self.link, self.penalties_W, self.penalties_H,
            self._decoding(len(importance)), layer, pull,
        )  # fmt: skip

    def layered_stage(self, X: Array) -> LayeredStage:
        """All layers on X, each with its loss."""
        return self._layered_stage(X, slice(None), self.layer_weights or (1.0,))

    def codes_again(self, X: Array, layer: int | None, factors: LayeredFactors) -> Recipe:
        """How to compute lost codes of a layer (1 … L), or of all layers, again."""
        layers = slice(None) if layer is None else slice(layer - 1, layer)
        return self._layered_stage(X, layers, [1.0] * len(factors.weights)).recipe(factors)

    def _layered(self, X: Array, layers: slice, layer_weights: Sequence[float]) -> Extrapolated:
        return Extrapolated(self._layered_stage(X, layers, layer_weights))

    def _layered_stage(
        self, X: Array, layers: slice, layer_weights: Sequence[float]
    ) -> LayeredStage:
        return LayeredStage.of(
            X, self.penalties_W[layers], self.penalties_H[layers], self.solver, self.link,
            layer_weights, self._decoding(len(layer_weights)),
            rescaled=not isinstance(self.start, Given),
        )  # fmt: skip

    def _decoding(self, layers: int) -> float:
        """What the error of X̂ counts: with one layer it is the loss of the layer."""
        return self.decoding if layers > 1 else 0.0

    def _linear(self, X: Array, layers: slice, codes_first: bool) -> LinearStage | Extrapolated:
        fresh = codes_first and not isinstance(self.start, Given)
        stage = LinearStage(
            X,
            self.penalties_W[layers],
            self.penalties_H[layers][-1],
            self._scaling(layers),
            self.solver,
            self.fixed_scale,
            codes_first,
            rescaled=fresh and self.solver.rescales(X),
        )
        return Extrapolated(stage) if self.solver.extrapolates(X, linear=True) else stage

    def _scaling(self, layers: slice, degree: float | None = 1.0) -> Scaling:
        penalties_W, penalty_H = self.penalties_W[layers], self.penalties_H[layers][-1]
        # Without penalties the scale is free; through other links it would wander.
        graph = self.graph is not None
        active = graph or any(R.active for R in (*penalties_W, penalty_H))
        free = degree is not None and not active
        if self.fixed_scale and not free:
            return Scaling.fixed(penalties_W, penalty_H.active or graph, degree)
        return Scaling.paper(len(penalties_W))
