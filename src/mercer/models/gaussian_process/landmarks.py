"""A Gaussian process that sees data through landmarks: its objective and its posteriors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mercer import memory
from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.landmarks import selection
from mercer.landmarks.features import LandmarkFeatures
from mercer.landmarks.selection import Landmarks
from mercer.models.gaussian_process.exact import ExactObjective
from mercer.models.gaussian_process.features import (
    FeatureObjective,
    FeaturePosterior,
    FeatureView,
    feature_rows,
    ridge_task,
    summed,
)
from mercer.models.gaussian_process.targets import Scaling
from mercer.parallel import cached_property
from mercer.rows.sums import gram_among
from mercer.solvers.likelihood.variational_bound import FeatureRows
from mercer.solvers.protocol import RidgeAnswer

# Bytes of features that are kept between the pass for the value and the one for the gradient.
_KEPT_BYTES = 2**28
# Matrices of the order of the landmarks that an evaluation holds.
_MATRICES = 10


@dataclass(frozen=True, eq=False)
class LandmarkObjective(FeatureObjective):
    """The collapsed bound as a function of the free hyper-parameters and of the landmarks.

    Rows are visited in blocks. Features of all rows are kept in memory only if they are few.
    """

    landmarks: Points
    # the rows of the data that they are, if they were chosen among them
    rows: NDArray[np.intp] | None = None

    @classmethod
    def selected(
        cls,
        data: ExactObjective,
        solver: Any,
        owner: str,
        given: Landmarks | None = None,
    ) -> LandmarkObjective:
        """Choose landmarks for the kernel as the solver says, or take those that are given."""
        how = solver.landmarks if given is None else given
        chosen = selection.select_points(
            owner,
            data.kernel,
            data.points,
            "rpcholesky" if isinstance(how, str) and how == "learn" else how,
            solver.n_landmarks,
            solver.random_state,
            data.noise.weights,
            also=("learn",),
        )
        m = len(chosen)
        memory.require(8 * _MATRICES * m * m, f"{owner} with {m} landmarks", "take fewer of them")
        # Landmarks that are given may be rows of weight zero, which the data do not have.
        return cls(data, chosen.points, chosen.indices if given is None else None)

    def view(self, kernel: Kernel) -> FeatureView:
        """The whitened features of the landmarks at a kernel."""
        source = LandmarkFeatures.with_jitter(kernel, self.landmarks, self.data.points[:1])
        return FeatureView(kernel, source, source.rows, complete=False)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """The bound at theta and its gradient."""
        return self.value_and_gradients(theta, positions=False)[:2]

    def value_and_gradients(
        self, theta: Array, *, positions: bool = True
    ) -> tuple[float, Array, Array]:
        """The bound, its gradient in theta, and that in the positions of the landmarks.

        One pass is for the sums, one for the derivatives in the kernel values of each block.
        """
        data = self.data.at(theta)
        kernel, t, size = data.kernel, data.targets.shape[1], len(theta) - data.noise.learned
        view = self.view(kernel)
        passes = self._passes(view, data)
        elbo = summed(passes())
        slopes = elbo.gradient(view.source.whitening)
        gradient, moved = np.zeros(len(theta)), np.empty(0)
        if size:
            gradient[:size] = gram_among(kernel, self.landmarks).gradient(slopes.square)
        if positions:
            moved = 2 * kernel.gram(self.landmarks).input_gradient(slopes.square)
        for block in passes() if size or positions else ():
            points, cross = data.points[block.rows], block.gradient(slopes)
            if size:
                gradient[:size] += kernel.gram(points, self.landmarks).gradient(cross)
                gradient[:size] += kernel.gram(points).diagonal_gradient(-0.5 * t / block.noise)
            if positions:
                gram = kernel.gram(self.landmarks, points)
                moved += gram.input_gradient(np.ascontiguousarray(cross.T))
        copies, copies_slope = data.noise.copies()
        if data.noise.learned:
            gradient[-1] = slopes.noise + t * copies_slope
        return elbo.value() + t * copies, gradient, moved

    def _passes(
        self, view: FeatureView, data: ExactObjective
    ) -> Callable[[], Iterable[FeatureRows]]:
        """Passes over the features, which are kept from one to the next if they are few."""
        size = 8 * len(data.points) * len(self.landmarks)
        if size > min(_KEPT_BYTES, memory.available() // 4):
            return lambda: feature_rows(view, data)
        kept = list(feature_rows(view, data))
        return lambda: kept


@dataclass(frozen=True, eq=False)
class LandmarkPosterior(FeaturePosterior):
    """A kernel and noise, landmarks, and the posterior of the function there."""

    objective: LandmarkObjective  # data and landmarks, at the learned hyper-parameters

    @property
    def points(self) -> Points:
        """The landmarks."""
        return self.objective.landmarks

    @property
    def rows(self) -> NDArray[np.intp] | None:
        """The numbers of the rows that the landmarks are; None if they are not rows."""
        return self.objective.rows

    @cached_property
    def dual(self) -> Array:
        """The coefficients of the landmarks."""
        return np.asarray(self.view.source.to_coefficients(self.elbo.weights))


@dataclass(frozen=True, eq=False)
class IteratedPosterior(LandmarkPosterior):
    """The mean by iterations over all rows; variances from landmarks."""

    answer: RidgeAnswer  # the coefficients of the mean, over all rows or over landmarks of its own

    @classmethod
    def solved(cls, posterior: LandmarkPosterior, solver: Any, owner: str) -> IteratedPosterior:
        """Compute the mean by a solver of ridge tasks."""
        answer = solver.ridge(ridge_task(posterior.data, owner))
        return cls(posterior.objective, posterior.view, posterior.elbo, answer)

    @property
    def points(self) -> Points:
        """The points of the sum that is the mean."""
        return self.answer.points

    @property
    def rows(self) -> NDArray[np.intp] | None:
        """The numbers of the rows that these points are; None for points that were given."""
        if self.answer.rows is None and len(self.points) == len(self.data.points):
            return np.arange(len(self.points))
        return self.answer.rows

    @property
    def dual(self) -> Array:
        """The coefficients of these points."""
        return self.answer.dual

    @property
    def constant(self) -> Array:
        """The constant of the mean, for each target."""
        return self.answer.intercept

    @property
    def warning(self) -> str:
        """Why results are inaccurate, as a clause; empty if they are accurate."""
        return self.answer.warning or super().warning

    def quality(self, scaling: Scaling) -> dict[str, Any]:
        """Bounds of the likelihood in units of y, and residuals of the iterations."""
        of_mean, of_landmarks = self.answer.quality, super().quality(scaling)
        names = ("residual_", "residual_history_", "preconditioner_error_")
        # Mean and variances have landmarks of their own: the larger trace error is reported.
        trace = max(of_landmarks["trace_error_"], of_mean.get("trace_error_", 0.0))
        residuals = {name: of_mean[name] for name in names if name in of_mean}
        return of_landmarks | residuals | {"trace_error_": trace}

    def extended(self, points: Points, targets: Array, factors: Array | None) -> NoReturn:
        """Refused: the equations of all rows would have to be solved again."""
        raise DataError(_WITHOUT_MATRIX.format("update"))

    def leave_one_out(self) -> NoReturn:
        """Refused: it needs the diagonal of the inverse."""
        raise DataError(_WITHOUT_MATRIX.format("leaving rows out"))


_WITHOUT_MATRIX = (
    "GaussianProcessRegressor: {} is not possible where the mean was found by iterations, "
    "without the matrix of all rows; fit with "
    "solver=mercer.solvers.NystromSolver(n_landmarks=1000), or Cholesky() if the matrix fits in "
    "memory."
)
