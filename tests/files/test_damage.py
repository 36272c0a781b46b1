"""A damaged file is refused in one line that names it, or is read as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepnmf
from deepnmf import baselines
from deepnmf.files.checkpoint import Checkpoint, _described
from deepnmf.files.tensors import FileError, TensorFile, open_tensors
from deepnmf.models.storage import load_stored
from deepnmf.samples.open import open_samples

QUICK: dict[str, Any] = {"max_iter": 4, "pretrain_iter": 3, "tol": 0, "random_state": 0}
OLD = Path(__file__).parents[1] / "stored" / "deep.safetensors"


def data():
    return np.random.default_rng(0).random((12, 7))


class Stop(Exception):
    pass


def stopped_after(sweeps):
    def callback(record):
        stopped_after.count += 1
        if stopped_after.count > sweeps:
            raise Stop

    stopped_after.count = 0
    return callback


def checkpoint_of(path, after, X, **settings):
    """A checkpoint in the middle of a fit, and the model that it is of."""
    model = deepnmf.sdnmf_l((4, 3), **(QUICK | settings), checkpoint=Checkpoint(path, every=0))
    with pytest.raises(Stop):
        model.set_params(callback=stopped_after(after)).fit(X)
    return model.set_params(callback=None)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Every kind of file, with a function that reads it and says all that it holds."""
    folder = tmp_path_factory.mktemp("files")
    X = data()
    kinds: dict[str, Any] = {}
    for name, fitted in {
        "deep": deepnmf.sdnmf_l((4, 3), **QUICK).fit(X),
        "signed": baselines.SemiNMF(3, max_iter=4, tol=0, random_state=0).fit(X - 0.5),
    }.items():
        fitted.save(folder / name)
        kinds[name] = (folder / name, content_of_model)
    for name, (after, samples, settings) in {
        "pretraining": (2, X, {}),
        "second layer": (5, X, {"link": "root"}),
        "fine-tuning": (8, X, {}),
        "through a link": (8, X, {"link": "tanh"}),
        "blocks": (8, [X[:5], X[5:]], {}),
        "nesterov": (8, X, {"solver": "nesterov"}),
    }.items():
        model = checkpoint_of(folder / name, after, samples, **settings)
        kinds[name] = (folder / name, reader_of_checkpoint(model, samples))
    return kinds


KINDS = (
    "deep", "signed", "pretraining", "second layer", "fine-tuning", "through a link", "blocks",
    "nesterov",
)  # fmt: skip


def content_of_model(path):
    model, notes = load_stored(path)
    parameters = {name: value for name, value in model.get_params().items() if name != "checkpoint"}
    return [_described(model.weights_), repr(parameters), model.history_, model.status_, notes]


def reader_of_checkpoint(model, X):
    def content(path):
        model.set_params(checkpoint=Checkpoint(path))
        with open_samples(X, model._needs(fitting=True)) as samples:
            point, history = model._keeper(samples).begun([np.random.default_rng()])
            H = getattr(point.factors, "now", point.factors).H
            codes = np.concatenate(list(H.each()), axis=-1) if hasattr(H, "each") else H
        weights = [*point.weights, *point.factors.weights]
        return [_described([*weights, codes]), point.sweep, point.layer, history]

    return content


def refusal(read, path, wanted=None):
    """One line that names the file; None if it is read, and then as `wanted`."""
    try:
        content = read(path)
    except FileError as problem:
        message = str(problem)
        assert str(path) in message
        assert "\n" not in message
        assert len(message) < 400 + len(str(path))
        assert message.isprintable()
        return message
    assert wanted is None or content == wanted, "it was read, but is another"
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_changed_bytes_are_noticed(kind, files, tmp_path):
    source, read = files[kind]
    content, good = source.read_bytes(), read(source)
    rng = np.random.default_rng(len(content))
    path = tmp_path / "file"
    refused = 0
    for case in range(60):
        changed = bytearray(content)
        place = int(rng.integers(len(content)))
        if case % 4 == 0:  # most bytes are header: take the tensors as often
            place = len(content) - 1 - int(rng.integers(600))
        if case % 3 == 0:
            changed[place] ^= 1 << int(rng.integers(8))
        elif case % 3 == 1:
            changed[place : place + 64] = bytes(len(changed[place : place + 64]))
        else:
            del changed[place:]
        path.write_bytes(changed)
        refused += refusal(read, path, good) is not None or changed == content
    assert refused > 55
    assert path.read_bytes() == changed, "a file is never changed by reading it"


