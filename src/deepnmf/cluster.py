"""Samples on a Dask cluster: blocks stay on their workers, and only small sums travel.

A pass is one task per block, run where the block of X is. Codes are kept by the worker that made
them, under a name. A block that is lost with its worker is made again as it was (`replay`); where
that cannot be, from X and the weights. What is summed is added up on the workers, in a tree.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deepnmf.core.arrays import Array
from deepnmf.core.blocks import Applied, Blocked, Layout, Leaf, Node, Swept, ToStore
from deepnmf.inputs import check_entries
from deepnmf.replay import ClusterError, Log
from deepnmf.workers import (
    Data,
    Found,
    Held,
    Pass,
    Value,
    as_block,
    copied,
    forget,
    received,
    restored,
    together,
    work,
)

BRANCHES = 8
"""Partial sums that are added up at a time."""
ATTEMPTS = 5
"""Times that a pass is tried; between them workers may have come and gone."""
PATIENCE = 2
"""Seconds after which one looks whether the workers are still there."""


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


class WorkerLost(Exception):
    """A worker that had blocks is gone."""


@dataclass(frozen=True)
class DaskLayout(Layout):
    """Blocks on the workers of a cluster."""

    client: Any = None
    chunks: Sequence[Any] = ()
    """How every block of X comes about."""
    data: list[Any] = field(default_factory=list)
    """A future for every block of X."""
    dropped: list[str] = field(default_factory=list)
    """Names of what nobody needs any more."""
    homes: dict[int, str] = field(default_factory=dict)
    """The worker that has each block of X and holds its codes: a task goes there, nowhere else."""
    names: set[str] = field(default_factory=set)
    """Names under which workers may hold something."""
    live: set[str] = field(default_factory=set)
    """Those of them that somebody needs, and that all blocks have."""
    log: Log = field(default_factory=Log)

    def each(self, node: Node) -> Iterator[Any]:
        for index in range(len(self.widths)):
            yield self._tried(Pass([], [], [node], []), [index])[1][0][0]

    def put(self, blocks: Iterable[Array], rows: int, dtype: Any) -> Blocked:
        return Blocked(self.keep(blocks), self, rows, dtype)

    def keep(self, values: Iterable[Any]) -> Node:
        held = self._held(uuid.uuid4().hex, None)
        self.log.whole = False  # No pass makes these.
        for index, value in enumerate(values):
            given = Pass([(held.name, Value())], [], [], [])
            self._tried(given, [index], value)
        self.live.add(held.name)
        return held

    def close(self) -> None:
        # A cluster that is gone holds nothing.
        with contextlib.suppress(Exception):
            self.client.run(forget, sorted(self.names), on_error="ignore")

    def _held(self, name: str, recipe: Node | None) -> Held:
        """Something that workers hold for as long as it is needed here."""
        held = Held(name, recipe)
        self.names.add(name)
        weakref.finalize(held, self.dropped.append, name)
        return held

    def mend(self, array: Blocked, recipe: Node) -> None:
        if isinstance(array.node, Held):
            array.node.recipe = recipe

    def sweep(
        self,
        store: Sequence[ToStore] = (),
        sums: Sequence[Node] = (),
        collect: Sequence[Node] = (),
        gather: Sequence[Node] = (),
    ) -> Swept:
        names = [uuid.uuid4().hex for _ in (*store, *collect)]
        nodes = [*(one.node for one in store), *collect]
        drop = [self.dropped.pop() for _ in range(len(self.dropped))]
        self.live.difference_update(drop)
        self.log.gone.extend(drop)
        recipes = [*(one.recipe for one in store), *(None for _ in collect)]
        held = [self._held(name, recipe) for name, recipe in zip(names, recipes, strict=True)]
        task = Pass(list(zip(names, nodes, strict=True)), list(sums), list(gather), drop)
        added, gathered = self._tried(task)
        self.names.difference_update(drop)
        return Swept(
            [
                Blocked(node, self, one.rows, one.dtype)
                for node, one in zip(held, store, strict=False)
            ],
            added,
            list(held[len(store) :]),
            [list(row) for row in zip(*gathered, strict=True)] if gather else [],
        )

    def _tried(
        self, task: Pass, blocks: Sequence[int] | None = None, value: Any = None
    ) -> tuple[list[Any], list[list[Any]]]:
        """Sums, and by block what is gathered, of a pass over these blocks (all unless given)."""
        import cloudpickle  # type: ignore[import-untyped]  # comes with Dask
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        blocks = range(len(self.data)) if blocks is None else blocks
        written = cloudpickle.dumps(task)
        lost = (CancelledError, KilledWorker, CommClosedError, TimeoutError, WorkerLost)
        for attempt in range(ATTEMPTS):
            try:
                alive = self._restore()
                found = self._run(written, blocks, value)
                break
            except lost as problem:
                if attempt == ATTEMPTS - 1:
                    raise ClusterError(
                        f"the cluster lost workers {ATTEMPTS} times in one pass over the data "
                        f"({type(problem).__name__}). Look whether they have enough memory; with "
                        "checkpoint=… the next fit goes on from where this one was."
                    ) from problem
        if task.store and value is None:
            self.log.note(written)
            self.live.update(name for name, _ in task.store)
            if self.log.due(alive):
                self._copy()
        return found

    def _run(
        self, written: bytes, blocks: Sequence[int], value: Any
    ) -> tuple[list[Any], list[list[Any]]]:
        client = self.client
        # A task, not scattered data: what a dead worker had of it can be made again.
        shared = client.submit(pickle.loads, written, pure=False)
        if value is not None:
            [value] = client.scatter([value], hash=False)
        done = []
        for index in blocks:
            given = (shared, index, self.data[index], value)
            place = {"workers": [self.homes[index]]}
            done.append(client.submit(work, *given, pure=False, retries=2, **place))
        while len(done) > 1:
            done = [
                client.submit(together, done[low : low + BRANCHES], pure=False)
                for low in range(0, len(done), BRANCHES)
            ]
        found: Found = self._result(done[0], {self.homes[index] for index in blocks})
        pairs = zip(found.sums, found.dtypes, strict=True)
        sums = [np.asarray(value).astype(dtype) for value, dtype in pairs]
        return sums, [found.gathered[index] for index in blocks]

    def _restore(self) -> set[str]:
        """Give blocks whose workers are gone another place, and make what they held again there.
        Returns the workers that there are."""
        alive = set(self.client.nthreads())
        lost = [index for index, home in self.homes.items() if home not in alive]
        if not lost:
            return alive
        from dask.graph_manipulation import clone
        from distributed import futures_of, wait

        for index in lost:
            chunk = self.chunks[index]
            if self.data[index].status != "finished" and not futures_of(chunk):  # type: ignore[no-untyped-call]
                # Under other keys: a task that had a place waits for it if all workers are gone.
                self.data[index] = self.client.compute(clone(chunk))
        wait([self.data[index] for index in lost])  # type: ignore[no-untyped-call]
        places = self._places(lost)
        known = [index for index in lost if self.log.can_restore(index, alive)]
        [passes] = self.client.scatter([self.log.passes], hash=False)
        used, made = set(places.values()), []
        for index in known if self.live else ():
            copy, place = self.log.copies.get(index, (None, places[index]))
            given = (index, self.data[index], copy, passes, self.live)
            there = {"workers": [places[index]]}
            made.append(self.client.submit(restored, *given, pure=False, retries=2, **there))
            used.add(place)
        for future in made:
            self._result(future, used)
        if len(known) < len(lost):  # The others come from X and the weights: not as they were.
            self.log.whole = False
        self.homes.update(places)
        return alive

    def _places(self, blocks: Sequence[int]) -> dict[int, str]:
        """The worker that has X of each of these blocks."""
        for index in blocks:
            if self.data[index].status == "error":
                self.data[index].result()  # It cannot be read: says why.
        found = self.client.who_has(self.data)
        places = {index: list(found.get(self.data[index].key, ())) for index in blocks}
        if not all(places.values()):
            raise WorkerLost
        return {index: workers[0] for index, workers in places.items()}

    def _copy(self) -> None:
        """What is held of every block, to a second worker."""
        from distributed import CancelledError, wait

        begun = time.monotonic()
        workers = sorted(self.client.nthreads())
        used = set(self.homes.values())
        if len(workers) < 2 or not used.issubset(workers):
            self.log.go_on()
            return
        copies, needed = {}, self.live.difference(self.dropped)
        for index, home in self.homes.items():
            place = workers[(workers.index(home) + 1) % len(workers)]
            here = self.client.submit(copied, index, needed, workers=[home], pure=False)
            copies[index] = (
                self.client.submit(received, here, workers=[place], pure=False), place
            )  # fmt: skip
        futures = [copy for copy, _ in copies.values()]
        while any(copy.status == "pending" for copy in futures):
            try:
                wait(futures, timeout=PATIENCE)  # type: ignore[no-untyped-call]
            except (TimeoutError, CancelledError):
                if not set(workers).issubset(self.client.nthreads()):
                    break
        if all(copy.status == "finished" for copy in futures):
            self.log.begin_anew(copies, begun)
        else:
            self.log.go_on()

    def _result(self, future: Any, used: set[str]) -> Any:
        """The result, unless one of the workers that it needs is gone: it would never come."""
        from distributed import TimeoutError as TooLong

        while True:
            try:
                return future.result(timeout=PATIENCE)
            except (TooLong, TimeoutError):
                if future.done():
                    return future.result()
                if not used <= set(self.client.nthreads()):
                    future.cancel()
                    raise WorkerLost from None
