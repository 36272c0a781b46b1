"""The data of a fit: where they are, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deepnmf.cli import inputs
from deepnmf.cli.screen import UsageFault
from deepnmf.cli.texts import TextSettings, load_texts

if TYPE_CHECKING:
    from deepnmf.arrays import Array
    from deepnmf.data import Dataset, Vectorizer
    from deepnmf.models.base import MatrixFactorization


@dataclass(frozen=True)
class Source:
    """Where the data are, and what is made of them."""

    data: str
    layer: str | None
    """The layer of an .h5ad file, in place of its X."""
    batch: str | None
    """The column that names the batches."""
    normalize: str
    dtype: str
    labels: str | None
    """The column that holds labels."""
    feature_names: str | None
    """The file of names."""
    texts: TextSettings
    text: bool
    """Whether --text was given."""
    grid: tuple[int, int] | None
    axis_label: str | None

    @property
    def of_texts(self) -> bool:
        """Whether the data are texts."""
        return self.text or self.texts.column is not None

    def check(self, in_blocks: bool) -> None:
        """Refuse options that do not go together."""
        given = self.texts.given()
        if given and not self.of_texts:
            option = "--" + next(iter(given)).replace("_", "-")
            raise UsageFault(f"{option} is about texts: give --text as well, or leave it out.")
        if self.of_texts and in_blocks:
            raise UsageFault(
                "--text: texts are read into memory, so leave out --max-memory and --dask."
            )
        if self.of_texts and (self.layer is not None or self.batch is not None):
            raise UsageFault("--text: only .h5ad files have layers and batches; leave them out.")
        if self.of_texts and self.feature_names is not None:
            raise UsageFault("--feature-names: with --text, the words are the names; leave it out.")

    def opened(
        self, estimator: MatrixFactorization, in_blocks: bool
    ) -> tuple[Dataset, Array, Vectorizer | None]:
        """The data set, its samples as the model sees them, and what made them of texts."""
        from deepnmf.data.readers import with_feature_names

        vectorizer = None
        if in_blocks:
            dataset = inputs.open_data(self.data, self.layer)
        elif self.of_texts:
            dataset, vectorizer = load_texts(self.data, self.texts)
        else:
            dataset = inputs.load_data(self.data, self.labels, layer=self.layer)
        if self.labels is not None and self.labels not in dataset.columns:
            raise ValueError(f"--labels: {self.data} has no column {self.labels!r}.")
        if self.feature_names is not None:
            dataset = with_feature_names(dataset, self.feature_names)
        if self.grid is not None:
            dataset = replace(dataset, grid=self.grid)
        if self.axis_label is not None:
            dataset = replace(dataset, axis_label=self.axis_label)
        if in_blocks:
            return dataset, inputs.prepare_on_disk(dataset.X, self.normalize, self.dtype), None
        signed = bool(getattr(estimator, "signed", False))
        X = inputs.prepare(dataset.X, self.normalize, self.dtype, signed)
        return dataset, X, vectorizer

    def notes(self, model: str, dataset: Dataset) -> dict[str, object]:
        """What the model file says about the data it was fitted to."""
        names = dataset.feature_names
        return {
            "model": model,
            "data": dataset.name,
            "layer": self.layer,
            "batch": self.batch,
            "normalize": self.normalize,
            "dtype": self.dtype,
            "labels": self.labels,
            "text_column": self.texts.column,
            "image_shape": dataset.image_shape,
            "grid": dataset.grid,
            "axis_label": dataset.axis_label or None,
            "feature_names": None if names is None else [str(name) for name in names],
        }