@pytest.mark.parametrize("case", range(100))
def test_changed_bytes_of_an_old_file_do_no_harm(case, tmp_path):
    """Model files of before have no checksums."""
    content = bytearray(OLD.read_bytes())
    rng = np.random.default_rng(case)
    for place in rng.integers(len(content) if case % 2 else 4000, size=1 + case % 5):
        content[place] = rng.integers(256)
    path = tmp_path / "file"
    path.write_bytes(content)
    refusal(content_of_model, path)


def rewritten(source, target, key, edit):
    """The file with an edited header and edited tensors, and checksums that fit."""
    with open_tensors(source, key) as file:
        header, arrays = file.header, {name: np.array(file[name]) for name in file}
    edit(header, arrays)
    tensors = TensorFile()
    for name, array in arrays.items():
        tensors.add_array(array, name)
    tensors.save(target, key, header)


def put(*place_and_value):
    """An edit that sets an entry of the header; `...` stands for one that is removed."""
    *place, last, value = place_and_value

    def edit(header, arrays):
        for name in place:
            header = header[name]
        if value is ...:
            del header[last]
        else:
            header[last] = value

    return edit


def tensor(name, change):
    def edit(header, arrays):
        arrays[name] = change(arrays[name])

    return edit


def entry(value):
    def change(array):
        array[(0,) * array.ndim] = value
        return array

    return change


def removed(name):
    return lambda _, arrays: arrays.pop(name)


MANY = [2] * 200_000
DAMAGED_MODELS = {
    "not a number": (tensor("W_2", entry(np.nan)), "W_2 has entries that are not finite"),
    "infinite": (tensor("W_1", entry(np.inf)), "W_1 has entries that are not finite"),
    "negative": (tensor("W_1", entry(-1e-9)), "W_1 has negative entries"),
    "integers": (tensor("W_1", lambda W: W.astype(np.int64)), "W_1 is int64"),
    "half precision": (tensor("W_1", lambda W: W.astype(np.float16)), "W_1 is float16"),
    "turned": (tensor("W_1", lambda W: W.T), "W_1 has the shape"),
    "flat": (tensor("W_1", np.ravel), "W_1 has the shape"),
    "no parts": (tensor("W_2", lambda W: W[:, :0]), "W_2 has the shape"),
    "one layer less": (removed("W_2"), "it has weights of 1 layers"),
    "a gap": (removed("W_1"), "W_1"),
    "other sizes": (put("parameters", "layer_sizes", [4, 4]), "layer_sizes"),
    "sizes of text": (put("parameters", "layer_sizes", "junk"), ""),
    "many layers": (put("parameters", "layer_sizes", MANY), "not of 200000"),
    "no link": (put("parameters", "link", "junk"), "junk"),
    "a link that is none": (put("parameters", "link", {"part": "SquaredL1", "fields": {}}), ""),
    "a class of others": (put("parameters", "link", {"part": "os", "fields": {}}), "os"),
    "a class of numbers": (put("parameters", "link", {"part": 3, "fields": {}}), "3"),
    "a class of lists": (put("parameters", "link", {"part": [], "fields": {}}), ""),
    "a strange object": (put("parameters", "link", {"tensor": "W_9"}), "W_9"),
    "a strange seed": (put("parameters", "random_state", "junk"), "junk"),
    "a strange tolerance": (put("parameters", "tol", "junk"), "tol"),
    "a strange parameter": (put("parameters", "junk", 3), "junk"),
    "no parameters": (put("parameters", []), ""),
    "an error below zero": (put("fitted", "reconstruction_err_", -1), "reconstruction_err_"),
    "an error that is none": (put("fitted", "reconstruction_err_", float("nan")), "nan"),
    "sweeps of text": (put("fitted", "n_iter_", "\x1b[31mred"), "n_iter_"),
    "a status of numbers": (put("fitted", "status_", 3), "status_"),
    "features below zero": (put("fitted", "n_features_in_", -1), "n_features_in_"),
    "a scale of zero": (put("fitted", "code_scale_", 0), "code_scale_"),
    "nothing fitted": (put("fitted", {}), "reconstruction_err_"),
    "a list fitted": (put("fitted", []), ""),
    "names of numbers": (put("feature_names_in", [1] * 7), "feature names"),
    "too few names": (put("feature_names_in", ["a"]), "feature names"),
    "notes in a list": (put("notes", []), "notes"),
    "a note of numbers": (put("notes", "model", 3), "model"),
    "a strange image": (put("notes", "image_shape", "junk"), "image_shape"),
    "history of text": (put("history", "junk"), ""),
    "history without sweeps": (put("history", "sweep", ...), "sweep"),
    "history of other length": (tensor("history_kkt", lambda column: column[1:]), ""),
    "history of places": (tensor("history_stage", lambda column: column - 9), "history"),
    "another format": (put("format", 99), "model format 99"),
    "a strange format": (put("format", []), "model format"),
    "another version": (put("version", "\x1b]0;title\x07"), None),
    "another model": (put("estimator", "os.system"), "os.system"),
    "a list of models": (put("estimator", []), ""),
}


