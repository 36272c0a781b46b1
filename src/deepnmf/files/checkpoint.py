"""Checkpoints: files from which a stopped fit continues.

A checkpoint records the settings and the data of its fit, and is refused for others.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from deepnmf.arrays import Array, kept_as, namespace
from deepnmf.arrays.blocks import Blocked, Source, layout_of
from deepnmf.arrays.draws import Generators
from deepnmf.arrays.tensors import is_tensor, to_numpy
from deepnmf.arrays.trees import fold, is_named
from deepnmf.core.extrapolation import Moving
from deepnmf.core.history import History
from deepnmf.core.layer_factors import LayeredFactors, LayerSums
from deepnmf.core.linear import Factors
from deepnmf.core.nonlinear import NonlinearFactors
from deepnmf.core.passes import Sums
from deepnmf.core.watch import Point, Reason
from deepnmf.files.atomic import remove_leftovers
from deepnmf.files.history import add_history, read_history
from deepnmf.files.tensors import BadFileError, FileError, TensorFile, Tensors, open_tensors
from deepnmf.files.values import UnknownClassError, from_json, to_json
from deepnmf.samples.fingerprint import crc
from deepnmf.solvers.coordinate import Work
from deepnmf.solvers.projected_gradient import Memory
from deepnmf.solvers.stopping import Pace
from deepnmf.terminal.text import one_line
from deepnmf.version import __version__

FORMAT = 4
KEY = "deepnmf-checkpoint"
UNCOMPARED = ("callback", "verbose", "checkpoint")
"""Parameters that may differ between a fit and its checkpoint."""
STATES = {
    state.__name__: state
    for state in (
        Point,
        Factors,
        NonlinearFactors,
        LayeredFactors,
        Moving,
        Sums,
        LayerSums,
        Work,
        Memory,
        Pace,
    )
}
"""The classes that a point is made of."""


@dataclass(frozen=True)
class Checkpoint:
    """Store a fit in the file `path`, at most once in `every` seconds, and after its last sweep.

    `DeepNMF(checkpoint="fit.ckpt")` is short for `DeepNMF(checkpoint=Checkpoint("fit.ckpt"))`.
    """

    path: str | os.PathLike[str]
    every: float = 60.0


class CheckpointError(FileError):
    """A file that is not a checkpoint, or the checkpoint of another fit."""


class CheckpointFile:
    """The checkpoint file of one fit, with the settings and data it belongs to."""

    def __init__(
        self,
        where: Checkpoint,
        settings: Mapping[str, Any],
        data: Array,
        fingerprint: dict[str, str],
        warn: Callable[[str, type[Warning]], None],
    ) -> None:
        self.path, self.every, self.warn = Path(where.path), where.every, warn
        self.like = data
        self.settings = {
            name: _described(value) for name, value in settings.items() if name not in UNCOMPARED
        }
        self.data = fingerprint
        sizes = settings["layer_sizes"]
        self.sizes = tuple(sizes) if isinstance(sizes, Sequence) else (sizes,)
        self.last = time.monotonic()
        self.failed = False
        remove_leftovers(self.path)
        if not self.path.parent.is_dir():
            raise CheckpointError(
                f"checkpoint: the folder {self.path.parent} does not exist. Create it first."
            )

    def begun(self, generators: Generators) -> tuple[Point, History] | None:
        """The point and history in the file, or None if there is no file. Sets the generators to
        their state at that point."""
        if not self.path.exists():
            return None
        try:
            with open_tensors(self.path, KEY) as tensors:
                return self._read(tensors, generators)
        except (BadFileError, UnknownClassError) as problem:
            raise CheckpointError(
                f"checkpoint: {self.path} is not a deepnmf checkpoint, or is damaged "
                f"({one_line(problem)}). Delete it, or give another path."
            ) from None
        except OSError as problem:
            raise CheckpointError(
                f"checkpoint: {self.path} cannot be read ({problem.strerror or problem}). Check "
                "its permissions, or give another path."
            ) from None

    def _read(self, tensors: Tensors, generators: Generators) -> tuple[Point, History]:
        header = tensors.header
        self._compare(header)
        if not tensors.has_checksums:
            raise BadFileError("the checksums are missing")
        point = from_json(header["point"], STATES, partial(self._loaded, tensors))
        self._check(point)
        records = read_history(header["history"], tensors.__getitem__)
        stride = header["stride"]
        if not isinstance(stride, int) or stride < 1 or (point.sweep > 0 and not records):
            raise BadFileError("its history is missing")
        for generator, state in zip(generators, header["random"], strict=True):
            generator.bit_generator.state = state
        return point, History(records, stride)

    def refusal(self, problem: Exception) -> CheckpointError:
        """The error for a point from which no sweep can be made."""
        return CheckpointError(
            f"checkpoint: the fit cannot continue from {self.path} ({one_line(problem)}). Delete "
            "it, or give another path."
        )

    def offer(
        self,
        point: Callable[[], Point],
        history: History,
        generators: Generators,
        *,
        at_once: bool = False,
    ) -> None:
        """Write the point if it is time to, or at once."""
        if not at_once and time.monotonic() - self.last < self.every:
            return
        try:
            self._write(point(), history, generators)
        except OSError as problem:
            if not self.failed:
                before = "the previous one stays" if self.path.exists() else "there is none yet"
                self.warn(
                    f"checkpoint: {self.path} cannot be written ({_cause(problem)}); {before}, "
                    "and the fit continues. Free some space, or set another path.",
                    UserWarning,
                )
            self.failed = True
        self.last = time.monotonic()

    def _compare(self, header: dict[str, Any]) -> None:
        if header["format"] != FORMAT:
            raise CheckpointError(
                f"checkpoint: {self.path} was written by deepnmf {header['version']}, in a format "
                "that this version does not read. Delete it, or give another path."
            )
        for what, there, here in (
            ("data", header["data"], self.data),
            ("settings", header["settings"], self.settings),
        ):
            different = [name for name in {**there, **here} if there.get(name) != here.get(name)]
            if different:
                name, *others = different
                rest = f" (and {', '.join(others)})" if others else ""
                raise CheckpointError(
                    f"checkpoint: {self.path} is of a fit with other {what}: {name} is "
                    f"{there.get(name)} there and {here.get(name)} here{rest}. Delete it to start "
                    "again, or give another path."
                )

    def _write(
        self, point: Point, history: History, generators: Sequence[np.random.Generator]
    ) -> None:
        tensors = TensorFile()
        header = {
            "format": FORMAT,
            "version": __version__,
            "settings": self.settings,
            "data": self.data,
            "point": self._packed(tensors, point),
            "random": [generator.bit_generator.state for generator in generators],
            "history": add_history(tensors.add_array, history.records),
            "stride": history.stride,
        }
        tensors.save(self.path, KEY, header)

    def _packed(self, tensors: TensorFile, value: Any) -> Any:
        return to_json(value, lambda leaf: self._stored(tensors, leaf), leaves=(Source,))

    def _stored(self, tensors: TensorFile, value: Any) -> Any:
        """What the JSON holds in place of an array, or of one value per block."""
        if isinstance(value, np.ndarray | np.generic) or is_tensor(value):
            array = to_numpy(value)
            # Keep the order in memory: it decides how products are rounded.
            turned = array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous
            array = array.T if turned else array
            return {"tensor": tensors.add_array(array), "turned": turned}
        if isinstance(value, Blocked):
            blocks = iter(value.each())  # each is computed when it is written
            rows, widths = value.shape[0], value.layout.widths
            names = [tensors.add(value.dtype, (rows, n), lambda: next(blocks)) for n in widths]
            return {"blocks": names, "rows": rows, "dtype": value.dtype.name}
        if isinstance(value, Source):
            each = layout_of([self.like]).each(value)
            return {"each": [self._packed(tensors, entry) for entry in each]}
        if value is None or isinstance(value, bool | int | float | str):
            return NotImplemented
        raise ValueError(
            f"checkpoint: the solver remembers a {type(value).__name__}, which cannot be stored. "
            "Use a solver of deepnmf.solvers, or checkpoint=None."
        )

    def _loaded(self, tensors: Tensors, record: dict[str, Any]) -> Any:
        """The value that `_stored` wrote, on the device of the data."""
        if "tensor" in record:
            array = kept_as(_finite(tensors, record["tensor"])[()], self.like)
            return array.T if record["turned"] else array
        if "blocks" in record:
            blocks = (_finite(tensors, name) for name in record["blocks"])
            return layout_of([self.like]).put(blocks, record["rows"], np.dtype(record["dtype"]))
        load = partial(self._loaded, tensors)
        values = [from_json(entry, STATES, load) for entry in record["each"]]
        return layout_of([self.like]).keep(values)

    def _check(self, point: Point) -> None:
        """Refuse factors that are not those of the fit."""
        layers = (None, *range(1, len(self.sizes) + 1))
        if not isinstance(point, Point) or point.layer not in layers:
            raise BadFileError("it holds no fit")
        if not isinstance(point.sweep, int) or point.reason not in (None, *get_args(Reason)):
            raise BadFileError("it does not say how far the fit is")
        layer, samples = point.layer or 1, self.like.shape[-1]
        data = None if point.data is None else tuple(point.data.shape)
        if data != (None if layer == 1 else (self.sizes[layer - 2], samples)):
            raise BadFileError("the input of its layer has another shape")
        factors, rows = point.factors, self.like.shape[-2]
        shapes = list(itertools.pairwise((rows, *self.sizes[: point.layer])))
        codes = (shapes[-1][1], samples)
        if isinstance(factors, Moving):
            for number in (factors.beta, factors.ceiling, factors.succeeded):
                _ = float(number + 0)
        for state in (factors.now, factors.before) if isinstance(factors, Moving) else (factors,):
            weights = (*point.weights, *state.weights)
            if len(state.weights) != (1 if point.layer else len(self.sizes)):
                raise BadFileError("it has weights of another number of layers")
            if [tuple(W.shape) for W in weights] != shapes or tuple(state.H.shape) != codes:
                raise BadFileError("its weights or codes have other shapes")
            if isinstance(state, Factors):
                _check_sums(state.sums, state.weights[0].shape[-2], codes[0])
            for factor in (*weights, state.H):
                if factor.dtype != self.like.dtype:
                    raise BadFileError(f"it holds {factor.dtype}, and the data {self.like.dtype}")
                if bool(namespace(factor).sum(factor < 0) > 0):
                    raise BadFileError("it has negative weights or codes")


def _check_sums(sums: Sums, rows: int, parts: int) -> None:
    """Compiled code relies on these shapes."""
    S, Q = (tuple(array.shape) for array in sums)
    if (parts, parts) != S or Q not in ((rows, parts), (0, parts)):
        raise BadFileError("its sums over the samples have other shapes")


def _finite(tensors: Tensors, name: str) -> np.ndarray:
    """A tensor of finite numbers."""
    array = tensors[name]
    if not np.isfinite(array).all():
        raise BadFileError(f"{name} has entries that are not finite numbers")
    return array


def _cause(problem: OSError) -> str:
    """What the system said."""
    cause = problem.__cause__
    return str(cause.strerror if isinstance(cause, OSError) else problem.strerror)


def checkpoint_of(setting: Any) -> Checkpoint | None:
    """The `Checkpoint` that the parameter of a model describes."""
    if isinstance(setting, Checkpoint):
        if not (isinstance(setting.every, int | float) and setting.every >= 0):
            raise ValueError(
                f"checkpoint: every={one_line(repr(setting.every))} is not a number of seconds ≥ 0."
            )
        return setting
    if setting is None:
        return None
    if not isinstance(setting, str | os.PathLike):
        raise ValueError(
            f"checkpoint: {one_line(repr(setting))} is not a path. Write checkpoint='fit.ckpt', or "
            "Checkpoint(path, every=seconds) from deepnmf."
        )
    return Checkpoint(setting)


def _described(value: Any) -> str:
    """A parameter as text; arrays by their size and checksum."""

    def leaf(path: tuple[Any, ...], value: Any) -> str:
        del path
        if hasattr(value, "shape"):
            array = to_numpy(value)
            return repr(array.item()) if array.ndim == 0 else f"{array.shape} {crc([array]):08x}"
        return "a RandomState" if isinstance(value, np.random.RandomState) else repr(value)

    def join(node: Any, values: dict[Any, str]) -> str:
        if is_named(node):
            fields = ", ".join(f"{name}={text}" for name, text in values.items())
            return f"{type(node).__name__}({fields})"
        return f"[{', '.join(values.values())}]"

    return fold(value, leaf, join)
