"""Damaged models and checkpoints.

A damaged file is refused in one line, or what it gives is as good as before the damage.
"""

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import deepnmf
from deepnmf import baselines
from deepnmf.files.checkpoint import Checkpoint
from tests.fuzz.case import Case, numbered, pick
from tests.fuzz.hostile import folder
from tests.fuzz.mutation import mutated
from tests.fuzz.verdict import Broken, demand, judged

POLITE = (ValueError, TypeError, OSError)
BRIEF: dict[str, Any] = {"max_iter": 3, "tol": 0, "random_state": 0}


def cases(seed: int, count: int) -> Iterator[Case]:
    return numbered("models", seed, count)


def run(case: Case) -> str | None:
    """What went wrong, or None."""
    rng = case.generator()
    kind = pick(rng, [*_originals()])
    original = _originals()[kind]
    harm = pick(rng, HARM)
    path = folder() / f"damaged-{kind.split()[0]}"
    path.write_bytes(harm(original.content, rng))
    finding = judged(lambda: original.check(path), POLITE)
    return finding and f"{finding}; {harm.__name__.strip('_')}, {kind}"


class Original:
    """A good file, its data, and what comes of the file."""

    def __init__(self, path: Path, X: np.ndarray, weights: list[np.ndarray], fit: Any) -> None:
        self.content, self.X, self.weights, self.fit = path.read_bytes(), X, weights, fit

    def check(self, path: Path) -> None:
        """Load or continue, use, and compare."""
        model = self.fit(path, self.X)
        for W in (*model.weights_, model.components_):
            demand(np.isfinite(W).all(), "nan: a weight of a damaged file is not finite |")
            demand(model.signed or (W >= 0).all(), "accepted: negative weights of a damaged file |")
        weights = list(model.weights_)
        same = [W.shape for W in weights] == [W.shape for W in self.weights] and all(
            np.allclose(W, V, rtol=1e-6) for W, V in zip(weights, self.weights, strict=True)
        )
        if not same:
            raise Broken("accepted: weights of a damaged file |")
        Z = model.transform(self.X)
        demand(np.isfinite(Z).all() and (Z >= 0).all(), "nan: codes by a damaged file |")
        demand(np.isfinite(model.score(self.X)), "nan: score by a damaged file |")
        json.dumps([model.n_iter_, model.status_, model.reconstruction_err_], allow_nan=False)
        path.unlink()


def _load(path: Path, X: np.ndarray) -> Any:
    model = deepnmf.load(path)
    _ = model.get_params(), repr(model), model.basis()
    return model


def _continue(model: Callable[..., Any], path: Path, X: np.ndarray) -> Any:
    return model(checkpoint=Checkpoint(path, every=0)).fit(X)


@cache
def _originals() -> dict[str, Original]:
    X = np.random.default_rng(0).random((9, 6))
    models = {
        "dnmf": deepnmf.dnmf((3, 2), pretrain_iter=2, **BRIEF),
        "root": deepnmf.sdnmf_rl1(
            (3, 2), link="root", project_codes=True, pretrain_iter=2, **BRIEF
        ),
        "given": deepnmf.DeepNMF(2, start=deepnmf.starts.Given([np.ones((6, 2))]), **BRIEF),
        "semi": baselines.DeepSemiNMF((3, 2), link="tanh", pretrain_iter=2, **BRIEF),
        "hoyer": baselines.HoyerNMF(2, **BRIEF),
        "ns": baselines.NsNMF(2, **BRIEF),
    }
    made: dict[str, Original] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models.items():
            path = folder() / f"{name}.safetensors"
            model.fit(X).save(path)
            made[f"{name} model"] = Original(path, X, list(model.weights_), _load)
        for name, make in CONTINUED.items():
            for stop in (2, 4, None):
                path = folder() / f"{name}.ckpt"
                path.unlink(missing_ok=True)
                kept = Checkpoint(path, every=0)
                make(
                    checkpoint=kept, callback=lambda record, stop=stop: _number(record) == stop
                ).fit(X)
                whole = make().fit(X)
                made[f"{name} checkpoint {stop}"] = Original(
                    path,
                    X,
                    list(whole.weights_),
                    lambda path, X, make=make: _continue(make, path, X),
                )
    return made


