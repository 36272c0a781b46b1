"""Checkpoints: where a fit stands, in a file from which the same fit goes on.

A file is written beside its place and then renamed: whatever happens, the last one is whole. It
tells the settings and the data of its fit, and is refused where they are others.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from deepnmf.arrays import Array, is_blocked, is_sparse
from deepnmf.arrays.blocks import Applied
from deepnmf.core.watch import Point, Record
from deepnmf.files.states import Reader, Writer
from deepnmf.models.advice import warn
from deepnmf.samples.checks import is_tensor
from deepnmf.version import __version__

if TYPE_CHECKING:
    from deepnmf.models.deep import DeepNMF

FORMAT = 2
KEY = "deepnmf-checkpoint"
UNCOMPARED = ("callback", "verbose", "checkpoint")
"""Parameters that may differ from those of the fit that is gone on with."""


@dataclass(frozen=True)
class Checkpoint:
    """Keep a fit in the file `path`, at most every so many seconds, and after its last sweep.

    `checkpoint="fit.ckpt"` of a model is short for `Checkpoint("fit.ckpt")`.
    """

    path: str | os.PathLike[str]
    every: float = 60.0


class CheckpointError(ValueError):
    """A file that is no checkpoint, or the checkpoint of another fit."""


class Kept:
    """The checkpoint of one fit: what it was begun from, and where it is written."""

    def __init__(self, where: Checkpoint, model: DeepNMF, X: Array) -> None:
        self.path, self.every = Path(where.path), where.every
        self.like = X
        self.settings = {
            name: _told(value)
            for name, value in model.get_params(deep=False).items()
            if name not in UNCOMPARED
        }
        self.data = fingerprint(X)
        self.last = time.monotonic()
        self.failed = False
        _remove_leftovers(self.path)
        if not self.path.parent.is_dir():
            raise CheckpointError(
                f"checkpoint: the folder {self.path.parent} does not exist. Make it first."
            )

    def begun(self, generators: Sequence[np.random.Generator]) -> tuple[Point, list[Record]] | None:
        """Where the file says that the fit stands, None where there is no file. The generators are
        set to where they were."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, "numpy") as file:
                header = json.loads((file.metadata() or {})[KEY])
                self._compare(header)
                point = Reader(file, self.like).value(header["point"])
        except (SafetensorError, KeyError, json.JSONDecodeError, OSError, IsADirectoryError) as bad:
            raise CheckpointError(
                f"checkpoint: {self.path} is no checkpoint of deepnmf ({type(bad).__name__}). "
                "Delete it, or give another path."
            ) from None
        for generator, state in zip(generators, header["random"], strict=True):
            generator.bit_generator.state = state
        return point, header["history"]

    def offer(
        self,
        point: Callable[[], Point],
        history: list[Record],
        generators: Sequence[np.random.Generator],
        *,
        at_once: bool = False,
    ) -> None:
        """Write where the fit stands, if it is time to."""
        if not at_once and time.monotonic() - self.last < self.every:
            return
        try:
            self._write(point(), history, generators)
        except OSError as problem:
            if not self.failed:
                kept = "the one before it stays" if self.path.exists() else "there is none yet"
                warn(
                    f"checkpoint: {self.path} cannot be written ({problem.strerror}); {kept}, and "
                    "the fit goes on. Free some space, or set another path.",
                    UserWarning,
                )
            self.failed = True
        self.last = time.monotonic()

    def _compare(self, header: dict[str, Any]) -> None:
        if header["format"] != FORMAT:
            raise CheckpointError(
                f"checkpoint: {self.path} was written by deepnmf {header['version']}, in a form "
                "that this version does not read. Delete it, or give another path."
            )
        for what, there, here in (
            ("data", header["data"], self.data),
            ("settings", header["settings"], self.settings),
        ):
            names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
            if names:
                name = names[0]
                rest = f" (and {', '.join(names[1:])})" if names[1:] else ""
                raise CheckpointError(
                    f"checkpoint: {self.path} is of a fit with other {what}: {name} is "
                    f"{there.get(name)} there and {here.get(name)} here{rest}. Delete it to begin "
                    "anew, or give another path."
                )

    def _write(
        self, point: Point, history: list[Record], generators: Sequence[np.random.Generator]
    ) -> None:
        tensors = Writer(self.like)
        header = {
            "format": FORMAT,
            "version": __version__,
            "settings": self.settings,
            "data": self.data,
            "point": tensors.told(point),
            "random": [generator.bit_generator.state for generator in generators],
            "history": history,
        }
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            with beside.open("wb") as file:
                tensors.write(file, {KEY: json.dumps(header)})
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        finally:
            beside.unlink(missing_ok=True)
        if os.name == "posix":  # the new name, too, is to survive a power cut
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def checkpoint_of(given: Any) -> Checkpoint | None:
    """A `Checkpoint` from a path, or as it is."""
    if isinstance(given, Checkpoint):
        if not (isinstance(given.every, int | float) and given.every >= 0):
            raise ValueError(f"checkpoint: every={given.every!r} is no number of seconds ≥ 0.")
        return given
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike):
        raise ValueError(
            f"checkpoint: {given!r} is no path. Write checkpoint='fit.ckpt', or Checkpoint(path, "
            "every=seconds) from deepnmf.files.checkpoint."
        )
    return Checkpoint(given)


