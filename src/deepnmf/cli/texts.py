"""Texts as data: the options that shape their vocabulary, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from deepnmf.cli.inputs import value
from deepnmf.cli.screen import UsageFault

if TYPE_CHECKING:
    from deepnmf.data import Dataset, Vectorizer

AsText = Annotated[
    bool,
    typer.Option(
        "--text",
        help="DATA are texts: a folder of files, a file with one per line, or a table with one "
        "per row.",
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option("--text-column", help="The column of the table that holds the texts."),
]
MaxFeatures = Annotated[
    int | None,
    typer.Option(
        "--max-features",
        min=1,
        help="With --text, keep this many words, the most frequent ones. [default: 20000]",
    ),
]
MinDf = Annotated[
    str | None,
    typer.Option(
        "--min-df",
        help="With --text, words that fewer texts have are left out: a number (2) or a share "
        "(0.01). [default: 2]",
    ),
]
MaxDf = Annotated[
    str | None,
    typer.Option(
        "--max-df",
        help="With --text, words that more texts have are left out: a number (100) or a share "
        "(0.5). [default: 0.5]",
    ),
]
StopWords = Annotated[
    str | None,
    typer.Option(
        "--stop-words",
        help="With --text, words to leave out: english, none, or a file with one per line. "
        "[default: english]",
    ),
]


@dataclass(frozen=True)
class TextSettings:
    """How documents become samples."""

    column: str | None = None
    max_features: int | None = None
    min_df: str | None = None
    max_df: str | None = None
    stop_words: str | None = None

    def given(self) -> dict[str, object]:
        """The settings of `read_texts` that are not left to it."""
        settings: dict[str, object] = {
            "column": self.column,
            "max_features": self.max_features,
            "min_df": None if self.min_df is None else value(self.min_df),
            "max_df": None if self.max_df is None else value(self.max_df),
        }
        settings = {name: setting for name, setting in settings.items() if setting is not None}
        if self.stop_words is not None:
            settings["stop_words"] = self._stop_words()
        return settings

    def _stop_words(self) -> str | list[str] | None:
        """english, none, or the words in a file."""
        from deepnmf.data import read_names

        if self.stop_words in ("english", "none"):
            return None if self.stop_words == "none" else "english"
        return [str(word) for word in read_names(str(self.stop_words))]


def load_texts(data: str, settings: TextSettings) -> tuple[Dataset, Vectorizer]:
    """Documents as samples, and their vocabulary."""
    from typing import Any

    from deepnmf.data import read_texts
    from deepnmf.data.dataset import DataError

    if not data:
        raise UsageFault("DATA is empty: give a folder of texts, a file or a table.")
    given: dict[str, Any] = settings.given()
    try:
        return read_texts(data, **given)
    except DataError as problem:
        raise DataError(_in_options(str(problem))) from problem
    except ValueError as problem:
        raise UsageFault(_in_options(str(problem))) from None


def _in_options(message: str) -> str:
    for name in ("max_features", "min_df", "max_df", "stop_words"):
        message = message.replace(name, f"--{name.replace('_', '-')}")
    return message
