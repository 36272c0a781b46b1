"""The command line, run in process: exit code, output and files."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

import deepnmf
from deepnmf.data.datasets import DATASETS
from deepnmf.links import LINKS
from deepnmf.models.registry import MODELS
from tests.cli.conftest import FEW

SINGLE = ("nenmf", "pgnmf")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dnmf", ()),
        ("sdnmf/l", ("--mu", "1e-2")),
        ("sdnmf/r", ("--lam", "1e-2,1e-3")),
        ("sdnmf/rl1", ("--mu", "1e-4", "--lam", "1e-3", "--scaling", "fixed")),
        ("sdnmf/l", ("--scaling", "fixed", "--objective", "layers", "--layer-weights", "0.3")),
        ("sdnmf/rl2", ("--mu", "1e-2,0", "--lam", "1e-3", "--dtype", "float64")),
        ("nenmf", ()),
        ("pgnmf", ("--start", "nnsvd", "--fill", "mean")),
        ("semi-nmf", ()),
        ("deep-semi-nmf", ("--link", "tanh")),
        ("multilayer-nmf", ("--link", "root", "--project-codes", "--set", "theta=0.1,0.2")),
        ("ns-nmf", ("--set", "theta=0.3", "--set", "loss=kullback-leibler")),
        ("up-propagation-nmf", ("--tol", "0")),
        ("hoyer-nmf", ("--set", "sparseness_W=none", "--set", "sparseness_H=0.6")),
        ("sparse-nmf", ("--set", "side=left", "--set", "beta=0.1")),
        ("l0-nmf", ("--set", "nonzeros_H=2")),
        ("graph-nmf", ("--set", "strength=1", "--set", "neighbors=3")),
    ],
)
def test_every_model_can_be_fitted_and_used(call, data, tmp_path, name, options):
    target, codes = tmp_path / "m.safetensors", tmp_path / "codes.npy"
    layers = "8,5" if "layer_sizes" in MODELS[name].options and name not in SINGLE else "5"
    few = FEW if "pretrain_iter" in MODELS[name].options else FEW[:2]
    code, out, err = call(
        "fit", data, "-o", target, "--model", name, "--layers", layers, *few, *options
    )
    assert (code, err) == (0, "")
    assert f"written         {target}" in out
    assert call("transform", target, data, "-o", codes)[0] == 0
    assert np.load(codes).shape == (40, 5)
    code, out, _ = call("info", target, "--json")
    assert code == 0
    assert json.loads(out)["model"] == name


def test_fit_transform_evaluate_info_on_a_named_data_set(call, tmp_path):
    target = tmp_path / "digits.safetensors"
    code, out, err = call(
        "fit", "digits", "-o", target, "--layers", "20,10", *FEW, "--normalize", "l2"
    )
    assert (code, err) == (0, "")
    code, out, err = call("evaluate", target, "digits", "--repeats", "2")
    assert (code, err) == (0, "")
    for label in ("NMI", "NP", "ER", "AMI", "ARI", "accuracy"):
        assert re.search(rf"^{label} +\d+\.\d{{4}} +\d+\.\d{{4}}  \w+ \w+", out, re.M)
    code, out, _ = call("evaluate", target, "digits", "--repeats", "2", "--json")
    scores = json.loads(out)
    assert 0.2 < scores["nmi"] < 1
    assert scores["n_clusters"] == 10
    code, out, _ = call("info", target)
    assert "layers                [20, 10]" in out
    assert "normalize             l2" in out


def test_the_model_remembers_how_the_data_were_prepared(call, data, tmp_path, low_rank):
    target = tmp_path / "m.safetensors"
    call("fit", data, "-o", target, "--layers", "8,5", *FEW, "--normalize", "l2")
    call("transform", target, data, "-o", tmp_path / "a.npy")
    np.save(data, 7 * low_rank.T)
    call("transform", target, data, "-o", tmp_path / "b.npy")
    np.testing.assert_allclose(
        np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"), rtol=1e-2, atol=1e-4
    )


def test_the_same_seed_gives_the_same_file(call, data, tmp_path):
    from deepnmf import load

    codes = []
    for name in ("a", "b"):
        call("fit", data, "-o", tmp_path / name, "--layers", "8,5", *FEW, "--seed", "3")
        codes.append(load(tmp_path / name).components_)
    np.testing.assert_array_equal(*codes)


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".tsv", ".parquet"])
def test_codes_are_written_in_the_format_of_their_extension(call, data, model, tmp_path, suffix):
    from deepnmf.data import read

    target = tmp_path / f"codes{suffix}"
    code, out, _ = call("transform", model, data, "-o", target, "--layer", "1")
    assert code == 0
    assert "(40 samples, 8 parts)" in out
    assert read(target).X.shape == (40, 8)


def test_columns_are_matched_by_name(call, tmp_path, low_rank):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(low_rank.T[:, :4], columns=list("abcd"))
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame[list("dcba")].to_csv(tmp_path / "b.csv", index=False)
    frame[list("abc")].assign(x=1.0).to_csv(tmp_path / "c.csv", index=False)
    model = tmp_path / "m"
    call("fit", tmp_path / "a.csv", "-o", model, "--layers", "3,2", *FEW)
    codes = []
    for name in ("a", "b"):
        assert call("transform", model, tmp_path / f"{name}.csv", "-o", tmp_path / "z.npy")[0] == 0
        codes.append(np.load(tmp_path / "z.npy"))
    np.testing.assert_array_equal(*codes)
    code, _, err = call("transform", model, tmp_path / "c.csv", "-o", tmp_path / "z.npy")
    assert code == 1
    assert "the data lack 'd'; the model was fitted to data with 4 named features." in err


def test_dead_units_are_reported(call, tmp_path, rng):
    np.save(tmp_path / "d.npy", rng.random((20, 3)))
    arguments = ("fit", tmp_path / "d.npy", "-o", tmp_path / "m", "--layers", "64,16", *FEW)
    code, out, _ = call(*arguments, "--link", "root", "--mu", "100")
    assert code == 0
    assert re.search(r"^dead parts +\d+ of 80: no sample uses them", out, re.M)
    code, out, _ = call("info", tmp_path / "m", "--json")
    assert json.loads(out)["dead_units"] > 0


def test_the_memory_order_of_a_file_does_not_matter(call, tmp_path, low_rank):
    """Stored by rows or by columns: the same model to the last bit, also in single precision."""
    weights = []
    for name, X in (("c", low_rank.T.copy()), ("f", np.asfortranarray(low_rank.T))):
        np.save(tmp_path / f"{name}.npy", X)
        options = ("--layers", "8,5", "--dtype", "float32", *FEW)
        target = tmp_path / f"{name}.safetensors"
        assert call("fit", tmp_path / f"{name}.npy", "-o", target, *options)[0] == 0
        weights.append(deepnmf.load(target).weights_[0])
    np.testing.assert_array_equal(*weights)


def test_a_folder_that_cannot_be_created(call, data):
    code, _, err = call("demo", "-o", data)
    assert (code, err) == (2, f"error: -o {data}: is a file. Give a folder.\n")
    code, _, err = call("study", data, "-o", data / "below")
    assert code == 1
    assert f"{data / 'below'}: the folder cannot be created" in err


def test_without_a_command_there_is_help(call):
    code, out, err = call()
    assert (code, err) == (2, "")
    assert "Commands:" in out
    assert out.count("\n") > 10


def test_data_of_any_sign_for_models_of_any_sign(call, tmp_path, low_rank):
    path, codes = tmp_path / "signed.npy", tmp_path / "codes.npy"
    np.save(path, low_rank.T - low_rank.mean())
    target = tmp_path / "m.safetensors"
    fitted = call("fit", path, "-o", target, "--model", "semi-nmf", "--layers", "4")
    assert (fitted[0], fitted[2]) == (0, "")
    assert call("transform", target, path, "-o", codes)[0] == 0
    assert np.load(codes).min() >= 0


def test_sparse_data(call, tmp_path, low_rank):
    path = tmp_path / "sparse.npz"
    scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(low_rank.T * (low_rank.T > 0.5)))
    code, out, _ = call(
        "fit", path, "-o", tmp_path / "m", "--layers", "8,5", *FEW, "--normalize", "l2", "--json"
    )
    assert code == 0
    summary = json.loads(out)
    assert summary["layers"] == [8, 5]
    assert 0 < summary["relative_error"] < 1


def test_models_and_data_are_listed(call):
    code, out, _ = call("models")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert names == list(MODELS)
    assert "--set theta=" in out
    code, out, _ = call("data", "list", "--json")
    assert [row["name"] for row in json.loads(out)] == list(DATASETS)
    assert call("data", "list")[0] == 0
    code, out, _ = call("data", "fetch", "digits")
    assert (code, out) == (0, "digits comes with scikit-learn: nothing to fetch.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit",), "Missing argument"),
        (("fit", "DATA"), "Missing option '-o'"),
        (("bake", "DATA"), "No such command 'bake'"),
        (("fit", "DATA", "-o", "OUT", "--model", "sdnmf/x"), "--model must be one of 'dnmf'"),
        (("fit", "DATA", "-o", "OUT", "--layers", "8;5"), "--layers: '8;5' is not made of whole"),
        (("fit", "DATA", "-o", "OUT", "--layers", "8,0"), "--layers: 0 is too small"),
        (("fit", "DATA", "-o", "OUT", "--mu", "-1"), "finite number ≥ 0"),
        (("fit", "DATA", "-o", "OUT", "--mu", "few"), "--mu: 'few' is not made of numbers"),
        (("fit", "DATA", "-o", "OUT", "--model", "dnmf", "--mu", "1"), "--mu: dnmf has no such"),
        (("fit", "DATA", "-o", "OUT", "--model", "nenmf", "--layers", "8,5"), "has one layer"),
        (("fit", "DATA", "-o", "OUT", "--link", "cubic"), "link must be one of 'identity'"),
        (("fit", "DATA", "-o", "OUT", "--set", "theta"), "--set theta: write it as name=value"),
        (("fit", "DATA", "-o", "OUT", "--set", "theta=1"), "theta: sdnmf/l has no such option"),
        (("fit", "DATA", "-o", "OUT", "--model", "ns-nmf", "--layers", "8,5"), "has one layer"),
        (("fit", "DATA", "-o", "OUT", "--model", "ns-nmf", "--link", "root"), "no such option"),
        (("fit", "DATA", "-o", "OUT", "--model", "ns-nmf", "--set", "theta=2"), "between 0"),
        (
            ("fit", "DATA", "-o", "OUT", "--model", "ns-nmf", "--mu", "1"),
            "--mu: ns-nmf has no such",
        ),
        (("fit", "DATA", "-o", "OUT", "--model", "ns-nmf", "--device", "cuda"), "on the CPU"),
        (("fit", "DATA", "-o", "OUT", "--model", "joint-nmf"), "--model must be one of 'dnmf'"),
        (("fit", "DATA", "-o", "OUT", "--solver", "magic"), "solver must be one of"),
        (("fit", "DATA", "-o", "OUT", "--normalize", "l7"), "--normalize must be one of"),
        (("fit", "DATA", "-o", "OUT", "--dtype", "int8"), "--dtype must be one of"),
        (("fit", "DATA", "-o", "OUT", "--device", "abacus"), "device must be one of"),
        (("fit", "DATA", "-o", "OUT", "--fill", "ones"), "fill must be"),
        (("fit", "DATA", "-o", "OUT", "--max-iter", "x"), "--max-iter"),
        (("fit", "DATA", "-o", "OUT", "--tol", "-1"), "tol: -1"),
        (("transform", "MODEL", "DATA", "-o", "codes.docx"), "must end in .npy"),
        (("data", "fetch", "mnist"), "NAME must be one of 'digits'"),
        (("fit", "DATA", "-o", "OUT", "--layers", ""), "--layers: '' is not made of whole"),
        (("fit", "DATA", "-o", "OUT", "--mu", ""), "--mu: '' is not made of numbers"),
        (("fit", "DATA", "-o", "OUT", "--solver", ""), "solver must be one of"),
        (("fit", "", "-o", "OUT"), "DATA is empty"),
        (("fit", "DATA", "-o", ""), "the output is empty"),
        (("fit", "DATA", "-o", "x" * 300), "too long"),
        (("fit", "DATA", "-o", "OUT", "--seed", "-1"), "--seed"),
        (("evaluate", "MODEL", "DATA", "--normalize-codes", "l1"), "--normalize-codes must be"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_use_is_one_line_and_exit_code_2(call, data, model, tmp_path, arguments, message):
    places = {"DATA": str(data), "MODEL": str(model), "OUT": str(tmp_path / "out")}
    code, out, err = call(*(places.get(argument, argument) for argument in arguments))
    assert code == 2
    assert message in err
    assert re.fullmatch(r"error: [^\n]+\n", err)
    assert not (tmp_path / "out").exists()


def test_runs_that_fail_are_one_line_and_exit_code_1(call, data, model, tmp_path):
    negative = tmp_path / "negative.npy"
    np.save(negative, np.array([[1.0, -2.0], [3.0, 4.0]]))
    narrow = tmp_path / "narrow.npy"
    np.save(narrow, np.ones((4, 3)))
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(model.read_bytes()[:-10])
    text = tmp_path / "text.csv"
    text.write_text("a,b\n1,x\n2,y\n")
    cases = {
        ("fit", tmp_path / "absent.npy", "-o", tmp_path / "out"): "no data set of that name",
        ("fit", negative, "-o", tmp_path / "out"): "X[0, 1] = -2.0",
        ("fit", text, "-o", tmp_path / "out"): "column 'b' holds text",
        ("fit", negative, "-o", tmp_path / "out", "--normalize", "l2"): "X[0, 1] = -2.0",
        ("fit", data, "-o", tmp_path): "is a folder",
        ("fit", data, "-o", tmp_path / "no" / "out"): "there is no folder",
        ("fit", data, "-o", "/proc/out"): "cannot be written",
        ("transform", model, narrow, "-o", tmp_path / "c.npy"): "expecting 30 features",
        ("transform", model, data, "-o", tmp_path / "c.npy", "--layer", "9"): "has 2 layers",
        ("transform", cut, data, "-o", tmp_path / "c.npy"): "cut short",
        ("info", data): "not a deepnmf model file",
        ("info", tmp_path / "absent"): "no such model file",
    }
    for arguments, message in cases.items():
        code, out, err = call(*arguments)
        assert code == 1, arguments
        assert message in err
        assert re.fullmatch(r"error: [^\n]+\n", err)
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_is_refused_before_the_fit(call, data, monkeypatch):
    from deepnmf import DeepNMF

    monkeypatch.setattr(
        DeepNMF, "fit", lambda *_: pytest.fail("fitted before the output was checked")
    )
    code, _, err = call("fit", data, "-o", "/proc/out")
    assert code == 1
    assert "choose another place" in err


def test_a_bug_shows_no_traceback(call, model, monkeypatch):
    import deepnmf.models.storage

    def bug(_):
        raise RuntimeError("surprise")

    monkeypatch.setattr(deepnmf.models.storage, "load_stored", bug)
    code, _, err = call("info", model)
    assert code == 1
    assert err.startswith("error: unexpected RuntimeError: surprise")
    assert "Traceback" not in err


def test_demo(call, tmp_path):
    code, out, err = call("demo", "-o", tmp_path / "demo")
    assert (code, err) == (0, "")
    assert re.search(r"^SDNMF/L \[32, 16\] +0\.\d{3}", out, re.M)
    assert re.search(r"^plain NMF \[16\] +0\.\d{3}", out, re.M)
    written = re.findall(r"^written  (.+)$", out, re.M)
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {name.rsplit("/", 1)[-1] for name in written} == names
    assert {"report.html", "parts-layer-1.png", "parts-layer-2.png", "scores.csv"} <= names
    page = (tmp_path / "demo" / "report.html").read_text()
    for name in ("the pixels", "plain NMF [16], codes rescaled", "the same, with a graph"):
        assert name in page  # the table of scores
        assert f"\n{name} " in out
    assert '"kind":"image"' in page
    assert "http" not in page.replace("http-equiv", "")
    assert call("evaluate", tmp_path / "demo" / "digits.safetensors", "digits")[0] == 0


def test_the_installed_command(tmp_path):
    command = [sys.executable, "-c", "from deepnmf.cli.main import run; run()", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", done.stdout)


def test_a_bar_on_a_terminal_and_none_in_a_pipe(capsys):
    from deepnmf.cli.screen import progress

    record = {"stage": "finetune", "layer": None, "objective": 1.0}
    for show in (False, True):
        with progress(3, show=show) as callback:
            assert callback(record) is False
        assert ("finetune" in capsys.readouterr().err) == show


def test_pie_from_the_command_line(call, data_file, tmp_path):
    data_file("pie")
    target = tmp_path / "pie.safetensors"
    code, _, err = call(
        *("fit", "pie", "-o", target, "--model", "sdnmf/l", "--layers", "60,30", "--mu", "1e-3"),
        *("--fill", "0.1", "--normalize", "l2", "--max-iter", "20", "--pretrain-iter", "10"),
    )
    assert (code, err) == (0, "")
    code, out, _ = call("evaluate", target, "pie", "--repeats", "1", "--json")
    assert json.loads(out)["nmi"] > 0.6


@pytest.mark.parametrize("projected", [(), ("--project-codes",)], ids=["H", "g(H)"])
@pytest.mark.parametrize("link", [name for name in LINKS if name != "identity"])
@pytest.mark.parametrize("name", ["dnmf", "sdnmf/l", "sdnmf/r", "sdnmf/rl1", "sdnmf/rl2"])
def test_every_model_with_every_link(call, data, tmp_path, name, link, projected):
    target = tmp_path / "m"
    code, _, err = call(
        *("fit", data, "-o", target, "--model", name, "--layers", "8,5", *FEW, "--link", link),
        *projected,
    )
    assert (code, err) == (0, "")
    code, out, _ = call("info", target, "--json")
    parameters = json.loads(out)["parameters"]
    assert (parameters["link"], parameters["project_codes"]) == (link, bool(projected))
    assert call("transform", target, data, "-o", tmp_path / "codes.csv")[0] == 0
