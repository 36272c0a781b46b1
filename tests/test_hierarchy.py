"""What parts, samples and classes are made of: laws of the tree."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from deepnmf import dnmf, sdnmf_l
from deepnmf.explain.decoding import Decoding, codes_of, decoder, parts
from deepnmf.explain.hierarchy import distinctions, explain, summaries
from deepnmf.links import LINKS
from deepnmf.models.baselines import DeepSemiNMF, MultilayerNMF, NsNMF
from tests.tables import BRIEF

pytestmark = BRIEF
FEW = {"max_iter": 8, "pretrain_iter": 8, "random_state": 0}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(3)
    W = rng.random((24, 5)) * (rng.random((24, 5)) < 0.5)
    H = rng.random((5, 30)) * (rng.random((5, 30)) < 0.6)
    return (W @ H + 0.05 * rng.random((24, 30))).T


@pytest.fixture(scope="module")
def models(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {link: sdnmf_l((9, 7, 4), mu=1e-4, link=link, **FEW).fit(X) for link in LINKS}


def leaves(tree, features):
    """What the paths add up to, feature by feature."""
    total = np.zeros(features)
    open_nodes = list(tree.children)
    while open_nodes:
        node = open_nodes.pop()
        if node.layer == 0:
            total[node.unit] += node.amount
        open_nodes += node.children
    return total


@pytest.mark.parametrize("link", LINKS)
def test_edges_carry_the_weights_of_the_model(models, link):
    model = models[link]
    tree = explain(model, unit=2, top=None, features=None)
    seen = 0
    for node in tree.children[0].children:
        assert node.weight == pytest.approx(model.weights_[2][node.unit, 2], rel=1e-12)
        for child in node.children:
            assert child.weight == pytest.approx(model.weights_[1][child.unit, node.unit])
            for leaf in child.children:
                assert leaf.weight == pytest.approx(model.weights_[0][leaf.unit, child.unit])
                seen += 1
    assert seen > 20
    assert {node.unit for node in tree.children[0].children} == set(
        np.flatnonzero(model.weights_[2][:, 2])
    )


def test_the_tree_of_a_linear_model_multiplies_out_to_its_basis(models):
    model = models["identity"]
    for layer in (1, 2, 3):
        basis = model.basis(layer)
        for unit in range(len(basis)):
            tree = explain(model, unit=unit, layer=layer, top=None, features=None)
            np.testing.assert_allclose(leaves(tree, 24), basis[unit], atol=1e-10)
            np.testing.assert_allclose(tree.offset, 0)


@pytest.mark.parametrize("link", LINKS)
def test_the_contributions_to_a_sample_add_up_to_what_its_code_decodes_to(models, X, link):
    model = models[link]
    for layer in (1, 2, 3):
        tree = explain(model, X, sample=5, layer=layer, top=None, features=None)
        decoded = model.inverse_transform(model.transform(X[5:6], layer), layer)[0]
        np.testing.assert_allclose(tree.decoded, decoded, atol=1e-8)
        np.testing.assert_allclose(leaves(tree, 24) + tree.offset, decoded, atol=1e-8)
        if link in ("identity", "root", "tanh"):
            np.testing.assert_allclose(tree.offset, 0)


@pytest.mark.parametrize("link", LINKS)
def test_shares_add_up_to_one_at_every_layer(models, X, link):
    tree = explain(models[link], X, sample=0, top=None, features=None)
    nodes = list(tree.children)
    while nodes:
        if sum(abs(node.amount) for node in nodes):
            assert sum(node.share for node in nodes) == pytest.approx(1)
        nodes = [child for node in nodes for child in node.children]


def test_the_share_of_what_is_left_out_is_given(models, X):
    tree = explain(models["identity"], X, sample=0, top=2, features=3)
    assert len(tree.children) == 2
    assert sum(node.share for node in tree.children) + tree.left_out == pytest.approx(1)
    for node in tree.children:
        assert len(node.children) <= 2
        below = sum(child.share for child in node.children)
        assert below + node.left_out == pytest.approx(node.share)
    assert "others" in str(tree)
    shares = [node.share for node in tree.children]
    assert shares == sorted(shares, reverse=True)


def test_the_largest_weights_first_as_the_paper_ranks_them(models):
    tree = explain(models["identity"], unit=1, order="weight", top=3)
    W = models["identity"].weights_[2]
    units = [node.unit for node in tree.children[0].children]
    assert units == np.argsort(-W[:, 1], kind="stable")[: len(units)].tolist()


def test_projected_codes_are_explained_by_what_decoding_starts_from(X):
    model = dnmf((6, 4), link="root", project_codes=True, **FEW).fit(X)
    tree = explain(model, X, sample=3, top=None, features=None)
    np.testing.assert_allclose(
        leaves(tree, 24), model.inverse_transform(model.transform(X[3:4]))[0], atol=1e-8
    )
    np.testing.assert_allclose(tree.code, model.transform(X[3:4])[0] ** 2, atol=1e-10)


def test_a_class_is_its_mean_code_and_what_sets_it_apart(digits):
    from sklearn.datasets import load_digits

    y = load_digits().target
    model = sdnmf_l((20, 10), mu=1e-3, scaling="fixed", **FEW).fit(digits)
    H = codes_of(model, digits)
    tree = explain(model, digits, label=3, labels=y)
    np.testing.assert_allclose(tree.code, H[y == 3].mean(0), atol=1e-10)
    first = tree.distinct[0]
    assert len(tree.distinct) == 10
    assert first.inside == pytest.approx(H[y == 3, first.unit].mean())
    assert first.outside == pytest.approx(H[y != 3, first.unit].mean())
    assert first.difference == max(unit.difference for unit in tree.distinct) > 0.5
    assert tree.decoded.shape == (64,)


def test_codes_that_do_not_vary_within_classes():
    y = np.array([0, 0, 1, 1])
    H = np.array([[0.0, 2, 1], [0, 2, 1], [0, 1, 3], [0, 1, 3]])
    differences = {unit.unit: unit.difference for unit in distinctions(H, y, 0)}
    assert differences == {0: 0.0, 1: np.inf, 2: -np.inf}
    assert distinctions(H, np.zeros(4), 0) == ()


def test_names_at_the_leaves(models):
    names = [f"gene {index}" for index in range(24)]
    tree = explain(models["identity"], unit=0, layer=1, feature_names=names, features=4)
    assert all(leaf.name == f"gene {leaf.unit}" for leaf in tree.children[0].children)
    assert len(tree.children[0].children) == 4
    assert "gene" in str(tree)


def test_the_parts_of_a_consensus_have_their_support(models):
    model = copy.copy(models["identity"])
    assert "fits" not in str(explain(model, unit=0))
    model.support_ = [np.linspace(1, 0.2, W.shape[1]) for W in model.weights_]
    part = explain(model, unit=3).children[0]
    assert (part.support, part.children[0].support) == (
        0.2,
        model.support_[1][part.children[0].unit],
    )
    assert part.children[0].children[0].children[0].support is None
    assert "part 3 of layer 3 [20% of fits]" in str(explain(model, unit=3))


def test_all_and_sparse_samples(models, X):
    model = models["identity"]
    everything = explain(model, top=None)
    assert [node.weight for node in everything.children] == [1.0] * 4
    mean = explain(model, X)
    np.testing.assert_allclose(mean.code, model.transform(X).mean(0), atol=1e-10)
    sparse = explain(model, scipy.sparse.coo_array(X), sample=4)
    np.testing.assert_allclose(sparse.code, explain(model, X, sample=4).code, atol=1e-4)


def test_tensors_and_frames(X):
    import pandas as pd
    import torch

    model = dnmf((6, 4), **FEW).fit(torch.from_numpy(X.copy()))
    tree = explain(model, torch.from_numpy(X.copy()), sample=2, top=None, features=None)
    decoded = model.inverse_transform(model.transform(torch.from_numpy(X[2:3].copy())))
    np.testing.assert_allclose(leaves(tree, 24), decoded[0].numpy(), atol=1e-8)
    frame = pd.DataFrame(X, columns=[f"gene {index}" for index in range(24)])
    model = dnmf((6, 4), **FEW).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # fail on warnings about missing names
        tree = explain(model, frame, sample=2)
    assert tree.children[0].children[0].children[0].name.startswith("gene ")


@pytest.mark.parametrize(
    "model",
    [NsNMF(4, theta=0.4, max_iter=9), MultilayerNMF((6, 4), theta=0.3, link="root", max_iter=9),
     DeepSemiNMF((6, 4), link="tanh", max_iter=5, pretrain_iter=5, random_state=0)],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_compared_methods_are_explained_as_they_decode(model, X):
    model.fit(X)
    tree = explain(model, X, sample=1, top=None, features=None)
    decoded = model.inverse_transform(model.transform(X[1:2]))[0]
    np.testing.assert_allclose(leaves(tree, 24) + tree.offset, decoded, atol=1e-8)


@pytest.mark.parametrize("link", LINKS)
def test_parts_are_what_a_unit_adds(models, link):
    model = models[link]
    for layer in (1, 2, 3):
        zero = model.inverse_transform(np.zeros((1, len(model.basis(layer)))), layer)
        np.testing.assert_allclose(parts(model, layer), model.basis(layer) - zero, atol=1e-10)


def test_slopes_take_a_link_apart_exactly(models):
    weights, link = decoder(models["softplus"])
    H = np.random.default_rng(0).random((4, 6))
    decoding = Decoding.of(weights, link, H)
    W_1, W_2, W_3 = weights
    D_2, D_3 = decoding.slopes
    paths = W_1 @ (D_2 * (W_2 @ (D_3 * (W_3 @ H))))
    np.testing.assert_allclose(paths + decoding.offset, decoding.decoded, atol=1e-10)
    assert decoding.offset.min() > 0


def test_summaries_find_planted_defects(X):
    model = dnmf((9, 5), **FEW).fit(X)
    W_1, W_2 = model.weights_
    W_1[:, 4] = 2 * W_1[:, 1]  # near-equal
    W_1[:, 6] = 0  # no weights
    W_2[7] = 0  # not used by the layer above
    first, second = summaries(model, X)
    assert {6, 7} <= set(first.dead)
    assert first.redundant[0][:2] == (1, 4)
    assert first.redundant[0][2] == pytest.approx(1)
    assert first.zeros == pytest.approx((W_1 == 0).mean())
    assert (first.parts, second.parts) == (9, 5)
    assert 0 <= first.sparseness <= 1
    W_1[:] = np.eye(24)[:, :9]
    assert summaries(model)[0].sparseness == pytest.approx(1)
    assert summaries(model)[0].redundant == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"unit": 4}, "layer 3 has 4 units: 0 to 3"),
        ({"unit": 1.5}, "unit: 1.5"),
        ({"unit": -1}, "unit: -1"),
        ({"layer": 4}, "layers 1 to 3"),
        ({"layer": True}, "layers 1 to 3"),
        ({"sample": 0}, "sample: needs X"),
        ({"label": 0}, "label: needs X"),
        ({"X": ..., "label": 0}, "needs labels"),
        ({"X": ..., "label": 9, "labels": [0, 1] * 15}, "no sample has the label 9; there are 0"),
        ({"X": ..., "label": 0, "labels": [0, 1]}, "for 30 samples"),
        ({"X": ..., "sample": 30}, "X has 30 samples: 0 to 29"),
        ({"unit": 0, "sample": 0}, "give one of them"),
        ({"top": 0}, "top: 0"),
        ({"features": "all"}, "features: 'all'"),
        ({"order": "size"}, "order must be one of"),
        ({"feature_names": ["a"]}, "1 given for 24 features"),
    ],
)
def test_wrong_arguments_say_what_and_what_instead(models, X, arguments, words):
    arguments = {name: X if value is ... else value for name, value in arguments.items()}
    with pytest.raises(ValueError, match=words):
        explain(models["identity"], **arguments)


def test_a_model_of_another_kind(X):
    from sklearn.decomposition import NMF

    with pytest.raises(TypeError, match="NMF has no hierarchy .* give a DeepNMF"):
        explain(NMF(2).fit(X), unit=0)


def test_a_model_that_is_not_fitted():
    with pytest.raises(NotFittedError):
        explain(dnmf((3, 2)), unit=0)
