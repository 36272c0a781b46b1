"""Blocks of samples on the workers of a Dask cluster.

A pass is one task per block, run on the worker that has the block of X. Workers keep the codes they
compute, by name. If a worker is lost, its blocks are computed again exactly as they were (`replay`)
or, where that is impossible, from X and the weights. Sums are added up on the workers, in a tree.
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
from deepnmf.arrays.blocks import Blocked, Layout, Source, Swept, ToStore
from deepnmf.samples.dask.replay import ClusterError, Log
from deepnmf.samples.dask.workers import (
    Held,
    Pass,
    Results,
    Value,
    copied,
    forget,
    merged,
    received,
    restored,
    work,
)

BRANCHES = 8
"""The number of partial sums that one task adds up."""
ATTEMPTS = 5
"""How often a pass is tried when workers are lost."""
PATIENCE = 2
"""Seconds to wait for a result before checking that the workers still exist."""
LONGEST_PAUSE = 60
"""Seconds to wait for a worker that Dask has paused."""


class WorkerLost(Exception):
    """A worker that held blocks is gone."""


@dataclass(frozen=True)
class DaskLayout(Layout):
    """Blocks on the workers of a cluster."""

    client: Any = None
    chunks: Sequence[Any] = ()
    """The delayed objects that compute the blocks of X."""
    data: list[Any] = field(default_factory=list)
    """The future of each block of X."""
    dropped: list[str] = field(default_factory=list)
    """Names that are no longer needed; the next pass drops them on the workers."""
    homes: dict[int, str] = field(default_factory=dict)
    """The worker that has each block of X and its codes: tasks run only there. "" means lost."""
    processes: dict[int, str] = field(default_factory=dict)
    """The process that held each block in the last pass."""
    names: set[str] = field(default_factory=set)
    """All names under which workers may hold something."""
    live: set[str] = field(default_factory=set)
    """The names that are needed and that every block has."""
    log: Log = field(default_factory=Log)

    def each(self, node: Source) -> Iterator[Any]:
        for index in range(len(self.widths)):
            _, [[value]] = self._run(Pass(gather=[node]), [index])
            yield value

    def put(self, blocks: Iterable[Array], rows: int, dtype: Any) -> Blocked:
        return Blocked(self.keep(blocks), self, rows, dtype)

    def keep(self, values: Iterable[Any]) -> Source:
        held = self._held(uuid.uuid4().hex, None)
        self.log.complete = False  # these values come from the client, and no pass repeats them
        for index, value in enumerate(values):
            self._run(Pass(store=[(held.name, Value())]), [index], [value])
        self.live.add(held.name)
        return held

    def close(self) -> None:
        # If the cluster is gone, there is nothing to drop.
        with contextlib.suppress(Exception):
            self.client.run(forget, sorted(self.names), on_error="ignore")

    def _held(self, name: str, recipe: Source | None) -> Held:
        """An array that workers hold for as long as the client has this object."""
        held = Held(name, recipe)
        self.names.add(name)
        weakref.finalize(held, self.dropped.append, name)
        return held

    def mend(self, array: Blocked, recipe: Source) -> None:
        if isinstance(array.node, Held):
            array.node.recipe = recipe

    def sweep(
        self,
        store: Sequence[ToStore] = (),
        sums: Sequence[Source] = (),
        collect: Sequence[Source] = (),
        gather: Sequence[Source] = (),
    ) -> Swept:
        drop = [self.dropped.pop() for _ in range(len(self.dropped))]
        self.live.difference_update(drop)
        self.log.dropped.extend(drop)
        nodes = [*(array.node for array in store), *collect]
        recipes = [*(array.recipe for array in store), *(None for _ in collect)]
        held = [self._held(uuid.uuid4().hex, recipe) for recipe in recipes]
        named = [(array.name, node) for array, node in zip(held, nodes, strict=True)]
        totals, gathered = self._run(Pass(named, sums, gather, drop))
        self.names.difference_update(drop)
        return Swept(
            [
                Blocked(node, self, array.rows, array.dtype)
                for node, array in zip(held, store, strict=False)
            ],
            totals,
            list(held[len(store) :]),
            [list(row) for row in zip(*gathered, strict=True)] if gather else [],
        )

    def _run(
        self, task: Pass, blocks: Sequence[int] | None = None, value: Sequence[Any] = ()
    ) -> tuple[list[Any], list[list[Any]]]:
        """Do a pass over these blocks (by default all), and repeat it if workers are lost.

        `value` holds at most one value, that of the `Value` nodes. Returns the sums, and the
        gathered values of every block.
        """
        import cloudpickle  # type: ignore[import-untyped]  # comes with Dask
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        blocks = range(len(self.data)) if blocks is None else blocks
        written = cloudpickle.dumps(task)
        lost = (CancelledError, KilledWorker, CommClosedError, TimeoutError, WorkerLost)
        for attempt in range(ATTEMPTS):
            try:
                alive = self._restore()
                results = self._attempt(written, blocks, value)
                break
            except lost as problem:
                if attempt == ATTEMPTS - 1:
                    raise ClusterError(
                        f"the cluster lost workers {ATTEMPTS} times in one pass over the data "
                        f"({type(problem).__name__}). Check that they have enough memory; with "
                        "checkpoint=… the next fit continues where this one stopped."
                    ) from problem
        if task.store and not value:
            self.log.note(written)
            self.live.update(name for name, _ in task.store)
            if self.log.due(alive):
                self._copy()
        return results

    def _attempt(
        self, written: bytes, blocks: Sequence[int], value: Sequence[Any]
    ) -> tuple[list[Any], list[list[Any]]]:
        client = self.client
        with warnings.catch_warnings():
            # The pass contains the weights, and every worker needs them.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            # A task, not scattered data: Dask runs it again if its worker dies.
            task = client.submit(pickle.loads, written, pure=False)
        if value:
            value = client.scatter(list(value), hash=False)
        futures = [
            client.submit(
                work, task, index, self.data[index], *value, workers=[self.homes[index]],
                pure=False, retries=2,
            )
            for index in blocks
        ]  # fmt: skip
        while len(futures) > 1:
            futures = [
                client.submit(merged, futures[low : low + BRANCHES], pure=False)
                for low in range(0, len(futures), BRANCHES)
            ]
        results: Results = self._result(futures[0], {self.homes[index] for index in blocks})
        restarted = [
            index for index, process in results.processes.items()
            if self.processes.setdefault(index, process) != process
        ]  # fmt: skip
        if restarted:  # a new process at the address of a dead worker holds nothing
            self.homes.update(dict.fromkeys(restarted, ""))
            raise WorkerLost
        pairs = zip(results.sums, results.dtypes, strict=True)
        sums = [np.asarray(total).astype(dtype) for total, dtype in pairs]
        return sums, [results.gathered[index] for index in blocks]

    def _restore(self) -> set[str]:
        """Move blocks whose workers are gone to other workers, and restore there what was held.
        Returns the workers that are alive."""
        alive = set(self.client.nthreads())
        lost = [index for index, home in self.homes.items() if home not in alive]
        if not lost:
            return alive
        from dask.graph_manipulation import clone
        from distributed import futures_of, wait

        for index in lost:
            chunk = self.chunks[index]
            if self.data[index].status != "finished" and not futures_of(chunk):  # type: ignore[no-untyped-call]
                # With new keys: the old task may wait forever for the worker it was sent to.
                self.data[index] = self.client.compute(clone(chunk))
        wait([self.data[index] for index in lost])  # type: ignore[no-untyped-call]
        places = self._places(lost)
        logged = [index for index in lost if self.log.can_restore(index, alive)]
        [passes] = self.client.scatter([self.log.passes], hash=False)
        workers, futures = set(places.values()), {}
        for index in logged if self.live else ():
            copy, copy_place = self.log.copies.get(index, (None, places[index]))
            futures[index] = self.client.submit(
                restored, index, self.data[index], copy, passes, self.live,
                workers=[places[index]], pure=False, retries=2,
            )  # fmt: skip
            workers.add(copy_place)
        for index in lost:
            self.processes.pop(index, None)
        for index, future in futures.items():
            self.processes[index] = self._result(future, workers)
        if len(logged) < len(lost):  # the others are computed from X and the weights, not replayed
            self.log.complete = False
        self.homes.update(places)
        return alive

    def _places(self, blocks: Sequence[int]) -> dict[int, str]:
        """The worker that has X of each of these blocks."""
        for index in blocks:
            if self.data[index].status == "error":
                self.data[index].result()  # raises the error of the read
        holders = self.client.who_has(self.data)
        places = {index: list(holders.get(self.data[index].key, ())) for index in blocks}
        if not all(places.values()):
            raise WorkerLost
        return {index: workers[0] for index, workers in places.items()}

    def _copy(self) -> None:
        """Copy what is held for every block to a second worker."""
        from distributed import CancelledError, wait

        begun = time.monotonic()
        workers = sorted(self.client.nthreads())
        if len(workers) < 2 or not set(self.homes.values()).issubset(workers):
            self.log.postpone()
            return
        copies, needed = {}, self.live.difference(self.dropped)
        for index, home in self.homes.items():
            place = workers[(workers.index(home) + 1) % len(workers)]
            here = self.client.submit(copied, index, needed, workers=[home], pure=False)
            there = self.client.submit(received, here, workers=[place], pure=False)
            copies[index] = (there, place)
        futures = [copy for copy, _ in copies.values()]
        while any(copy.status == "pending" for copy in futures):
            try:
                wait(futures, timeout=PATIENCE)  # type: ignore[no-untyped-call]
            except (TimeoutError, CancelledError):
                if not set(workers).issubset(self.client.nthreads()) or self._paused(workers):
                    break
        if all(copy.status == "finished" for copy in futures):
            self.log.restart(copies, begun)
        else:
            self.log.postpone()

    def _result(self, future: Any, workers: set[str]) -> Any:
        """The result of a future. Raises if one of the workers that it needs is gone, or paused for
        too long: the result would never come."""
        since = None
        while True:
            try:
                return future.result(timeout=PATIENCE)
            except TimeoutError:
                if future.done():
                    return future.result()
                if not workers <= set(self.client.nthreads()):
                    future.cancel()
                    raise WorkerLost from None
                paused = self._paused(workers)
                since = (since or time.monotonic()) if paused else None
                if since is not None and time.monotonic() - since > LONGEST_PAUSE:
                    future.cancel()
                    raise ClusterError(
                        f"the worker {paused[0]} has been paused by Dask for {LONGEST_PAUSE} "
                        "seconds: its memory is full, and the fit waits for it. Give workers more "
                        "memory, start more of them, or make chunks smaller; with checkpoint=… the "
                        "next fit continues where this one stopped."
                    ) from None

    def _paused(self, workers: Iterable[str]) -> list[str]:
        """The workers among these that Dask has paused because their memory is full."""
        known = self.client.scheduler_info()["workers"]
        return sorted(name for name in workers if known.get(name, {}).get("status") == "paused")