@pytest.mark.parametrize("name", DAMAGED_MODELS)
def test_damaged_models_are_refused(name, files, tmp_path):
    edit, reason = DAMAGED_MODELS[name]
    source, read = files["deep"]
    path = tmp_path / "file"
    rewritten(source, path, "deepnmf", edit)
    message = refusal(read, path)
    assert (message is None) if reason is None else (message is not None and reason in message)


def test_weights_of_a_signed_model_may_be_negative(files):
    path, _ = files["signed"]
    assert min(float(W.min()) for W in deepnmf.load(path).weights_) < 0


DAMAGED_CHECKPOINTS = {
    "not a number": (tensor("0", entry(np.nan)), "0 has entries that are not finite"),
    "zero": (tensor("0", lambda array: 0 * array - 1), "negative"),
    "integers": (tensor("0", lambda array: array.astype(int)), "int64"),
    "turned": (tensor("0", lambda array: array[:, :2]), "shapes"),
    "no generators": (put("random", []), ""),
    "strange generators": (put("random", ["junk"]), ""),
    "other generators": (put("random", [{"bit_generator": "MT19937", "state": 3}]), ""),
    "no point": (put("point", []), "no fit"),
    "an empty point": (put("point", {"part": "Point", "fields": {}}), ""),
    "another state": (put("point", {"part": "os", "fields": {}}), "os"),
    "sweeps of text": (put("point", "fields", "sweep", "junk"), "how far"),
    "a strange reach": (put("point", "fields", "factors", "fields", "beta", []), ""),
    "a strange end": (put("point", "fields", "reason", "junk"), "how far"),
    "a strange layer": (put("point", "fields", "layer", 7), "no fit"),
    "an input without need": (
        put("point", "fields", "data", {"tensor": "0", "turned": False}),
        "input of its layer",
    ),
    "sums of other shape": (tensor("2", lambda array: array[:, :2]), "shape"),
    "no history": (put("history", {}), "history"),
    "a strange stride": (put("stride", 0), "history"),
    "strange settings": (put("settings", "junk"), ""),
    "strange data": (put("data", 3), ""),
    "another format": (put("format", 3), "format"),
}


@pytest.mark.parametrize("name", DAMAGED_CHECKPOINTS)
def test_damaged_checkpoints_are_refused(name, files, tmp_path):
    edit, reason = DAMAGED_CHECKPOINTS[name]
    source, read = files["fine-tuning"]
    path = tmp_path / "file"
    rewritten(source, path, "deepnmf-checkpoint", edit)
    message = refusal(read, path)
    assert message is not None
    assert reason in message


STRANGE_STATES = {
    "memories": None,
    "residual": "junk",
}


