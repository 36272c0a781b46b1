"""Dask arrays. On a cluster, blocks stay on their workers, and only small sums travel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from deepnmf.arrays import Array
from deepnmf.arrays.blocks import Block, Blocked, Layout, Leaf, Source
from deepnmf.arrays.tensors import to_numpy
from deepnmf.samples.admission import admitted, float_type
from deepnmf.samples.base import Needs, Samples
from deepnmf.samples.budget import room_for_codes
from deepnmf.samples.checks import check_blocks, check_size
from deepnmf.samples.dask.layout import DaskLayout
from deepnmf.samples.dask.workers import Data
from deepnmf.samples.disk import as_block, to_rows
from deepnmf.samples.place import refuse_card


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, without importing Dask."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def opened(X: Any, needs: Needs) -> Samples | None:
    """A Dask array."""
    if not is_dask(X):
        return None
    if needs.why_no_blocks is not None:
        raise ValueError(needs.why_no_blocks)
    if needs.blocks:
        return DaskSamples(X, needs)
    from deepnmf.samples.memory import opened as in_memory

    return in_memory(admitted(X.compute(), needs.whom), needs)


class DaskSamples(Samples):
    """A Dask array (n, m). It is read and checked when `data` is first asked for."""

    def __init__(self, X: Any, needs: Needs) -> None:
        _check_chunks(X, needs.whom)
        check_size(X.shape, needs, "array")
        refuse_card(needs.device)
        self.X, self.needs = X, needs
        self.dtype = float_type(X.dtype, needs.whom)
        self.features = int(X.shape[1])

    @cached_property
    def data(self) -> Blocked:
        # Chunks without samples, as filters leave them, join their neighbours.
        widths = tuple(int(width) for width in self.X.chunks[0] if width)
        X = self.X.rechunk({0: widths})
        client = _client()
        if client is None:
            node: Source = Leaf(Chunks(X, self.dtype))
            layout = Layout(widths, room=room_for_codes(self.needs.max_memory))
        else:
            node, layout = Data(self.dtype), _on_cluster(X, widths, client)
        data = Blocked(node, layout, self.features, self.dtype)
        check_blocks(data, self.needs, "chunk")
        return data

    def home(self, array: Array) -> Array:
        return array

    def rows(self, H: Array) -> Array:
        return to_rows(H)

    def some(self, numbers: np.ndarray) -> Array:
        return as_block(self.X[numbers].compute(), self.dtype).T

    def encoded(self, encode: Callable[[Array], Array], size: int) -> Array:
        """The codes as a Dask array with the same chunks of samples; nothing is computed yet."""
        return self.X.map_blocks(
            partial(_encoded_chunk, needs=self.needs.without_model(), encode=encode, size=size),
            dtype=self.dtype, chunks=(self.X.chunks[0], (size,)),
            meta=np.empty((0, 0), self.dtype),
        )  # fmt: skip

    def close(self) -> None:
        if "data" in vars(self):
            self.data.layout.close()


def _encoded_chunk(
    rows: Any, needs: Needs, encode: Callable[[Array], Array], size: int
) -> np.ndarray:
    """The codes of one chunk, which is in memory now."""
    from deepnmf.samples.memory import opened as in_memory

    if rows.shape[0] == 0:
        return np.empty((0, size), float_type(rows.dtype, needs.whom))
    with in_memory(admitted(rows, needs.whom), needs) as samples:
        return to_numpy(samples.encoded(encode, size))


def _on_cluster(X: Any, widths: tuple[int, ...], client: Any) -> DaskLayout:
    """The chunks of X, loaded as blocks on the workers of a cluster."""
    from distributed import wait

    chunks = list(X.to_delayed().ravel())
    futures = _loaded(client, chunks)
    wait(futures)  # type: ignore[no-untyped-call]
    homes = dict.fromkeys(range(len(widths)), "")  # the first pass finds where the blocks are
    return DaskLayout(widths, client=client, chunks=chunks, data=futures, homes=homes)


def _loaded(client: Any, chunks: list[Any]) -> list[Any]:
    """One future per chunk. The chunks are spread evenly over the threads of the cluster."""
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


def _check_chunks(X: Any, whom: str) -> None:
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


def _client() -> Any:
    """The client of the current cluster, or None."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


class Chunks:
    """The blocks of a Dask array without a cluster, computed by threads in every pass."""

    def __init__(self, X: Any, dtype: np.dtype) -> None:
        self.X, self.dtype = X, dtype

    def __getitem__(self, index: int) -> Block:
        return as_block(self.X.blocks[index].compute(scheduler="threads"), self.dtype)
