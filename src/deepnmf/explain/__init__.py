"""What a code, a class or a sample is made of: tables of parts, their features and samples."""

from deepnmf.explain.rankings import top_features, top_samples
from deepnmf.explain.tables import codes_table, edges_table, parts_table

__all__ = ["codes_table", "edges_table", "parts_table", "top_features", "top_samples"]
