"""What a part, a sample or a class is made of: `explain(model, …)` and what it returns."""

from deepnmf.explain.hierarchy import (
    Distinct,
    LayerSummary,
    Node,
    Tree,
    explain,
    summaries,
)

__all__ = ["Distinct", "LayerSummary", "Node", "Tree", "explain", "summaries"]
