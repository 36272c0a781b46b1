"""`deepnmf`: the commands, and how their errors are shown."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
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
    """The entry point. Exit codes: 0 done, 1 the run failed, 2 wrong use, 130 interrupted."""
    sys.exit(main(arguments))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Warnings are for programmers. Commands tell users what they need to know.
    warnings.simplefilter("ignore")
    with _ctrl_c_remembered() as presses:
        return _run(arguments, presses)


def _run(arguments: Sequence[str] | None, presses: Sequence[int]) -> int:
    """Run a command, show its error if it fails, and return its exit code.

    `presses` is not empty once Ctrl-C was pressed.
    """
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
        if presses:  # an interrupted import can fail in any way
            say_error("interrupted; nothing was written.")
            return 130
        say_error(
            f"unexpected {type(problem).__name__}: {_one_line(problem)} This is a bug in "
            "deepnmf: please report it, with the traceback that DEEPNMF_DEBUG=1 shows."
        )
        return 1
    return result if isinstance(result, int) else 0


@contextlib.contextmanager
def _ctrl_c_remembered() -> Iterator[list[int]]:
    """A list with one entry for every press of Ctrl-C.

    Ctrl-C still does what it did before. Where it is ignored, it stays ignored and is not noted.
    """
    presses: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or handler is not signal.default_int_handler:
        yield presses
        return

    def remember(number: int, frame: FrameType | None) -> None:
        presses.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, remember)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, handler)


def _one_line(problem: BaseException) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        place = f"{problem.filename}: " if problem.filename else ""
        return f"{place}{problem.strerror}."
    return " ".join(str(problem).split())
