"""`deepnmf rename`: give the parts of a model names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepnmf.cli.export import features_of
from deepnmf.cli.options import AsJson, ModelFile
from deepnmf.cli.screen import UsageFault, check_writable, say, say_json

if TYPE_CHECKING:
    from deepnmf.models.storage import Stored

NamesFile = Annotated[str | None, typer.Argument(help="The names to apply: .json, .csv or .tsv.")]
Template = Annotated[
    str | None,
    typer.Option("--write", help="Write a file of names to fill in, and change nothing."),
]
Target = Annotated[
    str | None, typer.Option("-o", "--output", help="The model to write. [default: MODEL]")
]


def rename(
    model: ModelFile,
    names: NamesFile = None,
    write: Template = None,
    output: Target = None,
    top: int = typer.Option(10, min=1, help="With --write, how many features of each part."),
    as_json: AsJson = False,
) -> None:
    """Give the parts of a model the names in a file, or write such a file to fill in."""
    from deepnmf.models.storage import load_stored

    if (names is None) == (write is None):
        raise UsageFault("give a file of names to apply, or --write and a file to fill in.")
    if write is not None:
        if output is not None:
            raise UsageFault("-o: --write changes no model; leave one of them out.")
        _write_template(load_stored(model), model, write, top, as_json=as_json)
        return
    _apply(load_stored(model), names or "", output or model, as_json=as_json)


def _write_template(stored: Stored, model: str, file: str, top: int, *, as_json: bool) -> None:
    from deepnmf.explain.names_files import FORMATS, write_names

    target = check_writable(file, FORMATS)
    write_names(stored.model, target, features_of(stored), count=top)
    parts = sum(map(len, stored.model.part_names_))
    if as_json:
        say_json({"parts": parts, "output": str(target)})
        return
    say(f"written  {target}  ({parts} parts). Fill in names, then: deepnmf rename {model} {target}")


def _apply(stored: Stored, names: str, output: str, *, as_json: bool) -> None:
    from deepnmf.explain.names_files import read_names
    from deepnmf.models.part_names import given_names
    from deepnmf.models.storage import save

    fitted, target = stored.model, check_writable(output)
    before = [[*layer] for layer in fitted.part_names_]
    read_names(fitted, Path(names))
    save(fitted, target, stored.notes)
    pairs = [
        (old, new)
        for olds, news in zip(before, fitted.part_names_, strict=True)
        for old, new in zip(olds, news, strict=True)
    ]
    changed = sum(old != new for old, new in pairs)
    own = [name for layer in fitted.part_names_ for name in given_names(layer) or ()]
    named = sum(name is not None for name in own)
    hidden = sum(map(len, fitted.hidden_parts_))
    if as_json:
        record = {"changed": changed, "named": named, "parts": len(pairs), "hidden": hidden}
        say_json({**record, "output": str(target)})
        return
    say(f"changed  {changed} names; {named} of {len(pairs)} parts have names, {hidden} are hidden")
    say(f"written  {target}")
