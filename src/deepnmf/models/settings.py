"""From the parameters of a model to its plan: names become objects here, and nowhere else.

Settings that cannot work are refused before the first iteration; messages say what to do instead.
"""

from __future__ import annotations

import difflib
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from deepnmf.arrays import Array
from deepnmf.arrays.tensors import to_numpy
from deepnmf.core.plan import Plan
from deepnmf.files.checkpoint import checkpoint_of
from deepnmf.links import LINKS, Link
from deepnmf.models.neighborhood import GraphOf
from deepnmf.penalties import PENALTIES, Penalty, TopLayer, Zero, contradiction
from deepnmf.samples.budget import memory
from deepnmf.samples.place import DEVICES
from deepnmf.solvers import SOLVERS, Solver
from deepnmf.starts import STARTS, Given, Nnsvd, Start
from deepnmf.terminal.text import one_line

if TYPE_CHECKING:
    from deepnmf.models.deep import DeepNMF

MOST = 10**9
"""The most parts, and the most sweeps. More could only be a slip."""
AUTO = "auto"
"""The layer sizes of a model that chooses them when it is fitted."""
NOT_CHOSEN = (2, 1)
"""Stands for layer sizes that are not chosen yet, so that the other settings can be checked."""
SCALINGS = ("paper", "fixed")
OBJECTIVES = ("end_to_end", "layers")
GRAPHS = ("codes", "data")

T = TypeVar("T")


def plan_of(model: DeepNMF) -> Plan:
    """The plan that a model's parameters describe."""
    sizes = _sizes_of(model)
    penalties_W = penalties("penalty_W", model.penalty_W, len(sizes))
    penalties_H = penalties("penalty_H", model.penalty_H, len(sizes))
    one_of("scaling", model.scaling, SCALINGS)
    if model.device is not None:
        one_of("device", model.device, DEVICES)
    memory(model.max_memory)
    checkpoint_of(model.checkpoint)
    fixed, link = model.scaling == "fixed", link_of(model.link)
    objective = model.objective
    if objective is None:
        objective = "layers" if fixed and link.degree is not None else "end_to_end"
    one_of("objective", objective, OBJECTIVES)
    if objective == "layers" and link.degree is None and len(sizes) > 1:
        raise ValueError(
            'objective="layers" works with links that are powers, as "identity" and "root" are: '
            f"through {type(link).__name__}, codes cannot take the scale of parts. Use "
            'objective="end_to_end".'
        )
    layered = fixed and (objective == "layers" or len(sizes) == 1)
    if layered:
        _check_countable(penalties_W)
    elif fixed:
        _check_fixable(penalties_W, penalties_H[-1])
    elif objective == "layers":
        raise ValueError(
            'objective="layers" needs scaling="fixed": with free scales, a layer could make its '
            'loss small by making its codes small. For the paper\'s objective, use "end_to_end".'
        )
    weights = layer_weights(model.layer_weights, len(sizes))
    decoding = number("decoding_weight", model.decoding_weight)
    return Plan(
        sizes=sizes,
        penalties_W=penalties_W,
        penalties_H=penalties_H,
        link=link,
        fixed_scale=fixed,
        layer_weights=weights if layered else None,
        decoding=decoding if layered and link.linear else 0.0,
        start=_relative_start(start_of(model.start, model.fill), fixed),
        solver=choice("solver", model.solver, SOLVERS, Solver),
        max_iter=whole_number("max_iter", model.max_iter, least=0, most=MOST),
        pretrain_iter=whole_number("pretrain_iter", model.pretrain_iter, least=0, most=MOST),
        tol=number("tol", model.tol),
        graph=_graph_of(model, penalties_W[-1], penalties_H[-1], layered),
    )


def _graph_of(
    model: DeepNMF, penalty_W: Penalty, penalty_H: Penalty, layered: bool
) -> GraphOf | None:
    """Where the graph of a fit comes from; None without a graph."""
    neighbors = whole_number("neighbors", model.neighbors, least=1, most=MOST)
    strength = number("graph_strength", model.graph_strength)
    graph = model.graph
    if graph is None or strength == 0:
        return None
    if isinstance(graph, str):
        kind = one_of("graph", graph, GRAPHS, "a matrix (n_samples, n_samples)")
    else:
        kind = "given"
    if model.scaling != "fixed":
        raise ValueError(
            'graph: with scaling="paper" the codes can become small and the weights large, and the '
            'graph no longer counts. Use scaling="fixed".'
        )
    if link_of(model.link).degree is None:
        raise ValueError(
            f"graph: through {type(link_of(model.link)).__name__} codes can become small and the "
            "first weights large, and the graph no longer counts. Use a link that is a power, as "
            '"identity" and "root" are.'
        )
    if model.checkpoint is not None:
        raise ValueError(
            "checkpoint: a fit with a graph cannot be continued from a file. Leave out one of them."
        )
    if not layered and penalty_W.active and not penalty_H.active:
        raise ValueError(
            "graph: codes that are equal cost nothing, so they take the scale of the last W, and "
            'its penalty fades. Use objective="layers", penalise the codes as well (sdnmf_rl2), or '
            "leave out the penalty on W (dnmf)."
        )
    return GraphOf(kind, neighbors, strength, None if kind != "given" else graph)


