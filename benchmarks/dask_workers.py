"""Dask workers: seconds per sweep with one and with two workers, one thread each.

    python benchmarks/dask_workers.py [--samples 1000000] [--workers 1 2] [--folder DIR]

SDNMF/L [64, 16] on n x 1024 in float32, read from a file in chunks of 20000 samples that stay on
the workers of a LocalCluster of real processes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from out_of_core import FEATURES, make

import deepnmf

CHUNK = 20_000


def read(path: str, low: int, high: int) -> np.ndarray:
    """Some samples of the file."""
    return np.array(np.load(path, mmap_mode="r")[low:high])


def array(path: Path, samples: int) -> da.Array:
    """The file as a Dask array."""
    import dask

    chunks = []
    for low in range(0, samples, CHUNK):
        high = min(samples, low + CHUNK)
        chunk = dask.delayed(read)(str(path), low, high)
        chunks.append(da.from_delayed(chunk, (high - low, FEATURES), np.float32))
    return da.concatenate(chunks)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--sweeps", type=int, default=4)
    parser.add_argument("--folder", default=None)
    given = parser.parse_args()
    print("| workers | s per alternation of layer 1 | s per sweep | s in total | objective |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "X.npy"
        make(path, given.samples)
        for workers in given.workers:
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
            )
            with cluster, Client(cluster):
                model = deepnmf.sdnmf_l(
                    (64, 16), mu=1e-3, max_iter=given.sweeps, pretrain_iter=given.sweeps, tol=0,
                    random_state=0,
                )  # fmt: skip
                began = time.perf_counter()
                model.fit(array(path, given.samples))
                total = time.perf_counter() - began
            times = []
            for stage, layer in (("pretrain", 1), ("finetune", None)):
                found = [
                    record["seconds"] for record in model.history_
                    if (record["stage"], record["layer"]) == (stage, layer)
                ]  # fmt: skip
                times.append(float(np.median(np.diff(found))))
            end = model.history_[-1]["objective"]
            first, sweep = times
            print(
                f"| {workers} | {first:.2f} | {sweep:.2f} | {total:.1f} | {end:.6g} |", flush=True
            )


if __name__ == "__main__":
    main()
