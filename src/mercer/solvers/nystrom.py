r"""Ridge regression on landmarks: functions f(x) = sum_j c_j k(x, z_j) + b over few points z_j.

With C = k(X, Z) and M = k(Z, Z), the coefficients minimise

.. math:: \tfrac12 \sum_i w_i (y_i - (Cc)_i - b)^2 + \tfrac\alpha2 c^\top M c .

`NystromSolver` sums C'WC in one pass over the rows, n m^2 operations for all alphas. Iterative
refinement recovers the digits that squaring C loses; each step is a fused pass. `Falkon` never
forms C'WC: it solves the same equations by conjugate gradients, preconditioned by a sample of the
rows, for tens of thousands of landmarks. See Williams and Seeger (2001) and Rudi, Carratino and
Rosasco (2017).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from mercer.kernels.containers import len_of
from mercer.landmarks import selection
from mercer.landmarks.selection import Landmarks, contains_noise
from mercer.rows.moments import require_finite
from mercer.rows.rows import RowSource
from mercer.sampling import random_numbers, seed_from
from mercer.solvers.conjugate_gradient import check_limits
from mercer.solvers.newton.directions import DirectNewton, InexactNewton
from mercer.solvers.newton.machine import MachineTask
from mercer.solvers.newton.on_landmarks import LandmarkMachine
from mercer.solvers.protocol import (
    WHITE,
    Cost,
    FitProblem,
    FitTask,
    PathAnswer,
    RidgeAnswer,
    RidgeTask,
    Solver,
)
from mercer.solvers.ridge import iterations, landmarks
from mercer.solvers.ridge.falkon import FalkonSystem, sample_size
from mercer.solvers.ridge.iterations import Stopped

# Number of iterations of `Falkon` per linear system, for the forecast of its cost.
_ITERATIONS = 30
# Operations of a selection by kernel values over n m^2, for the forecast of its cost.
_SELECTION = 5.0
# Operations of sums over n m^2, which are slower than matrix products.
_SUMS = 1.3
# Operations over m^3 and over m^2 to whiten landmarks and to solve their equations.
_LANDMARKS, _LANDMARK_SQUARES = 8.5, 2_500.0
# Operations of `Falkon` over m^3, and for each system over m^2 and sampled row.
_FALKON, _PRECONDITIONER = 3.0, 2.4


class LandmarkSolver(Solver):
    """Base of solvers over landmarks: their number and their selection."""

    has_landmarks = True

    n_landmarks: int
    landmarks: Any
    random_state: Any

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Validate the parameters, without data."""
        selection.check_choice(self.landmarks, self.n_landmarks, owner, also)

    def count(self, n: int) -> int:
        """The number of landmarks among n rows."""
        chosen = self.landmarks
        return min(n, self.n_landmarks) if isinstance(chosen, str) else len_of(chosen)

    def _impossible(self, problem: FitProblem) -> str:
        return problem.restriction(self) or (WHITE if contains_noise(problem.kernel) else "")

    def _select(self, task: FitTask, candidates: RowSource) -> Landmarks:
        return selection.select_rows(
            task.kernel,
            candidates,
            self.landmarks,
            self.n_landmarks,
            random_state=self.random_state,
            owner=task.owner,
        )

    def machine(self, task: MachineTask, candidates: RowSource) -> LandmarkMachine:
        """The problem of a machine over landmarks selected among rows."""
        chosen = self._select(task, candidates)
        return LandmarkMachine(task, chosen.points, self.direct, chosen.indices)

    @property
    @abstractmethod
    def direct(self) -> DirectNewton | InexactNewton:
        """The method for the Newton directions of a machine."""


@dataclass(eq=False)
class NystromSolver(LandmarkSolver, name="nystrom"):
    """Normal equations on landmarks, in one pass over the rows.

    Parameters
    ----------
    n_landmarks : int
        The number of landmarks; all rows give the exact solution, up to rounding times n / alpha.
    landmarks : str, array of int, or points
        The method of selection, as in `mercer.Nystrom`; uniformly at random by default.
    random_state : int, RandomState, Generator or None
        The random numbers of the selection.

    Notes
    -----
    The model gets ``trace_error_``, the share of the trace of K that the landmarks do not explain,
    and ``residual_``, the relative norm of the gradient of the objective. If rounding hides the
    trace error, as in single precision, it is estimated on 2,000 rows. There is a warning for a
    residual above 1e-2, and for kernel values so similar that rounding may hide differences between
    rows. Memory is that of a few matrices of order `n_landmarks`, whatever the number of rows. A
    machine of another smooth loss takes one such pass per Newton step.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> solver = mc.solvers.NystromSolver(n_landmarks=20, random_state=0)
    >>> model = mc.KernelRidge(mc.RBF(1.0), alpha=1e-3, solver=solver).fit(X, np.sin(X).ravel())
    >>> model.predict([[np.pi / 2]]).round(3), len(model.points_)
    (array([1.]), 20)
    """

    n_landmarks: int = 1000
    landmarks: Any = "uniform"
    random_state: Any = None

    def cost(self, problem: FitProblem) -> Cost:
        """The cost of sums over pairs of landmarks, in one pass per linear system."""
        n, m = problem.n, self.count(problem.n)
        systems = problem.systems
        size = 8.0 * problem.landmark_matrices * (systems.coupled * m) ** 2 + problem.stored(m)
        by_values = isinstance(self.landmarks, str) and self.landmarks != "uniform"
        selection = _SELECTION if by_values else 0.0
        work = (_SUMS * systems.count * systems.landmark_work + selection) * n * m**2
        work += (_LANDMARKS * m + _LANDMARK_SQUARES) * m**2
        return Cost(self, size, problem.search(m) + work, float(n) * m)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        chosen = self._select(task, task.rows)
        return replace(landmarks.solve(task, chosen.points), rows=chosen.indices)

    def _path(self, task: RidgeTask) -> PathAnswer:
        return landmarks.path(task, self._select(task, task.rows).points)

    @property
    def direct(self) -> DirectNewton:
        """Newton directions from the Hessian, n m^2 operations each."""
        return DirectNewton()


