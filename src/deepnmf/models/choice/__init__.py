"""How many parts, and how many layers: `choose_layers(X)` and what it returns."""

from deepnmf.models.choice.choose import choose_layers
from deepnmf.models.choice.ledger import FileLedger, Ledger
from deepnmf.models.choice.record import Candidate, Choice, LayerChoice, Support

__all__ = [
    "Candidate", "Choice", "FileLedger", "LayerChoice", "Ledger", "Support", "choose_layers",
]  # fmt: skip
