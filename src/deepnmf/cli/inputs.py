"""What several commands read: data by path or name, its labels, a model and its notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar, overload

from deepnmf.cli.screen import UsageFault

if TYPE_CHECKING:
    import numpy as np

    from deepnmf.arrays import Array, Data
    from deepnmf.data import Dataset
    from deepnmf.models.storage import Stored

NORMALIZE = ("none", "l2")
DTYPES = ("float32", "float64")
Setting: TypeAlias = "bool | int | float | str | tuple[Setting, ...] | None"
"""What a user can write as the value of an option."""
N = TypeVar("N", int, float)


def load_data(data: str, *labels: str | None, layer: str | None = None) -> Dataset:
    """A `Dataset` from the name of a data set or a path (./pie for a file of that name).

    Columns of a table that `labels` name are no features. What else it names, `load_labels` reads.
    `layer` is read in place of the X of an .h5ad file.
    """
    from deepnmf.data import read
    from deepnmf.data.datasets import DATASETS
    from deepnmf.data.readers import has_column

    if not data:
        raise UsageFault("DATA is empty: give a file, a folder or the name of a data set.")
    if layer is not None and not is_h5ad(data):
        raise UsageFault(f"--layer {layer}: only .h5ad files have layers; leave it out.")
    if data in DATASETS:
        return DATASETS[data][0]()
    try:
        named = dict.fromkeys(name for name in labels if name is not None)
        return read(data, labels=[name for name in named if has_column(data, name)], layer=layer)
    except FileNotFoundError:
        names = ", ".join(DATASETS)
        raise FileNotFoundError(
            f"{data}: there is no such file, and no data set of that name ({names})."
        ) from None


def load_for(
    stored: Stored,
    data: str,
    labels: str | None = None,
    text: bool = False,
    text_column: str | None = None,
) -> Dataset:
    """A `Dataset` for a stored model. Without `labels`, a column that held labels when the model
    was fitted holds labels again. Of an .h5ad file it is the layer that the model was fitted to.
    A model of texts reads folders, tables and texts as texts."""
    from dataclasses import replace

    from deepnmf.data.dataset import complete_labels

    known: str | None = stored.notes.get("labels")
    vectorizer = getattr(stored.model, "vectorizer_", None)
    if vectorizer is None and (text or text_column is not None):
        raise UsageFault("--text: the model was not fitted to texts. Fit one with `deepnmf fit`.")
    if vectorizer is not None and (text or text_column is not None or _is_text(data)):
        column = text_column or _known_column(data, stored.notes.get("text_column"))
        dataset = vectorizer.read(data, column)
    else:
        dataset = load_data(data, labels, known, layer=_known_layer(stored, data))
    if dataset.y is not None or known is None or known not in dataset.columns:
        return dataset
    return replace(dataset, y=complete_labels(known, dataset.columns[known]))


def _known_layer(stored: Stored, data: str) -> str | None:
    """The layer that a model was fitted to, for an .h5ad file."""
    return stored.notes.get("layer") if is_h5ad(data) else None


def is_h5ad(data: str) -> bool:
    """Whether this is the path of an .h5ad file."""
    return data.lower().endswith(".h5ad")


def _is_text(data: str) -> bool:
    from deepnmf.data.datasets import DATASETS
    from deepnmf.data.texts import is_text

    return data not in DATASETS and is_text(data)


def _known_column(data: str, column: str | None) -> str | None:
    """The column that held the documents when the model was fitted, if the data have it."""
    from deepnmf.data.readers import has_column

    return column if column is not None and has_column(data, column) else None


def open_data(data: str, layer: str | None = None) -> Dataset:
    """A `Dataset` whose samples stay in their file; a named data set is loaded into memory."""
    from deepnmf.data import open_on_disk
    from deepnmf.data.datasets import DATASETS

    if data in DATASETS or not data or (layer is not None and not is_h5ad(data)):
        return load_data(data, layer=layer)
    return open_on_disk(data, layer)


def prepare_on_disk(X: Data, normalize: str, dtype: str) -> Data:
    """Like `prepare`, but samples on disk are prepared as they are read."""
    import numpy as np

    from deepnmf.data.dataset import check_chunks
    from deepnmf.samples.conversion import check_conversion
    from deepnmf.samples.disk import Prepared, is_on_disk

    if not is_on_disk(X):
        return prepare(X, normalize, dtype)
    check_chunks(X)
    if normalize == "none":
        check_conversion(X, np.dtype(dtype))
    return Prepared(X, np.dtype(dtype), normalize == "l2")


def prepare(X: Data, normalize: str, dtype: str, signed: bool = False) -> Data:
    """The samples as the model sees them: in that precision, and scaled to unit norm if asked.

    Entries < 0 are refused unless `signed`.
    """
    import numpy as np

    from deepnmf.samples.checks import check_entries
    from deepnmf.samples.conversion import check_conversion, converted

    check_entries(X, "deepnmf", signed)
    if normalize == "none":
        check_conversion(X, np.dtype(dtype))
    # In row-major order: products of another order are rounded differently.
    return converted(X, np.dtype(dtype), normalize == "l2")


def prepare_for(stored: Stored, dataset: Dataset) -> Data:
    """The samples as a stored model saw its own: same columns in the same order, same scaling."""
    X, names = dataset.X, stored.notes.get("feature_names")
    if names is not None and dataset.feature_names is not None:
        features = [str(name) for name in dataset.feature_names]
        if features != names:
            place = {name: position for position, name in enumerate(features)}
            absent = [name for name in names if name not in place]
            if absent:
                others = f" and {len(absent) - 1} other features" if len(absent) > 1 else ""
                raise ValueError(
                    f"the data lack {absent[0]!r}{others}; the model was fitted to data with "
                    f"{len(names)} named features. Give data that have all of them."
                )
            X = X[:, [place[name] for name in names]]
    dtype = str(stored.model.weights_[0].dtype)
    signed = bool(getattr(stored.model, "signed", False))
    return prepare(X, stored.notes.get("normalize", "none"), dtype, signed)


def column(dataset: Dataset, name: str) -> np.ndarray:
    """A column of the data, with a label for every sample."""
    from deepnmf.data.dataset import complete_labels

    if name not in dataset.columns:
        there = ", ".join(sorted(dataset.columns)) or "none"
        raise ValueError(f"--batch {name}: the data have no such column; they have {there}.")
    return complete_labels(name, dataset.columns[name])


def codes_of(stored: Stored, dataset: Dataset, layer: int | None = None) -> Array:
    """The codes of samples under a stored model.

    Samples of a model of batches have the own parts of their batches, if the data name them and
    all of them were fitted; otherwise the shared parts alone describe them.
    """
    from deepnmf.models.baselines import BatchNMF

    X, name = prepare_for(stored, dataset), str(stored.notes.get("batch"))
    if isinstance(stored.model, BatchNMF) and name in dataset.columns:
        labels = column(dataset, name)
        if stored.model.knows(labels):
            return stored.model.transform(X, layer, batches=labels)
    return stored.model.transform(X, layer=layer)


def load_labels(dataset: Dataset, labels: str | None) -> np.ndarray | None:
    """The labels: from a file, from a column of the data, or those that the data come with."""
    from deepnmf.data.dataset import complete_labels
    from deepnmf.data.labels import read_named_labels

    if labels is None:
        return dataset.y
    if labels in dataset.columns:
        return complete_labels(labels, dataset.columns[labels])
    try:
        names, values = read_named_labels(labels)
    except FileNotFoundError as problem:
        if not dataset.columns:
            raise
        columns = ", ".join(sorted(dataset.columns))
        raise FileNotFoundError(
            f"{labels}: there is no such file, and the data have no such column. They have "
            f"{columns}."
        ) from problem
    count, samples = len(values), dataset.X.shape[0]
    if count == samples + 1:
        raise ValueError(
            f"{labels}: holds {count} labels for {samples} samples: remove the first line if "
            f"{values[0]!r} is a header."
        )
    if count != samples:
        raise ValueError(f"{labels}: holds {count} labels for {samples} samples.")
    return values if names is None else _by_name(labels, names, values, dataset.sample_names)


def _by_name(
    file: str, names: np.ndarray, labels: np.ndarray, samples: np.ndarray | None
) -> np.ndarray:
    """Labels in the order of the samples, matched by name.

    Where they have no name in common, or names repeat, labels stay in the order of the file.
    """
    place = {str(name): position for position, name in enumerate(names)}
    wanted = [] if samples is None else [str(name) for name in samples]
    absent = [name for name in wanted if name not in place]
    if len(absent) == len(wanted) or len(place) < len(names):
        return labels
    if absent:
        raise ValueError(
            f"{file}: has no label for {absent[0]!r}, one of {len(absent)} samples that its first "
            "column does not name. Name all samples as in the data, or leave the names out."
        )
    return labels[[place[name] for name in wanted]]


def single_models() -> list[str]:
    """The names of the models that are fitted to a single data set."""
    from deepnmf.models.registry import MODELS

    return [name for name, model in MODELS.items() if not model.several]


def one_of(option: str, value: str, choices: Iterable[str]) -> str:
    """`value` if it is one of the choices; a `UsageFault` otherwise."""
    from deepnmf.models.settings import one_of as check

    try:
        return check(option, value, choices)
    except ValueError as problem:
        raise UsageFault(str(problem)) from None


@overload
def numbers(option: str, text: None, kind: type[N]) -> None: ...
@overload
def numbers(option: str, text: str, kind: type[N]) -> N | tuple[N, ...]: ...
def numbers(option: str, text: str | None, kind: type[N]) -> N | tuple[N, ...] | None:
    """A number, or a tuple of numbers where commas stand between them; None stays None."""
    if text is None:
        return None
    try:
        values = tuple(kind(number) for number in text.split(","))
    except ValueError:
        wanted = "whole numbers, such as 600,160" if kind is int else "numbers, such as 1e-3"
        raise UsageFault(f"{option}: {text!r} is not made of {wanted}.") from None
    return values[0] if len(values) == 1 else values


def grid(text: str | None) -> tuple[int, int] | None:
    """Height and width from 95x95; None stays None."""
    if text is None:
        return None
    sizes = text.lower().split("x")
    if len(sizes) != 2 or not all(size.isascii() and size.isdigit() for size in sizes):
        raise UsageFault(f"--grid: {text!r} is not a height and a width, such as 95x95.")
    return int(sizes[0]), int(sizes[1])


def option(text: str) -> tuple[str, Setting]:
    """Name and value from name=value."""
    name, separator, words = text.partition("=")
    if not separator or not name:
        raise UsageFault(f"--set {text}: write it as name=value, such as theta=0.5.")
    return name, value(words)


def value(text: str) -> Setting:
    """The value of a text: a number, true, false, none, several of these with commas, or a word."""
    if "," in text:
        return tuple(value(entry) for entry in text.split(",") if entry)
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    kinds: tuple[Callable[[str], int | float], ...] = (int, float)
    for kind in kinds:
        try:
            return kind(text)
        except ValueError:
            continue
    return text
