"""Ridge equations that are solved by conjugate gradients: reports, tolerances and warm starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.linalg import conjugate_gradient
from mercer.solvers.protocol import RidgeAnswer, RidgeTask

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Stopped:
    """Where iterations stopped, and how their preconditioner or landmarks can be made again."""

    settings: tuple[Any, ...]  # the parameters that made the preconditioner or the landmarks
    seed: int  # of the random numbers that made them
    state: conjugate_gradient.State | None = None  # where they stopped; None before they begin


class System(Protocol):
    """Equations that are solved by iterations, and what their solution means."""

    right: Array
    #: What to raise where the iterations stop short.
    levers: str
    #: A relative residual that rounding may leave, and that does no harm.
    floor: float

    @property
    def keeps_apart(self) -> bool:
        """Whether residuals are kept, and made orthogonal to one another."""
        ...

    @property
    def precondition(self) -> conjugate_gradient.Precondition | None:
        """The preconditioner, as `conjugate_gradient.solve` takes it."""
        ...

    def multiply(self, vectors: Array) -> Array:
        """The matrix times columns."""
        ...

    def answer(self, progress: conjugate_gradient.Progress) -> RidgeAnswer:
        """The model at the current iterate, without attributes that say how good it is."""
        ...


def iterate(
    task: RidgeTask,
    system: System,
    shift: float,
    tol: float,
    max_iter: int,
    start: conjugate_gradient.State | None = None,
) -> RidgeAnswer:
    """Solve the equations of a task, with a report to the task after each iteration."""

    def answer(progress: conjugate_gradient.Progress) -> RidgeAnswer:
        made = system.answer(progress)
        if progress.stalled and (progress.residuals <= system.floor).all():
            progress = replace(progress, converged=True, stalled=False)
        quality = made.quality | {
            "n_iter_": progress.n_iter,
            "converged_": progress.converged,
            "residual_": float(progress.residuals.max(initial=0.0)),
            "residual_history_": progress.history.max(axis=1),
        }
        doubt = conjugate_gradient.complaint(progress, system.levers, task.ridge)
        return replace(made, quality=quality, doubt=doubt)

    def tell(progress: conjugate_gradient.Progress) -> bool:
        return task.report is not None and task.report(lambda: answer(progress))

    return answer(
        conjugate_gradient.solve(
            system.multiply,
            system.right,
            shift,
            precondition=system.precondition,
            start=start,
            tol=least_tolerance(task, tol),
            max_iter=max_iter,
            report=tell,
            orthogonal=system.keeps_apart,
        )
    )


def least_tolerance(task: RidgeTask, tol: float) -> float:
    """The tolerance that is asked for, or what rounding of the kernel allows if that is more."""
    return max(tol, conjugate_gradient.ROUNDING * float(np.finfo(task.dtype).eps))
