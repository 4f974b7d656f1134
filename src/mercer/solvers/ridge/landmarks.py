r"""The equations of ridge regression on landmarks, and what rounding does to them.

.. math:: (C^\top W C + \alpha M)\, c = C^\top W y , \qquad C = k(X, Z), \quad M = k(Z, Z) .

Squaring C loses half of the digits. They are won back by refinement, each step of which is a fused
pass over all pairs; where landmarks are so close that this fails, rows are whitened before they are
squared, which is twice the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.points import Points
from mercer.linalg.whitening import Whitening, whiten
from mercer.rows.moments import Moments
from mercer.rows.sums import Columns, FeatureMoments, WhitenedColumns
from mercer.solvers.protocol import RidgeTask
from mercer.solvers.ridge import rounding
from mercer.solvers.ridge.features import FeatureEquations, FeatureRidge
from mercer.solvers.ridge.ranges import require_range

Array = NDArray[np.floating[Any]]

# Landmarks whose residual is below this many units of rounding of the diagonal add nothing that M
# could tell. At rows between landmarks they might: `trace_error_` says how much is left out there.
_NOISE = 32
# Passes that win back digits at the most.
_PASSES = 3
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# By the type of the kernel: what one more may change, relative to the norm of the function, if it
# is left out, and beyond which whitening rows first is better; and the residual that is enough.
_SMALL_CHANGE = {_SINGLE: 1e-3, _DOUBLE: 5e-9}
_LOST = {_SINGLE: 1e-2, _DOUBLE: 5e-9}
_ENOUGH = {_SINGLE: np.inf, _DOUBLE: 1e-9}


def independent(task: RidgeTask, points: Points, penalty: Array) -> Whitening:
    """The landmarks that add something, up to rounding: not duplicates."""
    return whiten(penalty, tol=_share_of_noise(task.type_with(points)))


def _share_of_noise(dtype: np.dtype[Any]) -> float:
    """What landmarks may add to the diagonal, relative to it, and still pass for rounding."""
    return max(_NOISE * float(np.finfo(np.float64).eps), float(np.finfo(dtype).eps))


@dataclass(frozen=True, eq=False)
class LandmarkEquations:
    """A task on given landmarks."""

    task: RidgeTask  # the problem
    columns: Columns  # kernel values with the landmarks
    penalty: Array  # (m, m): the matrix M
    basis: Array  # (m, k): T with T' M T = I

    @classmethod
    def of(cls, task: RidgeTask, points: Points) -> LandmarkEquations:
        """Whiten the landmarks."""
        penalty = task.penalty(points)
        require_range(task, penalty)
        basis = independent(task, points, penalty).columns(len(points))
        return cls(task, Columns(task.kernel, points), penalty, basis)

    @property
    def points(self) -> Points:
        """The landmarks."""
        return self.columns.points

    @property
    def eps(self) -> float:
        """The rounding unit of kernel values of rows with landmarks."""
        return float(np.finfo(self.task.type_with(self.points)).eps)

    @property
    def whitened_columns(self) -> WhitenedColumns:
        """The same in coordinates in which the penalty is the identity."""
        return WhitenedColumns(self.columns, self.basis)

    @property
    def squares_drown(self) -> bool:
        """Whether rounding of C'WC may exceed alpha, so that rows are to be whitened first."""
        return self.task.squares_drown(self.points, self.penalty, self.basis)

    def doubt(self, problem: FeatureEquations, trace: float, residual: float = 0.0) -> str:
        """What to warn of: equations not solved, or landmarks that only seem to be dependent."""
        hidden = _share_of_noise(self.task.type_with(self.points)) * trace
        seen = rounding.of_landmarks(hidden, problem.carried) if problem.fit_intercept else ""
        return seen or rounding.of_equations(residual)

    def sums(self) -> tuple[Moments, float] | None:
        """The sums of one pass over the rows, and the trace of K; None if squares overflow."""
        task = self.task
        summand = FeatureMoments(self.columns, len(self.points), task.middle, task.kernel)
        moments, trace = task.rows.map_sum(summand).terms
        return (moments, trace) if np.isfinite(moments.squares).all() else None

    def whitened_first(self) -> tuple[FeatureRidge, float]:
        """The equations of rows that are whitened before they are squared, and the trace of K."""
        task, width = self.task, self.basis.shape[1]
        summand = FeatureMoments(self.whitened_columns, width, task.middle, task.kernel)
        moments, trace = task.rows.map_sum(summand).terms
        require_range(task, moments.squares, moments.products)
        return FeatureRidge.of(moments, None, fit_intercept=task.fit_intercept), trace

    def refined(
        self, problem: FeatureEquations, alphas: Array
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Solutions, improved against the kernel itself: each pass serves all alphas."""
        sums, dtype = problem.moments, self.task.type_with(self.points)
        shape = (len(alphas), *sums.products.shape)
        found, best = np.zeros(shape), np.zeros(shape)
        residuals, least = np.full(len(alphas), np.inf), np.full(len(alphas), np.inf)
        left = np.broadcast_to(sums.products, shape)
        steps = _applied(problem, left, alphas)
        for _ in range(_PASSES):
            found = found + steps
            left = sums.products - self._image(sums, found, alphas)
            sizes = sums.relative(left)
            steps = _applied(problem, left, alphas)
            lengths = self._lengths(found)
            changes = self._lengths(steps) / np.where(lengths > 0, lengths, 1.0)
            better = changes < least
            best[better], residuals[better] = found[better], sizes[better]
            least = np.where(better, changes, least)
            enough = (residuals <= _ENOUGH[dtype]) & (least <= _SMALL_CHANGE[dtype])
            if enough.all() or not better.any():
                break
        return best, residuals, ~(least <= _LOST[dtype])

    def _lengths(self, coefficients: Array) -> Array:
        """Norms of functions: those of T' M c, the coordinates in which M is the identity."""
        found: Array = np.linalg.norm(self.basis.T @ (self.penalty @ coefficients), axis=(1, 2))
        return found

    def _image(self, sums: Moments, found: Array, alphas: Array) -> Array:
        """The matrices of the equations times coefficients, by one pass over all pairs."""
        image = self.task.normal(self.points, sums.plain_features, np.hstack(list(found)))
        parts = np.stack(np.split(image, len(alphas), axis=1))
        whole: Array = parts + alphas[:, None, None] * (self.penalty @ found)
        return whole


def _applied(problem: FeatureEquations, left: Array, alphas: Array) -> Array:
    """The solutions for given right-hand sides, one for each alpha."""
    return np.stack([problem.apply(at, alpha) for at, alpha in zip(left, alphas, strict=True)])