def _sizes_of(model: DeepNMF) -> tuple[int, ...]:
    """(k_1, …, k_L), as given or as chosen."""
    if not chooses(model):
        return layer_sizes(model.layer_sizes)
    for name in ("penalty_W", "penalty_H", "layer_weights"):
        setting = getattr(model, name)
        if isinstance(setting, Iterable) and not isinstance(setting, str | bytes):
            raise ValueError(
                f'layer_sizes="auto": {name} has one entry per layer, and how many layers there '
                "will be is not known. Give one for all layers, or the sizes."
            )
    if isinstance(model.start, Given):
        raise ValueError(
            'layer_sizes="auto": the given start fixes the sizes of the layers. Give these, or '
            "another start."
        )
    choice = getattr(model, "choice_", None)
    return NOT_CHOSEN if choice is None else choice.layer_sizes


def chooses(model: DeepNMF) -> bool:
    """Whether a model chooses its layer sizes when it is fitted."""
    return isinstance(model.layer_sizes, str) and model.layer_sizes == AUTO


def layer_sizes(sizes: Any) -> tuple[int, ...]:
    """(k_1, …, k_L); a bare number is a single layer."""
    entries = (
        list(sizes)
        if isinstance(sizes, Iterable) and not isinstance(sizes, str | bytes)
        else [sizes]
    )
    if not entries:
        raise ValueError("layer_sizes is empty: give one size per layer, such as (64, 16).")
    return tuple(whole_number("layer_sizes", size, least=1, most=MOST) for size in entries)


def layer_weights(setting: Any, layers: int) -> tuple[float, ...]:
    """1, α_2, …, α_L from a number for all of them, or from one per layer above the first."""
    if not isinstance(setting, Iterable) or isinstance(setting, str | bytes):
        setting = [setting] * (layers - 1)
    entries = [number("layer_weights", entry) for entry in setting]
    if len(entries) != layers - 1:
        raise ValueError(
            f"layer_weights has {len(entries)} entries for {layers} layers: give a number, or one "
            "for each layer above the first."
        )
    if not all(entries):
        raise ValueError("layer_weights: must be above 0; without a loss a layer learns nothing.")
    return (1.0, *entries)


def penalties(name: str, setting: Any, layers: int) -> tuple[Penalty, ...]:
    """One penalty per layer from None, a penalty, `TopLayer`, or a sequence with one per layer."""
    if isinstance(setting, TopLayer):
        return (*(Zero(),) * (layers - 1), _penalty(name, setting.penalty))
    if setting is None or isinstance(setting, Penalty):
        return (_penalty(name, setting),) * layers
    if not isinstance(setting, Iterable) or isinstance(setting, str | bytes):
        raise ValueError(
            f"{name} must be None, a Penalty such as SquaredL1(1e-3), or one of these per layer, "
            f"got {one_line(repr(setting))}."
        )
    entries = tuple(_penalty(name, entry) for entry in setting)
    if len(entries) != layers:
        raise ValueError(
            f"{name} has {len(entries)} entries for {layers} layers: give one per layer, or a "
            "single one for all."
        )
    return entries


def _penalty(name: str, entry: Any) -> Penalty:
    if entry is None:
        return Zero()
    if not isinstance(entry, Penalty):
        shown = one_line(repr(entry))
        kinds = [kind.__name__ for kind in PENALTIES.values() if kind is not Zero]
        listed = " or ".join(f"{kind}({shown})" for kind in kinds)
        raise ValueError(
            f"{name}: {shown} is not a Penalty. Write {listed}, from deepnmf.penalties, or use a "
            "preset such as sdnmf_l(mu=…)."
        )
    return entry


def _check_fixable(penalties_W: tuple[Penalty, ...], penalty_H: Penalty) -> None:
    below = any(penalty.active for penalty in penalties_W[:-1])
    if below and not penalties_W[-1].active and not penalty_H.active:
        raise ValueError(
            'scaling="fixed": a layer below the last has a penalty on W, but neither the last W '
            "nor the codes have one, so the scale can escape to the codes. Penalise the last "
            'layer as well, or use scaling="paper".'
        )
    if penalties_W[-1].linear > 0 and not penalty_H.active:
        raise ValueError(
            'scaling="fixed": the last W has a linear penalty '
            f"({type(penalties_W[-1]).__name__}), and the codes have none. Their common scale is "
            "then fixed by the square of the penalty, which a linear one does not have. Use "
            'SquaredL1 for the last W, penalise the codes as well, or use scaling="paper".'
        )


