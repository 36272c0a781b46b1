"""Solvers of one factor's subproblem: one algorithm a file."""

from deepnmf.solvers.base import Outcome, Solver
from deepnmf.solvers.coordinate import Auto, Coordinate
from deepnmf.solvers.nesterov import Nesterov
from deepnmf.solvers.projected_gradient import ProjectedGradient
from deepnmf.solvers.stopping import per_run

__all__ = ["Auto", "Coordinate", "Nesterov", "Outcome", "ProjectedGradient", "Solver", "per_run"]
