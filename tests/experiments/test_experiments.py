"""The paper's experiments, small: rows first, tables and figures from rows."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deepnmf.cli.main import main
from deepnmf.data import load_digits
from deepnmf.data.dataset import DataError, Dataset
from deepnmf.data.datasets import DATASETS
from deepnmf.experiments import EXPERIMENTS, STUDIES, figures, tables
from deepnmf.experiments.design import Experiment, Fit, Scoring, from_table, load
from deepnmf.experiments.rate import METHODS, gaps, orders, plot
from deepnmf.experiments.rows import COLUMNS, MEASURES, of_one_setting, read
from deepnmf.experiments.runner import rows_of, run, splits
from deepnmf.experiments.stability import stabilities
from deepnmf.models.many import fit_many
from deepnmf.starts import Given
from tests.tables import BRIEF, long

pytestmark = BRIEF
RESULTS = Path(__file__).parents[2] / "docs" / "results"
TABLE = {
    "title": "Digits", "data": "digits", "folds": 3, "first_folds": 2, "runs": 2, "kmeans": 3,
    "classes": 4, "boxes": ["nmi"],
    "settings": {"mu": 1e-3, "fill": 0.1, "pretrain_iter": 3, "max_iter": 3, "tol": 0.0},
    "fit": [
        {"model": "sdnmf/l", "layers": [12, 6], "options": {"link": "root"}, "row": [
            {"name": "Square_1", "paper": {"nmi": 0.95}},
            {"name": "Square_2", "project": True},
            {"name": "unit norm", "normalize": "l2"},
        ]},
        {"model": "nenmf", "layers": [6], "row": [{"name": "NeNMF"}]},
    ],
}  # fmt: skip


@pytest.fixture
def experiment():
    return from_table("digits", TABLE, full=True)


def available(name):
    try:
        return DATASETS[name][0]()
    except DataError as missing:
        pytest.skip(str(missing))


# In the fast run: boxes.
@pytest.mark.parametrize("name", long(STUDIES, *set(STUDIES) - {"fig7"}))
def test_the_small_version_runs(name, tmp_path):
    experiment = load(name)
    dataset = available(experiment.data)
    path = run(experiment, tmp_path / "rows.csv", dataset=dataset)
    rows = read(path)
    each = experiment.runs * experiment.kmeans * max(1, experiment.first_folds)
    counts = rows.groupby(["fit", "name", "group"]).size()
    assert (counts == each).all()
    assert len(counts) == sum(len(fit.scorings) for fit in experiment.fits)
    scores = rows[["nmi", "naive_precision", "ami", "ari", "accuracy"]].astype(float)
    assert scores.notna().all().all()
    assert (scores.max() <= 1 + 1e-9).all()
    text = tables.markdown(experiment, rows)
    assert f"A small version. `deepnmf reproduce {name} --full`" in text
    first = text.split("\n| --- ")[1].split("\n\n")[0].splitlines()[1:]
    boxes = set(counts.reset_index(level="fit", drop=True).index)
    assert {line.split(" | ")[0][2:] for line in first} == {
        ", ".join(text for text in box if text) for box in boxes
    }
    assert len(first) == len(boxes)
    for metric in experiment.boxes:
        figures.boxes(experiment, rows, metric).savefig(tmp_path / f"{metric}.png")
    for metric in experiment.lines:
        figures.lines(experiment, rows, metric).savefig(tmp_path / f"{metric}.png")


def test_every_settings_file_has_a_name():
    folder = files("deepnmf.experiments") / "settings"
    names = {Path(file.name).stem for file in folder.iterdir()}
    assert names == {*EXPERIMENTS, "common"} - {"rate"}


def test_the_table_has_the_papers_rows_at_the_papers_size():
    experiment = load("table2", full=True)
    scorings = [scoring for fit in experiment.fits for scoring in fit.scorings]
    assert sum(bool(scoring.paper) for scoring in scorings) == 21
    assert any(scoring.normalize == "l2" for scoring in scorings)
    assert (experiment.folds, experiment.runs, experiment.kmeans) == (7, 20, 10)
    assert {fit.layers for fit in experiment.fits} == {(160,), (600, 160)}
    strengths = {fit.options[name] for fit in experiment.fits for name in ("mu", "lam")
                 if name in fit.options}  # fmt: skip
    assert strengths == {1e-3}  # one setting for all rows


def test_folds_are_stratified_and_do_not_overlap(experiment):
    data = load_digits()
    folds = list(splits(experiment, data.X, data.y))
    assert len(folds) == 2
    for train, test in folds:
        assert not set(train) & set(test)
        assert np.ptp(np.bincount(data.y[test])) <= 4


def test_rows_are_those_of_the_protocol(experiment, tmp_path):
    rows = read(run(experiment, tmp_path / "rows.csv"))
    assert list(rows.columns) == [*COLUMNS, *MEASURES, "setting"]
    # A start without randomness is fitted once per fold, and clustered as often as two fits.
    counts = rows.groupby(["name", "fold", "seed"]).size()
    assert counts["Square_1"].tolist() == [6, 6]
    assert counts["NeNMF"].tolist() == [3, 3, 3, 3]
    text = tables.markdown(experiment, rows)
    assert "| Square_1 |" in text
    assert "| 0.95 |" in text
    mean = rows.loc[rows["name"] == "NeNMF", "nmi"].astype(float).mean()
    assert f"{mean:.3f} ±" in text
    assert r"Square\_1 & $" in tables.latex(experiment, rows)


def test_figures_are_in_the_order_of_the_experiment(experiment, tmp_path):
    """The rows come in the order in which they were fitted, which may be another one."""
    rows = read(run(experiment, tmp_path / "rows.csv"))
    backwards = figures.boxes(experiment, rows[::-1], "nmi")
    titles = [axes.get_title() for axes in backwards.axes if axes.get_visible()]
    planned = dict.fromkeys(row.name for fit in experiment.fits for row in fit.scorings)
    assert titles == list(planned)


@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_study_that_was_killed_resumes(after, experiment, tmp_path):
    def stop(_fit, done, _total):
        if done == after:
            raise KeyboardInterrupt

    through = read(run(experiment, tmp_path / "through.csv"))
    path = tmp_path / "killed.csv"
    with pytest.raises(KeyboardInterrupt):
        run(experiment, path, report=stop)
    # Killed in the middle of a line, and of a fit.
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
    again = read(run(experiment, path))
    different = ["seconds"]
    pd.testing.assert_frame_equal(
        again.drop(columns=different).sort_values(["fit", "fold", "seed", "name", "repeat"],
                                                  ignore_index=True),
        through.drop(columns=different).sort_values(["fit", "fold", "seed", "name", "repeat"],
                                                    ignore_index=True),
    )  # fmt: skip


@pytest.mark.long
def test_the_command(tmp_path, capsys):
    available("pie")
    assert main(["reproduce", "fig7", "-o", str(tmp_path / "a")]) == 0
    written = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert {"fig7.csv", "fig7.md", "fig7.tex", "fig7-nmi.png", "fig7-nmi.svg"} <= set(written)
    rows = tmp_path / "a" / "fig7.csv"
    assert main(["reproduce", "fig7", "-o", str(tmp_path / "b"), "--from-rows", str(rows)]) == 0
    for name in ("fig7.md", "fig7.tex"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    capsys.readouterr()
    assert main(["reproduce", "fig9", "-o", str(tmp_path)]) == 2
    assert main(["reproduce", "fig7", "-o", str(tmp_path), "--from-rows", "absent.csv"]) == 1
    assert "no such file of rows" in capsys.readouterr().err
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    assert main(["reproduce", "fig7", "-o", str(tmp_path), "--from-rows",
                 str(tmp_path / "other.csv")]) == 1  # fmt: skip
    assert "is not a file of rows" in capsys.readouterr().err


def test_a_study_of_labelled_data(tmp_path, capsys):
    arguments = ["study", "digits", "--models", "sdnmf/l,nenmf,ns-nmf", "--layers", "12,6",
                 "--folds", "2", "--runs", "2", "--repeats", "2", "--set", "mu=0.01",
                 "--set", "max_iter=3", "--set", "pretrain_iter=3"]  # fmt: skip
    assert main([*arguments, "-o", str(tmp_path / "a")]) == 0
    rows = read(tmp_path / "a" / "study.csv")
    assert set(rows["group"]) == {"[12, 6]", "[6]"}
    assert rows.groupby("fit").size().tolist() == [8, 8, 8]
    assert set(rows.loc[rows["name"] == "ns-nmf", "seed"]) == {0}  # its start is not random
    assert "mu=0.01" in rows["fit"][0]
    assert rows["nmi"].between(0, 1).all()
    assert "| SDNMF/L, [12, 6] |" in capsys.readouterr().out
    # With half of the rows lost, it resumes and ends with the same rows.
    path = tmp_path / "a" / "study.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]))
    assert main([*arguments, "-o", str(tmp_path / "a")]) == 0
    again = read(path)
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), rows.drop(columns="seconds"))


STUDY = ["--models", "dnmf", "--layers", "3,2", "--folds", "2", "--runs", "2",
         "--set", "max_iter=3", "--set", "pretrain_iter=3"]  # fmt: skip
OTHERS = {
    "folds": ["--folds", "3"],
    "runs": ["--runs", "3"],
    "precision": ["--dtype", "float64"],
    "scaled samples": ["--normalize", "l2"],
    "labels": ["--labels", "labels.txt"],
    "layers": ["--layers", "4,2"],
    "an option": ["--set", "max_iter=2"],
}


def test_a_study_with_other_settings_leaves_rows_and_does_not_mix_them(
    tmp_path, rng, monkeypatch, capsys
):
    """Settings A, then others, then A again: A is fitted once, and its table is the same."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", rng.random((24, 8)))
    Path("labels.txt").write_text("a\nb\n" * 12)
    monkeypatch.setattr("deepnmf.cli.reproduce.pictures", lambda *_: [])
    study = ["study", "x.npy", "-o", "out", *STUDY]

    def table():
        return Path("out/study.md").read_text()

    assert main(study) == 0
    file, first, shown = Path("out/study.csv"), Path("out/study.csv").read_text(), table()
    for name, options in OTHERS.items():
        before = file.read_text()
        assert main([*study, *options]) == 0, capsys.readouterr().err
        after = file.read_text()
        assert after.startswith(before), name
        assert len(after) > len(before), name  # fitted, since what was there is of other settings
        # Three digits of the scores are the same in both precisions.
        assert name == "precision" or table() != shown, name
    np.save("x.npy", rng.random((24, 8)))  # another file of the same name
    before = file.read_text()
    assert main(study) == 0
    assert len(file.read_text()) > len(before)
    np.save("x.npy", np.random.default_rng(7).random((24, 8)))  # the first one again
    before = file.read_text()
    assert main(study) == 0
    assert file.read_text() == before
    assert before.startswith(first)
    assert table() == shown


