"""Learning from a stream of batches, each seen once.

The weights need only sums over all samples so far, in which the past fades:

    S ← ρ S + H Hᵀ,    Q ← ρ Q + X Hᵀ,    n ← ρ n + (samples of the batch),

where H are the codes of the batch for the current weights. Linear models update all weights from
these sums. Through a link, W_1 comes from the sums of H̃_1, and W_2 … W_L move towards their values
after a sweep over the batch, by the batch's share of n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from deepnmf.arrays import Array, gram, inner, spread, squared_norm
from deepnmf.core.decode import first_codes, product
from deepnmf.core.extrapolation import Extrapolated
from deepnmf.core.layer_codes import unit_weights
from deepnmf.core.layer_factors import LayerSums, canonical
from deepnmf.core.linear import Factors, LinearStage, fit_of_sums
from deepnmf.core.nonlinear import NonlinearFactors, NonlinearStage
from deepnmf.core.passes import Sums, add_up
from deepnmf.core.plan import Plan
from deepnmf.core.training import train
from deepnmf.core.watch import Record
from deepnmf.solvers.quadratic import weights_problem
from deepnmf.starts import Generators


@dataclass(frozen=True)
class Stream:
    """What is kept of the batches so far."""

    weights: tuple[Array, ...]
    sums: Sums | LayerSums | None = None
    """For the codes of the last layer; through a link, of the first; with a loss on every layer, of
    all."""
    samples: float = 0.0
    """n."""
    batches: int = 0
    importance: tuple[float, ...] | None = None
    """With a loss on every layer, what each counts."""


def begin(X: Array, plan: Plan, generators: Generators) -> Stream:
    """The weights after pre-training and one sweep over the first batch."""
    run = train(X, replace(plan, max_iter=1), generators).only()
    return Stream(run.weights, importance=run.importance)


def absorb(X: Array, plan: Plan, stream: Stream, forget: float) -> tuple[Stream, Record, float]:
    """The stream after another batch X (m, n), a record of how well the weights before it fit the
    batch, and ‖X − X̂‖² of that."""
    X = spread(X)
    if plan.layered:
        return _absorb_layers(X, plan, stream, forget)
    H = plan.encode(X, stream.weights)
    first = H if plan.link.linear else first_codes(stream.weights, plan.link, H)
    basis = product(stream.weights) if plan.link.linear else stream.weights[0]
    record = _record(X, plan, stream, H, basis, add_up(X, first))
    stage = plan.full_stage(X)
    stage = stage.stage if isinstance(stage, Extrapolated) else stage
    samples = forget * stream.samples + X.shape[-1]
    if isinstance(stage, LinearStage):
        sums = _faded(_simple(stream), add_up(X, H), forget)
        nothing, memories = inner(H, 0 * H), (None,) * (len(stream.weights) + 1)
        factors = Factors(stream.weights, H, sums, memories, nothing)
        weights = stage.update_weights(factors, nothing).weights
    else:
        assert isinstance(stage, NonlinearStage)
        weights, sums = _through(stage, stream, H, X.shape[-1] / samples, forget)
    error = 2 * (record["objective"] - record["penalty"])
    return Stream(weights, sums, samples, stream.batches + 1), record, error


def _absorb_layers(
    X: Array, plan: Plan, stream: Stream, forget: float
) -> tuple[Stream, Record, float]:
    """With a loss on every layer, all weights come from the sums of all layers."""
    stage = plan.layered_stage(X)
    assert stream.importance is not None
    unit, _ = unit_weights(stream.weights, plan.link)
    importance = [a + 0 * unit[0][..., :1, :1] for a in stream.importance]
    past = stream.sums if isinstance(stream.sums, LayerSums) else None
    learned = stage.learned(unit, importance, past, forget)
    samples = forget * stream.samples + X.shape[-1]
    weights, _ = canonical(learned.weights, learned.sums, samples, plan.link)
    following = Stream(weights, learned.sums, samples, stream.batches + 1, stream.importance)
    record = _as_record(stream, learned.objective, learned.penalty, X.shape[-1])
    return following, record, float(learned.error)


def _through(
    stage: NonlinearStage, stream: Stream, H: Array, share: float, forget: float
) -> tuple[tuple[Array, ...], Sums]:
    nothing, memories = inner(H, 0 * H), (None,) * (len(stream.weights) + 1)
    swept = stage.sweep(NonlinearFactors(stream.weights, H, nothing, memories, nothing))
    W1, *above = stream.weights
    moved = [
        (1 - share) * W + share * W_batch
        for W, W_batch in zip(above, swept.weights[1:], strict=True)
    ]
    first = first_codes((W1, *moved), stage.link, swept.H)
    sums = _faded(_simple(stream), add_up(stage.X, first), forget)
    problem = weights_problem(None, sums.S, sums.Q, stage.penalties_W[0])
    return (stage.solver.update(problem, W1).F, *moved), sums


def _simple(stream: Stream) -> Sums | None:
    """The sums of a stream with an end-to-end loss."""
    return stream.sums if isinstance(stream.sums, Sums) else None


def _faded(past: Sums | None, now: Sums, forget: float) -> Sums:
    if past is None:
        return now
    return Sums(forget * past.S + now.S, forget * past.Q + now.Q)


def _record(X: Array, plan: Plan, stream: Stream, H: Array, basis: Array, sums: Sums) -> Record:
    fit = fit_of_sums(squared_norm(X) / 2, basis, gram(basis), *sums)
    penalty: Any = plan.penalties_H[-1].value(H)
    for R, W in zip(plan.penalties_W, stream.weights, strict=True):
        penalty = penalty + R.value(W)
    return _as_record(stream, fit + penalty, penalty, X.shape[-1])


def _as_record(stream: Stream, objective: Any, penalty: Any, samples: int) -> Record:
    return {
        "stage": "partial", "layer": None, "sweep": stream.batches + 1,
        "objective": float(objective), "penalty": float(penalty), "samples": samples,
    }  # fmt: skip
