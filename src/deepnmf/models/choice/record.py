"""What `choose_layers` returns: the curve with its spread, the choice, and the runners-up."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np

STANDARD_ERRORS = 1.0
EARNED = 0.1
"""What a further part must lower the error by, as a share of what earlier parts did on average."""
LEFT = 0.15
"""Parts that lower the error that is left by more than this share each, one after another, earn
their place in any case."""

NEAR_MOST = 0.9
"""A choice above this share of the most parts may have been held back."""
AS_STEADY = 0.01
"""A difference in stability that does not count."""
SUMMED_UP = 0.5
"""A layer has at most this share of the parts below it, or it does not sum them up."""
MOST_FITS, FEW_FITS = 0.8, 0.5
"""A part in this share of the fits is well supported; in less than this, poorly."""


@dataclass(frozen=True)
class Candidate:
    """A number of parts that was tried."""

    size: int
    error: float
    """The mean of ‖A − Â‖²/‖A‖² over the hold-outs."""
    above_best: float
    """How far the error is above that of the size that predicts best."""
    spread: float
    """The standard error of `above_best`."""
    stability: float | None = None
    """The mean cosine of matched parts, between fits from random starts to different samples; None
    if it was not measured."""

    def is_sound(self) -> bool:
        """Whether the entries are numbers that a choice can have."""
        numbers = [self.error, self.above_best, self.spread, self.stability or 0.0]
        return (
            _are([self.size], int)
            and self.size > 0
            and _are(numbers, int | float)
            and all(math.isfinite(number) for number in numbers)
        )


@dataclass(frozen=True)
class LayerChoice:
    """What was tried for one layer, and what was chosen."""

    layer: int
    candidates: tuple[Candidate, ...]
    size: int
    """The smallest number of parts that predicts as well as the best."""
    most: int
    """The most parts that the hold-outs allow, or that were asked for."""
    helps: bool = True
    """Whether the layer is worth having: it sums up the layer below."""
    stopped: str = ""
    """Why the search ended early; empty if it did not."""

    def is_sound(self) -> bool:
        """Whether the entries are of the types that they should be, and the choice was tried."""
        return (
            _are(self.candidates, Candidate)
            and all(candidate.is_sound() for candidate in self.candidates)
            and self.size in [candidate.size for candidate in self.candidates]
            and _are([self.layer, self.most], int)
            and self.most >= self.size
            and isinstance(self.helps, bool)
            and isinstance(self.stopped, str)
        )

    @property
    def best(self) -> Candidate:
        """The candidate that predicts best."""
        return min(self.candidates, key=lambda candidate: candidate.error)

    def candidate(self, size: int) -> Candidate:
        """The candidate of this size."""
        return next(candidate for candidate in self.candidates if candidate.size == size)

    def sentences(self) -> list[str]:
        """The choice and the runners-up in words."""
        said = [self._verdict()]
        if self.helps:
            said += [f"  {candidate.size} {text}." for candidate, text in self._runners_up()]
            if self.size > NEAR_MOST * self.most:
                said.append(
                    f"  {self.most} is the most that could be tried: there may be more parts."
                )
        if self.stopped:
            said.append(f"  The search ended early: {self.stopped}.")
        return said

    def _verdict(self) -> str:
        best = self.best
        if not self.helps and self.size == 1:
            return (
                f"Layer {self.layer} does not help: no number of parts predicts the codes of layer "
                f"{self.layer - 1} better than 1 does."
            )
        if not self.helps:
            return (
                f"Layer {self.layer} does not help: it would need {self.size} parts to predict the "
                f"codes of layer {self.layer - 1}, which has fewer than twice as many."
            )
        if best.size == self.size:
            return f"Layer {self.layer}: {counted(self.size)}. This number predicts best."
        chosen = self.candidate(self.size)
        if chosen.above_best <= STANDARD_ERRORS * chosen.spread:
            reason = "This number predicts as well as any, within one standard error."
        else:
            reason = (
                f"Each further part improves the prediction by less than {EARNED:.0%} of what "
                "these do on average."
            )
        return f"Layer {self.layer}: {counted(self.size)}. {reason}"

    def _runners_up(self) -> Iterator[tuple[Candidate, str]]:
        """Candidates that come into question, and what distinguishes them from the choice."""
        chosen = self.candidate(self.size)
        for candidate in self.candidates:
            if candidate.size == self.size:
                continue
            if candidate.size == self.best.size:
                gain = 1 - candidate.error / chosen.error if chosen.error else 0.0
                text = f"predicts best, with an error {gain:.1%} lower"
            elif candidate.above_best <= STANDARD_ERRORS * candidate.spread:
                text = "is within one standard error of the best"
            else:
                continue
            yield candidate, text + _steadier(candidate.stability, chosen.stability)


def _steadier(stability: float | None, chosen: float | None) -> str:
    """How the stability of a candidate compares with that of the choice."""
    if stability is None or chosen is None:
        return ""
    if abs(stability - chosen) < AS_STEADY:
        return f", and is as steady ({stability:.2f})"
    word = "steadier" if stability > chosen else "less steady"
    return f", and is {word} ({stability:.2f} instead of {chosen:.2f})"


@dataclass(frozen=True)
class Support:
    """The share of fits, from random starts to different samples, that have each part and edge."""

    parts: tuple[tuple[float, ...], ...]
    """Per layer."""
    edges: tuple[tuple[tuple[float, ...], ...], ...]
    """Per layer above the first: a row per part below, a column per part of the layer."""

    @classmethod
    def of(cls, parts: Iterable[Iterable[float]], edges: Iterable[Any]) -> Support:
        """From arrays or lists."""
        return cls(
            tuple(tuple(float(value) for value in layer) for layer in parts),
            tuple(tuple(tuple(float(value) for value in row) for row in layer) for layer in edges),
        )

    def is_sound(self, sizes: Sequence[int]) -> bool:
        """Whether these are shares, for each part and edge of layers of these sizes."""
        shapes = [(k,) for k in sizes], list(itertools.pairwise(sizes))
        try:
            layers = [[np.asarray(layer, dtype=float) for layer in own] for own in astuple(self)]
        except (TypeError, ValueError):
            return False
        return all(
            [layer.shape for layer in own] == expected
            and all(((layer >= 0) & (layer <= 1)).all() for layer in own)
            for own, expected in zip(layers, shapes, strict=True)
        )

    def sentences(self) -> list[str]:
        """How many parts most fits agree on."""
        said = []
        for layer, parts in enumerate(self.parts, 1):
            most = sum(value >= MOST_FITS for value in parts)
            few = sum(value < FEW_FITS for value in parts)
            rest = f", {few} in fewer than {FEW_FITS:.0%}" if few else ""
            verb = "is" if most == 1 else "are"
            said.append(
                f"Layer {layer}: {most} of {counted(len(parts))} {verb} found in at least "
                f"{MOST_FITS:.0%} of the fits{rest}."
            )
        return said


@dataclass(frozen=True)
class Choice:
    """How many parts a data set has, layer by layer. `layer_sizes` is for `DeepNMF`."""

    layer_sizes: tuple[int, ...]
    layers: tuple[LayerChoice, ...]
    """All layers that were looked at; the last of them may have been found not to help."""
    samples: int
    """How many samples were used."""
    support: Support | None = None
    """The support of the parts of the chosen layers, if it was measured."""

    def sentences(self) -> list[str]:
        """The answer in words: the choice, and what else comes into question."""
        kept = ", ".join(map(str, self.layer_sizes))
        answer = f"layer_sizes=({kept}{',' if len(self.layer_sizes) == 1 else ''})"
        layers = [line for layer in self.layers for line in layer.sentences()]
        return [answer, *layers, *([] if self.support is None else self.support.sentences())]

    def is_sound(self) -> bool:
        """Whether the entries are of the types and in the order that they should be."""
        return (
            _are(self.layer_sizes, int)
            and min(self.layer_sizes) > 0
            and _are(self.layers, LayerChoice)
            and all(layer.is_sound() for layer in self.layers)
            and [layer.layer for layer in self.layers] == list(range(1, len(self.layers) + 1))
            and tuple(layer.size for layer in self.layers if layer.helps) == self.layer_sizes
            and _are([self.samples], int)
            and (self.support is None or self.support.is_sound(self.layer_sizes))
        )

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def table(self) -> list[dict[str, Any]]:
        """One record per layer and number of parts."""
        return [
            {"layer": layer.layer, **asdict(candidate), "chosen": candidate.size == layer.size}
            for layer in self.layers
            for candidate in layer.candidates
        ]

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "layer_sizes": list(self.layer_sizes),
            "samples": self.samples,
            "sentences": self.sentences(),
            "candidates": self.table(),
            "support": None if self.support is None else asdict(self.support),
        }

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self.sentences())
        head = ("layer", "parts", "held-out error", "above the best", "stability")
        rows = "".join(_html_row(record) for record in self.table())
        cells = "".join(f"<th>{name}</th>" for name in head)
        return f"{lines}<table><tr>{cells}</tr>{rows}</table>"


def _html_row(record: dict[str, Any]) -> str:
    above = f"{record['above_best']:.4g} ± {record['spread']:.2g}"
    steady = record["stability"]
    cells = [
        str(record["layer"]), str(record["size"]), f"{record['error']:.4g}", above,
        "" if steady is None else f"{steady:.2f}",
    ]  # fmt: skip
    mark = ' style="font-weight:bold"' if record["chosen"] else ""
    return f"<tr{mark}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _are(values: Any, kind: Any) -> bool:
    """Whether these are one or more values of that kind."""
    return (
        isinstance(values, list | tuple)
        and len(values) > 0
        and all(isinstance(value, kind) and not isinstance(value, bool) for value in values)
    )


def counted(size: int) -> str:
    """A number of parts in words."""
    return "1 part" if size == 1 else f"{size} parts"


def compared(errors: dict[int, Sequence[float]]) -> list[Candidate]:
    """The candidates, from the errors of every size on the same hold-outs."""
    sizes = sorted(errors)
    table = np.asarray([errors[size] for size in sizes], dtype=float)
    best = int(table.mean(axis=1).argmin())
    above = table - table[best]
    spread = above.std(axis=1, ddof=1) / math.sqrt(table.shape[1])
    rows = zip(sizes, table.mean(axis=1), above.mean(axis=1), spread, strict=True)
    return [Candidate(size, *map(float, numbers)) for size, *numbers in rows]


def smallest_good(candidates: Sequence[Candidate]) -> int:
    """The smallest size that predicts as well as the best, and whose parts all earn their place.

    As well as the best: the error is higher by at most one standard error. Parts beyond a smaller
    size must each lower the error by more than `EARNED` times what the parts up to it did on
    average, or by more than the share `LEFT` of what is left.
    """
    size = next(
        place
        for place, candidate in enumerate(candidates)
        if candidate.above_best <= STANDARD_ERRORS * candidate.spread
    )
    while (smaller := _without_idle_parts(candidates[: size + 1])) is not None:
        size = smaller
    return candidates[size].size


def _without_idle_parts(candidates: Sequence[Candidate]) -> int | None:
    """The largest smaller size after which parts do not earn their place; None if all do."""
    first, last = candidates[0], candidates[-1]
    for place in range(len(candidates) - 2, 0, -1):
        candidate = candidates[place]
        average = (first.error - candidate.error) / (candidate.size - first.size)
        gain = candidate.error - last.error
        parts = last.size - candidate.size
        if gain <= min(EARNED * average * parts, (1 - (1 - LEFT) ** parts) * candidate.error):
            return place
    return None


def worth_having(candidates: Sequence[Candidate], size: int, below: int) -> bool:
    """Whether a layer of this size sums up a layer of `below` parts: it has few parts, and predicts
    better than one part does, beyond chance."""
    first = candidates[0]
    chosen = next(candidate for candidate in candidates if candidate.size == size)
    gain = first.above_best - chosen.above_best
    return 1 < size <= SUMMED_UP * below and gain > 2 * first.spread
