"""`partial_fit`: learn from one batch of samples at a time."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepnmf.arrays import to_device
from deepnmf.arrays.cpu.threads import one_blas_thread
from deepnmf.core.decode import basis_of
from deepnmf.core.finite import NotFiniteError, checked_later, finite
from deepnmf.core.history import History
from deepnmf.core.online import Stream, absorb, begin
from deepnmf.core.plan import Plan
from deepnmf.models.advice import warn
from deepnmf.models.settings import number, plan_of
from deepnmf.samples.base import Samples
from deepnmf.samples.open import open_samples

if TYPE_CHECKING:
    from deepnmf.models.deep import DeepNMF

ONE_BATCH = (
    "partial_fit takes one batch in memory at a time. Call it for each block, or fit, which takes "
    "Dask arrays and lists of blocks."
)


def learn_batch(model: DeepNMF, X: Any, forget: float) -> None:
    """Learn from one more batch (n_samples, n_features), and set the fitted attributes."""
    plan = plan_of(model)
    past = _weight_of_past(model, plan, forget)
    began = time.perf_counter()
    known = hasattr(model, "weights_")
    needs = replace(
        model._needs(fitting=not known), blocks=False, why_no_blocks=ONE_BATCH, max_memory=None
    )
    with open_samples(X, needs) as samples:
        stream = getattr(model, "_stream", None)
        log = History([*model.history_], model._stride) if stream is not None else History()
        with one_blas_thread(), checked_later():
            if stream is None:
                stream = _begun(model, plan, samples, known)
            stream, record, error = absorb(samples.data, plan, stream, past)
        for W in stream.weights:
            finite(W, "the weights")
        if not math.isfinite(record["objective"]):
            raise NotFiniteError("the objective is not a finite number", samples.data.dtype)
        record["seconds"] = time.perf_counter() - began
        _keep(model, plan, samples, stream)
    log.add(record)
    model.history_, model._stride = log.records, log.stride
    model.reconstruction_err_ = max(error, 0.0) ** 0.5


def _begun(model: DeepNMF, plan: Plan, samples: Samples, known: bool) -> Stream:
    """The stream before its first batch, with the weights of the model or of pre-training."""
    data = samples.data
    if known:
        weights = tuple(to_device(W, data) for W in model.weights_)
        return Stream(weights, importance=tuple(getattr(model, "loss_weights_", ())) or None)
    widest = max(plan.sizes)
    if data.shape[-1] < widest:
        warn(
            f"partial_fit: the first batch has {data.shape[-1]} samples for {widest} parts, so "
            "some parts start at random. Use a larger first batch.",
            UserWarning,
        )
    return begin(data, plan, [model._generator()])


def _keep(model: DeepNMF, plan: Plan, samples: Samples, stream: Stream) -> None:
    model.n_features_in_ = samples.features
    for name in ("support_", "edge_support_", "graph_"):  # of what learning began with
        model.__dict__.pop(name, None)
    if samples.feature_names is not None:
        model.feature_names_in_ = samples.feature_names
    model._stream = stream
    model.weights_ = [samples.home(W) for W in stream.weights]
    model.code_scale_ = 1.0
    if stream.importance is not None:
        model.loss_weights_ = list(stream.importance)
    basis = samples.home(basis_of(stream.weights, plan.link)).T
    model.components_ = model.basis() if model.project_codes else basis
    model.n_iter_ = stream.batches
    model.reason_ = "batches"
    batches = "1 batch" if stream.batches == 1 else f"{stream.batches} batches"
    model.status_ = f"learned from {batches}: give the next one to partial_fit."


def _weight_of_past(model: DeepNMF, plan: Plan, forget: float) -> float:
    """`forget` as a number. Refuses models that cannot learn from batches."""
    past = number("forget", forget)
    if past > 1:
        raise ValueError(f"forget: {forget!r} must be between 0 and 1.")
    if plan.fixed_scale and not plan.layered:
        raise ValueError(
            'partial_fit: scaling="fixed" with an end-to-end loss needs all samples, which a '
            'stream does not have. Use objective="layers", or scaling="paper", or fit with '
            "max_memory for data larger than memory."
        )
    if model.project_codes and plan.link.rescales:
        raise ValueError(
            f"partial_fit: project_codes needs the scale of all codes for the link "
            f'{type(plan.link).__name__}. Use link="root", or project_codes=False.'
        )
    return past
