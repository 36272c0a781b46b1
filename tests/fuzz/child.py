"""Commands that are sent a signal at their n-th step.

A step is a call or a return of a function, of Python or of C. A step is nearly the same moment on
every machine, so a case that fails can be repeated. `python -m tests.fuzz.child` reads a case from
each line of stdin, runs it in a fork that has imported everything already, and answers with its
exit code. `python -m tests.fuzz.child CASE` runs one case in a new process.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from typing import Any


class Steps:
    """Counts steps, and sends a signal to this process at one of them."""

    def __init__(self, number: int, at: int | None, again: float | None) -> None:
        self.number, self.at, self.again, self.count = number, at, again, 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        self.count += 1
        if self.count == self.at:
            if self.again is not None:
                atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)
                signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), self.number))
                signal.setitimer(signal.ITIMER_PROF, self.again)
            os.kill(os.getpid(), self.number)


def begin(case: dict[str, Any]) -> None:
    """Run a command to its end, with what it prints in files of the current folder."""
    from deepnmf.cli.main import run
    from deepnmf.terminal import interrupts

    # As `run` does first. Before that, Ctrl-C is a matter of Python alone.
    interrupts.listen_until_exit()
    os.chdir(case["folder"])
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    steps = Steps(case["signal"], case["step"], case["again"])
    if case["step"] is None:
        atexit.register(lambda: os.write(1, f"\nsteps {steps.count}".encode()))
    sys.setprofile(steps)
    if case["arguments"] == ["checkpointed"]:
        from tests.fuzz.kills import checkpointed

        checkpointed()
        sys.exit()
    run(case["arguments"])


def serve() -> None:
    """Run every case of stdin in a fork, and print its pid and then its exit code."""
    from deepnmf.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for arguments in json.loads(sys.stdin.readline()):  # once, so that forks are quick
        main(arguments)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            begin(json.loads(line))
        print(pid, file=answers, flush=True)
        status = os.waitpid(pid, 0)[1]
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        begin(json.loads(sys.argv[1]))
    else:
        serve()
