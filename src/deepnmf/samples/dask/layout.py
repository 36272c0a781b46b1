"""Blocks of samples on the workers of a Dask cluster.

A pass is one task per block, run where the block of X is. Codes are kept by the worker that made
them, under a name. A block that is lost with its worker is made again as it was (`replay`); where
that cannot be, from X and the weights. What is summed is added up on the workers, in a tree.
"""

from __future__ import annotations

import contextlib
import pickle
import time
import uuid
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deepnmf.arrays import Array
from deepnmf.arrays.blocks import Blocked, Layout, Node, Swept, ToStore
from deepnmf.samples.dask.replay import ClusterError, Log
from deepnmf.samples.dask.workers import (
    Found,
    Held,
    Pass,
    Value,
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
LONGEST_PAUSE = 60
"""Seconds that a worker which Dask has paused is waited for."""


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
    processes: dict[int, str] = field(default_factory=dict)
    """The process that held each block when it was last seen there."""
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
        with warnings.catch_warnings():
            # The weights are in it, and every worker needs them.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
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
        strangers = [
            index for index, process in found.processes.items()
            if self.processes.setdefault(index, process) != process
        ]  # fmt: skip
        if strangers:  # workers that came back where others had died: they hold nothing
            self.homes.update(dict.fromkeys(strangers, ""))
            raise WorkerLost
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
        used, made = set(places.values()), {}
        for index in known if self.live else ():
            copy, place = self.log.copies.get(index, (None, places[index]))
            given = (index, self.data[index], copy, passes, self.live)
            there = {"workers": [places[index]]}
            made[index] = self.client.submit(restored, *given, pure=False, retries=2, **there)
            used.add(place)
        for index in lost:
            self.processes.pop(index, None)
        for index, future in made.items():
            self.processes[index] = self._result(future, used)
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
                if not set(workers).issubset(self.client.nthreads()) or self._paused(workers):
                    break
        if all(copy.status == "finished" for copy in futures):
            self.log.begin_anew(copies, begun)
        else:
            self.log.go_on()

    def _result(self, future: Any, used: set[str]) -> Any:
        """The result, unless one of the workers that it needs is gone, or paused for long: it would
        never come."""
        from distributed import TimeoutError as TooLong

        since = None
        while True:
            try:
                return future.result(timeout=PATIENCE)
            except (TooLong, TimeoutError):
                if future.done():
                    return future.result()
                if not used <= set(self.client.nthreads()):
                    future.cancel()
                    raise WorkerLost from None
                paused = self._paused(used)
                since = (since or time.monotonic()) if paused else None
                if since is not None and time.monotonic() - since > LONGEST_PAUSE:
                    future.cancel()
                    raise ClusterError(
                        f"the worker {paused[0]} has been paused by Dask for {LONGEST_PAUSE} "
                        "seconds: its memory is full, and the fit waits for it. Give workers more "
                        "memory, start more of them, or make chunks smaller; with checkpoint=… the "
                        "next fit goes on from where this one was."
                    ) from None

    def _paused(self, workers: Iterable[str]) -> list[str]:
        """Those of the workers that Dask gives nothing to do, because their memory is full."""
        known = self.client.scheduler_info()["workers"]
        return sorted(one for one in workers if known.get(one, {}).get("status") == "paused")
