"""A model and how to fit it, and the problems that its training solves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deepnmf.arrays import Array
from deepnmf.core.encoding import encode
from deepnmf.core.extrapolation import Extrapolated
from deepnmf.core.linear import LinearStage
from deepnmf.core.nonlinear import NonlinearStage
from deepnmf.core.scaling import Scaling
from deepnmf.core.stage import Stage
from deepnmf.links import Identity, Link
from deepnmf.penalties import Penalty
from deepnmf.solvers import Auto, Solver
from deepnmf.starts import Given, Nnsvd, Start


@dataclass(frozen=True)
class Plan:
    """A model and how to fit it. Every choice is an object; there is one penalty per layer."""

    sizes: tuple[int, ...]
    penalties_W: tuple[Penalty, ...]
    penalties_H: tuple[Penalty, ...]
    link: Link = Identity()
    fixed_scale: bool = False
    start: Start | Given = Nnsvd()
    solver: Solver = Auto()
    max_iter: int = 200
    pretrain_iter: int = 100
    tol: float = 1e-4

    def layer_stage(self, X: Array, layer: int) -> Stage | Extrapolated:
        """The problem of pre-training one layer (0 … L − 1) on its input X."""
        return self._linear(X, slice(layer, layer + 1), codes_first=True)

    def full_stage(self, X: Array) -> Stage | Extrapolated:
        """The problem of fine-tuning all layers on X; with one layer, of training it."""
        if self.link.linear or len(self.sizes) == 1:
            return self._linear(X, slice(None), codes_first=len(self.sizes) == 1)
        scaling = self._scaling(slice(None), self.link.degree)
        penalty_H = self.penalties_H[-1]
        stage = NonlinearStage(X, self.penalties_W, penalty_H, scaling, self.solver, self.link)
        return Extrapolated(stage) if self.solver.extrapolates(X, linear=False) else stage

    def encode(self, X: Array, weights: Sequence[Array]) -> Array:
        """The codes of X with the weights of layers 1 … l frozen."""
        return encode(X, weights, self.link, self.penalties_H[: len(weights)])

    def _linear(self, X: Array, layers: slice, codes_first: bool) -> LinearStage | Extrapolated:
        fresh = codes_first and not isinstance(self.start, Given)
        stage = LinearStage(
            X,
            self.penalties_W[layers],
            self.penalties_H[layers][-1],
            self._scaling(layers),
            self.solver,
            codes_first,
            rescaled=fresh and self.solver.rescales(X),
        )
        return Extrapolated(stage) if self.solver.extrapolates(X, linear=True) else stage

    def _scaling(self, layers: slice, degree: float | None = 1.0) -> Scaling:
        penalties_W, penalty_H = self.penalties_W[layers], self.penalties_H[layers][-1]
        if self.fixed_scale:
            return Scaling.fixed(penalties_W, penalty_H, degree)
        return Scaling.paper(len(penalties_W))
