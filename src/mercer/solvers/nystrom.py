r"""Ridge regression on landmarks: functions f(x) = sum_j c_j k(x, z_j) + b over few points z_j.

With C = k(X, Z) and M = k(Z, Z), the coefficients minimise

.. math:: \tfrac12 \sum_i w_i (y_i - (Cc)_i - b)^2 + \tfrac\alpha2 c^\top M c .

`NystromSolver` adds up C'WC in one pass over the rows. This costs n m^2 operations once, and serves
every alpha. Iterative refinement recovers the digits that squaring C loses; each step is a fused
pass. `Falkon` never forms C'WC: conjugate gradients on the same equations, preconditioned by a
sample of the rows, for tens of thousands of landmarks. See Williams and Seeger (2001) and Rudi,
Carratino and Rosasco (2017).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

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
    PAIR,
    WHITE,
    Cost,
    FitProblem,
    PathAnswer,
    RidgeAnswer,
    RidgeTask,
    Solver,
)
from mercer.solvers.ridge import iterations, landmarks
from mercer.solvers.ridge.falkon import FalkonSystem
from mercer.solvers.ridge.iterations import Stopped

# Iterations of `Falkon` for each linear system, for its cost.
_ITERATIONS = 30


class LandmarkSolver(Solver):
    """Base of solvers over landmarks: how many there are, and how they are chosen."""

    has_landmarks = True

    n_landmarks: int
    landmarks: Any
    random_state: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "landmarks", _kept(self.landmarks))

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Refuse parameters that are wrong whatever the data are."""
        selection.check_choice(self.landmarks, self.n_landmarks, owner, also)

    def count(self, n: int) -> int:
        """The number of landmarks among n rows."""
        chosen = self.landmarks
        return min(n, self.n_landmarks) if isinstance(chosen, str) else len_of(chosen)

    def _impossible(self, problem: FitProblem) -> str:
        return problem.landmark_restriction or (WHITE if contains_noise(problem.kernel) else "")

    def _select(self, task: RidgeTask) -> Landmarks:
        return selection.select_rows(
            task.kernel,
            task.rows,
            self.landmarks,
            self.n_landmarks,
            random_state=self.random_state,
            owner=task.owner,
        )

    def machine(self, task: MachineTask, candidates: RowSource) -> LandmarkMachine:
        """The problem of a machine over landmarks that are chosen among rows."""
        return LandmarkMachine.choose(task, self, candidates, self.direct)

    @property
    @abstractmethod
    def direct(self) -> DirectNewton | InexactNewton:
        """How the steps of a machine are computed."""


@dataclass(frozen=True, eq=False)
class NystromSolver(LandmarkSolver):
    """Normal equations on landmarks, in one pass over the rows.

    Parameters
    ----------
    n_landmarks : int
        How many landmarks; all rows give the exact answer, up to rounding times n / alpha.
    landmarks : str, array of int, or points
        How they are chosen, as in `mercer.Nystrom`; by default at random.
    random_state : int, RandomState, Generator or None
        Where the choice comes from.

    Notes
    -----
    The model gets ``trace_error_``, the share of the trace of K that the landmarks leave out, and
    ``residual_``, the relative norm of the gradient of the objective. Where rounding hides that
    share, as in single precision, it is estimated on 2,000 rows. A residual above 1e-2, or kernel
    values so alike that rounding may hide differences between rows, is warned of. Memory is that of
    a few matrices of order `n_landmarks`, whatever the number of rows. A machine of another smooth
    loss takes such a pass for each step of Newton's method.

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
        """Sums over pairs of landmarks, in one pass for each linear system."""
        n, m = problem.n, self.count(problem.n)
        size = 8.0 * problem.landmark_matrices * (problem.coupled * m) ** 2 + problem.stored(m)
        work = problem.solves * problem.landmark_work * n * m**2 + PAIR * n * m
        return Cost(self, size, problem.search(m) + work)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        chosen = self._select(task)
        return replace(landmarks.solve(task, chosen.points), rows=chosen.indices)

    def _path(self, task: RidgeTask) -> PathAnswer:
        return landmarks.path(task, self._select(task).points)

    @property
    def direct(self) -> DirectNewton:
        """How a machine's steps are computed: from second derivatives, n m^2 operations each."""
        return DirectNewton()


