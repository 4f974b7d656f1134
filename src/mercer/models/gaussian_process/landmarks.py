"""The evidence that data give for hyper-parameters, seen through landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import memory
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.landmarks import selection
from mercer.landmarks.selection import Landmarks
from mercer.models.gaussian_process.exact import GaussianEvidence
from mercer.models.gaussian_process.feature_evidence import FeatureEvidence, summed
from mercer.models.gaussian_process.features import (
    FeatureRows,
    LandmarkFeatures,
    doubled,
    feature_rows,
)
from mercer.rows.sums import gram_among
from mercer.solvers.likelihood.variational_bound import BoundSlopes

Array = NDArray[np.floating[Any]]

# Bytes of features that are kept between the pass for the value and the one for the gradient.
_KEPT_BYTES = 2**28
# Matrices of the order of the landmarks that an evaluation holds.
_MATRICES = 10


@dataclass(frozen=True, eq=False)
class LandmarkEvidence(FeatureEvidence):
    """The collapsed bound as a function of the free hyper-parameters and of the landmarks.

    It stands where `GaussianEvidence` stands, with the bound in the place of the log marginal
    likelihood. Rows are visited in blocks: memory does not grow with their number, but for the
    features of a pass if those are few.
    """

    landmarks: Points
    # the rows of the data that they are, if they were chosen among them
    rows: NDArray[np.intp] | None = None

    @classmethod
    def selected(
        cls,
        data: GaussianEvidence,
        kernel: Kernel,
        solver: Any,
        owner: str,
        given: Landmarks | None = None,
    ) -> LandmarkEvidence:
        """Choose landmarks for a kernel as the solver says, or take those that are given."""
        if given is not None:
            _require_memory(len(given), owner)
            return cls(data, given.points)
        how = solver.landmarks
        found = selection.select(
            kernel,
            data.points,
            "rpcholesky" if isinstance(how, str) and how == "learn" else how,
            solver.n_landmarks,
            random_state=solver.random_state,
            sample_weight=data.noise.weights,
            owner=owner,
            also=("learn",),
        )
        _require_memory(len(found), owner)
        return cls(data, found.points, found.indices)

    # The bound ----------------------------------------------------------------------------------

    def log_likelihood_with_gradient(self, theta: Array) -> tuple[float, Array]:
        """The bound at theta and its gradient."""
        value, gradient, _ = self._with_gradients(theta, positions=False)
        return value, gradient

    def with_position_gradient(self, theta: Array) -> tuple[float, Array, Array]:
        """The bound, its gradient in theta, and that in the positions of the landmarks."""
        return self._with_gradients(theta, positions=True)

    def seen(self, kernel: Kernel) -> LandmarkFeatures:
        """The features that the landmarks are at a kernel."""
        return LandmarkFeatures.of(kernel, self.landmarks, self.data.points[:1])

    def _with_gradients(self, theta: Array, *, positions: bool) -> tuple[float, Array, Array]:
        """One pass for the sums, one for the derivatives in the kernel values of each block."""
        kernel, variance = self.data.at(theta)
        seen, t = self.seen(kernel), self.data.targets.shape[1]
        again = self._passes(seen, variance)
        bound = summed(again())
        slopes, size = bound.slopes(seen.root), len(theta) - self.data.noise.learned
        gradient, moved = np.zeros(len(theta)), np.empty(0)
        if size:
            inner = gram_among(kernel, self.landmarks).gradient(slopes.square)
            gradient[:size] = inner + sum(self._in_parameters(kernel, slopes, b) for b in again())
        if positions:
            inner = 2 * kernel.gram(self.landmarks).input_gradient(slopes.square)
            moved = inner + sum(self._in_positions(kernel, slopes, block) for block in again())
        copies, copies_slope = self.data.noise.copies(variance)
        if self.data.noise.learned:
            gradient[-1] = slopes.noise + t * copies_slope
        return bound.value() + t * copies, gradient, moved

    def _in_parameters(self, kernel: Kernel, slopes: BoundSlopes, block: FeatureRows) -> Array:
        """What a block adds to the gradient in the parameters of the kernel."""
        points = self.data.points[block.rows]
        cross = kernel.gram(points, self.landmarks).gradient(block.slope(slopes))
        spare = -0.5 * block.targets.shape[1] / block.noise
        return cross + kernel.gram(points).diagonal_gradient(spare)

    def _in_positions(self, kernel: Kernel, slopes: BoundSlopes, block: FeatureRows) -> Array:
        """What a block adds to the gradient in the landmarks."""
        gram = kernel.gram(self.landmarks, self.data.points[block.rows])
        return gram.input_gradient(np.ascontiguousarray(block.slope(slopes).T))

    def _passes(self, seen: LandmarkFeatures, variance: float) -> Callable[[], Any]:
        """Passes over the features, which are kept from one to the next if they are few."""
        size = 8 * len(self.data.points) * len(self.landmarks)
        if size > min(_KEPT_BYTES, memory.available() // 4):
            return lambda: feature_rows(seen, self.data, variance)
        kept = list(feature_rows(seen, self.data, variance))
        return lambda: kept


def given_landmarks(owner: str, kernel: Kernel, points: Points, solver: Any) -> Landmarks | None:
    """The landmarks that a user gives, as points or by the numbers of any rows."""
    if solver == "auto" or not solver.has_landmarks or isinstance(solver.landmarks, str):
        return None
    return selection.select(kernel, doubled(kernel, points), solver.landmarks, owner=owner)


def _require_memory(m: int, owner: str) -> None:
    memory.require(8 * _MATRICES * m * m, f"{owner} with {m} landmarks", "take fewer of them")


def in_double_precision(data: GaussianEvidence) -> GaussianEvidence:
    """The same with rows of float64: what landmarks leave out is a matter of the last digits."""
    return replace(data, points=doubled(data.kernel, data.points))
