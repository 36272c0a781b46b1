"""A fit of a million sweeps: what its checkpoints cost, and how large its files are.

    python benchmarks/million.py [SWEEPS] [FOLDER]

Stopped and run again, it continues from its checkpoint.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import deepnmf
from deepnmf.files.checkpoint import CheckpointFile


def main(sweeps: int, folder: Path) -> None:
    X = np.random.default_rng(0).random((10, 4))
    path = folder / "million.ckpt"
    marks = (1_000, sweeps)

    def look(record: dict[str, Any]) -> None:
        if record["sweep"] % 100_000 == 0:
            print(f"sweep {record['sweep']}: {record['seconds']:.0f} s", flush=True)

    offer = CheckpointFile.offer

    def timed(self: Any, point: Any, history: Any, generators: Any, at_once: bool = False) -> None:
        """Write a checkpoint 30 times at the marks, and tell what one of them took."""
        if history.records[-1]["sweep"] in marks:
            took = []
            for _ in range(30):
                began = time.perf_counter()
                offer(self, point, history, generators, at_once=True)
                took.append(time.perf_counter() - began)
            print(
                f"checkpoint at sweep {history.records[-1]['sweep']}: median "
                f"{1e3 * statistics.median(took):.2f} ms, least {1e3 * min(took):.2f} ms, "
                f"{len(history.records)} records, {path.stat().st_size} bytes",
                flush=True,
            )
        offer(self, point, history, generators, at_once=at_once)

    CheckpointFile.offer = timed  # type: ignore[method-assign]
    model = deepnmf.dnmf(
        2, max_iter=sweeps, tol=0, random_state=0, checkpoint=deepnmf.Checkpoint(path, every=10),
        callback=look,
    )  # fmt: skip
    began = time.perf_counter()
    model.fit(X)
    print(f"fit: {time.perf_counter() - began:.0f} s here, {model.n_iter_} sweeps in all")
    model.save(folder / "million.safetensors")
    began = time.perf_counter()
    loaded = deepnmf.load(folder / "million.safetensors")
    print(f"loaded in {1e3 * (time.perf_counter() - began):.0f} ms")
    assert loaded.n_iter_ == sweeps
    assert loaded.history_ == model.history_
    assert loaded.history_[-1]["sweep"] == sweeps
    resumed = deepnmf.dnmf(2, max_iter=sweeps, tol=0, random_state=0, checkpoint=path).fit(X)
    assert resumed.history_ == model.history_
    for file in (path, folder / "million.safetensors"):
        print(f"{file.name}: {file.stat().st_size} bytes, {len(model.history_)} records")


if __name__ == "__main__":
    count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    place = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()
    main(count, Path(place))
