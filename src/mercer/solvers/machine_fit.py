"""The fit of a machine of any convex loss, as solvers price it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.dense import JOINT_MATRICES, KINKED_MATRICES, NEWTON_MATRICES, Cholesky
from mercer.solvers.explicit import Primal
from mercer.solvers.forecast import Candidates, Priced, as_reason
from mercer.solvers.kernel_features import may_hold
from mercer.solvers.newton.on_features import UNKNOWNS, in_one_matrix
from mercer.solvers.nystrom import NystromSolver
from mercer.solvers.protocol import FEW_ROWS, MANY_FEATURES, PATIENCE, Solver

_KINKS = "the loss has kinks"


@dataclass(frozen=True, eq=False)
class MachineFit(Priced):
    """A machine of any convex loss: a linear system in each Newton step."""

    outputs: int  # functions that are fitted
    joint: bool  # whether they are fitted together, and not one after the other
    smooth: bool  # whether the loss is

    product_rows: ClassVar[float] = np.inf
    #: Rows of blocks or of a file up to which they are read into memory.
    held_rows: ClassVar[int] = 10_000
    iterations: ClassVar[int] = 10
    landmark_matrices: ClassVar[int] = 4
    #: Newton steps for each function.
    steps: ClassVar[int] = 7
    #: Operations over n^3 of a loss with kinks, for each function.
    kinked_cubes: ClassVar[float] = 3.3
    #: Operations over n m^2 of a loss with kinks over landmarks or features.
    kinked_passes: ClassVar[float] = 25.0
    #: Copies of the features of rows for a loss with kinks.
    kinked_copies: ClassVar[float] = 4.4
    #: Landmarks at most: every step costs n m^2 operations.
    most_landmarks: ClassVar[int] = 2000
    #: Landmarks at most for a loss with kinks, which takes more steps.
    most_kinked_landmarks: ClassVar[int] = 1000

    @property
    def n(self) -> int:
        """The number of rows of positive weight."""
        return self.rows.statistics.rows

    @property
    def coupled(self) -> int:
        """All functions, or one after the other."""
        return self.outputs if self.joint else 1

    @property
    def columns(self) -> int:
        """One for each function that is fitted with others."""
        return self.coupled

    @property
    def functions(self) -> int:
        """The number of functions."""
        return self.outputs

    @property
    def solves(self) -> float:
        """Newton steps of all functions."""
        return float(self.steps) * self.outputs / self.coupled

    @property
    def uses_threads(self) -> bool:
        """Steps for losses with kinks factorise few rows at a time."""
        return self.smooth

    @property
    def preconditioners(self) -> float:
        """One for each step; one for all if several functions are fitted together."""
        return 1.0 if self.joint else self.solves

    @property
    def landmark_work(self) -> float:
        """Second derivatives of all pairs of functions that are fitted together."""
        return self._blocks if self.smooth else self.kinked_passes / self.steps

    @property
    def _blocks(self) -> float:
        """Blocks of second derivatives of the functions that are fitted together."""
        k = self.coupled
        return max(1.0, k * (k - 1) / 2)

    @property
    def landmarks(self) -> int:
        """Few enough that one matrix holds the unknowns."""
        most = self.most_landmarks if self.smooth else self.most_kinked_landmarks
        return min(most, max(100, UNKNOWNS // self.coupled), self.n)

    @property
    def _landmark_solver(self) -> NystromSolver:
        return NystromSolver(self.landmarks, "rpcholesky", random_state=0)

    @property
    def matrix_is_dear(self) -> bool:
        """Beyond a few rows the matrix is taken while it costs less than what comes after it."""
        if self.n <= FEW_ROWS:
            return super().matrix_is_dear
        other = ConjugateGradient() if self.smooth else self._landmark_solver
        return super().matrix_is_dear or self.work(Cholesky()) > self.work(other)

    @property
    def products_are_dear(self) -> bool:
        """Products are taken while they cost less than half a minute of one core."""
        return super().products_are_dear or self.work(ConjugateGradient()) > PATIENCE

    def dense(self, *, eigenvectors: bool) -> tuple[float, float]:
        """A factor in each step, or iterations if several functions are fitted together."""
        n, k = float(self.n), self.coupled
        if not self.smooth:
            return KINKED_MATRICES, self.outputs * self.kinked_cubes * n**3
        if k > 1:
            return JOINT_MATRICES, 2 * k * self.solves * self.iterations * n**2 + n**3 / 3
        return NEWTON_MATRICES, self.solves * n**3 / 3

    def features(self, width: int, *, approximate: bool = False) -> tuple[float, float]:
        """Second derivatives in each step, in one matrix or by iterations."""
        n, k, solves = self.n, self.coupled, self.solves
        stored, turning = self.stored(width), 0.0
        if n < width and self.in_memory:  # rows become coordinates in the span of their features
            stored, turning, width = 16.0 * n * width, 4.0 * width * n**2, n
        if not self.smooth:
            return stored, self.outputs * self.kinked_passes * n * width**2 + turning
        if in_one_matrix(k, width):
            operations = solves * (self._blocks * n * width**2 + (k * width) ** 3 / 3)
            return 32.0 * (k * width) ** 2 + stored, operations + turning
        iterations = 4.0 * self.iterations * n * width
        return 32.0 * k * width**2 + stored, solves * k * (iterations + width**3) + turning

    def feature_obstacle(self, width: int) -> str:
        """Features pay if their operations are fewer than those of the matrix."""
        return MANY_FEATURES if self.features(width)[1] >= self.work(Cholesky()) else ""

    def stored(self, width: int) -> float:
        """Features of rows in memory are held if there is room."""
        size = 8.0 * self.n * width
        if not self.smooth:
            return self.kinked_copies * size
        return size if self.in_memory and may_hold(size) else 0.0

    @property
    def restriction(self) -> str:
        """Losses with kinks are minimised with all rows in memory."""
        return "" if self.smooth or self.in_memory else _KINKS

    @property
    def product_restriction(self) -> str:
        """Newton's equations of losses with kinks are solved by factors."""
        return "" if self.smooth else _KINKS

    def candidates(self) -> Candidates:
        """Features, the matrix, products with it, landmarks."""
        n = self.n
        yield Primal(), f"the kernel has few features beside {n} rows"
        fits = f"the matrix of {n} rows fits, and costs less than iterations"
        yield Cholesky(), as_reason(self.needs_matrix) or fits
        why = f"products with the matrix of {n} rows cost less than factors of it"
        yield ConjugateGradient(random_state=0), why
        why = "are too many for the whole matrix" if self.in_memory else "come in blocks"
        yield self._landmark_solver, f"{n} rows {why}"

    def others(self) -> tuple[Solver, ...]:
        """All but `Spectral`, which is `Cholesky` here."""
        return super().others()[1:]
