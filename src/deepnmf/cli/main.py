"""`deepnmf`: the entry point. It takes care of Ctrl-C before anything slow is imported."""

from __future__ import annotations

import sys

from deepnmf.terminal import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def run(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process.

    Exit codes: 0 done, 1 the run failed, 2 wrong use, 130 interrupted.
    """
    try:
        interrupts.listen_until_exit()
        code = main(arguments)
    except KeyboardInterrupt:  # in the first moments, before `main` can take it
        code = _interrupted()
    interrupts.ignore_from_now()
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with interrupts.remembered():
        try:
            from deepnmf.cli.commands import execute

            code = execute(arguments)
        except BaseException:  # an interrupted import can fail in any way
            if not interrupts.waiting():
                raise
            code = _interrupted()
        interrupts.take()
        return code


def _interrupted() -> int:
    """Say so, and return the exit code. Another press waits."""
    interrupts.PRESSES.held = True
    sys.stderr.write("error: interrupted.\n")
    return 130
