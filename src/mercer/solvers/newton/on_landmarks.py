"""Machines with a smooth loss over landmarks: from rows and a choice of landmarks to coefficients.

The functions are f(x) = sum_j c_j k(x, z_j) + b, and the penalty is alpha c' k(Z, Z) c / 2: they
are the best in the span of the landmarks, which is that of all rows if all rows are landmarks.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.kernels.points import Points
from mercer.landmarks import selection
from mercer.linalg.whitening import whiten
from mercer.rows.rows import InMemory, RowSource
from mercer.rows.sums import among
from mercer.solvers.kernel_features import may_hold
from mercer.solvers.newton.machine import MachineTask, SpanMachine
from mercer.solvers.newton.span import Direct, SpanState
from mercer.solvers.newton.span_sums import Explained, Mass
from mercer.solvers.newton.spans import HeldSpan, LandmarkSpan

Array = NDArray[np.floating[Any]]

# Landmarks up to which features cost no more than the kernel, and are taken for their digits.
_CHEAP = 100
# Rows from which the trace error is estimated; up to so many, all of them.
_SAMPLE = 10_000


class LandmarkMachine(SpanMachine):
    """A task on given landmarks."""

    span: LandmarkSpan

    def __init__(
        self,
        task: MachineTask,
        points: Points,
        direct: Direct,
        indices: NDArray[np.intp] | None = None,
    ) -> None:
        self.points, self.indices = points, indices
        by_iterations = ", or solver=mercer.solvers.Falkon(...)"
        several = direct.curved and task.at_a_time > 1
        remedy = "take fewer landmarks" + (by_iterations if several else "")
        task.require_memory(len(points), f"{len(points)} landmarks", direct, remedy)
        square = among(task.kernel, points)
        if not np.isfinite(square).all():
            raise DataError(
                f"{task.owner}: {task.kernel!r} gives NaN or infinity between landmarks; scale the "
                "data, or use a kernel that grows less fast."
            )
        rounding = len(points) * float(np.finfo(np.float64).eps)
        rounding = max(rounding, float(np.finfo(task.kernel.gram(points, points).dtype).eps))
        whitening = whiten(square, tol=rounding)
        self.kept = whitening.kept
        kept = points[whitening.kept].detached() if whitening.rank else points
        whitened = direct.curved or whitening.rank <= _CHEAP
        span = LandmarkSpan(task.kernel, kept, whitening.upper, whitened)
        super().__init__(task, _held(span, task.rows), direct)

    @classmethod
    def choose(
        cls, task: MachineTask, solver: Any, candidates: RowSource, direct: Direct
    ) -> LandmarkMachine:
        """Take the landmarks that a solver asks for."""
        found = selection.select_rows(
            task.kernel,
            candidates,
            solver.landmarks,
            solver.n_landmarks,
            random_state=solver.random_state,
            owner=task.owner,
        )
        return cls(task, found.points, direct, found.indices)

    def coefficients(self, state: SpanState) -> Array:
        """The c of all landmarks, zero for those that add nothing."""
        found = np.zeros((len(self.points), state.coordinates.shape[1]))
        found[self.kept] = self.span.coefficients(state.coordinates)
        return found

    @cached_property
    def trace_error(self) -> float:
        """The share of the weighted trace of K that the landmarks leave out, from a sample."""
        stride = max(1, self.task.rows.statistics.rows // _SAMPLE)
        whole = self.task.rows.map_sum(Mass(self.span, stride))[1]
        if not whole > 0:
            return 0.0
        return max(0.0, 1 - self.task.rows.map_sum(Explained(self.span, stride)) / float(whole))


def _held(span: LandmarkSpan, rows: RowSource) -> LandmarkSpan:
    """The span with the features of all rows, where there are some to hold and room for them."""
    if not (span.whitened and len(span) and isinstance(rows, InMemory)):
        return span
    return HeldSpan.of(span, rows.part) if may_hold(8.0 * len(rows) * len(span)) else span
