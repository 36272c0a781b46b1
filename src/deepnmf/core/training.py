"""Training: pre-train layer by layer, fine-tune all layers, encode. One loop runs every stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deepnmf.core.arrays import (
    Array,
    epsilon,
    eye,
    gram,
    inner,
    namespace,
    squared_norm,
    stack_shape,
    to_device,
    to_double,
    transposed_product,
)
from deepnmf.core.linear import LinearStage, product
from deepnmf.core.links import Identity, Link
from deepnmf.core.nonlinear import NonlinearStage, polish_codes
from deepnmf.core.penalties import Penalty
from deepnmf.core.revival import count_dead
from deepnmf.core.scaling import Scaling
from deepnmf.core.solvers import Nesterov, Solver
from deepnmf.core.stage import Stage
from deepnmf.core.starts import Generators, Given, Nnsvd, Start, empty_codes
from deepnmf.core.subproblems import codes_problem

Record = dict[str, Any]
Report = Callable[[Record, Sequence[Array]], bool]
"""Gets a record and the weights (of the stage) after every sweep; True stops the fit, which keeps
what it has."""

Reason = Literal["converged", "limit", "callback"]


@dataclass(frozen=True)
class Plan:
    """A model and how to fit it, every choice resolved to an object. One penalty per layer."""

    sizes: tuple[int, ...]
    penalties_W: tuple[Penalty, ...]
    penalties_H: tuple[Penalty, ...]
    link: Link = Identity()
    fixed_scale: bool = False
    start: Start | Given = Nnsvd()
    solver: Solver = Nesterov()
    max_iter: int = 200
    pretrain_iter: int = 100
    tol: float = 1e-4

    def layer_stage(self, X: Array, layer: int) -> Stage:
        """The problem of pre-training one layer (0 … L − 1) on its input X."""
        return self._linear(X, slice(layer, layer + 1), codes_first=True)

    def whole_stage(self, X: Array) -> Stage:
        """The problem of fine-tuning all layers on X; with one layer, of training it."""
        if self.link.linear or len(self.sizes) == 1:
            return self._linear(X, slice(None), codes_first=len(self.sizes) == 1)
        scaling = self._scaling(slice(None), self.link.degree)
        penalty_H = self.penalties_H[-1]
        return NonlinearStage(X, self.penalties_W, penalty_H, scaling, self.solver, self.link)

    def _linear(self, X: Array, layers: slice, codes_first: bool) -> LinearStage:
        scaling = self._scaling(layers)
        penalty_H = self.penalties_H[layers][-1]
        return LinearStage(
            X, self.penalties_W[layers], penalty_H, scaling, self.solver, codes_first
        )

    def _scaling(self, layers: slice, degree: float | None = 1.0) -> Scaling:
        penalties_W, penalty_H = self.penalties_W[layers], self.penalties_H[layers][-1]
        if self.fixed_scale:
            return Scaling.fixed(penalties_W, penalty_H, degree)
        return Scaling.paper(len(penalties_W))


@dataclass
class Trained:
    """What training leaves behind."""

    weights: tuple[Array, ...]
    H: Array
    history: list[Record] = field(default_factory=list)
    sweeps: int = 0
    reason: Reason = "limit"


class _Watch:
    """Keeps the history of a fit and hears whether somebody wants it stopped."""

    def __init__(self, report: Report | None) -> None:
        self.report = report
        self.history: list[Record] = []
        self.began = time.perf_counter()
        self.stopped = False

    def note(self, record: Record, weights: Sequence[Array]) -> None:
        record["seconds"] = time.perf_counter() - self.began
        self.history.append(record)
        if self.report is not None and self.report(record, weights):
            self.stopped = True


def train(X: Array, plan: Plan, generators: Generators, report: Report | None = None) -> Trained:
    """Fit a plan to X (…, m, n): the start, pre-training, fine-tuning."""
    watch = _Watch(report)
    deep = len(plan.sizes) > 1
    if isinstance(plan.start, Given):
        weights = tuple(to_device(W, X) for W in plan.start.weights)
        given = plan.start.codes
        H = encode(X, weights, plan) if given is None else to_device(given, X).mT
    elif deep:
        weights, H = pretrain(X, plan, plan.start, generators, watch)
    else:
        W, H = plan.start.factors(X, plan.sizes[0], generators)
        weights = (W,)
    stage = plan.whole_stage(X)
    factors, sweeps, reason = descend(
        stage, stage.begin(weights, H), plan, plan.max_iter, watch, stage_name="finetune"
    )
    return Trained(factors.weights, factors.H, watch.history, sweeps, reason)


def pretrain(
    X: Array, plan: Plan, start: Start, generators: Generators, watch: _Watch
) -> tuple[tuple[Array, ...], Array]:
    """Layer by layer: g(H_{l-1}/R) ≈ W_l H_l from X ≈ W_1 H_1 up; R goes to the weights below."""
    weights: list[Array] = []
    H = X
    for layer, size in enumerate(plan.sizes):
        data = H
        if layer > 0:
            R = plan.link.scale(H)
            weights[-1] = weights[-1] * R
            data = plan.link.project(H / R)
        stage = plan.layer_stage(data, layer)
        W, H = start.factors(data, size, generators)
        factors, _, _ = descend(
            stage,
            stage.begin((W,), H),
            plan,
            plan.pretrain_iter,
            watch,
            stage_name="pretrain",
            layer=layer + 1,
        )
        weights.append(factors.weights[0])
        H = factors.H
    return tuple(weights), H


def descend(
    stage: Stage,
    factors: Any,
    plan: Plan,
    max_iter: int,
    watch: _Watch,
    stage_name: str,
    layer: int | None = None,
) -> tuple[Any, int, Reason]:
    """Sweep until a sweep lowers the objective by less than `tol` times its value, or the relative
    error is below `tol` (an exact factorization, whose objective would fall for ever).

    In a stack each run stops by itself and is then left as it is.
    """
    if watch.stopped:
        return factors, 0, "callback"
    xp, tol = namespace(factors.H), plan.tol
    active = previous = None
    for sweep in range(1, max_iter + 1):
        swept = stage.sweep(factors)
        factors = swept if active is None else swept.kept(active, factors)
        objective, penalty = stage.objective(factors)
        watch.note(
            {
                "stage": stage_name,
                "layer": layer,
                "sweep": sweep,
                "objective": objective.tolist(),
                "penalty": penalty.tolist(),
                "kkt": xp.sqrt(swept.residual).tolist(),
                "dead": count_dead(plan.link, factors.weights, factors.H).tolist(),
            },
            factors.weights,
        )
        if watch.stopped:
            return factors, sweep, "callback"
        if tol > 0 and previous is not None:
            going = (previous - objective >= tol * objective) & (objective > stage.negligible(tol))
            active = going if active is None else active & going
            if not bool(xp.any(active)):
                return factors, sweep, "converged"
            if not stack_shape(factors.H):
                active = None
        previous = objective
    return factors, max_iter, "limit"


def encode(X: Array, weights: Sequence[Array], plan: Plan, layer: int | None = None) -> Array:
    """The codes of X at a layer (1 … L, None: L) with the weights frozen. Linear models:

        argmin_{H ≥ 0} ½‖X − Ψ_l H‖² + R_l(H),    Ψ_l = W_1 … W_l,

    solved to the end. Through a link: H_1 from W_1, H_2 from g(H_1), …, then the H_l step of
    fine-tuning. Every sample by itself: the block it comes in does not matter.
    """
    layer = len(weights) if layer is None else layer
    weights, penalty = list(weights[:layer]), plan.penalties_H[layer - 1]
    if plan.link.linear or layer == 1:
        # Convex: run until rounding is in sight.
        to_the_end = Nesterov(max_steps=2000, tol=1e-7 if epsilon(weights[0]) < 1e-10 else 1e-5)
        return _least_squares(X, product(weights), penalty, to_the_end)
    H = X
    for below, (W, R) in enumerate(zip(weights, plan.penalties_H[:layer], strict=True)):
        data = plan.link.project(H) if below else X
        H = _least_squares(data, W, R, Nesterov(max_steps=100, tol=1e-3))
    return polish_codes(plan.link, weights, X, H, penalty)


def _least_squares(X: Array, basis: Array, penalty: Penalty, solver: Solver) -> Array:
    """argmin_{H ≥ 0} ½‖X − ΨH‖² + R(H), from H = 0."""
    problem = codes_problem(gram(basis), transposed_product(basis, X), penalty)
    return solver.update(problem, empty_codes(X, basis.shape[-1])).F


def decode(weights: Sequence[Array], link: Link, H: Array) -> Array:
    """What the codes H of the last of these layers decode to: W_1 φ(W_2 … φ(W_l H))."""
    return weights[0] @ first_codes(weights, link, H)


def first_codes(weights: Sequence[Array], link: Link, H: Array) -> Array:
    """H̃_1 = φ(W_2 … φ(W_l H)), the codes of layer 1 that H stands for."""
    for W in reversed(weights[1:]):
        H = link.decode(W @ H)
    return H


def basis_of(weights: Sequence[Array], link: Link) -> Array:
    """(…, m, k_l): what each unit code of the last of these layers decodes to."""
    if link.linear:
        return product(weights)
    return decode(weights, link, eye(weights[-1].shape[-1], weights[-1]))


def squared_error(X: Array, weights: Sequence[Array], link: Link, H: Array) -> Array:
    """‖X − X̂‖² per run, from products: ‖X‖² − 2⟨W_1ᵀX, H̃_1⟩ + ⟨W_1ᵀW_1, H̃_1H̃_1ᵀ⟩."""
    if link.linear:
        weights = [product(weights)]
    first = first_codes(weights, link, H)
    cross = inner(transposed_product(weights[0], X), first)
    size = inner(to_double(gram(weights[0])), to_double(first @ first.mT))
    error = squared_norm(X) - 2 * cross + size
    return namespace(error).maximum(error, 0 * error)