def _check_countable(penalties_W: tuple[Penalty, ...]) -> None:
    for layer, penalty in enumerate(penalties_W, 1):
        if penalty.linear > 0:
            raise ValueError(
                f'penalty_W of layer {layer}: with scaling="fixed" parts are counted by their '
                f"energy, and {type(penalty).__name__} has a linear term. Use SquaredL1, or "
                'scaling="paper".'
            )


def start_of(start: Any, fill: Any) -> Start | Given:
    """The start, with the fill that "nnsvd" uses."""
    if isinstance(start, Start | Given):
        return start
    return STARTS[one_of("start", start, STARTS, "a Start or a Given")].with_fill(fill)


def _relative_start(start: Start | Given, fixed: bool) -> Start | Given:
    """With fixed scales, a fill that is relative to the data."""
    return replace(start, relative=True) if fixed and isinstance(start, Nnsvd) else start


def check_penalties(plan: Plan, X: Array) -> None:
    """Refuse penalties that break their own laws on the factors of X (…, m, n)."""
    rows_W = (X.shape[-2], *plan.sizes)
    for name, penalties_of, rows in (
        ("penalty_W", plan.penalties_W, rows_W),
        ("penalty_H", plan.penalties_H, plan.sizes),
    ):
        for layer, (penalty, size) in enumerate(zip(penalties_of, rows, strict=False), 1):
            problem = contradiction(penalty, size, X) if penalty.active else None
            if problem is not None:
                raise ValueError(f"{name} of layer {layer}: {problem}")


def check_given(plan: Plan, X: Array) -> None:
    """Refuse a given start that does not match the layer sizes and X (m, n)."""
    if not isinstance(plan.start, Given):
        return
    weights = [to_numpy(W) for W in plan.start.weights]
    needed = list(itertools.pairwise((X.shape[-2], *plan.sizes)))
    shapes = [W.shape for W in weights]
    if shapes != needed:
        raise ValueError(f"start: weights of shapes {shapes} given, {needed} needed.")
    codes = None if plan.start.codes is None else to_numpy(plan.start.codes)
    if codes is not None and codes.shape != (X.shape[-1], plan.sizes[-1]):
        raise ValueError(
            f"start: codes of shape {codes.shape} given, {(X.shape[-1], plan.sizes[-1])} needed: "
            "(n_samples, k_L)."
        )
    for name, array in [
        *((f"W_{layer}", W) for layer, W in enumerate(weights, 1)),
        *([] if codes is None else [("codes", codes)]),
    ]:
        if not bool(((array >= 0) & (array < float("inf"))).all()):
            raise ValueError(f"start: {name} has entries that are negative, NaN or infinite.")


def link_of(link: Any) -> Link:
    """A link, or the link of that name."""
    return choice("link", link, LINKS, Link)


def choice(name: str, setting: Any, table: Mapping[str, Callable[[], T]], kind: type[T]) -> T:
    """An object of that kind, or the one of that name in the table."""
    if isinstance(setting, kind):
        return setting
    return table[one_of(name, setting, table, f"a {kind.__name__}")]()


def one_of(name: str, setting: Any, choices: Iterable[str], other: str | None = None) -> str:
    """The setting, if it is one of the choices. The error lists them."""
    choices = list(choices)
    if isinstance(setting, str) and setting in choices:
        return setting
    listed = ", ".join(repr(choice) for choice in choices)
    near = difflib.get_close_matches(setting, choices, 1) if isinstance(setting, str) else []
    hint = f" Did you mean {near[0]!r}?" if near else ""
    tail = f", or {other}" if other else ""
    raise ValueError(f"{name} must be one of {listed}{tail}, got {one_line(repr(setting))}.{hint}")


def whole_number(name: str, setting: Any, least: int, most: int | None = None) -> int:
    """The setting as an int, if it is a whole number within these bounds."""
    try:
        if isinstance(setting, bool):
            raise TypeError
        value = operator.index(setting)
    except TypeError:
        raise ValueError(f"{name}: {one_line(repr(setting))} is not a whole number.") from None
    if value < least:
        raise ValueError(f"{name}: {value} is too small, it must be at least {least}.")
    if most is not None and value > most:
        raise ValueError(f"{name} is too large: give at most {most:,}.")
    return value


def number(name: str, setting: Any) -> float:
    """The setting as a float, if it is a finite number ≥ 0."""
    try:
        if isinstance(setting, bool | str):
            raise TypeError
        value = float(setting)
    except OverflowError:
        value = math.inf
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {one_line(repr(setting))} is not a number.") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name}: {one_line(repr(setting))} must be a finite number ≥ 0.")
    return value
