"""Samples on a Dask cluster: blocks stay on their workers, and only small sums travel.

A pass is one task per block, run where the block of X is. Codes are kept by the worker that made
them, under a name; a worker that does not have a block of them (because the one that did is gone)
makes it anew from X and the weights. What is summed is added up on the workers, in a tree.
"""

from __future__ import annotations

import pickle
import sys
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

from deepnmf.core.arrays import Array, is_sparse
from deepnmf.core.blocks import Applied, Blocked, Layout, Leaf, Node, Swept, ToStore
from deepnmf.inputs import canonical, check_entries

BRANCHES = 8
"""Partial sums that are added up at a time."""
ATTEMPTS = 5
"""Times that a pass is tried; between them workers may have come and gone."""
PATIENCE = 2
"""Seconds after which one looks whether the workers are still there."""

HELD: dict[str, dict[int, Any]] = {}
"""On a worker: blocks by the name of their array and their number."""


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

        futures = _loaded(client, list(X.to_delayed().ravel()))
        wait(futures)  # type: ignore[no-untyped-call]
        layout = DaskLayout(widths, client=client, data=futures)
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


def _as_block(part: Any, dtype: Any) -> Array:
    """A chunk (samples, features) as a block (features, samples)."""
    if is_sparse(part):
        return canonical(scipy.sparse.csr_array(part).astype(dtype, copy=False)).T
    return np.ascontiguousarray(part, dtype=dtype).T


class Chunks:
    """Blocks of a Dask array without a cluster: read, or worked out, by threads at every pass."""

    def __init__(self, X: Any, dtype: Any) -> None:
        self.X, self.dtype = X, dtype

    def __getitem__(self, index: int) -> Array:
        return _as_block(self.X.blocks[index].compute(scheduler="threads"), self.dtype)


@dataclass(eq=False)
class Data(Node):
    """The block of X that a task was given."""

    dtype: Any

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        del index
        return _as_block(known["data"], self.dtype)


@dataclass(eq=False)
class Value(Node):
    """What a task was given besides."""

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        del index
        return known["value"]


class WorkerLost(Exception):
    """A worker that had blocks is gone."""


@dataclass(eq=False)
class Held(Node):
    """Blocks that workers keep, and how a worker that has none makes it."""

    name: str
    recipe: Node | None

    def make(self, index: int, known: dict[Any, Any]) -> Any:
        found = HELD.get(self.name, {}).get(index)
        if found is None and self.recipe is not None:
            return self.recipe.value(index, known)
        return found


@dataclass(frozen=True)
class Pass:
    """What workers need to know of a pass."""

    store: list[tuple[str, Node]]
    sums: list[Node]
    gather: list[Node]
    drop: list[str]


@dataclass
class Found:
    """What tasks of a pass have found: sums, their types, and by block what is gathered."""

    sums: list[Any]
    dtypes: list[Any]
    gathered: dict[int, list[Any]]
    homes: dict[int, str]
    """Where each block was worked on, and so what it left is held."""


def work(task: Pass, index: int, data: Any, value: Any) -> Found:
    """One block of a pass."""
    known: dict[Any, Any] = {"data": data, "value": value}
    for name in task.drop:
        HELD.pop(name, None)
    values = [(name, node.value(index, known)) for name, node in task.store]
    sums = [np.asarray(node.value(index, known)) for node in task.sums]
    gathered = [node.value(index, known) for node in task.gather]
    for name, value in values:
        HELD.setdefault(name, {})[index] = value
    from distributed import get_worker

    home = get_worker().address  # type: ignore[no-untyped-call]
    return Found(sums, [part.dtype for part in sums], {index: gathered}, {index: home})


def together(parts: list[Found]) -> Found:
    """Several as one: sums added up in double precision."""
    homes = {index: home for part in parts for index, home in part.homes.items()}
    sums = [
        sum(np.asarray(one, np.float64 if one.dtype == np.float32 else one.dtype) for one in each)
        for each in zip(*(part.sums for part in parts), strict=True)
    ]
    gathered = {index: row for part in parts for index, row in part.gathered.items()}
    return Found(sums, parts[0].dtypes, gathered, homes)


@dataclass(frozen=True)
class DaskLayout(Layout):
    """Blocks on the workers of a cluster."""

    client: Any = None
    data: Sequence[Any] = ()
    """A future for every block of X."""
    dropped: list[str] = field(default_factory=list)
    """Names of what nobody needs any more."""
    homes: dict[int, str] = field(default_factory=dict)
    """The worker that holds the codes of each block. A task goes there and nowhere else: elsewhere
    they would be made anew, and be other ones."""

    def each(self, node: Node) -> Iterator[Any]:
        for index in range(len(self.widths)):
            yield self._tried(Pass([], [], [node], []), [index])[1][0][0]

    def put(self, blocks: Iterable[Array], rows: int, dtype: Any) -> Blocked:
        return Blocked(self.keep(blocks), self, rows, dtype)

    def keep(self, values: Iterable[Any]) -> Node:
        held = Held(uuid.uuid4().hex, None)
        for index, value in enumerate(values):
            [there] = self.client.scatter([value])
            given = Pass([(held.name, Value())], [], [], [])
            self._tried(given, [index], value=there)
        weakref.finalize(held, self.dropped.append, held.name)
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
        task = Pass(list(zip(names, nodes, strict=True)), list(sums), list(gather), drop)
        added, gathered = self._tried(task)
        recipes = [*(one.recipe for one in store), *(None for _ in collect)]
        held = [Held(name, recipe) for name, recipe in zip(names, recipes, strict=True)]
        for one in held:
            weakref.finalize(one, self.dropped.append, one.name)
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
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        blocks = range(len(self.data)) if blocks is None else blocks
        for attempt in range(ATTEMPTS):
            try:
                return self._run(task, blocks, value)
            except (CancelledError, KilledWorker, CommClosedError, TimeoutError, WorkerLost):
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError

    def _run(
        self, task: Pass, blocks: Sequence[int], value: Any
    ) -> tuple[list[Any], list[list[Any]]]:
        import cloudpickle  # type: ignore[import-untyped]  # comes with Dask

        client = self.client
        # A task, not scattered data: what a dead worker had of it can be made again.
        shared = client.submit(pickle.loads, cloudpickle.dumps(task), pure=False)
        alive = set(client.nthreads())
        homes = [self.homes.get(index) for index in blocks]
        used = {home for home in homes if home is not None and home in alive}
        done = []
        for index, home in zip(blocks, homes, strict=True):
            place = {"workers": [home]} if home in alive else {}
            given = (shared, index, self.data[index], value)
            done.append(client.submit(work, *given, pure=False, retries=2, **place))
        while len(done) > 1:
            done = [
                client.submit(together, done[low : low + BRANCHES], pure=False)
                for low in range(0, len(done), BRANCHES)
            ]
        found: Found = self._result(done[0], used)
        self.homes.update(found.homes)
        pairs = zip(found.sums, found.dtypes, strict=True)
        sums = [np.asarray(value).astype(dtype) for value, dtype in pairs]
        return sums, [found.gathered[index] for index in blocks]

    def _result(self, future: Any, used: set[str]) -> Any:
        """The result, unless one of the workers that it needs is gone: it would never come."""
        from distributed import TimeoutError as TooLong

        while True:
            try:
                return future.result(timeout=PATIENCE)
            except (TooLong, TimeoutError):
                if not used <= set(self.client.nthreads()):
                    future.cancel()
                    raise WorkerLost from None