@dataclass(eq=False)
class Falkon(LandmarkSolver, name="falkon"):
    """Preconditioned conjugate gradients on landmarks.

    Parameters
    ----------
    n_landmarks : int
        The number of landmarks.
    landmarks : str, array of int, or points
        The method of selection, as in `mercer.Nystrom`; uniformly at random by default.
    tol : float
        Relative residual, below 1, of the preconditioned equations at which to stop; at least 64
        rounding units of the kernel, which is 1.4e-14 in double precision and 7.6e-6 in single
        precision.
    max_iter : int
        Largest number of passes over the data.
    random_state : int, RandomState, Generator or None
        The random numbers of the selection.

    Notes
    -----
    Each iteration is one pass of C'(C v), in which each pair is evaluated once, or twice if
    rounding of means matters, as at small alphas and in single precision. The preconditioner uses
    two to eight rows per landmark, for any selection of landmarks. The model gets ``n_iter_``,
    ``converged_``, ``residual_``, ``residual_history_`` and ``trace_error_``, the share of the
    trace of K that the landmarks do not explain, estimated on these rows. ``converged_`` is True if
    ``residual_`` is at most twice the tolerance, or as small as rounding of means allows. A model
    with ``warm_start=True`` keeps its landmarks, and resumes its last fit with the same alpha. For
    a machine of another smooth loss, `tol` and `max_iter` are those of the equations of one Newton
    step, whose tolerance decreases with the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> solver = mc.solvers.Falkon(n_landmarks=20, random_state=0)
    >>> model = mc.KernelRidge(mc.RBF(1.0), alpha=1e-3, solver=solver).fit(X, np.sin(X).ravel())
    >>> model.converged_, model.predict([[np.pi / 2]]).round(3)
    (True, array([1.]))
    """

    n_landmarks: int = 10_000
    landmarks: Any = "uniform"
    tol: float = 1e-6
    max_iter: int = 100
    random_state: Any = None

    is_iterative = True

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Validate the parameters, without data."""
        super().check(owner, also)
        check_limits(self)

    def cost(self, problem: FitProblem) -> Cost:
        """The cost of passes over pairs of rows and landmarks, and of the preconditioner."""
        n, m = problem.n, self.count(problem.n)
        count = problem.systems.count
        sampled = _PRECONDITIONER * min(n, sample_size(m))
        operations = problem.search() + problem.variances
        operations += (_FALKON * m + count * sampled) * float(m) ** 2
        size = 8.0 * problem.landmark_matrices * problem.systems.functions * m**2
        return Cost(self, size, operations, count * _ITERATIONS * n * m)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        task.the_alpha("Falkon")
        stopped = self._stopped(task) if task.resumes else None
        seeded = self if stopped is None else self.replace(random_state=stopped.seed)
        chosen = seeded._select(task, task.rows)
        system = FalkonSystem(task, chosen.points, self.tol, self.max_iter)
        answer = iterations.solve(task, system, self.tol, self.max_iter, stopped)
        require_finite(answer.dual)
        return replace(answer, rows=chosen.indices)

    def _path(self, task: RidgeTask) -> PathAnswer:
        chosen = self._select(task, task.rows)
        system = FalkonSystem(task, chosen.points, self.tol, self.max_iter)
        return iterations.path(task, system, self.tol, self.max_iter)

    def _stopped(self, task: RidgeTask) -> Stopped:
        """The state of an earlier fit with these landmarks and this alpha, or a seed for one."""
        settings = self.replace(tol=1.0, max_iter=1), float(task.alphas[0])
        if isinstance(task.state, Stopped) and task.state.settings == settings:
            return task.state
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = seed_from(random_numbers(seed, task.owner))
        return Stopped(settings, seed)

    @property
    def direct(self) -> InexactNewton:
        """Newton directions by conjugate gradients, n m operations per iteration."""
        return InexactNewton(self.tol, self.max_iter)
