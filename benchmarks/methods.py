"""What a method is, and the process it runs in.

Every method has a process of its own for the time of a problem. Their libraries bring a BLAS, an
OpenMP and thread pools each, which would meet in one process; what a method prints is not seen;
and one that crashes or takes too long ends alone.
"""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from problems import Problem


class Factors(NamedTuple):
    """W (n_samples, k), H (k, n_features), and the iterations done, where a method may do fewer
    than asked for."""

    W: np.ndarray
    H: np.ndarray
    iterations: int | None = None


PATIENCE = 600.0
"""Seconds that importing, compiling and a first call may take, all methods at once."""
PAUSE = 0.1
"""Seconds before a call: idle threads of OpenBLAS and OpenMP spin for some 30 ms first."""


class Bound(NamedTuple):
    """A method and a problem."""

    call: Callable[[int], Any]
    """The whole public call with that many iterations: what is timed."""
    factors: Callable[[int], Factors]
    """The factors after that many iterations: what is judged."""
    ask: Callable[[str, Any], Any] | None = None
    """Further questions, by name."""


@dataclass(frozen=True)
class Method:
    """A named way to factorize. `bind` imports its library, so that only its process has it."""

    name: str
    distributions: tuple[str, ...]
    bind: Callable[[Problem, int], Bound]
    dtype: str = "float32"
    sparse: bool = False
    start: str = "given"
    note: str = ""
    warm_up: int = 2
    """Iterations of a first call, in which whatever is to be compiled is."""

    def versions(self) -> str:
        """`name version` of what it is made of."""
        found = []
        for name in (*self.distributions, "numpy"):
            try:
                found.append(f"{name} {importlib.metadata.version(name)}")
            except importlib.metadata.PackageNotFoundError:
                found.append(f"{name} not installed")
        return ", ".join(found)


class Failure(RuntimeError):
    """A method that could not do what was asked, and why."""


class Worker:
    """A method at work on a problem, in its own process."""

    def __init__(self, method: Method, problem: Problem, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.method = method
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, method, problem, threads), daemon=True
        )
        self.process.start()
        theirs.close()

    def ready(self) -> str:
        """Wait until the method has been imported and warmed up; its thread pools, in words."""
        return self._answer(PATIENCE)

    def factors(self, iterations: int, limit: float) -> tuple[float, Factors]:
        """Seconds, and the factors after that many iterations."""
        return self._ask(limit, "factors", iterations)

    def seconds(self, iterations: int, limit: float) -> tuple[float, Any]:
        """Seconds of a whole call, and what it says about itself."""
        time.sleep(PAUSE)
        return self._ask(limit, "call", iterations)

    def ask(self, name: str, argument: Any, limit: float) -> Any:
        """A further question."""
        return self._ask(limit, "ask", (name, argument))

    def close(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def _ask(self, limit: float, kind: str, argument: Any) -> Any:
        try:
            self.connection.send((kind, argument))
        except OSError:
            raise Failure("crashed before it was asked") from None
        return self._answer(limit)

    def _answer(self, limit: float) -> Any:
        try:
            if not self.connection.poll(limit):
                self.process.kill()
                raise Failure(f"stopped: one call took more than {limit:.0f} s")
            answer = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            raise Failure(f"crashed: exit code {self.process.exitcode}") from None
        if isinstance(answer, Failure):
            raise answer
        return answer


def _serve(connection: Connection, method: Method, problem: Problem, threads: int) -> None:
    """The worker's process: bind and warm up, then answer until the other end is closed."""
    warnings.simplefilter("ignore")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        bound = method.bind(problem.locked(), threads)
        bound.call(method.warm_up)
        bound.factors(method.warm_up)
        connection.send(_pools())
    except ImportError as error:
        connection.send(Failure(f"not installed: {error}{_installer(method)}"))
        return
    except Exception as error:
        connection.send(Failure(f"failed: {type(error).__name__}: {error}"))
        return
    while True:
        try:
            kind, argument = connection.recv()
        except EOFError:
            return
        try:
            if kind == "ask":
                answer = bound.ask(*argument) if bound.ask else None
            else:
                began = time.perf_counter()
                result = getattr(bound, kind)(argument)
                seconds = time.perf_counter() - began
                answer = (seconds, result)
        except Exception as error:
            answer = Failure(f"failed: {type(error).__name__}: {error}")
        connection.send(answer)


def _pools() -> str:
    """The thread pools of this process, as threadpoolctl sees them."""
    from threadpoolctl import threadpool_info

    found = {f"{pool['internal_api']} x{pool['num_threads']}" for pool in threadpool_info()}
    return ", ".join(sorted(found))


def _installer(method: Method) -> str:
    """What pip said, where `make bench` could not install the method."""
    note = Path(sys.prefix) / f"{method.distributions[0]}.failed"
    lines = note.read_text().splitlines() if note.is_file() else []
    return f" (pip: {lines[-1]})" if lines else ""
