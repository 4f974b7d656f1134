"""Machines with a smooth loss over landmarks: from rows and a choice of landmarks to coefficients.

The functions are f(x) = sum_j c_j k(x, z_j) + b, and the penalty is alpha c' k(Z, Z) c / 2: they
are the best in the span of the landmarks, which is that of all rows if all rows are landmarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import memory
from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.solvers import selection
from mercer.solvers.landmark_newton import Direct, LandmarkState, Problem, Start, descend, minimise
from mercer.solvers.row_loss import RowLoss
from mercer.solvers.row_sums import Explained, Mass, Span
from mercer.solvers.rows import Rows
from mercer.solvers.summands import among
from mercer.solvers.whitening import whiten

Array = NDArray[np.floating[Any]]

# Matrices of second derivatives at a time: sums, what they are made into, and the factor.
_MATRICES = 4
# Landmarks up to which features cost no more than the kernel, and are taken for their digits.
_CHEAP = 100
# Rows from which the trace error is estimated; up to so many, all of them.
_SAMPLE = 10_000


@dataclass(frozen=True, eq=False)
class MachineTask:
    """Minimise sum_i w_i loss(y_i, f(x_i)) + alpha |f - b|^2 / 2, for any alpha.

    Attributes
    ----------
    owner : str
        The name of the model, for messages.
    kernel : Kernel
        The kernel, resolved.
    rows : Rows
        Points, targets and weights; rows of weight 0 are left out.
    losses : tuple of RowLoss
        Smooth; each is minimised alone.
    constants : ndarray of shape (n_outputs,)
        Constants to begin with, for the outputs of all losses one after another.
    fit_intercept : bool
        Whether constants are fitted, or stay as they are.
    """

    owner: str
    kernel: Kernel
    rows: Rows
    losses: tuple[RowLoss, ...]
    constants: Array
    fit_intercept: bool


class LandmarkMachine:
    """A task on given landmarks.

    Parameters
    ----------
    task : MachineTask
        The task.
    points : Points
        The landmarks.
    direct : Direct
        How Newton's equations are solved.
    indices : ndarray of int, optional
        Which rows the landmarks are, if they are some.
    """

    def __init__(
        self,
        task: MachineTask,
        points: Points,
        direct: Direct,
        indices: NDArray[np.intp] | None = None,
    ) -> None:
        self.task, self.points, self.direct, self.indices = task, points, direct, indices
        self._require_memory()
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
        self.span = Span(task.kernel, kept, whitening.upper, whitened)

    @classmethod
    def choose(
        cls, task: MachineTask, solver: Any, candidates: Rows, direct: Direct
    ) -> LandmarkMachine:
        """Take the landmarks that a solver asks for.

        Parameters
        ----------
        task : MachineTask
            The task.
        solver : Nystrom or Falkon
            With `landmarks`, `n_landmarks` and `random_state`.
        candidates : Rows
            The rows to choose from.
        direct : Direct
            How Newton's equations are solved.

        Returns
        -------
        LandmarkMachine
            Ready to be solved for every alpha.
        """
        found = selection.select_rows(
            task.kernel,
            candidates,
            solver.landmarks,
            solver.n_landmarks,
            random_state=solver.random_state,
            owner=task.owner,
        )
        return cls(task, found.points, direct, found.indices)

    def start(self) -> Start:
        """Zeros, and constants near the best ones."""
        return np.zeros((len(self.span), len(self.task.constants))), self.task.constants.copy()

    def states(
        self, alpha: float, start: Start, tol: float, max_iter: int
    ) -> Iterator[LandmarkState]:
        """Yield the states of all functions after every step of one of them.

        Parameters
        ----------
        alpha : float
            Positive; infinity for constants alone.
        start : tuple of ndarray
            Coordinates and constants to begin with.
        tol : float
            The gradient may be this part of its terms.
        max_iter : int
            The largest number of steps for each loss.

        Yields
        ------
        LandmarkState
            The last is converged unless the method stopped short.
        """
        span = self.span if np.isfinite(alpha) else self._nothing
        coordinates, intercept = start[0][: len(span)].copy(), start[1].copy()
        parts: list[LandmarkState | None] = [None] * len(self.task.losses)
        first = 0
        for i, loss in enumerate(self.task.losses):
            mine = slice(first, first + loss.n_outputs)
            first = mine.stop
            problem = Problem(
                self.task.rows,
                span,
                loss,
                alpha if np.isfinite(alpha) else 1.0,
                self.task.fit_intercept,
            )
            begin = coordinates[:, mine], intercept[mine]
            # From a solution at another alpha there is no need to come down again.
            way = minimise if begin[0].any() or not len(span) else descend
            for state in way(problem, self.direct, begin, tol=tol, max_iter=max_iter):
                parts[i] = state
                coordinates[:, mine], intercept[mine] = state.coordinates, state.intercept
                yield self._merged(coordinates, intercept, parts)

    def coefficients(self, state: LandmarkState) -> Array:
        """The c of all landmarks, zero for those that add nothing.

        Parameters
        ----------
        state : LandmarkState
            Where the method stands.

        Returns
        -------
        ndarray of shape (n_landmarks, n_outputs)
            The coefficients.
        """
        found = np.zeros((len(self.points), state.coordinates.shape[1]))
        found[self.kept] = self.span.coefficients(state.coordinates)
        return found

    @cached_property
    def trace_error(self) -> float:
        """The share of the weighted trace of K that the landmarks leave out, from a sample."""
        stride = max(1, self.task.rows.totals.rows // _SAMPLE)
        whole = self.task.rows.total(Mass(self.task.kernel, stride))[1]
        if not whole > 0:
            return 0.0
        return max(0.0, 1 - self.task.rows.total(Explained(self.span, stride)) / float(whole))

    @property
    def _nothing(self) -> Span:
        return replace(self.span, upper=np.empty((0, 0)))

    def _merged(
        self, coordinates: Array, intercept: Array, parts: list[LandmarkState | None]
    ) -> LandmarkState:
        """The state of all functions: losses and errors add up, and all have to converge."""
        known = [part for part in parts if part is not None]
        whole = len(known) == len(parts)
        padded = np.zeros((len(self.span), coordinates.shape[1]))
        padded[: len(coordinates)] = coordinates
        return LandmarkState(
            padded,
            intercept.copy(),
            sum(part.loss for part in known) if whole else np.inf,
            sum(part.error for part in known) if whole else np.inf,
            max(part.residual for part in known) if whole else np.inf,
            sum(part.bound for part in known) if whole else np.inf,
            whole and all(part.converged for part in known),
        )

    def _require_memory(self) -> None:
        m = len(self.points) + 1
        k = max(loss.n_outputs for loss in self.task.losses) if self.direct.curved else 1
        memory.require(
            int(8 * _MATRICES * (k * m) ** 2),
            f"{self.task.owner} with {m - 1} landmarks and {k} functions at a time",
            "take fewer landmarks" + (", or solver=mercer.solvers.Falkon(...)" if k > 1 else ""),
        )
