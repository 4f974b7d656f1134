"""Which solver a machine takes, and what each would cost.

The rule, in the order in which it is applied:

1. features of the kernel's own, if they cost less than the whole matrix would (`Primal`);
2. the whole matrix up to 10,000 rows, if it fits in memory (`Cholesky`), and always for losses with
   kinks and for kernels that are not known to be valid;
3. landmarks (`NystromSolver`).

Rows in blocks are gathered first, if there are no more than 10,000 of them, in no more than one
chunk; otherwise they leave the first and the last. `ConjugateGradient`, `Falkon` and
`RandomFeatures` are weighed, but not taken unless they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import memory
from mercer.kernels.base import Kernel
from mercer.solvers.conjugate_gradient import ConjugateGradient, factor_size
from mercer.solvers.dense import Cholesky, Spectral
from mercer.solvers.explicit import Primal, RandomFeatures
from mercer.solvers.forecast import (
    IN_BLOCKS,
    MANY_FEATURES,
    MANY_ROWS,
    TOO_LARGE,
    UNASKED,
    Cost,
    Forecast,
    as_reason,
    landmark_count,
    landmarks_of,
    no_landmarks,
    not_positive,
    waves,
)
from mercer.solvers.kernel_features import NO_FEATURES, may_hold, no_frequencies
from mercer.solvers.newton.on_features import UNKNOWNS, in_one_matrix
from mercer.solvers.nystrom import Falkon, NystromSolver

#: Rows up to which a factor in every step is a matter of seconds to minutes.
DENSE = 10_000
# Every step costs n m^2 operations, which makes more landmarks dear.
_LANDMARKS = 1000
_STEPS = 10
_ITERATIONS = 30
# In Gram matrices: the matrix, itself scaled and the factor; one more factor for each class.
MATRICES = 4.1


def forecast(
    kernel: Kernel,
    n: int,
    n_outputs: int,
    *,
    smooth: bool,
    joint: bool,
    blocks: bool = False,
    own: tuple[int | None, str] | None = None,
    given: Any = None,
) -> Forecast:
    """Weigh the solvers of a machine."""
    rule = _Costs(kernel, n, n_outputs, smooth, joint, blocks, own)
    k = n_outputs if joint else 1
    m = min(landmark_count(n), _LANDMARKS, max(100, UNKNOWNS // k), n)
    candidates = [rule.of(solver) for solver in (Primal(), Cholesky(), NystromSolver(m))]
    others = [rule.of(solver) for solver in (ConjugateGradient(), Falkon(m), waves(m))]
    costs = (*candidates, *(replace(cost, obstacle=cost.obstacle or UNASKED) for cost in others))
    found = _chosen(costs, n, rule.no_landmarks)
    return found if given is None else found.asked_for(rule.of(given))


def _chosen(costs: tuple[Cost, ...], n: int, obstacle: str) -> Forecast:
    """What "auto" takes, of features, the whole matrix and landmarks."""
    own, whole, few = costs[:3]
    if not own.obstacle:
        return Forecast(costs, own.solver, f"the kernel has few features beside {n} rows")
    if not whole.obstacle:
        reason = f"{n} rows are no more than {DENSE}, and their matrix fits"
        return Forecast(costs, whole.solver, as_reason(obstacle) or reason)
    if few.obstacle:
        return Forecast.impossible(costs, whole, few)
    why = "come in blocks" if whole.obstacle == IN_BLOCKS else "are too many for the whole matrix"
    return Forecast(costs, few.solver, f"{n} rows {why}")


@dataclass(frozen=True)
class _Costs:
    """What solvers would take for so many rows and functions."""

    kernel: Kernel
    n: int
    n_outputs: int
    smooth: bool
    joint: bool
    blocks: bool
    own: tuple[int | None, str] | None

    def of(self, solver: Any) -> Cost:
        """Of any solver."""
        if is_exact(solver):
            return self.of_matrix(solver)
        if isinstance(solver, Primal):
            return self.of_own_features(solver)
        if isinstance(solver, RandomFeatures):
            return self.of_map(solver)
        if isinstance(solver, ConjugateGradient):
            return self.of_products(solver)
        return self.of_passes(solver) if isinstance(solver, Falkon) else self.of_landmarks(solver)

    def of_matrix(self, solver: Any) -> Cost:
        """Of the whole matrix, and a factor in each step."""
        n, extra = self.n, self.n_outputs if self.n_outputs > 1 else 0
        size = 8.0 * (MATRICES + extra) * n * n
        obstacle = IN_BLOCKS if self.blocks else _no_matrix(n, size, self.no_landmarks)
        return Cost(solver, size, self._all_pairs, obstacle)

    def of_own_features(self, solver: Primal) -> Cost:
        """Of the kernel's own features."""
        width, missing = self.own or (None, NO_FEATURES)
        size, operations = self._of_features(width)
        dear = operations is not None and operations >= self._all_pairs
        missing = self._kinks or missing or not_positive(self.kernel) or _too_large(size)
        return Cost(solver, size, operations, missing or (MANY_FEATURES if dear else ""))

    def of_map(self, solver: RandomFeatures) -> Cost:
        """Of the features of a map."""
        size, operations = self._of_features(solver.n_features)
        missing = self._kinks or no_frequencies(self.kernel, solver.map)
        missing = missing or not_positive(self.kernel)
        return Cost(solver, size, operations, missing or _too_large(size))

    def of_products(self, solver: ConjugateGradient) -> Cost:
        """Of products with the whole matrix."""
        n, rank = self.n, solver.rank_for(self.n)
        size = factor_size(n, rank, np.dtype(np.float64)) + 64.0 * n * self._together
        steps = _pairs(self._together) * self._together * n * rank**2 + _ITERATIONS * 50.0 * n * n
        missing = self._kinks or (IN_BLOCKS if self.blocks else "") or _too_large(size)
        return Cost(solver, size, self._work * steps, missing or not_positive(self.kernel))

    def of_passes(self, solver: Falkon) -> Cost:
        """Of iterations over landmarks."""
        m = landmarks_of(solver, self.n)
        operations = 60.0 * self._work * _ITERATIONS * self.n * m
        return Cost(solver, 32.0 * self.n_outputs * m**2, operations, self.no_landmarks)

    def of_landmarks(self, solver: NystromSolver) -> Cost:
        """Of second derivatives over landmarks."""
        k, m = self._together, landmarks_of(solver, self.n)
        size = 32.0 * (k * m) ** 2 + self._stored(m)
        operations = 2 * self._work * _pairs(k) * self.n * m**2
        return Cost(solver, size, operations, self.no_landmarks or _too_large(size))

    @property
    def no_landmarks(self) -> str:
        """Why there are none."""
        return self._kinks or no_landmarks(self.kernel)

    @property
    def _kinks(self) -> str:
        return "" if self.smooth else "the loss has kinks"

    @property
    def _together(self) -> int:
        """Functions that are fitted together."""
        return self.n_outputs if self.joint else 1

    @property
    def _work(self) -> float:
        return float(self.n_outputs) * _STEPS

    @property
    def _all_pairs(self) -> float:
        """Operations of a fit with the whole matrix."""
        return self._work * self.n**3 / 3 + 50.0 * self.n * self.n

    def _of_features(self, width: int | None) -> tuple[float | None, float | None]:
        """Bytes and operations on so many features, as far as their number is known."""
        if width is None:
            return None, None
        n, k, work = self.n, self._together, self._work
        stored, turning = self._stored(width), 0.0
        if n < width and not self.blocks:  # rows are turned to coordinates in their span
            stored, turning, width = 16.0 * n * width, 4.0 * width * n**2, n
        if in_one_matrix(k, width):
            operations = 2 * work * _pairs(k) * n * width**2 + work * k**2 * width**3 / 3
            return 32.0 * (k * width) ** 2 + stored, operations + turning
        iterations = 4.0 * _ITERATIONS * n * width
        return 32.0 * k * width**2 + stored, work * (iterations + width**3) + turning

    def _stored(self, width: int) -> float:
        """Bytes of features of all rows, where they are held."""
        size = 8.0 * self.n * width
        return size if not self.blocks and may_hold(size) else 0.0


def _pairs(k: int) -> float:
    """Matrices of second derivatives for each of k functions that are fitted together."""
    return max(1.0, k * (k - 1) / 2) / k


def _too_large(size: float | None) -> str:
    return TOO_LARGE if size is not None and size > memory.available() else ""


def _no_matrix(n: int, size: float, no_landmarks: str) -> str:
    if size > memory.available():
        return TOO_LARGE
    return MANY_ROWS if n > DENSE and not no_landmarks else ""


def needs_all_rows(solver: Any) -> bool:
    """Whether a solver needs all rows in memory."""
    return is_exact(solver) or isinstance(solver, ConjugateGradient)


def is_exact(solver: Any) -> bool:
    """Whether a solver works on the whole matrix."""
    return isinstance(solver, Cholesky | Spectral)