def test_rows_of_several_settings_are_not_mixed_in_one_table(experiment, tmp_path, capsys):
    path = run(experiment, tmp_path / "rows.csv")
    rows = read(path)
    keys = [fit.key for fit in experiment.fits]
    assert of_one_setting(rows, keys, path).equals(rows)
    mixed = pd.concat([rows, rows.assign(setting="another")])
    with pytest.raises(ValueError, match="more than one setting"):
        of_one_setting(mixed, keys, path)
    with pytest.raises(ValueError, match="no rows of this experiment"):
        of_one_setting(rows, ["another fit"], path)


def test_rows_of_an_older_file_stay_and_are_fitted_again(experiment, tmp_path):
    """Rows without a setting may be of any."""
    path = run(experiment, tmp_path / "rows.csv")
    old = read(path).drop(columns=["setting", *MEASURES])
    old.to_csv(path, index=False)
    rows = read(run(experiment, path))
    assert len(rows) == 2 * len(old)
    assert (rows["setting"] == "").sum() == len(old)
    assert len(rows_of(experiment, path, load_digits())) == len(old)


def test_a_study_without_labels(tmp_path, rng):
    X = rng.random((60, 3)) @ rng.random((3, 20))
    np.save(tmp_path / "data.npy", X)
    arguments = ["study", str(tmp_path / "data.npy"), "--models", "dnmf", "--layers", "3",
                 "--layers", "2", "--folds", "2", "--runs", "3", "--dtype", "float64"]  # fmt: skip
    assert main([*arguments, "-o", str(tmp_path)]) == 0
    rows = read(tmp_path / "study.csv")
    assert len(rows) == 2 * 2 * 3
    assert rows["nmi"].isna().all()
    right, small = (rows[rows["group"] == group] for group in ("[3]", "[2]"))
    assert (right["held_out_error"].to_numpy() < 0.1 * small["held_out_error"].to_numpy()).all()
    assert rows["stability"].between(0.8, 1 + 1e-9).all()
    assert rows["stability_lowest"].isna().all()
    assert "NMI" not in (tmp_path / "study.md").read_text()
    assert (tmp_path / "study-held_out_error.png").exists()
    assert (tmp_path / "study-sizes.svg").exists()


