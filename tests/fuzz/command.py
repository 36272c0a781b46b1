"""Command lines with random options, sensible and not.

A command ends with 0, 1 or 2. If it fails, it says why in one line; with --json, what it prints is
JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import deepnmf
from deepnmf.cli.main import main
from deepnmf.models.registry import MODELS
from tests.fuzz.case import Case, numbered, pick
from tests.fuzz.hostile import folder
from tests.fuzz.verdict import Broken, complaint, demand

NEW_PROCESS = 0.01
"""How many cases run in a process of their own."""


def cases(seed: int, count: int) -> Iterator[Case]:
    return numbered("command", seed, count)


def run(case: Case) -> str | None:
    """What went wrong, or None."""
    rng = case.generator()
    arguments = _arguments(rng)
    shutil.copytree(_materials(), folder() / "command", dirs_exist_ok=True)
    here = Path.cwd()
    os.chdir(folder() / "command")
    try:
        ended = (_apart if rng.random() < NEW_PROCESS else _inside)(arguments)
        _check(arguments, ended)
    except Broken as finding:
        return f"{finding}; deepnmf {' '.join(map(repr, arguments))}"
    except (Exception, SystemExit) as problem:
        return f"{complaint(problem, polite=())}; deepnmf {' '.join(map(repr, arguments))}"
    finally:
        os.chdir(here)
        shutil.rmtree(folder() / "command", ignore_errors=True)
    return None


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def _inside(arguments: list[str]) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(arguments)
    return Ended(code, out.getvalue(), err.getvalue())


def _apart(arguments: list[str]) -> Ended:
    program = "import sys; from deepnmf.cli.main import run; run(sys.argv[1:])"
    ended = subprocess.run(
        [sys.executable, "-c", program, *(word.replace("\x00", "") for word in arguments)],
        capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def _check(arguments: list[str], ended: Ended) -> None:
    code, out, err = ended
    said = " ".join(err.split())[-300:]
    demand("Traceback" not in err + out, f"traceback: printed | {said}")
    demand("bug in deepnmf" not in err, f"traceback: {_error_of(err)} | {said}")
    demand(code in (0, 1, 2), f"other: exit code {code} | {said}")
    if code and not (code == 2 and out.startswith("Usage")):
        lines = err.strip().splitlines()
        demand(len(lines) == 1 and lines[0].startswith("error: "), f"other: not one line | {said}")
        demand(len(err) < 1000, f"other: the error is too long | {said}")
    odd = [sign for sign in out + err if ord(sign) < 32 and sign not in "\n\t\r"]
    demand(not odd, f"other: control characters are printed | {odd[:3]!r}")
    if code == 0 and "--json" in arguments and "--help" not in arguments:
        try:
            json.loads(out, parse_constant=_refused)
        except ValueError as problem:
            raise Broken(f"other: --json does not print JSON | {problem}: {out[:200]}") from None


def _error_of(err: str) -> str:
    """The first words of an unexpected error."""
    return err.strip()[:60]


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


@cache
def _materials() -> Path:
    """Data, labels and models, good and bad."""
    place = folder() / "materials"
    place.mkdir()
    rng = np.random.default_rng(0)
    X = rng.poisson(2.0, (12, 6)).astype(float)
    np.save(place / "x.npy", X)
    np.save(place / "nan.npy", X * np.nan)
    np.save(place / "faint.npy", X * 1e-200)
    np.save(place / "cube.npy", np.ones((2, 2, 2)))
    np.savetxt(place / "x.csv", X, delimiter=",", header="a,b,c,d,e,f", comments="")
    (place / "y.txt").write_text("\n".join("abcabcabcabc"))
    (place / "short.txt").write_text("a\nb\n")
    (place / "garbage.npy").write_bytes(b"\x93NUMPY garbage")
    (place / "garbage.safetensors").write_bytes(b"\x00" * 50)
    (place / "empty.csv").write_bytes(b"")
    (place / "folder").mkdir()
    (place / "names.json").write_text('[{"layer": 1, "part": 2, "name": "=oil\\u001b[2J"}]')
    (place / "names.csv").write_text("layer,part,name,hidden\n1,0,x,yes\n")
    (place / "bad.json").write_text('[{"layer": 1, "part": 2, "name": ["x"]}]')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings: dict[str, Any] = {"max_iter": 2, "pretrain_iter": 1, "random_state": 0}
        deepnmf.sdnmf_l((3, 2), **settings).fit(X).save(place / "m.safetensors")
        deepnmf.dnmf((3, 2), link="root", **settings).fit(X).save(place / "root.safetensors")
    return place


DATA = (*("x.npy",) * 12, *("x.csv",) * 7, "digits")
BAD_DATA = ("nan.npy", "faint.npy", "cube.npy", "garbage.npy", "empty.csv", "folder", "gone.npy",
            "",
            "m.safetensors", "/dev/null", "x.npy\x00", "-", "--", "é.csv",
            "/dev/zero.npy")  # fmt: skip
MODEL_FILES = ("m.safetensors", "root.safetensors")
BAD_MODELS = ("garbage.safetensors", "x.npy", "gone", "", "folder", "/dev/null")
OUTPUTS = ("out.safetensors", "new/out.safetensors", "out.npy", "out.csv", "out.html", "folder", "",
           "/proc/out", "/dev/full", "x.npy/out", "out", "m.safetensors", "~nobody/x")  # fmt: skip
NONSENSE = ("", "-1", "0", "1e999", "nan", "inf", "x", "1,2,x", "1,,2", ",", "3;2", "9" * 20,
            "None", "\x1b[31mred", "é", "1e-400", "-0", "True", "0x10", "a=b=c", "=", "None=3",
            "--json")  # fmt: skip
Options = dict[str, tuple[str, ...] | None]
FIT: Options = {
    "--model": (*MODELS,), "--layers": ("3,2", "2", "4,3,2", "3", "auto"),
    "--mu": ("0.1", "0", "0.1,0.2"),
    "--lam": ("0.1", "0"), "--link": ("root", "tanh", "identity", "softplus"),
    "--normalize": ("l2", "none"), "--start": ("random", "nnsvd"), "--fill": ("zero", "0.1"),
    "--scaling": ("paper", "fixed"), "--project-codes": None,
    "--solver": ("auto", "nesterov", "coordinate"), "--max-iter": ("2", "0"),
    "--pretrain-iter": ("1", "0"), "--tol": ("0", "0.1"), "--dtype": ("float32", "float64"),
    "--device": ("cpu", "auto", "cuda"), "--max-memory": ("1MB", "100KB"),
    "--dask": ("local:0", "local:x"), "--set": ("tol=0.1", "max_iter=1"),
    "--checkpoint": ("c.ckpt", "folder", "x.npy", "/dev/full", "gone/c"), "--seed": ("0", "7"),
    "--consensus": ("2", "3"), "--json": None,
}  # fmt: skip
CHOOSE: Options = {
    "--model": (*MODELS,), "--depth": ("1", "2"), "--most": ("2", "3", "50"),
    "--folds": ("2", "7"), "--starts": ("0", "2"), "--budget": ("4", "9s", "1000", "2 h"),
    "--samples": ("6", "8"), "--normalize": ("l2", "none"), "--dtype": ("float32", "float64"),
    "--device": ("cpu", "auto", "cuda"), "--set": ("tol=0.1", "link=root", "mu=0"),
    "--seed": ("0", "7"), "--json": None,
}  # fmt: skip
TRANSFORM: Options = {"--layer": ("1", "2")}
EVALUATE: Options = {
    "--labels": ("y.txt", "short.txt", "gone"), "--repeats": ("1", "2"),
    "--normalize-codes": ("l2", "none"),
    "--seed": ("0",), "--json": None,
}  # fmt: skip
STUDY: Options = {
    "--labels": ("y.txt", "short.txt"), "--ignore-labels": None, "--layers": ("3,2", "2"),
    "--normalize": ("l2", "none"), "--folds": ("2",), "--runs": ("1",), "--repeats": ("1",),
    "--dtype": ("float32",), "--device": ("cpu",), "--set": ("tol=0", "max_iter=1"),
}  # fmt: skip
EXPORT: Options = {"--format": ("csv", "json", "parquet"), "--top": ("3", "1"), "--json": None}
RENAME: Options = {
    "--write": ("new.json", "new.csv", "x.npy", "/dev/full"), "-o": ("out.safetensors", "folder"),
    "--top": ("3",), "--json": None,
}  # fmt: skip
NAMES = ("names.json", "names.csv", "bad.json", "x.npy", "gone.json", "/dev/null", "folder", "")
COMMANDS = {"fit": 40, "transform": 15, "evaluate": 12, "info": 10, "report": 2, "study": 3,
            "choose": 4, "export": 4, "rename": 4, "reproduce": 3, "demo": 2, "models": 2,
            "data": 4, "nonsense": 5}  # fmt: skip


def _arguments(rng: np.random.Generator) -> list[str]:
    """A command line."""
    name = pick(rng, COMMANDS)
    data, model = _either(rng, DATA, BAD_DATA), _either(rng, MODEL_FILES, BAD_MODELS)
    brief = ["--max-iter", "2", "--pretrain-iter", "1"]
    words = {
        "fit": lambda: [data, "-o", _output(rng), *brief, *_options(FIT, rng)],
        "transform": lambda: [model, data, "-o", _output(rng), *_options(TRANSFORM, rng)],
        "evaluate": lambda: [model, data, "--labels", "y.txt", *_options(EVALUATE, rng)],
        "info": lambda: [model, *_options({"--json": None}, rng)],
        "report": lambda: [model, data, "-o", _output(rng)],
        "export": lambda: [model, data, "-o", "tables", *_options(EXPORT, rng)],
        "rename": lambda: [model, pick(rng, NAMES), *_options(RENAME, rng)],
        "study": lambda: [
            data.replace("digits", "x.npy"), "-o", _output(rng), "--models", "dnmf,nenmf",
                         "--set", "max_iter=1",
            "--layers", "3,2", "--folds", "2", "--runs", "1", *_options(STUDY, rng),
        ],
        "choose": lambda: [
            data.replace("digits", "x.npy"), "-o", _output(rng), "--repeats", "1",
            *_options(CHOOSE, rng),
        ],
        "reproduce": lambda: [pick(rng, NONSENSE), "-o", _output(rng)],
        "demo": lambda: ["-o", pick(rng, ["x.npy", "/dev/null", "/proc/x", "m.safetensors/x"])],
        "models": lambda: list[str](),
        "data": lambda: pick(rng, [["list"], ["list", "--json"], ["fetch", "digits"], ["fetch",
        "x"], []]),
    }  # fmt: skip
    if name == "nonsense":
        return [pick(rng, NONSENSE) for _ in range(int(rng.integers(0, 4)))]
    chosen = [name, *words[name]()]
    if rng.random() < 0.1:
        chosen.insert(int(rng.integers(1, len(chosen) + 1)), pick(rng, NONSENSE))
    if rng.random() < 0.1 and len(chosen) > 1:
        del chosen[int(rng.integers(1, len(chosen)))]
    if rng.random() < 0.02:
        chosen.append("--help")
    return chosen


def _either(rng: np.random.Generator, good: tuple[str, ...], bad: tuple[str, ...]) -> str:
    return str(pick(rng, good if rng.random() < 0.75 else bad))


def _output(rng: np.random.Generator) -> str:
    return str(OUTPUTS[0] if rng.random() < 0.6 else pick(rng, OUTPUTS))


def _options(options: Options, rng: np.random.Generator) -> list[str]:
    words: list[str] = []
    for name, values in options.items():
        if rng.random() < 0.2:
            words.append(name)
            if values is not None:
                words.append(_either(rng, values, NONSENSE))
    return words
