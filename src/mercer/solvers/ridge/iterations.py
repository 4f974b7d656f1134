"""Ridge regression by conjugate gradients: solve a linear system, report and resume."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array
from mercer.kernels.points import Points
from mercer.linalg import conjugate_gradient
from mercer.linalg.conjugate_gradient import Progress
from mercer.solvers.protocol import PathAnswer, RidgeAnswer, RidgeTask


@dataclass(frozen=True, eq=False)
class Stopped:
    """The state of stopped iterations, with the settings of the preconditioner or landmarks."""

    settings: tuple[Any, ...]  # the settings of the preconditioner or the landmarks
    seed: int  # the seed of their random numbers
    state: conjugate_gradient.State | None = None  # None if no iteration has begun


class System(Protocol):
    """Linear equations (A + shift_j I) x_j = b_j, the columns of one alpha after another."""

    right: Array  # (n, a r): the columns b_j
    shifts: Array | float  # (a r,)
    points: Points  # the points that carry coefficients
    quality: dict[str, Any]  # fitted attributes of the preconditioner or the landmarks
    remedies: str  # parameters to raise where the iterations stop early
    floor: float  # relative residual that rounding may leave and that is accepted
    orthogonal: bool  # whether residuals are kept and orthogonalised
    precondition: conjugate_gradient.Precondition | None  # approximate inverse of A + shift I

    def multiply(self, vectors: Array) -> Array:
        """A times columns."""
        ...

    def coefficients(self, solution: Array) -> tuple[Array, Array]:
        """Coefficients of the points, (a, m, t), and intercepts, (a, t), from a solution."""
        ...


def solve(
    task: RidgeTask, system: System, tol: float, max_iter: int, stopped: Stopped | None
) -> RidgeAnswer:
    """Solve a task at its one alpha, with a report after each iteration."""

    def answer(progress: Progress) -> RidgeAnswer:
        if progress.stalled and (progress.residuals <= system.floor).all():
            progress = replace(progress, converged=True, stalled=False)
        quality = system.quality | {
            "n_iter_": progress.n_iter,
            "converged_": progress.converged,
            "residual_": float(progress.residuals.max(initial=0.0)),
            "residual_history_": progress.history.max(axis=1),
        }
        dual, intercept = system.coefficients(progress.solution)
        return RidgeAnswer(
            system.points,
            dual[0],
            intercept[0],
            float(task.alphas[0]),
            quality,
            warning=_warning(task, system, progress),
            state=replace(stopped, state=progress.state) if stopped and task.resumes else None,
        )

    def report(progress: Progress) -> bool:
        return task.report is not None and task.report(lambda: answer(progress))

    start = None if stopped is None else stopped.state
    return answer(_iterate(task, system, tol, max_iter, start, report))


def path(task: RidgeTask, system: System, tol: float, max_iter: int) -> PathAnswer:
    """Solve a task at every alpha; all alphas share each product."""
    progress = _iterate(task, system, tol, max_iter)
    unknown = np.full(len(task.alphas), np.nan)
    dual, intercept = system.coefficients(progress.solution)
    warning = _warning(task, system, progress)
    return PathAnswer(system.points, dual, intercept, unknown, unknown, unknown, warning=warning)


def _iterate(
    task: RidgeTask,
    system: System,
    tol: float,
    max_iter: int,
    start: conjugate_gradient.State | None = None,
    report: conjugate_gradient.Report | None = None,
) -> Progress:
    return conjugate_gradient.solve(
        system.multiply,
        system.right,
        system.shifts,
        precondition=system.precondition,
        start=start,
        tol=least_tolerance(task, tol),
        max_iter=max_iter,
        report=report,
        orthogonal=system.orthogonal,
    )


def _warning(task: RidgeTask, system: System, progress: Progress) -> str:
    return conjugate_gradient.convergence_warning(progress, system.remedies, task.ridge)


def least_tolerance(task: RidgeTask, tol: float) -> float:
    """The tolerance, or the smallest one that rounding of the kernel values allows."""
    return max(tol, conjugate_gradient.ROUNDING * float(np.finfo(task.dtype).eps))