@pytest.mark.parametrize("name", STRANGE_STATES)
def test_a_fit_that_cannot_continue_names_the_checkpoint(name, files, tmp_path):
    """Of what a solver remembers, only the solver knows if it makes sense."""
    path = tmp_path / "file"
    place = ("point", "fields", "factors", "fields", "now", "fields", name, STRANGE_STATES[name])
    rewritten(files["fine-tuning"][0], path, "deepnmf-checkpoint", put(*place))
    model = deepnmf.sdnmf_l((4, 3), **QUICK, checkpoint=path)
    with pytest.raises(FileError, match="the fit cannot continue from") as refused:
        model.fit(data())
    assert str(path) in str(refused.value)


def raw(layout, rest=b"", length=None):
    """A safetensors file with this layout."""
    text = layout if isinstance(layout, bytes) else json.dumps(layout).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text) if length is None else length) + text + rest


def header(text):
    return {"__metadata__": {"deepnmf": text, "deepnmf-checkpoint": text}}


def one(kind, shape, size):
    return {"W_1": {"dtype": kind, "shape": shape, "data_offsets": [0, size]}}


START = '{"format": 1, "version": "0", "parameters": '
FOREIGN = {
    "nothing": b"",
    "text": b"sample,feature\n1,2\n",
    "a length that lies": raw(header("{}"), length=2**62),
    "a length beyond the end": raw(header("{}"), length=10_000),
    "a layout that nests": raw(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "a header that nests": raw(header("[" * 100_000 + "]" * 100_000)),
    "parameters that nest": raw(header(START + "[" * 900 + "]" * 900 + "}")),
    "a header of numbers": raw(header("3")),
    "a header that says little": raw(header('{"format": 1}')),
    "bfloat16": raw(
        header(START + '{}, "fitted": {"history_": []}}') | one("BF16", [2, 1], 4), b"abcd"
    ),
    "a strange type": raw(header("{}") | one("junk", [1], 4), b"abcd"),
    "tensors twice": raw(
        b'{"W_1":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
        b'"W_1":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"abcd"
    ),
    "offsets that lie": raw(header("{}") | one("F32", [10**6, 10**6], 4 * 10**12)),
    "a huge empty tensor": raw(
        header(START + '{}, "fitted": {"history_": []}}') | one("F64", [0, 2**62], 0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["deep", "fine-tuning"])
@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_refused(name, kind, files, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(FOREIGN[name])
    assert refusal(files[kind][1], path) is not None


@pytest.mark.parametrize("count", [20_000, pytest.param(200_000, marks=pytest.mark.long)])
def test_many_empty_layers_are_refused(count, files, tmp_path):
    empty = {"dtype": "F32", "shape": [0, 0], "data_offsets": [0, 0]}
    layers = {f"W_{layer}": empty for layer in range(1, count + 1)}
    path = tmp_path / "file"
    path.write_bytes(raw(header(START + '{}, "fitted": {"history_": []}}') | layers))
    assert f"{count} tensors" in refusal(files["deep"][1], path)


def test_only_files_are_read(files, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (files["deep"][1], files["fine-tuning"][1]):
        for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
            assert refusal(read, path) is not None


def test_a_checkpoint_that_cannot_be_read_back_does_not_replace_a_good_one(
    files, tmp_path, monkeypatch
):
    """As where a disk does not give back what was written to it."""
    source, read = files["fine-tuning"]
    path = tmp_path / "fit.ckpt"
    shutil.copy(source, path)
    before = path.read_bytes()
    write = TensorFile._write

    def spoiled(self, file, key, text):
        write(self, file, key, text)
        file.seek(-40, 2)
        file.write(bytes(8))

    monkeypatch.setattr(TensorFile, "_write", spoiled)
    model = deepnmf.sdnmf_l((4, 3), **QUICK, checkpoint=Checkpoint(path, every=0))
    with pytest.warns(UserWarning, match=r"cannot be written \(it cannot be read back.*stays"):
        model.fit(data())
    assert path.read_bytes() == before
    with pytest.raises(OSError, match="cannot be read back"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == [path]
