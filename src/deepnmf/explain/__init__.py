"""What a code, a class or a sample is made of: tables of parts, and their names."""

from deepnmf.explain.export import write_tables
from deepnmf.explain.names_files import read_names, write_names
from deepnmf.explain.rankings import top_features, top_samples
from deepnmf.explain.tables import codes_table, edges_table, parts_table

__all__ = [
    "codes_table",
    "edges_table",
    "parts_table",
    "read_names",
    "top_features",
    "top_samples",
    "write_names",
    "write_tables",
]
