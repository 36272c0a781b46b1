"""Solvers of one factor's subproblem: one algorithm a file."""

from deepnmf.core.solvers.base import Outcome, Solver
from deepnmf.core.solvers.coordinate import Auto, Coordinate
from deepnmf.core.solvers.nesterov import Nesterov
from deepnmf.core.solvers.projected_gradient import ProjectedGradient
from deepnmf.core.stopping import per_run

__all__ = ["Auto", "Coordinate", "Nesterov", "Outcome", "ProjectedGradient", "Solver", "per_run"]