NOISE = Dataset(X=np.random.default_rng(0).random((40, 12)), y=None, name="noise")
FEW = {"max_iter": 20, "pretrain_iter": 20}


def compared(*fits, runs=3):
    """A study of the stability of these fits: model, layers, options."""
    return Experiment(
        name="study", title="Noise", data="noise", normalize="none", dtype="float64", folds=2,
        first_folds=2, runs=runs, kmeans=0, stability=True, sizes=True,
        fits=tuple(
            Fit(model, layers, options, (Scoring(model, group=str(layers)),))
            for model, layers, options in fits
        ),
    )  # fmt: skip


def test_stability_is_measured_between_random_starts(tmp_path):
    """Noise has no parts to agree on, but the seeds of NNSVD begin at nearly the same ones."""
    experiment = compared(("dnmf", (8, 4), FEW), ("dnmf", (8, 4), {**FEW, "start": "random"}))
    rows = read(run(experiment, tmp_path / "rows.csv", dataset=NOISE))
    for fold, (train, _) in enumerate(splits(experiment, NOISE.X, None)):
        same, different = (
            np.array(stabilities(fit_many(NOISE.X[train], fit.estimator, 3)))
            for fit in experiment.fits
        )
        assert same.min() > 0.99
        assert (different < same).all()
        assert different[:, 1].max() < 0.95
        for fit in experiment.fits:
            measured = rows[(rows["fit"] == fit.key) & (rows["fold"] == fold)]
            both = measured[["stability", "stability_lowest"]].to_numpy()
            assert both == pytest.approx(different, abs=1e-5)


