"""`--dask`: a cluster to work on, and data on it."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deepnmf.cli.screen import UsageFault

if TYPE_CHECKING:
    import numpy as np
    from distributed import Client

    from deepnmf.arrays import Data

SECONDS = 10
"""How long to wait for a scheduler."""


@contextlib.contextmanager
def cluster(where: str) -> Iterator[Client]:
    """A client of the scheduler at an address, or (local:N) of N new workers on this machine."""
    try:
        import dask.array  # noqa: F401
        import distributed
    except ImportError as problem:
        raise UsageFault(f"--dask needs {problem.name}: pip install 'deepnmf[dask]'.") from None
    # Its log is silenced: errors are told here, in one line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    kind, _, number = where.partition(":")
    if kind == "local":
        if not number.isdecimal() or int(number) < 1:
            raise UsageFault(f"--dask {where}: write local:N for N workers here, such as local:2.")
        with (
            distributed.LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=int(number),
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,  # in the workers as well
            ) as workers,
            distributed.Client(workers) as client,  # type: ignore[no-untyped-call]
        ):
            yield client
        return
    if "://" not in where:
        raise UsageFault(
            f"--dask {where}: give the address of a scheduler, such as tcp://host:8786, or local:N."
        )
    try:
        client = distributed.Client(where, timeout=SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError):
        raise ConnectionError(
            f"--dask {where}: no scheduler answers there. Start one (`dask scheduler`), correct "
            "the address, or use --dask local:2."
        ) from None
    with client:
        if not client.nthreads():  # type: ignore[no-untyped-call]
            raise ConnectionError(
                f"--dask {where}: the scheduler has no workers. Start some (`dask worker {where}`)."
            )
        yield client


CHUNK = 1e8
"""The most bytes in a chunk."""


def on_cluster(X: Data, path: str, layer: str | None, client: Client) -> Data:
    """Samples as a Dask array, in chunks of complete samples, about two per worker or more.

    The workers read a file themselves, so it must have the same path there.
    """
    import dask.array as da

    from deepnmf.samples.disk import Prepared

    if isinstance(X, Prepared):
        X = OfFile(str(Path(path).absolute()), layer, X.shape, X.dtype, X.unit_norm)
    workers = len(client.nthreads())  # type: ignore[no-untyped-call]
    n, m = X.shape
    width = min(-(-n // (2 * workers)), int(CHUNK / (m * X.dtype.itemsize)))
    chunks = (max(1, width), m)
    return da.from_array(X, chunks=chunks, asarray=False)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class OfFile:
    """Samples of a file that the worker that reads them opens."""

    path: str
    layer: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    unit_norm: bool

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: tuple[slice, slice]) -> np.ndarray:
        from deepnmf.samples.disk import Prepared

        rows, columns = key
        return Prepared(_opened(self.path, self.layer), self.dtype, self.unit_norm)[rows][
            :, columns
        ]


@functools.cache
def _opened(path: str, layer: str | None) -> Data:
    from deepnmf.data import open_on_disk

    return open_on_disk(path, layer).X
