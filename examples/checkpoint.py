"""A long fit that can be interrupted: run it again, and it continues where it stopped."""

from pathlib import Path

from sklearn.datasets import load_digits

from deepnmf import Checkpoint, sdnmf_l

X = load_digits().data / 16
settings = {"random_state": 0}
file = Path("digits.ckpt")


class Crash(Exception):
    """Stands for a power cut."""


def crash_in_sweep_5(record):
    if record["stage"] == "finetune" and record["sweep"] == 5:
        raise Crash


checkpoint = Checkpoint(file, every=0)  # after every sweep; a path alone saves once a minute
try:
    sdnmf_l((32, 16), checkpoint=checkpoint, callback=crash_in_sweep_5, **settings).fit(X)
except Crash:
    print(f"interrupted; {file} has {file.stat().st_size} bytes")

resumed = sdnmf_l((32, 16), checkpoint=checkpoint, **settings).fit(X)
undisturbed = sdnmf_l((32, 16), **settings).fit(X)
print("continued from the file:", resumed.history_[-1]["objective"])
print("never interrupted:      ", undisturbed.history_[-1]["objective"])
file.unlink()