def _number(record: dict[str, Any]) -> int:
    """Sweeps since the beginning, of a fit with two layers and two alternations each."""
    return record["sweep"] + (4 if record["layer"] is None else 2 * record["layer"] - 2)


CONTINUED: dict[str, Callable[..., Any]] = {
    "plain": lambda **settings: deepnmf.sdnmf_l((3, 2), pretrain_iter=2, **BRIEF, **settings),
    "through": lambda **settings: deepnmf.dnmf(
        (3, 2), link="tanh", pretrain_iter=2, **BRIEF, **settings
    ),
    "blocks": lambda **settings: deepnmf.dnmf(
        (3, 2), max_memory="1KB", pretrain_iter=2, **BRIEF, **settings
    ),
}


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def _joined(header: Any, tensors: bytes) -> bytes:
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw + tensors


def _bytes(content: bytes, rng: np.random.Generator) -> bytes:
    return mutated(content, rng)


def _tensors(content: bytes, rng: np.random.Generator) -> bytes:
    """Numbers of the tensors exchanged for others."""
    header, tensors = _split(content)
    changed = bytearray(tensors)
    if len(changed) < 8:
        return mutated(content, rng)
    for _ in range(int(rng.integers(1, 4))):
        at = 8 * int(rng.integers(len(changed) // 8))
        value = pick(rng, [np.nan, np.inf, -1.0, 0.0, 1e308, 5e-324, 0.7, -0.0])
        changed[at : at + 8] = np.float64(value).tobytes()
    if rng.random() < 0.1:
        changed = bytearray(len(changed))
    return _joined(header, bytes(changed))


def _header(content: bytes, rng: np.random.Generator) -> bytes:
    """A value of safetensors' own header exchanged."""
    header, tensors = _split(content)
    return _joined(_exchanged(header, rng), tensors)


def _description(content: bytes, rng: np.random.Generator) -> bytes:
    """A value of the JSON that deepnmf keeps in the header exchanged."""
    header, tensors = _split(content)
    metadata = header["__metadata__"]
    key = pick(rng, [*metadata])
    try:
        inner = json.loads(metadata[key])
    except json.JSONDecodeError:
        inner = None
    if isinstance(inner, dict | list):
        metadata[key] = json.dumps(_exchanged(inner, rng))
    else:
        metadata[key] = pick(rng, ["", "{}", "[]", "null", "x", "[" * 100_000, "9" * 5000])
    return _joined(header, tensors)


def _exchanged(tree: Any, rng: np.random.Generator) -> Any:
    """JSON with a value exchanged, removed or added."""
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                visit(node[key])

    visit(tree)
    if not places:
        return tree
    node, key = pick(rng, places)
    if rng.random() < 0.2:
        del node[key]
    elif rng.random() < 0.1 and isinstance(node, dict):
        node[f"{key}2"] = node[key]
    else:
        node[key] = pick(rng, VALUES)
    return tree


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: tuple[Any, ...] = (
    None, -1, 0, 1, 2, 3, 10**9, 10**30, 1e308, float("nan"), float("inf"), -0.5, "", "x",
    "\x1b[31mred",
    [], {}, True, False, [None], [1, 2], {"a": 1}, "BF16", "F8_E4M3", "I64", "F32", "F64", [10**9,
    10**9],
    [[]] * 2000, {"part": "Point", "fields": {}}, {"part": "os", "fields": {}}, {"tensor": "0"},
    {"tensor": "nowhere"}, "identity", _nested(300), [-1, 5], "9" * 3000,
)  # fmt: skip
HARM: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (
    _bytes, _tensors, _header, _description, _description,
)  # fmt: skip
