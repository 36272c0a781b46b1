"""`deepnmf data`: the named data sets."""

from __future__ import annotations

import typer

from deepnmf.cli import inputs
from deepnmf.cli.help import Command
from deepnmf.cli.options import AsJson
from deepnmf.cli.screen import say, say_json

app = typer.Typer(help="List and fetch the named data sets.", no_args_is_help=True)


@app.command("list", cls=Command)
def list_(as_json: AsJson = False) -> None:
    """List the data sets, and whether they are on this machine."""
    from deepnmf.data.datasets import DATASETS, locate

    rows = []
    for name, (load, remote) in DATASETS.items():
        path, problem = None, None
        try:
            path = None if remote is None else locate(remote)
        except (ValueError, OSError) as wrong:
            problem = str(wrong)
        rows.append(
            {
                "name": name,
                "about": " ".join((load.__doc__ or "").split("\n\n")[0].split()),
                "here": remote is None or path is not None,
                "path": None if path is None else str(path),
                "problem": problem,
            }
        )
    if as_json:
        say_json(rows)
        return
    for row in rows:
        where = "here" if row["here"] else "wrong file" if row["problem"] else "to be fetched"
        say(f"{row['name']:<8} {where:<14} {row['problem'] or row['about']}")


@app.command(cls=Command)
def fetch(name: str = typer.Argument(help="One of {datasets}.")) -> None:
    """Fetch a data set into the user's cache."""
    from deepnmf.data.datasets import DATASETS
    from deepnmf.data.datasets import fetch as fetch_file

    inputs.one_of("NAME", name, list(DATASETS))
    remote = DATASETS[name][1]
    if remote is None:
        say(f"{name} comes with scikit-learn: nothing to fetch.")
    else:
        say(f"{name} is at {fetch_file(remote)}")
