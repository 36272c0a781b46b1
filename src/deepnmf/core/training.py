"""Training: pre-train layer by layer, fine-tune all layers, encode. One loop runs every stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from deepnmf.arrays import (
    Array,
    eye,
    gram,
    in_order,
    inner,
    is_blocked,
    namespace,
    precise_inner,
    spread,
    squared_norm,
    stack_shape,
    tensor_cores,
    to_device,
    to_double,
    transposed_product,
    wider,
)
from deepnmf.arrays.blocks import lazy, split, total
from deepnmf.arrays.cpu.threads import suited_to
from deepnmf.arrays.cuda.graphs import Recorded, is_small
from deepnmf.core.extrapolation import Extrapolated, Moving
from deepnmf.core.linear import LinearStage, product
from deepnmf.core.nonlinear import WIDTH, NonlinearStage, polish_codes
from deepnmf.core.passes import least_squares, nonnegative_least_squares
from deepnmf.core.scaling import Scaling
from deepnmf.core.stage import Descent, Stage
from deepnmf.core.watch import Keeper, Point, Record, Report, Watch
from deepnmf.links import Identity, Link
from deepnmf.penalties import Penalty
from deepnmf.solvers import Auto, Nesterov, Solver
from deepnmf.starts import Generators, Given, Nnsvd, Start


@dataclass(frozen=True)
class Plan:
    """A model and how to fit it, every choice resolved to an object. One penalty per layer."""

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

    def whole_stage(self, X: Array) -> Stage | Extrapolated:
        """The problem of fine-tuning all layers on X; with one layer, of training it."""
        if self.link.linear or len(self.sizes) == 1:
            return self._linear(X, slice(None), codes_first=len(self.sizes) == 1)
        scaling = self._scaling(slice(None), self.link.degree)
        penalty_H = self.penalties_H[-1]
        return NonlinearStage(X, self.penalties_W, penalty_H, scaling, self.solver, self.link)

    def _linear(self, X: Array, layers: slice, codes_first: bool) -> LinearStage | Extrapolated:
        scaling = self._scaling(layers)
        penalty_H = self.penalties_H[layers][-1]
        fresh = codes_first and not isinstance(self.start, Given)
        stage = LinearStage(
            X,
            self.penalties_W[layers],
            penalty_H,
            scaling,
            self.solver,
            codes_first,
            rescaled=fresh and self.solver.rescales(X),
        )
        return Extrapolated(stage) if self.solver.extrapolates(X) else stage

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
    sweeps: Any = 0
    """Sweeps of fine-tuning; of a stack, an array of them."""
    reason: Any = "limit"
    """A `Reason`; of a stack, an array of them."""

    def runs(self) -> Iterator[Trained]:
        """Every run of a stack, in order, with its own history."""
        changing = ("objective", "penalty", "kkt", "dead")
        values = [{name: np.asarray(record[name]) for name in changing} for record in self.history]
        for index in np.ndindex(self.sweeps.shape):
            history: list[Record] = []
            for record, found in zip(self.history, values, strict=True):
                if record["active"][index]:
                    own = {name: value[index].item() for name, value in found.items()}
                    history.append({name: own.get(name, record[name]) for name in record})
                    del history[-1]["active"]
            yield Trained(
                weights=tuple(W[index] for W in self.weights),
                H=self.H[index],
                history=history,
                sweeps=int(self.sweeps[index]),
                reason=str(self.reason[index]),
            )


def train(
    X: Array,
    plan: Plan,
    generators: Generators,
    report: Report | None = None,
    keeper: Keeper | None = None,
) -> Trained:
    """Fit a plan to X (…, m, n): the start, pre-training, fine-tuning."""
    with (
        tensor_cores(X, plan.solver.rounds),
        suited_to(2.0 * X.shape[-2] * X.shape[-1] * max(plan.sizes)),
    ):
        return _train(X, plan, Watch(report, keeper, generators))


def _train(X: Array, plan: Plan, watch: Watch) -> Trained:
    point = watch.go_on()
    if point is not None and is_blocked(X):
        _mend(point, X, plan)
    stage = plan.whole_stage(spread(X))
    # What a stage starts from is not kept here: it would stay in memory until the end.
    factors, sweeps, reason = descend(
        stage, _first_factors(stage, X, plan, watch, point), plan.tol, plan.max_iter, watch,
        stage_name="finetune", begun=None if point is None or point.layer is not None else point,
    )  # fmt: skip
    return Trained(factors.weights, factors.H, watch.history, sweeps, reason)


def _first_factors(stage: Any, X: Array, plan: Plan, watch: Watch, point: Point | None) -> Any:
    """What fine-tuning starts from, or goes on from."""
    if point is not None and point.layer is None:
        return point.factors
    weights, H = _begin(X, plan, watch, point)
    watch.weights, watch.data = (), None
    return stage.begin(weights, H)


def _begin(
    X: Array, plan: Plan, watch: Watch, point: Point | None
) -> tuple[tuple[Array, ...], Array]:
    """The weights and codes that fine-tuning starts from."""
    if isinstance(plan.start, Given):
        weights = tuple(to_device(W, X) for W in plan.start.weights)
        given = plan.start.codes
        H = encode(X, weights, plan) if given is None else to_device(given, X).mT
        if is_blocked(X) and not is_blocked(H):
            H = split(H, X.layout)
        return weights, H
    if len(plan.sizes) > 1:
        return pretrain(X, plan, plan.start, watch, point)
    W, H = plan.start.factors(X, plan.sizes[0], watch.generators)
    return (W,), H


def pretrain(
    X: Array, plan: Plan, start: Start, watch: Watch, point: Point | None = None
) -> tuple[tuple[Array, ...], Array]:
    """Layer by layer: g(H_{l-1}/R) ≈ W_l H_l from X ≈ W_1 H_1 up; R goes to the weights below."""
    weights = [] if point is None else list(point.weights)
    H = X
    for layer in range(len(weights), len(plan.sizes)):
        begun = point if point is not None and layer == len(point.weights) else None
        if begun is not None:
            data = X if begun.data is None else begun.data
        elif layer == 0:
            data = X
        else:
            R = plan.link.scale(H)
            weights[-1] = weights[-1] * R
            data = plan.link.project(H / R)
        del H
        stage = plan.layer_stage(spread(data), layer)
        watch.weights, watch.data = tuple(weights), data if layer else None
        factors, _, _ = descend(
            stage, _layer_factors(stage, start, data, plan.sizes[layer], watch, begun),
            plan.tol, plan.pretrain_iter, watch, stage_name="pretrain", layer=layer + 1,
            begun=begun,
        )  # fmt: skip
        weights.append(factors.weights[0])
        H = in_order(factors.H)
        del factors, stage, data
    return tuple(weights), H


def _layer_factors(
    stage: Any, start: Start, data: Array, size: int, watch: Watch, begun: Point | None
) -> Any:
    """What a layer starts from, or goes on from."""
    if begun is not None:
        return begun.factors
    W, H = start.factors(data, size, watch.generators)
    return stage.begin((W,), H)


def _mend(point: Point, X: Array, plan: Plan) -> None:
    """Say how the codes of a point are made from weights and X, should they be lost again."""
    data, penalties = X, plan.penalties_H
    if point.layer is not None:
        penalties = plan.penalties_H[point.layer - 1 : point.layer]
    if point.data is not None:
        data = point.data
        below = plan.penalties_H[: len(point.weights)]
        anew = lazy(_input_anew, X, point.weights, plan.link, below)
        X.layout.mend(data, anew.node)
    moving = isinstance(point.factors, Moving)
    for state in (point.factors.now, point.factors.before) if moving else (point.factors,):
        anew = lazy(encode_through, data, state.weights, plan.link, penalties)
        X.layout.mend(state.H, anew.node)


def _input_anew(X: Array, weights: Sequence[Array], link: Link, below: Sequence[Penalty]) -> Array:
    """g(H), the input of the next layer."""
    return link.project(encode_through(X, weights, link, below))


def descend(
    stage: Descent | Extrapolated,
    factors: Any,
    tol: float,
    max_iter: int,
    watch: Watch,
    stage_name: Literal["pretrain", "finetune"],
    layer: int | None = None,
    begun: Point | None = None,
) -> tuple[Any, Any, Any]:
    """Sweep until a sweep lowers the objective by less than `tol` times its value, or the relative
    error is below `tol` (an exact factorization, whose objective would fall for ever).

    In a stack each run stops by itself and is then left as it is; sweeps and reasons are arrays.
    Ctrl-C ends the stage with the factors of its last whole sweep.
    """
    stack = stack_shape(factors.H)
    sweeps, reasons = np.zeros(stack, int), np.full(stack, "limit", object)
    going = np.ones(stack, bool)
    if watch.stopped is not None:
        reasons[...] = watch.stopped
        return factors, _plain(sweeps), _plain(reasons)
    xp = namespace(factors.H)
    active = previous = None
    done = 0
    if begun is not None:
        done, previous = begun.sweep, begun.objective
        sweeps = sweeps + done
        if begun.reason is not None:
            return factors, done, begun.reason
    recorded = stage.recordable and is_small(factors)
    sweep_once = Recorded(stage.sweep) if recorded else stage.sweep
    try:
        for sweep in range(done + 1, max_iter + 1):
            swept = sweep_once(factors)
            swept_factors = swept if active is None else swept.kept(active, factors)
            objective, penalty = stage.objective(swept_factors)
            dead = stage.dead(swept_factors)
            numbers = (objective, penalty, xp.sqrt(swept.residual), xp.astype(dead, xp.float64))
            # From a card all at once: it need not wait for every number.
            values = xp.stack([xp.asarray(number) for number in numbers]).tolist()
            record: Record = {"stage": stage_name, "layer": layer, "sweep": sweep}
            record |= dict(zip(("objective", "penalty", "kkt", "dead"), values, strict=True))
            record["dead"] = np.asarray(record["dead"], int).tolist()
            if not np.isfinite(record["objective"]).all():
                raise NotFiniteError(sweep, factors.H.dtype)
            if stack:
                record["active"] = going
            factors, before, previous = swept_factors, previous, objective
            sweeps, done = np.where(going, sweep, sweeps), sweep
            watch.note(record, factors.weights)
            if watch.stopped is not None:
                reasons[...] = watch.stopped
                break
            if tol > 0 and before is not None:
                falling = before - objective >= tol * objective
                active = falling & (objective > stage.negligible(tol)) & to_device(going, falling)
                going = np.asarray(active.tolist())
                reasons = np.where(going, "limit", "converged")
                if not going.any():
                    break
                if not stack:
                    active = None
            watch.keep(layer, factors, sweep, objective)
    except KeyboardInterrupt:
        watch.stopped = "interrupted"
        reasons[...] = watch.stopped
    if watch.stopped is not None and done:
        watch.keep(layer, factors, done, previous, at_once=True)
    elif watch.stopped is None and stage_name == "finetune" and not stack:
        watch.keep(layer, factors, done, previous, _plain(reasons), at_once=True)
    return factors, _plain(sweeps), _plain(reasons)


class NotFiniteError(ValueError):
    """An objective that is no number any more."""

    def __init__(self, sweep: int, dtype: Any) -> None:
        precision = f"{dtype}".removeprefix("torch.")
        super().__init__(
            f"the objective is no finite number after sweep {sweep}: entries of X, of the start or "
            f"of the penalties are too large or too small for products in {precision}. Divide X by "
            "its maximum" + ("." if precision == "float64" else ", or use float64.")
        )


def _plain(values: Any) -> Any:
    """The value itself where there is no stack."""
    return values if values.ndim else values.item()


def encode(X: Array, weights: Sequence[Array], plan: Plan, layer: int | None = None) -> Array:
    """The codes of X at a layer (1 … L, None: L) with the weights frozen. Linear models:

        argmin_{H ≥ 0} ½‖X − Ψ_l H‖² + R_l(H),    Ψ_l = W_1 … W_l,

    solved to the end. Through a link: H_1 from W_1, H_2 from g(H_1), …, then the H_l step of
    fine-tuning. Every sample by itself: the block it comes in does not matter.
    """
    layer = len(weights) if layer is None else layer
    return encode_through(spread(X), weights[:layer], plan.link, plan.penalties_H[:layer])


def encode_through(
    X: Array, weights: Sequence[Array], link: Link, penalties: Sequence[Penalty]
) -> Array:
    """The codes of X for weights and penalties of layers 1 … l and the link between them."""
    if is_blocked(X):
        codes = lazy(encode_through, X, tuple(weights), link, tuple(penalties))
        return codes.stored(codes.node)
    if link.linear or len(weights) == 1:
        return nonnegative_least_squares(X, product(weights), penalties[-1])
    samples = X.shape[-1]
    X = wider(X, -(-samples // WIDTH) * WIDTH)
    H = X
    for below, (W, R) in enumerate(zip(weights, penalties, strict=True)):
        data = link.project(H) if below else X
        H = least_squares(data, W, R, Nesterov(max_steps=30))
    return polish_codes(link, weights, X, H, penalties[-1])[..., :samples]


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
    if is_blocked(X):
        return total(squared_error, X, weights, link, H)
    if link.linear:
        weights = [product(weights)]
    X = spread(X)
    first = first_codes(weights, link, H)
    cross = precise_inner(transposed_product(weights[0], X), first)
    size = inner(to_double(gram(weights[0])), to_double(first @ first.mT))
    error = squared_norm(X) - 2 * cross + size
    return namespace(error).maximum(error, 0 * error)
