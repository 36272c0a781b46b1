"""A choice of layers in the making: what is measured for a layer, and what may still be spent."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from deepnmf.arrays import Array
from deepnmf.evaluation.matching import agreement
from deepnmf.models.advice import complete
from deepnmf.models.choice.effort import Effort
from deepnmf.models.choice.holdout import Holdout, held_out_errors, holdouts
from deepnmf.models.choice.ledger import Key, Ledger
from deepnmf.models.choice.record import (
    STANDARD_ERRORS,
    Choice,
    LayerChoice,
    Support,
    compared,
    counted,
    smallest_good,
    worth_having,
)
from deepnmf.models.choice.search import BudgetSpentError, search
from deepnmf.models.consensus import consensus
from deepnmf.models.deep import DeepNMF
from deepnmf.models.many import fit_many
from deepnmf.models.settings import plan_of

ITERATIONS, TOLERANCE = 100, 1e-5
"""How far fits go: to where their errors no longer change the choice."""
SHARE = 0.8
"""The share of the samples that each fit gets when stability is measured."""
MOST_STEADY = 4
"""How many candidates stability is measured for, at most."""
FEWEST = 6
"""Fewer parts are not summed up by another layer, unless a user wants it: there is little to hold
out, and little to gain."""
DEEPEST = 3


class Work:
    """A choice in the making."""

    def __init__(
        self,
        model: DeepNMF,
        effort: Effort,
        seed: int,
        ledger: Ledger,
        progress: Callable[[str, int], object] | None,
    ) -> None:
        self.model, self.effort, self.seed = model, effort, seed
        self.ledger, self.progress = ledger, progress
        self.fits, self.began = 0, time.perf_counter()

    def choose(self, X: Array, depth: int | None, most: int | None) -> Choice:
        """Layer by layer, until the depth is reached or a layer does not help."""
        self._check_folds(X)
        self._single(1, 2).check()
        layers: list[LayerChoice] = []
        sizes: tuple[int, ...] = ()
        support, data, limit = None, X, most
        try:
            while len(sizes) < (DEEPEST if depth is None else depth):
                layers.append(self._layer(data, sizes, limit, wanted=depth is not None))
                chosen = layers[-1]
                if not chosen.helps:
                    break
                sizes = (*sizes, chosen.size)
                if chosen.stopped or chosen.size < (FEWEST if depth is None else 3):
                    break
                data, limit = self._codes(data, len(sizes), chosen.size), chosen.size - 1
            support = None if layers[-1].stopped else self._support(X, sizes)
        except BudgetSpentError as spent:
            if not layers:
                raise ValueError(f"budget: {spent} before a single size was tried.") from None
            layers[-1] = replace(layers[-1], stopped=str(spent))
        return Choice(sizes, tuple(layers), int(X.shape[0]), support)

    def _check_folds(self, X: Array) -> None:
        n, m = (int(size) for size in X.shape)
        for count, kind in ((n, "samples"), (m, "features")):
            if count < self.effort.folds:
                raise ValueError(
                    f"folds: {self.effort.folds} folds of {count} {kind} would leave some empty. "
                    f"Give at most {count}."
                )

    def _layer(
        self, X: Array, below: tuple[int, ...], limit: int | None, wanted: bool
    ) -> LayerChoice:
        """The choice for the layer above those of these sizes, on its input X (n, m). A layer that
        is wanted need not help."""
        layer = len(below) + 1
        folds = min(self.effort.folds, int(X.shape[1]))
        cuts = holdouts(X.shape, folds, self.effort.repeats, self.seed)
        room = min(len(cuts[0].other_rows), len(cuts[0].other_columns))
        if layer == 1 and limit is not None and limit > room:
            raise ValueError(
                f"most: {limit} parts cannot be fitted to what the hold-outs leave, "
                f"{len(cuts[0].other_rows)} x {len(cuts[0].other_columns)} of X. Give at most "
                f"{room}."
            )
        self._check_budget(len(cuts))
        most = max(1, min(room, limit or room))
        errors, stopped = search(lambda size: self._errors(X, below, size, cuts), most)
        if not errors:
            raise BudgetSpentError(stopped)
        candidates = compared(errors)
        size = smallest_good(candidates)
        helps = wanted or layer == 1 or worth_having(candidates, size, int(X.shape[1]))
        chosen = LayerChoice(layer, tuple(candidates), size, most, helps, stopped)
        return self._with_stability(chosen, X, below) if helps and not stopped else chosen

    def _check_budget(self, round_: int) -> None:
        if self.effort.fits < round_ and not self.ledger.known:
            raise ValueError(
                f"budget: {self.effort.fits:g} is not enough for one number of parts, which takes "
                f"{round_} fits. Give a larger budget, or fewer folds or repeats."
            )

    def _errors(
        self, X: Array, below: tuple[int, ...], size: int, cuts: Sequence[Holdout]
    ) -> list[float]:
        """The errors of one size on all hold-outs."""
        layer, path = len(below) + 1, _path(below)
        keys: list[Key] = [(path, "error", size, number) for number in range(len(cuts))]
        missing = [number for number, key in enumerate(keys) if key not in self.ledger.known]
        self._spend(len(missing), f"layer {layer}, {counted(size)}")
        model = self._single(layer, size)
        values = held_out_errors(X, [cuts[number] for number in missing], model, self.seed)
        for number, value in zip(missing, values, strict=True):
            self.ledger.add(keys[number], value)
        return [self.ledger.known[key] for key in keys]

    def _spend(self, fits: int, what: str) -> None:
        """Take these fits from the budget, or end the search."""
        if fits and self.fits + fits > self.effort.fits:
            raise BudgetSpentError(f"the budget of {self.effort.fits:g} fits is used up")
        if fits and self.fits and time.perf_counter() - self.began > self.effort.seconds:
            raise BudgetSpentError(f"the budget of {self.effort.seconds:g} seconds is used up")
        if self.progress is not None:
            self.progress(what, self.fits)
        self.fits += fits

    def _single(self, layer: int, size: int) -> DeepNMF:
        """The model of one layer that this layer is in pre-training."""
        plan = plan_of(self.model)
        place = min(layer, len(plan.sizes)) - 1
        return clone(self.model).set_params(
            layer_sizes=(size,), link="identity", project_codes=False,
            penalty_W=plan.penalties_W[place], penalty_H=plan.penalties_H[place],
            max_iter=ITERATIONS, tol=TOLERANCE, max_memory=None,
        ).set_output(transform="default")  # fmt: skip

    def _codes(self, X: Array, layer: int, size: int) -> Array:
        """The input of the next layer: g of the codes of this one."""
        link = plan_of(self.model).link
        H = complete(self._single(layer, size).fit(X)).transform(X).T
        return link.project(H / link.scale(H)).T

    def _with_stability(self, chosen: LayerChoice, X: Array, below: tuple[int, ...]) -> LayerChoice:
        """The choice with the stability of the chosen size and of those close to the best."""
        if not self.effort.starts:
            return chosen
        close = [
            candidate.size
            for candidate in chosen.candidates
            if candidate.above_best <= STANDARD_ERRORS * candidate.spread
        ]
        near = sorted({chosen.size, *close}, key=lambda size: abs(size - chosen.size))
        measured, stopped = {}, ""
        try:
            for size in sorted({*near[:MOST_STEADY], chosen.best.size} - {1}):
                measured[size] = self._stability(X, below, size)
        except BudgetSpentError as spent:
            stopped = str(spent)
        candidates = tuple(
            replace(candidate, stability=measured.get(candidate.size))
            for candidate in chosen.candidates
        )
        return replace(chosen, candidates=candidates, stopped=stopped)

    def _stability(self, X: Array, below: tuple[int, ...], size: int) -> float:
        """How alike parts are between fits from random starts to different samples: the mean cosine
        of those that match."""
        key = (_path(below), "stability", size, 0)
        if key not in self.ledger.known:
            self._spend(self.effort.starts, f"stability of {counted(size)}")
            model = self._single(len(below) + 1, size).set_params(start="random")
            fitted = fit_many(X, model, seeds=self.effort.starts, share=self._share(X))
            parts = [one.components_ for one in fitted]
            self.ledger.add(key, float(np.mean(agreement(parts))))
        return self.ledger.known[key]

    def _support(self, X: Array, sizes: tuple[int, ...]) -> Support | None:
        """The share of fits of the chosen layers that have each part and each edge."""
        if not self.effort.starts:
            return None
        parts, edges = _support_keys(sizes)
        known = self.ledger.known
        if any(key not in known for key in (*parts, *edges)):
            self._spend(self.effort.starts, "support")
            model = clone(self.model).set_params(
                layer_sizes=sizes, start="random", max_iter=ITERATIONS, tol=TOLERANCE,
                max_memory=None,
            ).set_output(transform="default")  # fmt: skip
            common = consensus(fit_many(X, model, self.effort.starts, share=self._share(X)))
            shares = [np.ravel(layer) for layer in (*common.edge_support_, *common.support_)]
            for key, value in zip((*edges, *parts), np.concatenate(shares), strict=True):
                self.ledger.add(key, float(value))
        return Support.of(
            [[known[key] for key in parts if key[1] == f"support {layer}"]
             for layer in range(1, len(sizes) + 1)],
            [np.reshape([known[key] for key in edges if key[1] == f"edge {layer}"], (below, above))
             for layer, (below, above) in enumerate(itertools.pairwise(sizes), 2)],
        )  # fmt: skip

    @staticmethod
    def _share(X: Array) -> float:
        """The share of the samples that each fit gets: at least two of them."""
        return max(SHARE, min(1.0, 2 / int(X.shape[0])))


def _path(sizes: Sequence[int]) -> str:
    return " ".join(map(str, sizes))


def _support_keys(sizes: Sequence[int]) -> tuple[list[Key], list[Key]]:
    """The keys of the support of all parts, and of all edges."""
    path = _path(sizes)
    parts: list[Key] = [
        (path, f"support {layer}", part, 0) for layer, k in enumerate(sizes, 1) for part in range(k)
    ]
    edges: list[Key] = [
        (path, f"edge {layer}", i, j)
        for layer, (below, above) in enumerate(itertools.pairwise(sizes), 2)
        for i, j in itertools.product(range(below), range(above))
    ]
    return parts, edges
