"""Training: pre-train layer by layer, fine-tune all layers, encode. One loop runs every stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deepnmf.core.arrays import (
    Array,
    gram,
    inner,
    namespace,
    stack_shape,
    to_device,
    to_double,
    transposed_product,
)
from deepnmf.core.linear import Factors, LinearStage
from deepnmf.core.links import Identity, Link
from deepnmf.core.penalties import Penalty
from deepnmf.core.scaling import Scaling
from deepnmf.core.solvers import Nesterov, Solver
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

    def stage(self, X: Array, layers: slice, codes_first: bool) -> LinearStage:
        """The problem of training these layers on X."""
        penalties_W, penalty_H = self.penalties_W[layers], self.penalties_H[layers][-1]
        scaling = (
            Scaling.fixed(penalties_W, penalty_H)
            if self.fixed_scale
            else Scaling.paper(len(penalties_W))
        )
        return LinearStage(X, penalties_W, penalty_H, scaling, self.solver, codes_first)


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
    stage = plan.stage(X, slice(None), codes_first=not deep)
    factors, sweeps, reason = descend(
        stage, stage.begin(weights, H), plan.max_iter, plan.tol, watch, stage_name="finetune"
    )
    return Trained(factors.weights, factors.H, watch.history, sweeps, reason)


def pretrain(
    X: Array, plan: Plan, start: Start, generators: Generators, watch: _Watch
) -> tuple[tuple[Array, ...], Array]:
    """Layer by layer: H_{l-1} ≈ W_l H_l with H_0 = X, each passed through g to the next."""
    weights: list[Array] = []
    H = X
    for layer, size in enumerate(plan.sizes):
        data = H if layer == 0 else plan.link.project(H)
        stage = plan.stage(data, slice(layer, layer + 1), codes_first=True)
        W, H = start.factors(data, size, generators)
        factors, _, _ = descend(
            stage,
            stage.begin((W,), H),
            plan.pretrain_iter,
            plan.tol,
            watch,
            stage_name="pretrain",
            layer=layer + 1,
        )
        weights.append(factors.weights[0])
        H = factors.H
    return tuple(weights), H


def descend(
    stage: LinearStage,
    factors: Factors,
    max_iter: int,
    tol: float,
    watch: _Watch,
    stage_name: str,
    layer: int | None = None,
) -> tuple[Factors, int, Reason]:
    """Sweep until a sweep lowers the objective by less than `tol` times its value, or the relative
    error is below `tol` (an exact factorization, whose objective would fall for ever).

    In a stack each run stops by itself and is then left as it is.
    """
    if watch.stopped:
        return factors, 0, "callback"
    xp = namespace(factors.H)
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
    """The codes of X at a layer (1 … L, None: L), solved to the end with the weights frozen:

        argmin_{H ≥ 0} ½‖X − Ψ_l H‖² + R_l(H),    Ψ_l = W_1 … W_l.

    Every sample by itself, from H = 0: the block a sample comes in does not matter.
    """
    layer = len(weights) if layer is None else layer
    basis = decode_basis(weights, layer)
    problem = codes_problem(gram(basis), transposed_product(basis, X), plan.penalties_H[layer - 1])
    return to_the_end(basis).update(problem, empty_codes(X, basis.shape[-1])).F


def to_the_end(like: Array) -> Nesterov:
    """The solver of encoding: convex, so run until rounding is in sight."""
    double = bool(namespace(like).finfo(like.dtype).eps < 1e-10)
    return Nesterov(max_steps=2000, tol=1e-7 if double else 1e-5)


def decode_basis(weights: Sequence[Array], layer: int) -> Array:
    """Ψ_l = W_1 … W_l, (…, m, k_l)."""
    basis = weights[0]
    for W in weights[1:layer]:
        basis = basis @ W
    return basis


def squared_error(X: Array, basis: Array, H: Array, norm: Array) -> Array:
    """‖X − ΨH‖² per run, from products: ‖X‖² − 2⟨ΨᵀX, H⟩ + ⟨ΨᵀΨ, HHᵀ⟩."""
    cross = inner(transposed_product(basis, X), H)
    size = inner(to_double(gram(basis)), to_double(H @ H.mT))
    error = norm - 2 * cross + size
    return namespace(error).maximum(error, 0 * error)
