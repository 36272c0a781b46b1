"""What a method is, and the process it runs in.

Every method runs in its own process, one per problem. Each library brings its own BLAS, OpenMP and
thread pools, which would clash in one process. The output of a method is hidden, and a method that
crashes or takes too long does not stop the others.
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
    """W (n_samples, k) and H (k, n_features), and the iterations done if they can be fewer than
    asked for."""

    W: np.ndarray
    H: np.ndarray
    iterations: int | None = None


PATIENCE = 600.0
"""Seconds allowed for importing, compiling and a first call, all methods at once."""
PAUSE = 0.1
"""Seconds to wait before a call: idle threads of OpenBLAS and OpenMP spin for about 30 ms."""


class Bound(NamedTuple):
    """A method, bound to a problem."""

    call: Callable[[int], Any]
    """The complete public call with that many iterations. This is timed."""
    factors: Callable[[int], Factors]
    """The factors after that many iterations. These are judged."""
    ask: Callable[[str, Any], Any] | None = None
    """Further questions, by name."""


@dataclass(frozen=True)
class Method:
    """A named way to factorize. `bind` imports the library, in the method's own process only."""

    name: str
    distributions: tuple[str, ...]
    bind: Callable[[Problem, int], Bound]
    dtype: str = "float32"
    sparse: bool = False
    start: str = "given"
    note: str = ""
    warm_up: int = 2
    """Iterations of a first call, which triggers all compilation."""

    def versions(self) -> str:
        """`name version` of each library it uses."""
        found = []
        for name in (*self.distributions, "numpy"):
            try:
                found.append(f"{name} {importlib.metadata.version(name)}")
            except importlib.metadata.PackageNotFoundError:
                found.append(f"{name} not installed")
        return ", ".join(found)


class Failure(RuntimeError):
    """Why a method could not do what was asked."""


class Worker:
    """A method working on a problem in its own process."""

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
        """Wait until the method is imported and warmed up, and name its thread pools."""
        return self._answer(PATIENCE)

    def factors(self, iterations: int, limit: float) -> tuple[float, Factors]:
        """Seconds, and the factors after that many iterations."""
        return self._ask(limit, "factors", iterations)

    def seconds(self, iterations: int, limit: float) -> tuple[float, Any]:
        """Seconds of a complete call, and what it returns about itself."""
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
    """The worker process: bind, warm up, then answer until the other end closes."""
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
    """What pip said if `make bench` could not install the method."""
    note = Path(sys.prefix) / f"{method.distributions[0]}.failed"
    lines = note.read_text().splitlines() if note.is_file() else []
    return f" (pip: {lines[-1]})" if lines else ""
