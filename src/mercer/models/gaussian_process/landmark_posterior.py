"""A Gaussian process after it has seen data through landmarks, in standardised targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.kernels.points import Points
from mercer.models.gaussian_process.feature_posterior import FeaturePosterior
from mercer.models.gaussian_process.features import LandmarkFeatures, ridge_task
from mercer.models.gaussian_process.landmarks import LandmarkEvidence
from mercer.models.gaussian_process.target_scaling import Scaling
from mercer.solvers.protocol import RidgeAnswer

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class LandmarkPosterior(FeaturePosterior):
    """A kernel and noise, landmarks, and what the data say about the function there."""

    # kernel, points, targets, noise and landmarks, at learned hyper-parameters
    evidence: LandmarkEvidence
    seen: LandmarkFeatures  # the whitened features that the landmarks are

    @property
    def points(self) -> Points:
        """The landmarks."""
        return self.evidence.landmarks

    @property
    def rows(self) -> NDArray[np.intp] | None:
        """The rows that these are, if they are rows."""
        return self.evidence.rows

    @cached_property
    def dual(self) -> Array:
        """Their coefficients."""
        return self.seen.root.solved(self.bound.weights)

    def mean(self, points: Points) -> Array:
        """The mean at every point, one column for each target."""
        gram = self.kernel.gram(points, self.points)
        return np.asarray(gram @ self.dual, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class IteratedPosterior(LandmarkPosterior):
    """The mean by iterations over all rows; variances as the landmarks say."""

    answer: RidgeAnswer  # the coefficients of the mean, over all rows or over landmarks of its own

    @classmethod
    def solved(cls, posterior: LandmarkPosterior, solver: Any, owner: str) -> IteratedPosterior:
        """Find the mean by a solver of ridge tasks."""
        answer = solver.ridge(ridge_task(posterior.evidence.data, owner))
        return cls(posterior.evidence, posterior.seen, posterior.bound, answer)

    @property
    def points(self) -> Points:
        """The points that carry the mean."""
        return self.answer.points

    @property
    def rows(self) -> NDArray[np.intp] | None:
        """The rows that these are; None for points that were given."""
        if self.answer.rows is None and len(self.points) == len(self.training_points):
            return np.arange(len(self.points))
        return self.answer.rows

    @property
    def dual(self) -> Array:
        """Their coefficients."""
        return self.answer.dual

    @property
    def complaint(self) -> str:
        """What is doubtful, as a clause."""
        return self.answer.doubt or super().complaint

    def quality(self, scaling: Scaling) -> dict[str, Any]:
        """How good landmarks and iterations are, in units of y."""
        found, known = self.answer.quality, super().quality(scaling)
        names = ("residual_", "residual_history_", "preconditioner_error_")
        # Mean and variances have landmarks of their own: what is told is the larger error.
        trace = max(known["trace_error_"], found.get("trace_error_", 0.0))
        own = {name: found[name] for name in names if name in found}
        return known | own | {"trace_error_": trace}

    def extended(self, points: Points, targets: Array, factors: Array | None) -> NoReturn:
        """Refused: all rows would have to be solved anew."""
        raise DataError(_WHOLE.format("update"))

    def leave_one_out(self) -> NoReturn:
        """Refused: it needs the diagonal of the inverse."""
        raise DataError(_WHOLE.format("leaving rows out"))


_WHOLE = (
    "GaussianProcessRegressor: {} is not possible where the mean was found by iterations, "
    "without the matrix of all rows; fit with solver=mercer.solvers.NystromSolver(n_landmarks=1000), or "
    "Cholesky() if the matrix fits in memory."
)