@pytest.mark.parametrize(
    ("fit", "runs"),
    [
        (("dnmf", (6, 3), {**FEW, "start": Given([np.ones((12, 6)), np.ones((6, 3))])}), 3),
        (("dnmf", (6, 3), FEW), 1),
    ],
    ids=["given", "one run"],
)
def test_where_seeds_cannot_differ_stability_is_not_measured(fit, runs, tmp_path):
    experiment = compared(fit, runs=runs)
    rows = read(run(experiment, tmp_path / "rows.csv", dataset=NOISE))
    assert len(rows) == 2
    assert rows[["stability", "stability_lowest"]].isna().all().all()
    assert "| not measured |" in tables.markdown(experiment, rows)
    panels = figures.sizes(experiment, rows).axes
    assert [text.get_text() for text in panels[1].texts] == ["not measured"]


@pytest.mark.parametrize(
    "fit",
    [("multilayer-nmf", (6, 3), {"max_iter": 20}), ("dnmf", (6, 3), {**FEW, "fill": "mean"})],
)
def test_one_fit_for_all_seeds_has_the_mean_stability_of_random_starts(fit, tmp_path):
    experiment = compared(fit)
    rows = read(run(experiment, tmp_path / "rows.csv", dataset=NOISE))
    train, _ = next(iter(splits(experiment, NOISE.X, None)))
    model = experiment.fits[0].estimator.set_params(start="random")
    mean = np.mean(stabilities(fit_many(NOISE.X[train], model, 3)), axis=0)
    assert (rows["seed"] == 0).all()
    measured = rows[rows["fold"] == 0][["stability", "stability_lowest"]].to_numpy()
    assert measured == pytest.approx(mean[None], abs=1e-5)


def test_a_single_layer_has_one_stability(tmp_path):
    experiment = compared(
        ("nenmf", (3,), FEW), ("up-propagation-nmf", (4, 2), {"max_iter": 20}),
        ("deep-semi-nmf", (4, 2), {"max_iter": 20}),
    )  # fmt: skip
    rows = read(run(experiment, tmp_path / "rows.csv", dataset=NOISE))
    assert rows["stability"].between(0, 0.999).all()
    single = rows["name"] == "nenmf"
    assert rows.loc[single, "stability_lowest"].isna().all()
    assert rows.loc[~single, "stability_lowest"].between(0, 0.999).all()
    lines = tables.markdown(experiment, rows).splitlines()
    cells = {line.split(",")[0]: line.split(" | ") for line in lines if " ± " in line}
    assert [line[-2] for line in cells.values()].count("–") == 1
    assert cells["| nenmf"][-2] == "–"
    drawn = figures.sizes(experiment, rows).axes[len(experiment.fits) :]
    labels = [place.get_legend_handles_labels()[1] for place in drawn]
    assert labels == [["top layer"], ["top layer", "layer 1"], ["top layer", "layer 1"]]


