"""Data larger than memory: seconds per sweep and peak memory for 10⁴ to 10⁶ samples.

    python benchmarks/out_of_core.py [--samples 10000 100000 1000000] [--folder DIR]

SDNMF/L [64, 16] on n x 1024 in float32 from a NumPy memmap, max_memory="600MB". Every size runs in
its own process, which prints its peak memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

FEATURES, RANK = 1024, 24

FIT = """
import re, sys, time
from pathlib import Path
import numpy as np
import deepnmf

X = np.load(sys.argv[1], mmap_mode="r")
model = deepnmf.sdnmf_l(
    (64, 16), mu=1e-3, link=sys.argv[2], max_memory="600MB", max_iter=3, pretrain_iter=3, tol=0,
    random_state=0,
)
began = time.perf_counter()
model.fit(X)
total = time.perf_counter() - began
fine = [record["seconds"] for record in model.history_ if record["stage"] == "finetune"]
# Of this process only: ru_maxrss would include the process that started it.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)) / 1000
error = model.reconstruction_err_ / np.sqrt(len(X))
print(f"{len(X)} {(fine[-1] - fine[0]) / (len(fine) - 1):.3f} {total:.1f} {peak:.0f} {error:.5f}")
"""


def make(path: Path, samples: int) -> None:
    """Nonnegative data of low rank with noise, written block by block."""
    rng = np.random.default_rng(0)
    parts = rng.random((RANK, FEATURES), dtype="float32") ** 4
    X = np.lib.format.open_memmap(path, "w+", dtype="float32", shape=(samples, FEATURES))
    for low in range(0, samples, 10_000):
        high = min(samples, low + 10_000)
        codes = rng.random((high - low, RANK), dtype="float32") ** 2
        X[low:high] = codes @ parts + 0.1 * rng.random((high - low, FEATURES), dtype="float32")
    X.flush()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--links", nargs="+", default=["identity", "root"])
    parser.add_argument("--folder", default=None)
    given = parser.parse_args()
    print("| link | samples | s per sweep | s per sweep and 10⁶ samples | s in total | peak MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for samples in given.samples:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / "X.npy"
            make(path, samples)
            for link in given.links:
                done = subprocess.run(
                    [sys.executable, "-c", FIT, str(path), link], capture_output=True, text=True,
                    check=True,
                )  # fmt: skip
                n, sweep, total, peak, _ = done.stdout.split()
                rate = float(sweep) * 1e6 / int(n)
                print(f"| {link} | {n} | {sweep} | {rate:.1f} | {total} | {peak} |", flush=True)


if __name__ == "__main__":
    main()
