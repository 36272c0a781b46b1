"""What a case may end with, and how a finding is worded.

A finding is one line: its kind, what happened and where, then after " | " the details. Findings
that agree up to the details count as one.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

KINDS = ("crash", "hang", "traceback", "nan", "accepted", "other")
"""Crashes, hangs, errors that are no answer, silent NaN, what should be refused, and the rest."""
POLITE: tuple[type[BaseException], ...] = (ValueError, TypeError)
"""The errors that tell users what is wrong."""
LONGEST = 600
"""Characters of a message that can still be read."""
show_tracebacks = False
"""Print the traceback of every error, for a single case that is repeated."""


class Broken(Exception):
    """A law that does not hold; its text is the finding."""


def demand(holds: object, finding: str) -> None:
    """Raise a finding unless the law holds."""
    if not bool(holds):
        raise Broken(finding)


@contextmanager
def quiet_numbers() -> Iterator[None]:
    """Turn RuntimeWarnings, which tell of overflow and NaN, into findings; hide other warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        yield


def judged(
    work: Callable[[], None], polite: tuple[type[BaseException], ...] = POLITE
) -> str | None:
    """Run a case. None, or the finding."""
    try:
        with quiet_numbers():
            work()
    except Broken as finding:
        return str(finding)
    except Exception as problem:
        return complaint(problem, polite)
    return None


def complaint(
    problem: BaseException, polite: tuple[type[BaseException], ...] = POLITE
) -> str | None:
    """The finding that an error is, or None if it is a fair answer."""
    if show_tracebacks:
        traceback.print_exception(problem, file=sys.stderr)
    where, text = place(problem), " ".join(str(problem).split())[:LONGEST]
    name = type(problem).__name__
    if isinstance(problem, RuntimeWarning):
        return f"other: RuntimeWarning at {where} | {text}"
    if not isinstance(problem, polite) or isinstance(problem, UnicodeError):
        return f"traceback: {name} at {where} | {text}"
    if not text:
        return f"other: {name} without a message at {where} |"
    if ("\n" in str(problem).strip() or len(str(problem)) > LONGEST) and _ours(problem):
        return f"other: {name} is not one short line, at {where} | {text}"
    if not _on_purpose(problem):
        return f"other: {name} by accident at {where} | {text}"
    return None


def place(problem: BaseException) -> str:
    """The last line of deepnmf in a traceback; without one, the last line."""
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in frames if "/deepnmf/" in frame.filename] or list(frames)
    if not ours:
        return "an unknown place"
    path = Path(ours[-1].filename)
    return f"{path.parent.name}/{path.name}:{ours[-1].lineno}"


def _on_purpose(problem: BaseException) -> bool:
    """Whether deepnmf raised the error itself, or had scikit-learn check what it was given."""
    files = [frame.filename for frame in traceback.extract_tb(problem.__traceback__)]
    ours = [place for place, name in enumerate(files) if "/deepnmf/" in name]
    after = files[ours[-1] + 1 :] if ours else files
    return not after or any("/sklearn/utils/" in name for name in after)


def _ours(problem: BaseException) -> bool:
    """Whether the words of an error are those of deepnmf."""
    frames = traceback.extract_tb(problem.__traceback__)
    return bool(frames) and "/deepnmf/" in frames[-1].filename
