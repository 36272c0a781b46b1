"""A command: its help, with names filled in when it is asked for, and its output."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

from typer.core import TyperCommand

from deepnmf.cli.screen import UsageFault, clean_stdout


class Command(TyperCommand):
    """A command whose help texts can hold placeholders, such as {links} for the names of all links.

    The tables of names need NumPy. They are imported only when the help of a command that names
    them is shown, so that commands start quickly.
    """

    # typer brings its own click, whose types have no public name.
    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            text = getattr(parameter, "help", None)
            if text is not None:
                parameter.help = filled(text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        self._check_values(args)
        return super().parse_args(ctx, args)

    def _check_values(self, words: list[str]) -> None:
        """Refuse an option in the place of another one's value: `--fill --json` lacks a value."""
        options = {name: option for option in self.params for name in option.opts}
        before = itertools.takewhile(lambda word: word != "--", words)
        for word, following in itertools.pairwise(before):
            takes_value = word in options and not getattr(options[word], "is_flag", True)
            if takes_value and following.startswith("--") and following in options:
                raise UsageFault(f"{word} needs a value, and is followed by {following}.")

    def invoke(self, ctx: Any) -> Any:
        with clean_stdout():
            return super().invoke(ctx)


def filled(text: str) -> str:
    """The text with the names in place of its placeholders."""
    return re.sub(r"\{(\w+)\}", lambda match: ", ".join(TABLES[match[1]]()), text)


def _datasets() -> Iterable[str]:
    from deepnmf.data.datasets import DATASETS

    return DATASETS


def _links() -> Iterable[str]:
    from deepnmf.links import LINKS

    return LINKS


def _solvers() -> Iterable[str]:
    from deepnmf.solvers import SOLVERS

    return SOLVERS


def _starts() -> Iterable[str]:
    from deepnmf.starts import STARTS

    return STARTS


TABLES: dict[str, Callable[[], Iterable[str]]] = {
    "datasets": _datasets,
    "links": _links,
    "solvers": _solvers,
    "starts": _starts,
}
"""What each placeholder stands for."""
