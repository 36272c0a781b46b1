"""Neighbours of samples: their search, and graphs of them."""

from deepnmf.neighbors.graphs import empty_rows, linked, neighbor_graph, shares
from deepnmf.neighbors.search import Near, nearest_of, unit_rows

__all__ = ["Near", "empty_rows", "linked", "nearest_of", "neighbor_graph", "shares", "unit_rows"]
