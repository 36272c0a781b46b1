"""Ctrl-C, remembered until it is acted on.

Python raises KeyboardInterrupt wherever it happens to be. In a destructor, in a callback or behind
a broad `except` it is dropped, and the work continues. Presses are therefore counted here, and long
work asks whether one is waiting. This module imports nothing slow: the command line uses it first.
"""

from __future__ import annotations

import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Self

AGAIN = 0.02
"""Seconds after which a KeyboardInterrupt that Python dropped is raised again."""
TOGETHER = 0.1
"""Presses within so many seconds raise one KeyboardInterrupt. A second one could break off the
cleaning up after the first."""


class Presses:
    """How often Ctrl-C was pressed, and how many of these presses were acted on."""

    count = 0
    taken = 0
    held = False
    """Whether a press waits instead of raising KeyboardInterrupt."""
    raised = -TOGETHER
    """When a press last raised KeyboardInterrupt, by the monotonic clock."""


PRESSES = Presses()


def waiting() -> bool:
    """Whether a press of Ctrl-C has not been acted on."""
    return PRESSES.count > PRESSES.taken


def check() -> None:
    """Raise KeyboardInterrupt if a press is waiting, unless presses are held."""
    if waiting() and not PRESSES.held:
        raise KeyboardInterrupt


def take() -> None:
    """Count all presses as acted on."""
    PRESSES.taken = PRESSES.count


class remembered:
    """Count the presses of Ctrl-C; each still raises KeyboardInterrupt.

    Another handler than Python's own stays as it is, so that Ctrl-C stays ignored where it was, and
    an outer `remembered` keeps counting. Threads other than the main one have no handlers.
    """

    def __enter__(self) -> Self:
        self.installed = _listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: Any, trace: TracebackType | None
    ) -> None:
        if self.installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if kind is None:
                check()  # dropped, and not asked for since


class held:
    """Let Ctrl-C wait until the end of a short piece of work, such as writing a file; or longer,
    until somebody asks."""

    def __init__(self, *, longer: bool = False) -> None:
        self.longer = longer

    def __enter__(self) -> Self:
        self.before = PRESSES.held
        PRESSES.held = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: Any, trace: TracebackType | None
    ) -> None:
        PRESSES.held = self.before
        if kind is None and not self.longer:
            check()


def listen_until_exit() -> None:
    """Count presses for the rest of the process, and raise those again that Python drops."""
    if _listen():
        sys.unraisablehook = _dropped


def ignore_from_now() -> None:
    """Ignore Ctrl-C: all work is done and the process is about to end."""
    if signal.getsignal(signal.SIGINT) is not _pressed:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) is _again:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    # CPython remembers a KeyboardInterrupt that left an `exec`, as in dataclasses, until the next
    # `exec`. At the end of `python -m` it would then kill the process instead of exiting.
    exec("")


def _listen() -> bool:
    """Count presses from now on. False if that is not for us to do."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    PRESSES.count = PRESSES.taken = 0
    PRESSES.held = False
    PRESSES.raised = -TOGETHER
    try:
        signal.signal(signal.SIGINT, _pressed)
    except ValueError:  # not the main thread
        return False
    return True


def _pressed(_number: int, _frame: FrameType | None) -> None:
    PRESSES.count += 1
    now = time.monotonic()
    if not PRESSES.held and now - PRESSES.raised >= TOGETHER:
        PRESSES.raised = now
        raise KeyboardInterrupt


def _dropped(what: Any) -> None:
    """Called by Python with an exception that it drops. After Ctrl-C it may be of any kind."""
    if not PRESSES.count:
        sys.__unraisablehook__(what)
    elif waiting() and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _again)
        signal.setitimer(signal.ITIMER_REAL, AGAIN)


def _again(_number: int, _frame: FrameType | None) -> None:
    check()
