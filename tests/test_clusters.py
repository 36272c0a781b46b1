"""Clusters of samples, from models and from codes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits

from deepnmf import cluster, sdnmf_l
from deepnmf.cli.main import main
from deepnmf.evaluation import clusters as algorithms
from deepnmf.evaluation import nmi
from deepnmf.evaluation.clusters import METHODS, joined
from deepnmf.neighbors import neighbor_graph, unit_rows

SIZES = (70, 50, 30)


@pytest.fixture
def codes(rng):
    """Three groups of directions, of very different lengths."""
    centres = np.eye(3, 5) + 0.1
    y = np.repeat(range(3), SIZES)
    Z = centres[y] + 0.1 * rng.random((len(y), 5))
    return Z * rng.uniform(0.1, 10, (len(y), 1)), y


@pytest.mark.parametrize("method", METHODS)
def test_groups_are_found(method, codes):
    Z, y = codes
    if method == "leiden":
        pytest.importorskip("leidenalg")
    found = cluster(Z, n_clusters=None if method == "leiden" else 3, method=method)
    if method == "leiden":  # it may find smaller ones inside
        assert all(len(np.unique(y[found.labels == own])) == 1 for own in np.unique(found.labels))
    else:
        assert nmi(y, found.labels) == pytest.approx(1)
        assert found.sizes.tolist() == list(SIZES)
        np.testing.assert_array_equal(found.labels, y)  # the largest is the first
        assert [parts[0][0] for parts in found.parts] == [0, 1, 2]
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    again = cluster(Z, n_clusters=None if method == "leiden" else 3, method=method)
    np.testing.assert_array_equal(found.labels, again.labels)


@pytest.mark.parametrize("method", ["graph", "kmeans"])
def test_lengths_do_not_matter(method, codes, rng):
    Z, _ = codes
    found = cluster(Z, n_clusters=3, method=method)
    lengths = rng.uniform(0.5, 2, (len(Z), 1))
    other = cluster(lengths * Z, n_clusters=3, method=method)
    np.testing.assert_array_equal(found.labels, other.labels)
    tensor = cluster(torch.tensor(Z), n_clusters=3, method=method)
    np.testing.assert_array_equal(found.labels, tensor.labels)


@pytest.mark.parametrize("method", ["graph", "kmeans"])
def test_samples_without_a_code_have_no_cluster(method, codes):
    Z, _ = codes
    Z[[3, 90]] = 0
    found = cluster(Z, n_clusters=3, method=method)
    assert np.flatnonzero(found.labels == -1).tolist() == [3, 90]
    assert not found.confidence[[3, 90]].any()
    assert found.sizes.sum() == len(Z) - 2
    assert "2 samples have a code of 0" in str(found)


def test_pieces_of_a_graph_are_joined_at_their_nearest(codes):
    """More pieces than clusters: each small piece stays whole, and joins the nearest."""
    Z, y = codes
    unit = unit_rows(Z)
    A = neighbor_graph(unit, 3)
    pieces = algorithms.connected_components(A)[0]
    assert pieces >= 3
    assert algorithms.connected_components(joined(A, unit, 2))[0] == 2
    assert (joined(A, unit, pieces) != A).nnz == 0
    two = cluster(Z, n_clusters=2, neighbors=3).labels
    assert all(len(np.unique(two[y == own])) == 1 for own in range(3))


def test_spectral_clusters_have_any_shape(rng):
    """Two arcs of directions, one around the other: K-means cuts through both."""
    t = rng.uniform(0, np.pi, 400)
    inner = np.arange(400) < 200
    radius = np.where(inner, 0.25, 0.7)
    plane = np.column_stack([radius * np.cos(t), radius * np.sin(t)])
    Z = np.column_stack([1 + plane, np.ones(400)])
    graph, means = (
        nmi(inner.astype(int), cluster(Z, n_clusters=2, method=how).labels)
        for how in ("graph", "kmeans")
    )
    assert graph > 0.99 > 0.6 > means


def test_the_scale_of_a_part_does_not_matter(digits):
    model = sdnmf_l((12, 6), max_iter=20, pretrain_iter=5, tol=0, random_state=0).fit(digits[:200])
    found = cluster(model, digits[:200], n_clusters=5)
    model.weights_[-1] = model.weights_[-1] * 2.0 ** np.arange(-3, 3)
    other = cluster(model, digits[:200], n_clusters=5)
    assert nmi(found.labels, other.labels) > 0.95


@pytest.mark.parametrize("graph", [None, "codes"])
def test_a_model_groups_its_samples(graph, digits):
    y = load_digits().target
    model = sdnmf_l((32, 16), graph=graph, random_state=0).fit(digits)
    found = cluster(model, digits, n_clusters=10)
    assert nmi(y, found.labels) > 0.75
    assert np.mean(found.confidence) > 0.8
    assert hasattr(model, "graph_") == (graph is not None)
    assert "cluster 0:" in str(found)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "n_clusters: give the number of clusters"),
        ({"n_clusters": 0}, "n_clusters: 0 is too small"),
        ({"n_clusters": 151}, "n_clusters: 151 clusters of 150 samples"),
        (
            {"n_clusters": 3, "method": "dbscan"},
            "method must be one of 'graph', 'kmeans', 'leiden'",
        ),
        ({"n_clusters": 3, "method": "leiden"}, "leiden. finds the number"),
        ({"n_clusters": 3, "neighbors": 0}, "neighbors: 0 is too small"),
        ({"n_clusters": 3, "X": np.ones((3, 3))}, "X goes with a fitted model"),
    ],
)
def test_what_cannot_be_grouped_is_refused(settings, words, codes):
    with pytest.raises(ValueError, match=words):
        cluster(codes[0], **settings)


def test_a_model_stays_as_it_is(digits):
    model = sdnmf_l((12, 6), graph="codes", max_iter=20, pretrain_iter=5, tol=0, random_state=0)
    model.set_output(transform="pandas").fit(digits[:100])
    cluster(model, digits[:100], n_clusters=3)
    assert isinstance(model.transform(digits[:100]), pd.DataFrame)
    assert hasattr(model, "graph_")


def test_other_things_are_no_codes(codes, digits):
    for thing in (np.ones(3), "codes", None, np.full((3, 3), np.nan)):
        with pytest.raises(ValueError, match="give a fitted model and X, or codes"):
            cluster(thing, n_clusters=2)
    model = sdnmf_l((8, 4), max_iter=2, pretrain_iter=2, tol=0, random_state=0).fit(digits[:50])
    with pytest.raises(ValueError, match="X is missing"):
        cluster(model, n_clusters=2)


def test_codes_that_are_all_0_have_no_groups():
    pytest.importorskip("leidenalg")
    with pytest.raises(ValueError, match="only 0 of 5 samples have a code"):
        cluster(np.zeros((5, 2)), method="leiden")


def test_without_its_packages_leiden_is_refused(codes, monkeypatch):
    monkeypatch.setattr("deepnmf.explain.clusters.has_leiden", lambda: False)
    with pytest.raises(ValueError, match="pip install 'deepnmf\\[clusters\\]'"):
        cluster(codes[0], method="leiden")


def test_the_command(tmp_path, capsys):
    model, table = tmp_path / "model.safetensors", tmp_path / "clusters.csv"
    few = ["--max-iter", "30", "--pretrain-iter", "10"]
    assert main(["fit", "digits", "-o", str(model), "--layers", "32,16", *few]) == 0
    capsys.readouterr()
    assert main(["cluster", str(model), "digits", "-o", str(table)]) == 0
    shown = capsys.readouterr().out
    assert "10 clusters" in shown
    frame = pd.read_csv(table)
    assert frame.columns.tolist() == ["sample", "cluster", "confidence"]
    assert len(frame) == 1797
    assert nmi(load_digits().target, frame["cluster"]) > 0.7
    four = [str(model), "digits", "-o", str(table), "--clusters", "4"]
    assert main(["cluster", *four, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["clusters"]) == 4
    again = [*four, "--method", "leiden"]
    assert main(["cluster", *again]) == 1
    assert "--clusters: --method leiden finds the number" in capsys.readouterr().err
