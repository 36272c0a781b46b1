"""`deepnmf`: the commands, and how their errors are said."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from deepnmf.cli import (
    data,
    demo,
    evaluate,
    fit,
    info,
    models,
    report,
    reproduce,
    study,
    transform,
)
from deepnmf.cli.help import Command
from deepnmf.cli.screen import UsageFault, say_error
from deepnmf.samples.dask.replay import ClusterError

# typer brings a click of its own; what it raises for wrong use has this base.
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
app.command(cls=Command)(report.report)
app.command(cls=Command)(reproduce.reproduce)
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


def run(arguments: Sequence[str] | None = None) -> None:
    """The entry point: exit code 0 done, 1 a run that failed, 2 wrong use; never a traceback."""
    sys.exit(main(arguments))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Warnings are for programmers; what matters of them is in a command's own output.
    warnings.simplefilter("ignore")
    with _ctrl_c_remembered() as asked:
        return _run(arguments, asked)


def _run(arguments: Sequence[str] | None, asked: list[bool]) -> int:
    """The exit code of a command, its errors said; `asked` is true once Ctrl-C was pressed."""
    try:
        result = app(args=arguments, standalone_mode=False)
    except UsageError as problem:
        where = f" (see {problem.ctx.command_path} --help)" if problem.ctx else ""
        say_error(problem.format_message() + where)
        return 2
    except UsageFault as problem:
        say_error(str(problem))
        return 2
    except typer.Exit as problem:
        return int(problem.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        say_error("interrupted; nothing was written.")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        say_error("out of memory: use --dtype float32, smaller layers or fewer samples.")
        return 1
    except (ValueError, OSError, ClusterError) as problem:
        say_error(_one_line(problem))
        return 1
    except Exception as problem:
        if os.environ.get("DEEPNMF_DEBUG"):
            raise
        if asked:  # an import that was broken off can fail in any way
            say_error("interrupted; nothing was written.")
            return 130
        say_error(
            f"unexpected {type(problem).__name__}: {_one_line(problem)} This is a fault of "
            "deepnmf: please report it, with the traceback that DEEPNMF_DEBUG=1 shows."
        )
        return 1
    return result if isinstance(result, int) else 0


@contextlib.contextmanager
def _ctrl_c_remembered() -> Iterator[list[bool]]:
    """A list that is not empty once Ctrl-C was pressed; what it does is done as ever, and where it
    does nothing, it stays so."""
    asked: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread()
    if not ours or before is not signal.default_int_handler:
        yield asked
        return

    def note(number: int, frame: Any) -> None:
        asked.append(True)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _one_line(problem: BaseException) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        place = f"{problem.filename}: " if problem.filename else ""
        return f"{place}{problem.strerror}."
    return " ".join(str(problem).split())
