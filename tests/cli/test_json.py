"""--json: stdout is JSON that every reader accepts, or empty."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import deepnmf.cli.commands as commands
from deepnmf.cli.help import Command
from deepnmf.cli.screen import say_json
from tests.cli.conftest import FEW


def strict(text: str):
    """What a reader makes of it that knows no NaN and no Infinity."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def calls(data, model, tmp_path):
    """Every command that has --json, with what makes it print more, or fail."""
    np.savetxt(tmp_path / "labels.txt", np.arange(40) % 3, fmt="%d")
    fit = ("fit", data, "-o", tmp_path / "m", "--layers", "8,5", *FEW)
    return {
        "fit": (fit, ("--set", "verbose=true"), ("--mu", "-1")),
        "evaluate": (
            ("evaluate", model, data, "--labels", tmp_path / "labels.txt", "--repeats", "1"),
            (),
            ("--labels", "absent"),
        ),
        "choose": (
            ("choose", data, "-o", tmp_path / "c", "--depth", "1", "--most", "3", "--starts", "0"),
            (),
            ("--budget", "soon"),
        ),
        "cluster": (
            ("cluster", model, data, "-o", tmp_path / "c.csv", "--clusters", "3"),
            (),
            ("--method", "soon"),
        ),
        "export": (
            ("export", model, data, "-o", tmp_path / "tables"),
            (),
            ("--format", "soon"),
        ),
        "rename": (("rename", model, "--write", tmp_path / "n.json"), (), ("--absent",)),
        "info": (("info", model), (), ("--absent",)),
        "list": (("data", "list"), (), ("--absent",)),
    }


def test_stdout_is_json_or_empty(call, calls):
    for command, more, wrong in calls.values():
        code, out, err = call(*command, *more, "--json")
        assert code == 0, err
        assert strict(out)
        assert ("objective" in err) == bool(more)
        code, out, err = call(*command, *wrong, "--json")
        assert code in (1, 2)
        assert (out, err.count("\n")) == ("", 1)


def test_every_command_with_json_is_tried(calls):
    import typer

    def named(command, name):
        own = {name} if any("--json" in one.opts for one in command.params) else set()
        return own.union(*(named(c, n) for n, c in getattr(command, "commands", {}).items()))

    root = typer.main.get_command(commands.app)
    assert named(root, "deepnmf") == set(calls)
    # What others print goes to stderr in all of them.
    for one in commands.app.registered_commands:
        assert one.cls is Command


def test_numbers_that_json_does_not_know_become_null(capsys):
    values = {"a": float("nan"), "b": [np.float32("inf"), -np.inf, (1.5, True)], "c": np.int64(3)}
    say_json(values)
    assert strict(capsys.readouterr().out) == {"a": None, "b": [None, None, [1.5, True]], "c": 3}


def test_verbose_does_not_disturb_what_is_said(call, data, tmp_path):
    code, out, err = call(
        "fit", data, "-o", tmp_path / "m", "--layers", "8,5", *FEW, "--set", "verbose=true"
    )
    assert code == 0
    assert "objective" not in re.sub("status .*", "", out)
    assert err.count(" objective ") == 11
