"""Samples on a Dask cluster: blocks stay on their workers, and only small sums travel."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from deepnmf.arrays import Array
from deepnmf.arrays.blocks import Applied, Blocked, Layout, Leaf
from deepnmf.samples.checks import check_entries
from deepnmf.samples.dask.layout import DaskLayout
from deepnmf.samples.dask.workers import Data, as_block


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, without importing Dask."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def on_cluster(X: Any, whom: str, features: int | None) -> Blocked:
    """A Dask array (n_samples, n_features) as a blocked array (m, n), checked."""
    n, m = _sizes(X, whom)
    if features is not None and m != features:
        raise ValueError(
            f"X has {m} features, but {whom} is expecting {features} features as input."
        )
    if features is None and n < 2:
        raise ValueError(f"Found array with {n} sample(s); {whom} needs at least 2.")
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(float)
    widths = tuple(int(width) for width in X.chunks[0])
    client = _client()
    array: Blocked
    if client is None:
        array = Blocked(Leaf(Chunks(X, dtype)), Layout(widths), m, dtype)
    else:
        from distributed import wait

        chunks = list(X.to_delayed().ravel())
        futures = _loaded(client, chunks)
        wait(futures)  # type: ignore[no-untyped-call]
        nowhere = dict.fromkeys(range(len(widths)), "")
        layout = DaskLayout(widths, client=client, chunks=chunks, data=futures, homes=nowhere)
        array = Blocked(Data(dtype), layout, m, dtype)
    check = Applied(_problem, (array.node,), {"whom": whom})
    [found] = array.layout.sweep(gather=[check]).gathered
    for number, (start, problem) in enumerate(zip(array.layout.starts(), found, strict=True)):
        if problem is not None:
            end = start + widths[number] - 1
            raise ValueError(
                f"chunk {number} (samples {start} to {end}; rows count from {start}): {problem}"
            )
    return array


def _loaded(client: Any, chunks: list[Any]) -> list[Any]:
    """A future for every chunk, as many on every thread of the cluster: there they stay."""
    places = [
        worker for worker, threads in sorted(client.nthreads().items()) for _ in range(threads)
    ]
    if not places:
        return list(client.compute(chunks))
    return [
        client.compute(
            chunk, workers=[places[index * len(places) // len(chunks)]], allow_other_workers=True
        )
        for index, chunk in enumerate(chunks)
    ]


def transformed(model: Any, X: Any, layer: int) -> Any:
    """The codes of a Dask array, a Dask array with the same chunks of samples."""
    _, m = _sizes(X, type(model).__name__)
    if m != model.n_features_in_:
        raise ValueError(
            f"X has {m} features, but {type(model).__name__} is expecting {model.n_features_in_} "
            "features as input."
        )
    size = int(model.weights_[layer - 1].shape[-1])
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(float)
    return X.map_blocks(
        model.transform, layer=layer, dtype=dtype, chunks=(X.chunks[0], (size,)),
        meta=np.empty((0, 0), dtype),
    )  # fmt: skip


def _sizes(X: Any, whom: str) -> tuple[int, int]:
    if X.ndim != 2:
        raise ValueError(f"Expected 2D input, got a Dask array with {X.ndim} dimensions.")
    if any(np.isnan(size) for size in (*X.chunks[0], *X.chunks[1])):
        raise ValueError(
            "the Dask array does not know the sizes of its chunks: call X.compute_chunk_sizes() "
            f"before {whom}."
        )
    if len(X.chunks[1]) != 1:
        raise ValueError(
            f"the Dask array is split over features, into {len(X.chunks[1])} chunks; {whom} needs "
            'chunks of whole samples: X.rechunk({0: "auto", 1: -1}).'
        )
    return int(X.shape[0]), int(X.shape[1])


def _problem(X: Array, whom: str) -> str | None:
    """What is wrong with the entries of a block."""
    try:
        check_entries(X.T, whom)
    except ValueError as problem:
        return str(problem)
    return None


def _client() -> Any:
    """The client of the current cluster, None where there is none."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


class Chunks:
    """Blocks of a Dask array without a cluster: read, or worked out, by threads at every pass."""

    def __init__(self, X: Any, dtype: Any) -> None:
        self.X, self.dtype = X, dtype

    def __getitem__(self, index: int) -> Array:
        return as_block(self.X.blocks[index].compute(scheduler="threads"), self.dtype)
