"""A long fit that can be interrupted: run it again, and it goes on where it stood."""

from pathlib import Path

from sklearn.datasets import load_digits

from deepnmf import Checkpoint, sdnmf_l

X = load_digits().data / 16
settings = {"mu": 1e-3, "scaling": "fixed", "random_state": 0}
file = Path("digits.ckpt")


class Crash(Exception):
    """What a power cut would be."""


def crash_in_sweep_5(record):
    if record["stage"] == "finetune" and record["sweep"] == 5:
        raise Crash


keep = Checkpoint(file, every=0)  # after every sweep; a path alone keeps once a minute
try:
    sdnmf_l((32, 16), checkpoint=keep, callback=crash_in_sweep_5, **settings).fit(X)
except Crash:
    print(f"interrupted; {file} has {file.stat().st_size} bytes")

resumed = sdnmf_l((32, 16), checkpoint=keep, **settings).fit(X)
whole = sdnmf_l((32, 16), **settings).fit(X)
print("went on from the file:", resumed.history_[-1]["objective"])
print("never interrupted:    ", whole.history_[-1]["objective"])
file.unlink()
