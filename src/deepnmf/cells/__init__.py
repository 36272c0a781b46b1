"""Models of cells: AnnData in and out."""

from deepnmf.cells.annotate import fit, from_model, to_model, transform
from deepnmf.cells.markers import markers

__all__ = ["fit", "from_model", "markers", "to_model", "transform"]
