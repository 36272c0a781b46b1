"""The commands, and how their errors are shown."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from deepnmf.cli import (
    choose,
    cluster,
    data,
    demo,
    evaluate,
    export,
    fit,
    info,
    models,
    rename,
    report,
    reproduce,
    study,
    transform,
)
from deepnmf.cli.help import Command
from deepnmf.cli.screen import (
    Interrupted,
    UsageFault,
    outputs_forgotten,
    outputs_written,
    say_error,
)
from deepnmf.samples.dask.replay import ClusterError
from deepnmf.terminal import interrupts

# typer brings its own click; this is the base class of what it raises for wrong use.
UsageError: Any = typer.BadParameter.__mro__[1]

app = typer.Typer(
    help="Sparse deep nonnegative matrix factorization.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Command)(demo.demo)
app.command(cls=Command)(fit.fit)
app.command(cls=Command)(transform.transform)
app.command(cls=Command)(evaluate.evaluate)
app.command(cls=Command)(cluster.cluster)
app.command(cls=Command)(report.report)
app.command(cls=Command)(export.export)
app.command(cls=Command)(rename.rename)
app.command(cls=Command)(reproduce.reproduce)
app.command(cls=Command)(choose.choose)
app.command(cls=Command)(study.study)
app.command(cls=Command)(info.info)
app.command(cls=Command)(models.models)
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    """Sparse deep nonnegative matrix factorization."""
    if version:
        from deepnmf.version import __version__

        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def execute(arguments: Sequence[str] | None) -> int:
    """Run a command, show its error if it fails, and return its exit code."""
    # Warnings are for programmers. Commands tell users what they need to know.
    warnings.simplefilter("ignore")
    outputs_forgotten()
    try:
        code = _invoke(arguments)
        interrupts.check()
        interrupts.PRESSES.held = True
        return code
    except (Exception, KeyboardInterrupt) as problem:
        interrupts.PRESSES.held = True  # a second Ctrl-C must not break off the message
        code, words = _explained(problem)
    if words:
        say_error(words)
    return code


def _invoke(arguments: Sequence[str] | None) -> int:
    """Run a command. Unlike `app()`, this leaves Ctrl-C to the caller."""
    command: Any = typer.main.get_command(app)
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with command.make_context("deepnmf", given) as context:
            command.invoke(context)
    except typer.Exit as problem:
        return int(problem.exit_code)
    return 0


def _explained(problem: BaseException) -> tuple[int, str]:
    """The exit code for an error, and the line that explains it."""
    if isinstance(problem, Interrupted):
        return 130, str(problem)
    if interrupts.waiting() or isinstance(problem, KeyboardInterrupt | typer.Abort):
        return 130, _interrupted()
    if isinstance(problem, UsageError):
        where = f" (see {problem.ctx.command_path} --help)" if problem.ctx else ""
        return 2, problem.format_message() + where
    if isinstance(problem, UsageFault):
        return 2, str(problem)
    if isinstance(problem, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1, ""
    if isinstance(problem, MemoryError):
        return 1, "out of memory: use --dtype float32, smaller layers or fewer samples."
    if isinstance(problem, ValueError | OSError | ClusterError):
        return 1, _one_line(problem)
    if interrupts.PRESSES.count:  # an interrupted import can fail in any way, also later
        return 130, _interrupted()
    if os.environ.get("DEEPNMF_DEBUG"):
        raise problem
    return 1, (
        f"unexpected {type(problem).__name__}: {_one_line(problem)} This is a bug in "
        "deepnmf: please report it, with the traceback that DEEPNMF_DEBUG=1 shows."
    )


def _interrupted() -> str:
    written = ", ".join(str(path) for path in outputs_written())
    return f"interrupted; {f'written: {written}' if written else 'nothing was written'}."


def _one_line(problem: BaseException) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        place = f"{problem.filename}: " if problem.filename else ""
        return f"{place}{problem.strerror}."
    return " ".join(str(problem).split())
