"""`partial_fit`: a batch of samples at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from deepnmf.arrays import to_device
from deepnmf.core.online import Stream, absorb, begin
from deepnmf.core.training import Plan, basis_of
from deepnmf.models.advice import warn
from deepnmf.models.settings import number, plan_of
from deepnmf.samples.checks import check_data, to_compute, to_home
from deepnmf.samples.dask.chunks import is_dask
from deepnmf.samples.disk import is_by_blocks

if TYPE_CHECKING:
    from deepnmf.models.deep import DeepNMF


def learn_batch(model: DeepNMF, X: Any, forget: float) -> None:
    """Let a model learn from one more batch (n_samples, n_features), and set what it has fitted."""
    plan = plan_of(model)
    past = _checked(model, X, plan, forget)
    began = time.perf_counter()
    known = hasattr(model, "weights_")
    X = check_data(model, X, fitting=not known)
    data = to_compute(X, model.device).T
    stream = getattr(model, "_stream", None)
    if stream is None:
        model.history_ = []
        if known:
            stream = Stream(tuple(to_device(W, data) for W in model.weights_))
        else:
            if X.shape[0] < max(plan.sizes):
                warn(
                    f"partial_fit: the first batch has {X.shape[0]} samples for {max(plan.sizes)} "
                    "parts, which begin at random then. Give it more samples.",
                    UserWarning,
                )
            stream = begin(data, plan, [model._generator()])
    stream, record = absorb(data, plan, stream, past)
    record["seconds"] = time.perf_counter() - began
    model._stream = stream
    model.weights_ = [to_home(W, X) for W in stream.weights]
    model.code_scale_ = 1.0
    basis = to_home(basis_of(stream.weights, plan.link), X).T
    model.components_ = model.basis() if model.project_codes else basis
    model.history_.append(record)
    model.reconstruction_err_ = max(2 * (record["objective"] - record["penalty"]), 0.0) ** 0.5
    model.n_iter_ = stream.batches
    batches = "1 batch" if stream.batches == 1 else f"{stream.batches} batches"
    model.status_ = f"learned from {batches}: give the next one to partial_fit."


def _checked(model: DeepNMF, X: Any, plan: Plan, forget: float) -> float:
    """`forget` as a number; what cannot be learned by batches is refused."""
    past = number("forget", forget)
    if past > 1:
        raise ValueError(f"forget: {forget!r} must be between 0 and 1.")
    if plan.fixed_scale:
        raise ValueError(
            'partial_fit: scaling="fixed" is settled over all samples, which a stream does not '
            'have. Use scaling="paper", or fit with max_memory for data larger than memory.'
        )
    if model.project_codes and plan.link.rescales:
        raise ValueError(
            f"partial_fit: project_codes needs the scale of all codes for the link "
            f'{type(plan.link).__name__}. Use link="root", or project_codes=False.'
        )
    if is_dask(X) or is_by_blocks(X):
        raise ValueError(
            "partial_fit takes one batch in memory at a time. Call it for each block, or fit, "
            "which takes Dask arrays and lists of blocks."
        )
    return past
