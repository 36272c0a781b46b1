"""The solver that fits the arrays."""

from __future__ import annotations

from dataclasses import dataclass

from deepnmf.arrays import Array, is_numpy
from deepnmf.solvers.base import Outcome, Solver, SolverMemory
from deepnmf.solvers.coordinate import Coordinate
from deepnmf.solvers.nesterov import Nesterov
from deepnmf.solvers.quadratic import Quadratic


@dataclass(frozen=True)
class Auto(Solver):
    """`Coordinate` for NumPy arrays, `Nesterov` for tensors."""

    def extrapolates(self, X: Array, *, linear: bool) -> bool:
        return is_numpy(X) or not linear

    def rescales(self, X: Array) -> bool:
        return is_numpy(X)

    def recordable(self, X: Array) -> bool:
        return self._chosen(X).recordable(X)

    def update(self, problem: Quadratic, F: Array, memory: SolverMemory = None) -> Outcome:
        return self._chosen(F).update(problem, F, memory)

    @staticmethod
    def _chosen(X: Array) -> Solver:
        return Coordinate() if is_numpy(X) else Nesterov()
