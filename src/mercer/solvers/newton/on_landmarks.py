"""Machines with a smooth loss over landmarks.

The functions are f(x) = sum_j c_j k(x, z_j) + b, and the penalty is alpha c' k(Z, Z) c / 2. If all
rows are landmarks, the minimiser is that over the whole function space.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.checks import require_finite_values
from mercer.kernels.points import Points
from mercer.landmarks.features import LandmarkFeatures
from mercer.linalg.whitening import whiten
from mercer.parallel import cached_property
from mercer.rows.rows import InMemory, RowSource
from mercer.rows.sums import among
from mercer.solvers.kernel_features import may_hold
from mercer.solvers.newton.machine import MachineTask, SpanMachine
from mercer.solvers.newton.method import State
from mercer.solvers.newton.span import NewtonDirection
from mercer.solvers.newton.span_sums import ExplainedTrace, WeightSums
from mercer.solvers.newton.spans import LandmarkSpan, StoredLandmarkSpan

# Number of landmarks up to which whitening a row costs no more than its kernel values.
_CHEAP = 100
# Number of rows from which the trace error is estimated.
_SAMPLE = 10_000


class LandmarkMachine(SpanMachine):
    """Minimises a task over the functions of given landmarks."""

    span: LandmarkSpan

    def __init__(
        self,
        task: MachineTask,
        points: Points,
        direction: NewtonDirection,
        indices: NDArray[np.intp] | None = None,
    ) -> None:
        self.points, self.indices = points, indices
        by_iterations = ", or solver=mercer.solvers.Falkon(...)"
        several = direction.needs_hessian and task.joint_outputs > 1
        remedy = "take fewer landmarks" + (by_iterations if several else "")
        task.require_memory(len(points), f"{len(points)} landmarks", direction, remedy)
        square = among(task.kernel, points)
        require_finite_values(square, task.kernel, f"{task.owner}: ")
        rounding = len(points) * float(np.finfo(np.float64).eps)
        rounding = max(rounding, float(np.finfo(task.kernel.gram(points, points).dtype).eps))
        features = LandmarkFeatures.of(task.kernel, points, whiten(square, tol=rounding))
        whitened = direction.needs_hessian or features.width <= _CHEAP
        span = LandmarkSpan(features, whitened)
        super().__init__(task, _stored(span, task.rows), direction)

    def dual(self, state: State, alpha: float) -> Array:
        """The coefficients of all landmarks; zero for landmarks that others explain."""
        landmarks = self.span.landmarks
        return landmarks.of_all_landmarks(landmarks.to_coefficients(state.coef))

    def _terms(self, state: State) -> float:
        return self.span.max_norm**2 * float(np.linalg.norm(self.dual(state, 1.0)))

    @property
    def quality(self) -> dict[str, Any]:
        """The trace error."""
        return {"trace_error_": self.trace_error}

    @cached_property
    def trace_error(self) -> float:
        """The share of the weighted trace of K that the landmarks do not explain, from a sample."""
        stride = max(1, self.task.rows.statistics.rows // _SAMPLE)
        trace = float(self.task.rows.map_sum(WeightSums(self.span, stride))[1])
        if not trace > 0:
            return 0.0
        return max(0.0, 1 - self.task.rows.map_sum(ExplainedTrace(self.span, stride)) / trace)


def _stored(span: LandmarkSpan, rows: RowSource) -> LandmarkSpan:
    """Store the whitened rows of all data in the span, if they fit in memory."""
    if not (span.whitened and isinstance(rows, InMemory)):
        return span
    fits = may_hold(8.0 * len(rows) * len(span))
    return StoredLandmarkSpan.compute(span, rows.part) if fits else span
