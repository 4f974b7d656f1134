"""The fit of a machine of any convex loss, as solvers price it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer.parallel import cached_property
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.dense import (
    DIRECT_JOINT_MATRICES,
    FREE_MATRICES,
    ITERATION_VECTORS,
    JOINT_MATRICES,
    KINKED_MATRICES,
    NEWTON_MATRICES,
    Cholesky,
)
from mercer.solvers.explicit import Primal
from mercer.solvers.forecast import Candidates, Priced, as_reason
from mercer.solvers.kernel_features import may_hold
from mercer.solvers.newton.on_features import UNKNOWNS, in_one_matrix
from mercer.solvers.newton.products import JOINT_COLUMNS
from mercer.solvers.nystrom import NystromSolver
from mercer.solvers.protocol import (
    CHOLESKY,
    FEW_ROWS,
    MACHINE_RANK,
    MANY_FEATURES,
    MOMENT,
    PATIENCE,
    Solver,
    Systems,
    eigenvectors,
    more_products,
)

_KINKS = "the loss has kinks"
# Number of functions fitted together up to which a step on few rows takes a factor for each.
_FEW_FUNCTIONS = 8
# Number of rows up to which a step for few functions takes a factor for each.
_FEW_ROWS = 500
#: The obstacle of solvers without a matrix or features in memory.
SEARCHES = "it compares no alphas"


def takes_products(functions: int, n: int) -> bool:
    """Whether steps for functions that are fitted together iterate, without a factor for each."""
    return functions > _FEW_FUNCTIONS or n > _FEW_ROWS


@dataclass(frozen=True, eq=False)
class MachineFit(Priced):
    """A machine of any convex loss: a linear system in each Newton step."""

    outputs: int  # functions that are fitted
    joint: bool  # whether they are fitted together, and not one after the other
    smooth: bool  # whether the loss is
    alpha: float = 1.0  # weight of half the squared norm
    share: float = 1.0  # work of the loss, over that of the logistic loss or of the median
    searches: bool = False  # whether alphas or kernels are compared

    product_rows: ClassVar[float] = np.inf
    #: Rows of blocks or of a file up to which they are read into memory.
    held_rows: ClassVar[int] = 10_000
    rank: ClassVar[float] = MACHINE_RANK
    factors: ClassVar[float] = 1.35
    #: Products of a step with features.
    iterations: ClassVar[int] = 10
    #: Products with the matrix of rows, for each function; with a preconditioner of them alone.
    own_products: ClassVar[float] = 30.0
    #: Products for functions that are fitted together, with a preconditioner of their mean.
    joint_products: ClassVar[float] = 120.0
    #: Products for all of them with the matrix stored, times the cube root of their number: the
    #: second derivatives of many classes are small.
    stored_products: ClassVar[float] = 290.0
    #: Rank of the preconditioner with the matrix stored.
    joint_rank: ClassVar[float] = 1000.0
    #: Right-hand sides that iterations for one of them take the memory of.
    joint_columns: ClassVar[int] = 9
    #: Operations for each entry of the matrix and of its factor that a product reads from memory.
    stored_entry: ClassVar[float] = 50.0
    factor_entry: ClassVar[float] = 200.0
    #: Operations over n^3 of a step with a factor for each function.
    joint_cubes: ClassVar[float] = 2.3
    #: Preconditioners, or products with their factors, for each function or all together.
    own_preconditioners: ClassVar[float] = 14.0
    landmark_matrices: ClassVar[int] = 4
    #: Work of a comparison of alphas, in fits; by folds, for a loss with kinks.
    search_fits: ClassVar[float] = 4.6
    kinked_search_fits: ClassVar[float] = 8.5
    #: Its matrices beside those of a fit, for each of several functions or for kinks.
    search_matrices: ClassVar[int] = 3
    kinked_search_matrices: ClassVar[int] = 2
    #: Newton steps for each function.
    steps: ClassVar[int] = 7
    #: Operations over n^2 of a Newton step, beside its factor.
    step_squares: ClassVar[float] = 250.0
    #: Work of a step over landmarks or features, in sums over their pairs.
    span_work: ClassVar[float] = 1.4
    #: Operations over n^3 and over n^2 of a loss with kinks, for each function.
    kinked_cubes: ClassVar[float] = 1.65
    kinked_squares: ClassVar[float] = 6400.0
    #: Operations over n m^2 of a loss with kinks over landmarks or features.
    kinked_passes: ClassVar[float] = 19.0
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

    @cached_property
    def systems(self) -> Systems:
        """One linear system for each Newton step of a function, or of all that are coupled."""
        coupled = self.outputs if self.joint else 1
        # At every alpha a comparison takes a few steps, whatever the loss.
        share = self._fits if self.searches and self.smooth else self.share * self._fits
        steps = share * self.steps * self.outputs / coupled
        return Systems(
            steps,
            self.outputs,
            coupled,
            columns=self.joint_columns * coupled if coupled > 1 else 1,
            preconditioners=self._preconditioners,
            landmark_work=self._landmark_work,
            uses_threads=self.smooth,  # steps for losses with kinks factorise few rows at a time
        )

    @property
    def _landmark_work(self) -> float:
        """Operations of a step over rows and pairs of landmarks."""
        return self.span_work * self._blocks if self.smooth else self.kinked_passes / self.steps

    @property
    def _fits(self) -> float:
        """Work of a comparison of alphas in fits, or 1."""
        fits = self.search_fits if self.smooth else self.kinked_search_fits
        return fits if self.searches else 1.0

    @property
    def _by_mean(self) -> bool:
        """Whether the preconditioner is that of the mean of the functions."""
        together = self.outputs if self.joint else 1
        return together * self.rank * np.sqrt(self.n) > JOINT_COLUMNS and together > 1

    @property
    def products(self) -> float:
        """Products of one function after the other, or of all together."""
        own = self.own_products * (1 if self.joint else self.outputs)
        return more_products(self.alpha) * (self.joint_products if self._by_mean else own)

    @property
    def _preconditioners(self) -> float:
        """Squares of the factor, with a block for each pair of functions."""
        if self._by_mean:
            return self.joint_products
        k = self.outputs
        return self.own_preconditioners * (k * (k + 1) / 2 if self.joint else k)

    @property
    def _blocks(self) -> float:
        """Blocks of second derivatives of the functions that are fitted together."""
        return max(1.0, self.outputs * (self.outputs - 1) / 2) if self.joint else 1.0

    @property
    def landmarks(self) -> int:
        """Few enough that one matrix holds the unknowns."""
        most = self.most_landmarks if self.smooth else self.most_kinked_landmarks
        return min(most, max(100, UNKNOWNS // self.systems.coupled), self.n)

    @property
    def _landmark_solver(self) -> NystromSolver:
        return NystromSolver(self.landmarks, "rpcholesky", random_state=0)

    @property
    def matrix_is_expensive(self) -> bool:
        """Beyond a few rows the matrix is taken while it costs less than what comes after it.

        A search, for which products do not come after it, takes it up to half a minute of one core.
        """
        if self.n <= FEW_ROWS:
            return super().matrix_is_expensive
        if self.searches:
            return super().matrix_is_expensive or self.work(Cholesky()) > PATIENCE
        other = ConjugateGradient() if self.smooth else self._landmark_solver
        dense = self.work(Cholesky())
        return super().matrix_is_expensive or (dense > MOMENT and dense > self.work(other))

    @property
    def products_are_expensive(self) -> bool:
        """Products are taken while they cost half a minute of one core, or less than landmarks."""
        most = max(PATIENCE, self.work(self._landmark_solver))
        return super().products_are_expensive or self.work(ConjugateGradient()) > most

    def dense(self, *, eigenvectors: bool) -> tuple[float, float]:
        """A factor in each step, or iterations if several functions are fitted together."""
        matrices, work = self._one_fit()
        if self.searches:
            coupled = self.systems.coupled
            beside = self.search_matrices * coupled if coupled > 1 else 0
            matrices += beside if self.smooth else self.kinked_search_matrices
        return matrices, work

    def _one_fit(self) -> tuple[float, float]:
        """The matrices of one fit with the whole matrix, and its work or that of a search."""
        n, k, steps = float(self.n), self.systems.coupled, self.systems.count
        if not self.smooth:
            squares = self.kinked_cubes * n + self.kinked_squares
            matrices = KINKED_MATRICES + FREE_MATRICES * self.share
            return matrices, self._fits * self.outputs * self.share * squares * n**2
        if k > 1 and takes_products(k, self.n):
            rank, both = min(n, self.joint_rank), 2.0 * k
            entries = (self.stored_entry + both) * n + (self.factor_entry + 2 * both) * rank
            products = self._fits * self.stored_products / np.cbrt(k)
            matrices = JOINT_MATRICES + ITERATION_VECTORS * k / n
            return matrices, products * entries * n + eigenvectors(rank)
        if k > 1:
            return DIRECT_JOINT_MATRICES * k, steps * self.joint_cubes * k * n**3
        return NEWTON_MATRICES, steps * (CHOLESKY * n + self.step_squares) * n**2

    def features(self, width: int, *, approximate: bool = False) -> tuple[float, float]:
        """Second derivatives in each step, in one matrix or by iterations."""
        n, k, steps = self.n, self.systems.coupled, self.systems.count
        stored, turning = self.stored(width), 0.0
        if n < width and self.in_memory:  # rows become coordinates in the span of their features
            stored, turning, width = 16.0 * n * width, 4.0 * width * n**2, n
        if not self.smooth:
            passes = self._fits * self.outputs * self.share * self.kinked_passes
            return stored, passes * n * width**2 + turning
        if in_one_matrix(k, width):
            sums = 1.3 * self.span_work * self._blocks * n * width**2
            operations = steps * (sums + (k * width) ** 3 / 3)
            return 32.0 * (k * width) ** 2 + stored, operations + turning
        iterations = 4.0 * self.iterations * n * width
        return 32.0 * k * width**2 + stored, steps * k * (iterations + width**3) + turning

    def feature_obstacle(self, width: int) -> str:
        """Features pay if their operations are fewer than those of the matrix."""
        return MANY_FEATURES if self.features(width)[1] >= self.work(Cholesky()) else ""

    def stored(self, width: int) -> float:
        """Features of rows in memory are held if there is room."""
        size = 8.0 * self.n * width
        if not self.smooth:
            return self.kinked_copies * size
        return size if self.in_memory and may_hold(size) else 0.0

    def restriction(self, solver: Solver) -> str:
        """Losses with kinks need all rows in memory, and are solved by factors, not products.

        So do comparisons of alphas and kernels.
        """
        if self.searches and solver.needs_all_rows and not solver.is_dense:
            return SEARCHES
        possible = self.smooth or (self.in_memory and not solver.needs_all_rows)
        return "" if possible else _KINKS

    def candidates(self) -> Candidates:
        """Features, the matrix, products with it, landmarks."""
        n = self.n
        yield Primal(), f"the kernel has few features beside {n} rows"
        fits = f"the matrix of {n} rows fits, and takes a moment or less than iterations"
        yield Cholesky(), as_reason(self.needs_matrix) or fits
        why = f"products with the matrix of {n} rows cost less than factors of it"
        yield ConjugateGradient(random_state=0), why
        why = "are too many for the whole matrix" if self.in_memory else "come in blocks"
        yield self._landmark_solver, f"{n} rows {why}"

    def others(self) -> tuple[Solver, ...]:
        """All but `Spectral`, which is `Cholesky` here."""
        return super().others()[1:]
