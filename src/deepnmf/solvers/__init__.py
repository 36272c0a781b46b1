"""Solvers of one factor's subproblem, one algorithm per file."""

from deepnmf.solvers.auto import Auto
from deepnmf.solvers.base import Outcome, Solver
from deepnmf.solvers.coordinate import Coordinate
from deepnmf.solvers.nesterov import Nesterov
from deepnmf.solvers.projected_gradient import ProjectedGradient
from deepnmf.solvers.stopping import per_run

SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "nesterov": Nesterov,
    "coordinate": Coordinate,
    "projected_gradient": ProjectedGradient,
}
"""The solvers that have a name."""

__all__ = [
    "SOLVERS",
    "Auto",
    "Coordinate",
    "Nesterov",
    "Outcome",
    "ProjectedGradient",
    "Solver",
    "per_run",
]
