"""A command: its help, with names filled in when it is asked for, and its output."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from typer.core import TyperCommand

from deepnmf.cli.screen import clean_stdout


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
