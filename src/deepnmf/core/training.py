"""Training: the start, pre-training layer by layer, then fine-tuning of all layers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from deepnmf.arrays import Array, Recipe, in_order, recompute_by, split_like, spread, to_device
from deepnmf.arrays.cpu.threads import one_blas_thread
from deepnmf.arrays.draws import Generators
from deepnmf.arrays.tensors import tensor_cores, to_numpy
from deepnmf.core.encoding import encode_block, layer_input
from deepnmf.core.extrapolation import Extrapolated, Moving
from deepnmf.core.graph import GraphSource, Neighborhood, normalised
from deepnmf.core.history import Record, sweeps_of
from deepnmf.core.layer_factors import LayeredFactors
from deepnmf.core.loop import descend
from deepnmf.core.plan import ROUGH, Plan
from deepnmf.core.scaling import balanced, grounded
from deepnmf.core.stage import Factorized, Stage
from deepnmf.core.watch import Listener, Point, Reason, Watch
from deepnmf.links import Link
from deepnmf.penalties import Penalty
from deepnmf.starts import Given, Start


@dataclass(frozen=True)
class Run:
    """One trained model."""

    weights: tuple[Array, ...]
    H: Array
    history: list[Record]
    sweeps: int
    """Sweeps of fine-tuning."""
    reason: Reason
    importance: tuple[float, ...] | None = None
    """With a loss on every layer, what each counts."""
    errors: tuple[float, ...] | None = None
    """With a loss on every layer, the relative error of each."""
    square: float | None = None
    """With fixed scales and an end-to-end loss, the mean square norm of the samples."""
    near: Neighborhood | None = None
    """With a graph, what is known about the samples."""

    @property
    def all_sweeps(self) -> int:
        """Sweeps of pre-training and fine-tuning."""
        return sweeps_of(self.history)


@dataclass(frozen=True)
class Trained:
    """The results of training, for all runs of a stack."""

    weights: tuple[Array, ...]
    H: Array
    history: list[Record] = field(default_factory=list)
    sweeps: np.ndarray = field(default_factory=lambda: np.zeros((), int))
    reasons: np.ndarray = field(default_factory=lambda: np.full((), "limit", object))
    extras: tuple[Array | None, ...] = (None, None, None)
    """`importance`, `errors` and `square` of all runs, as in `Result`."""
    near: Neighborhood | None = None
    """What is known about the samples, if there was a graph."""

    def only(self) -> Run:
        """The run, if there is no stack."""
        reason = cast("Reason", self.reasons.item())
        sweeps = int(self.sweeps)
        run = Run(self.weights, self.H, self.history, sweeps, reason, *self._extras(()))
        return replace(run, near=self.near)

    def _extras(self, index: tuple[int, ...]) -> list[Any]:
        """The extras of one run."""
        arrays = [None if values is None else to_numpy(values) for values in self.extras]
        found = [None if values is None else values[index].tolist() for values in arrays]
        return [tuple(value) if isinstance(value, list) else value for value in found]

    def runs(self) -> Iterator[Run]:
        """Every run of a stack, in order, with its own history."""
        changing = ("objective", "penalty", "kkt", "dead")
        values = [{name: np.asarray(record[name]) for name in changing} for record in self.history]
        nears = itertools.repeat(None) if self.near is None else self.near.runs()
        for index, near in zip(np.ndindex(self.sweeps.shape), nears, strict=False):
            history: list[Record] = []
            for record, numbers in zip(self.history, values, strict=True):
                if record["active"][index]:
                    own = {name: value[index].item() for name, value in numbers.items()}
                    history.append({name: own.get(name, record[name]) for name in record})
                    del history[-1]["active"]
            run = Run(
                tuple(W[index] for W in self.weights),
                self.H[index],
                history,
                int(self.sweeps[index]),
                cast("Reason", self.reasons[index]),
                *self._extras(index),
            )
            yield replace(run, near=near)


def train(
    X: Array, plan: Plan, generators: Generators, listener: Listener | None = None
) -> Trained:
    """Fit a plan to X (…, m, n), with a generator per run."""
    return train_watched(X, plan, Watch(listener, None, generators))


def train_watched(X: Array, plan: Plan, watch: Watch) -> Trained:
    """Fit a plan to X (…, m, n), or continue from the point that the keeper of the watch has."""
    with tensor_cores(X, plan.solver.rounds), one_blas_thread():
        try:
            return _train(X, plan, watch)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            if watch.keeper is None or not watch.continues:
                raise
            raise watch.keeper.refusal(problem) from problem


def _train(X: Array, plan: Plan, watch: Watch) -> Trained:
    point = watch.resume()
    if point is not None:
        _say_how_to_recompute(point, X, plan)
    stage = plan.full_stage(spread(X))
    if plan.graph is not None:
        return _train_on_graph(stage, X, plan, plan.graph, watch)
    begun = point if point is not None and point.layer is None else None
    # No name for the first factors here: it would keep them in memory.
    ended = descend(
        stage, _first_factors(stage, X, plan, watch, point), plan.tol, plan.max_iter, watch,
        stage_name="finetune", begun=begun,
    )  # fmt: skip
    weights, H, *extras = stage.result(ended.factors)
    return Trained(weights, H, watch.history, ended.sweeps, ended.reasons, tuple(extras))


def _train_on_graph(
    stage: Stage | Extrapolated, X: Array, plan: Plan, source: GraphSource, watch: Watch
) -> Trained:
    """Fine-tuning with a graph of the samples. One that is made of codes needs codes first, and is
    made again when these have changed. The objective does not rise until it is."""
    factors: Any = _first_factors(stage, X, plan, watch, None)
    done, left = 0, max(1, source.renewals)
    if source.renewals:
        limit = plan.max_iter // (left + 1)  # every graph gets its share of the sweeps
        rough = descend(stage, factors, ROUGH, limit, watch, stage_name="finetune")
        factors, done = rough.factors, int(np.max(rough.sweeps))
    alone = done
    for graphs in range(left, 0, -1):
        codes = stage.first_codes(factors) if source.renewals else factors.H
        S = normalised(source.of(X, codes))
        stage, factors = stage.on_graph(S, factors, source.strength)
        limit = done + (plan.max_iter - done) // graphs
        tol = plan.tol if graphs == 1 else max(plan.tol, ROUGH)
        ended = descend(stage, factors, tol, limit, watch, stage_name="finetune", done=done)
        factors, done = ended.factors, int(np.max(ended.sweeps))
    weights, H, *extras = stage.result(factors)
    if done == alone:  # no sweep has seen a graph, so codes do not know neighbours
        return Trained(weights, H, watch.history, ended.sweeps, ended.reasons, tuple(extras))
    near = Neighborhood(S, stage.graph_weight)
    return Trained(weights, H, watch.history, ended.sweeps, ended.reasons, tuple(extras), near)


def _first_factors(
    stage: Stage | Extrapolated, X: Array, plan: Plan, watch: Watch, point: Point | None
) -> Factorized:
    """The factors that fine-tuning starts from, or continues from."""
    if point is not None and point.layer is None:
        return point.factors
    weights, H = _begin(X, plan, watch, point)
    watch.weights, watch.data = (), None
    if plan.fixed_scale and not plan.layered:
        weights, H = grounded(weights, H, plan.link.degree)
    return stage.begin(weights, H)


def _begin(
    X: Array, plan: Plan, watch: Watch, point: Point | None
) -> tuple[tuple[Array, ...], Array]:
    """The weights and codes that fine-tuning starts from."""
    if isinstance(plan.start, Given):
        weights = tuple(to_device(W, X) for W in plan.start.weights)
        codes = plan.start.codes
        H = plan.encode(X, weights) if codes is None else to_device(codes, X).mT
        return weights, split_like(H, X)
    if len(plan.sizes) > 1:
        return pretrain(X, plan, plan.start, watch, point)
    W, H = plan.start.factors(X, plan.sizes[0], watch.generators)
    return (W,), H


def pretrain(
    X: Array, plan: Plan, start: Start, watch: Watch, point: Point | None = None
) -> tuple[tuple[Array, ...], Array]:
    """Layer by layer: g(H_{l-1}/R) ≈ W_l H_l, from X ≈ W_1 H_1 up. The weights below take R."""
    weights = [] if point is None else list(point.weights)
    H = X
    for layer in range(len(weights), len(plan.sizes)):
        begun = point if point is not None and layer == len(point.weights) else None
        if begun is not None:
            data = X if begun.data is None else begun.data
        elif layer == 0:
            data = X
        else:
            weights[-1], data = layer_input(
                plan.link, weights[-1], H, without_units=plan.fixed_scale
            )
        del H
        stage = plan.layer_stage(spread(data), layer)
        watch.weights, watch.data = tuple(weights), data if layer else None
        factors = descend(
            stage, _layer_factors(stage, start, data, plan.sizes[layer], watch, begun),
            plan.pretrain_tol, plan.pretrain_iter, watch, stage_name="pretrain", layer=layer + 1,
            begun=begun,
        ).factors  # fmt: skip
        (W,), H = factors.weights, in_order(factors.H)
        if not plan.fixed_scale:
            W, H = balanced(W, H)
        weights.append(W)
        del factors, stage, data, W
    return tuple(weights), H


def _layer_factors(
    stage: Stage | Extrapolated,
    start: Start,
    data: Array,
    size: int,
    watch: Watch,
    begun: Point | None,
) -> Factorized:
    """The factors that a layer starts from, or continues from."""
    if begun is not None:
        return begun.factors
    W, H = start.factors(data, size, watch.generators)
    return stage.begin((W,), H)


def _say_how_to_recompute(point: Point, X: Array, plan: Plan) -> None:
    """Give the codes of a point a recipe from X and the weights, in case blocks are lost."""
    data, penalties = X, plan.penalties_H
    if point.layer is not None:
        penalties = plan.penalties_H[point.layer - 1 : point.layer]
    if point.data is not None:
        data = point.data
        below = plan.penalties_H[: len(point.weights)]
        recompute_by(data, Recipe(_layer_input_again, (X, point.weights, plan.link, below)))
    factors = point.factors
    states = (factors.now, factors.before) if isinstance(factors, Moving) else (factors,)
    for state in states:
        if isinstance(state, LayeredFactors):
            recompute_by(state.codes, plan.codes_again(data, point.layer, state))
        else:
            recompute_by(state.H, Recipe(encode_block, (data, state.weights, plan.link, penalties)))


def _layer_input_again(
    X: Array, weights: Sequence[Array], link: Link, penalties: Sequence[Penalty]
) -> Array:
    """g(H), the input of the next layer."""
    return link.project(encode_block(X, weights, link, penalties))