def fingerprint(X: Array) -> dict[str, Any]:
    """What tells data (m, n) from other data: its size, its type, how it is cut, its bytes."""
    if is_blocked(X):
        sums = X.layout.sweep(gather=[Applied(_checksum, (X.node,))]).gathered[0]
        widths = sorted(set(X.layout.widths), reverse=True)
        cut = f"{len(X.layout.widths)} of {', '.join(map(str, widths[:3]))} samples"
    else:
        sums, cut = [_checksum(X)], "1"
    m, n = X.shape
    return {
        "shape": f"{n} x {m}",
        "type": f"{X.dtype}".removeprefix("torch."),
        "kind": "sparse" if is_sparse(X) else "tensor" if is_tensor(X) else "array",
        "number of blocks": cut,
        "checksum of the entries": f"{zlib.crc32(np.asarray(sums, np.uint32).tobytes()):08x}",
    }


def _checksum(X: Array) -> int:
    """CRC-32 of the entries of a block (m, n), sample by sample."""
    if is_sparse(X):
        X = X.tocsc()
        X.sort_indices()
        parts = [X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data]
        return _crc(parts)
    rows = X.T.cpu().numpy() if is_tensor(X) else X.T
    width = max(1, int(1e7) // max(1, rows.shape[1]))
    return _crc(rows[low : low + width] for low in range(0, rows.shape[0], width))


def _crc(arrays: Any) -> int:
    value = 0
    for array in arrays:
        value = zlib.crc32(np.ascontiguousarray(array).data, value)
    return value


def _told(value: Any) -> str:
    """A parameter in words; arrays by their size and checksum."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [
            f"{field.name}={_told(getattr(value, field.name))}"
            for field in dataclasses.fields(value)
        ]
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_told(entry) for entry in value)}]"
    if hasattr(value, "shape"):
        array = value.detach().cpu().numpy() if is_tensor(value) else np.asarray(value)
        return repr(array.item()) if array.ndim == 0 else f"{array.shape} {_crc([array]):08x}"
    if isinstance(value, np.random.RandomState):
        return "a RandomState"
    return repr(value)


def _remove_leftovers(path: Path) -> None:
    """Half-written files of processes that are no more."""
    for leftover in path.parent.glob(f".{path.name}.*.part"):
        try:
            os.kill(int(leftover.name.split(".")[-2]), 0)
        except ProcessLookupError:
            leftover.unlink(missing_ok=True)
        except (ValueError, PermissionError, OSError):
            continue
