"""Neighbours of samples: their search, and graphs of them."""

from deepnmf.neighbors.graphs import empty_rows, linked, neighbor_graph
from deepnmf.neighbors.search import nearest_of, unit_rows

__all__ = ["empty_rows", "linked", "nearest_of", "neighbor_graph", "unit_rows"]
