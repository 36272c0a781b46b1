"""What a part, a sample or a class is made of: `explain(model, …)` and what it returns."""

from deepnmf.explain.hierarchy import LayerSummary, explain, summaries
from deepnmf.explain.tree import Distinct, Node, Tree

__all__ = ["Distinct", "LayerSummary", "Node", "Tree", "explain", "summaries"]