@pytest.mark.parametrize("after", [2, 7])
def test_a_resumed_study_has_the_stability_of_one_that_ran_through(after, tmp_path):
    """Stopped within the folds of a model that is fitted again, and of one that is not."""
    experiment = compared(("dnmf", (6, 3), FEW), ("dnmf", (3,), {**FEW, "start": "random"}))

    def stop(_fit, done, _total):
        if done == after:
            raise KeyboardInterrupt

    through = read(run(experiment, tmp_path / "through.csv", dataset=NOISE))
    path = tmp_path / "killed.csv"
    with pytest.raises(KeyboardInterrupt):
        run(experiment, path, report=stop, dataset=NOISE)
    assert len(read(path)) == after
    again = read(run(experiment, path, dataset=NOISE))
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), through.drop(columns="seconds"))


def test_only_experiments_that_measure_stability_have_another_setting(tmp_path):
    """The rows of all others, of whatever age, are still found."""
    data = Dataset(X=np.arange(24.0).reshape(6, 4), y=None, name="numbers")
    with_it = compared(("nenmf", (1,), {"max_iter": 1}), runs=2)
    without = replace(with_it, stability=False)
    rows = read(run(without, tmp_path / "rows.csv", dataset=data))
    known = "noise: 6 x 4, float64, 2 folds, 2 seeds, no labels, checksum 5cce1f47"
    assert set(rows["setting"]) == {known}
    rows = read(run(with_it, tmp_path / "rows.csv", dataset=data))
    assert (rows["setting"] == known).tolist() == [True] * 4 + [False] * 4
    assert rows["stability"].isna().tolist() == [True] * 4 + [False] * 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--models", "sdnmf"], "Did you mean"),
        (["--models", ""], "empty"),
        (["--set", "theta=1"], "such an option"),
        (["--set", "mu"], "name=value"),
        (["--layers", "a"], "whole numbers"),
        (["--labels", "x", "--ignore-labels"], "one of them"),
    ],
)
def test_a_study_says_what_is_wrong(arguments, words, tmp_path, capsys):
    assert main(["study", "digits", *arguments, "-o", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_an_accelerated_subproblem_falls_like_the_square(tmp_path, digits):
    """The paper's claim: at least 1/k², and below the bound at every k; plain steps are slower."""
    frame = gaps(digits[:300], 10, 200)
    by = {name: rows["gap"].to_numpy() for name, rows in frame.groupby("method")}
    assert (by["accelerated"][1:] < by[METHODS[2]][1:]).all()
    power = orders(frame)
    assert power["accelerated"] > 2
    assert power["accelerated"] > power["projected gradient"]
    plot(frame, "digits").savefig(tmp_path / "rate.png")


def test_the_rows_in_the_repository_make_the_table():
    """The claims of docs/results.md about the run at the paper's size."""
    experiment = load("table2", full=True)
    rows = read(RESULTS / "table2-full.csv.xz")
    text = tables.markdown(experiment, rows)
    page = (RESULTS.parent / "results.md").read_text()
    for line in text.split("\n| method | error")[0].splitlines():
        assert not line.startswith("| ") or line in page
    means = rows.groupby("name")[["nmi", "naive_precision", "error_rate"]].mean()
    assert (rows.groupby("name").size() == 1400).all()
    for name, row in means.iterrows():
        assert f"| {name} | {row['nmi']:.3f} ±" in text
    square = means.loc["SDNMF/L (Square_1)"]
    assert square["nmi"] == pytest.approx(0.950, abs=0.02)
    assert square["naive_precision"] == pytest.approx(0.946, abs=0.02)
    assert means.loc["NeNMF", "nmi"] < means.loc["SDNMF/L (linear)", "nmi"] < square["nmi"]
    best = means.loc["SDNMF/L (Square_1), codes of unit norm"]
    assert best["nmi"] >= 0.970
    assert best["naive_precision"] >= 0.957
    assert best["error_rate"] <= 5.1