def _kept(landmarks: Any) -> Any:
    """Given landmarks in a container that later writes of the user do not reach."""
    if isinstance(landmarks, np.ndarray):
        own = landmarks.copy() if landmarks.flags.writeable else landmarks
        own.flags.writeable = False
        return own
    writable = isinstance(landmarks, list) or sp.issparse(landmarks) or hasattr(landmarks, "iloc")
    return landmarks.copy() if writable else landmarks


@dataclass(frozen=True, eq=False)
class Falkon(LandmarkSolver):
    """Preconditioned conjugate gradients on landmarks.

    Parameters
    ----------
    n_landmarks : int
        How many landmarks.
    landmarks : str, array of int, or points
        How they are chosen, as in `mercer.Nystrom`; by default at random.
    tol : float
        Relative residual, below 1, of the preconditioned equations at which to stop; no less than
        64 units of rounding of the kernel, which is 1.4e-14 in double precision and 7.6e-6 in
        single precision.
    max_iter : int
        Passes over the data at most.
    random_state : int, RandomState, Generator or None
        Where the choice comes from.

    Notes
    -----
    Each iteration is one pass of C'(C v), in which each pair is evaluated once; twice where
    rounding of means would be felt, as at small alphas and in single precision. The preconditioner
    is made of two to eight rows for each landmark, however these were chosen. The model gets
    ``n_iter_``, ``converged_``, ``residual_``, ``residual_history_`` and ``trace_error_``, the
    share of the trace of K that the landmarks leave out, estimated on these rows. ``converged_``
    says that ``residual_`` is at most twice the tolerance, or as small as rounding of means lets it
    be. A model with
    ``warm_start=True`` keeps its landmarks, and goes on from where its last fit with the same alpha
    stopped. For a machine of another
    smooth loss, `tol` and `max_iter` are those of the equations of one Newton step, which are
    solved the better the nearer the minimum is.

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
        """Refuse parameters that are wrong whatever the data are."""
        super().check(owner, also)
        check_limits(owner, self.tol, self.max_iter)

    def cost(self, problem: FitProblem) -> Cost:
        """Passes over the pairs of rows and landmarks, and a factor of the preconditioner."""
        n, m = problem.n, self.count(problem.n)
        passes = problem.solves * _ITERATIONS * PAIR * n * m
        operations = problem.search() + problem.variances + float(m) ** 3 + passes
        return Cost(self, 8.0 * 4 * problem.functions * m**2, operations)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        task.the_alpha("Falkon")
        stopped = self._stopped(task) if task.resumes else None
        seeded = self if stopped is None else self.replace(random_state=stopped.seed)
        chosen = seeded._select(task)
        system = FalkonSystem(task, chosen.points, self.tol, self.max_iter)
        answer = iterations.solve(task, system, self.tol, self.max_iter, stopped)
        require_finite(answer.dual)
        return replace(answer, rows=chosen.indices)

    def _path(self, task: RidgeTask) -> PathAnswer:
        system = FalkonSystem(task, self._select(task).points, self.tol, self.max_iter)
        return iterations.path(task, system, self.tol, self.max_iter)

    def _stopped(self, task: RidgeTask) -> Stopped:
        """Where an earlier fit with these landmarks and this alpha stopped, or a seed for one."""
        settings = self.replace(tol=1.0, max_iter=1), float(task.alphas[0])
        if isinstance(task.state, Stopped) and task.state.settings == settings:
            return task.state
        given = self.random_state
        known = isinstance(given, Integral)
        return Stopped(settings, given if known else seed_from(random_numbers(given, task.owner)))

    @property
    def direct(self) -> InexactNewton:
        """How a machine's steps are computed: by iterations of n m operations each."""
        return InexactNewton(self.tol, self.max_iter)
