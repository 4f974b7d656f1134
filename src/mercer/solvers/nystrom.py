r"""Ridge regression on landmarks: functions f(x) = sum_j c_j k(x, z_j) + b over few points z_j.

With C = k(X, Z) and M = k(Z, Z), the coefficients minimise

.. math:: \tfrac12 \sum_i w_i (y_i - (Cc)_i - b)^2 + \tfrac\alpha2 c^\top M c .

`NystromSolver` adds up C'WC in one pass over the rows, which costs n m^2 operations once and then serves
every alpha; what rounding loses in squaring C is won back by refinement, each step of which is a
fused pass. `Falkon` never forms C'WC: conjugate gradients on the same equations, preconditioned by
a sample of the rows, for m in the ten thousands. See Williams and Seeger (2001) and Rudi, Carratino
and Rosasco (2017).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.landmarks import selection
from mercer.landmarks.selection import Landmarks
from mercer.rows.moments import Moments
from mercer.rows.rows import RowBlock
from mercer.rows.sums import Features, Trace, blocks_of
from mercer.sampling import random_numbers, seed_from
from mercer.solvers.conjugate_gradient import Stopped, check_limits, iterate
from mercer.solvers.newton.directions import DirectNewton, InexactNewton
from mercer.solvers.protocol import RidgeSolver
from mercer.solvers.ridge.falkon import FalkonSystem, falkon_path
from mercer.solvers.ridge.features import FeatureEquations, FeatureRidge
from mercer.solvers.ridge.landmarks import LandmarkEquations
from mercer.solvers.ridge.one_alpha import OneAlpha
from mercer.solvers.ridge.paths import PathAnswer, landmark_path
from mercer.solvers.ridge.ranges import in_range, require_range
from mercer.solvers.task import RidgeAnswer, RidgeTask

Array = NDArray[np.floating[Any]]

# What squares of kernel values say of the trace counts if it is so many times their rounding.
_CLEAR = 100
# Rows from which it is estimated otherwise.
_SAMPLE = 2000


@dataclass(frozen=True, eq=False)
class NystromSolver(RidgeSolver):
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "landmarks", _kept(self.landmarks))

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Refuse parameters that are wrong whatever the data are."""
        selection.check_choice(self.landmarks, self.n_landmarks, owner, also)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        return in_range(task, self._solved)

    def _path(self, task: RidgeTask) -> PathAnswer:
        return in_range(task, lambda task: landmark_path(task, _select(self, task).points))

    def _solved(self, task: RidgeTask) -> RidgeAnswer:
        chosen = _select(self, task)
        equations = LandmarkEquations.of(task, chosen.points)
        answer = None if equations.squares_drown else _squared_first(equations)
        return replace(answer or _whitened_first(equations), rows=chosen.indices)

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


def _select(solver: NystromSolver | Falkon, task: RidgeTask) -> Landmarks:
    return selection.select_rows(
        task.kernel,
        task.rows,
        solver.landmarks,
        solver.n_landmarks,
        random_state=solver.random_state,
        owner=task.owner,
    )


def _squared_first(equations: LandmarkEquations) -> RidgeAnswer | None:
    """From C'WC, refined; None if it overflows, or lost too many digits to win them back."""
    task, found = equations.task, equations.sums()
    if found is None:
        return None
    sums, trace = found
    problem, alpha, errors = _problem(equations, sums)
    (coefficients,), (residual,), (lost,) = equations.refined(problem, np.array([alpha]))
    if lost:
        return None
    left_out = _left_out(problem, trace, equations.basis.T @ problem.moments.plain_features)
    if left_out * trace < _CLEAR * _trace_noise(sums, equations):
        seen = _LeftOut(task.kernel, equations.whitened_columns, equations.basis.shape[1])
        left_out = task.of_sample(_SAMPLE, seen)
    quality = _quality(problem, left_out, residual, alpha)
    intercept = problem.intercept(coefficients)
    doubt = equations.doubt(problem, trace, residual)
    return RidgeAnswer(equations.points, coefficients, intercept, alpha, quality, errors, doubt)


def _problem(
    equations: LandmarkEquations, sums: Moments
) -> tuple[FeatureEquations, float, Array | None]:
    """The equations, the alpha, and the criterion for each candidate if there are several."""
    task, basis, columns = equations.task, equations.basis, equations.columns
    if not task.compares:
        alpha = float(task.alphas[0])
        one = OneAlpha.of(sums, basis, alpha, equations.eps, fit_intercept=task.fit_intercept)
        return one, alpha, None
    every = FeatureRidge.of(sums, basis, fit_intercept=task.fit_intercept)
    return every, *task.choose(every, columns)


def _whitened_first(equations: LandmarkEquations) -> RidgeAnswer:
    """The same from rows that are whitened before they are squared: twice the work, all digits."""
    problem, trace = equations.whitened_first()
    alpha, errors = equations.task.choose(problem, equations.whitened_columns)
    inner, intercept = problem.solve(alpha)
    sums = problem.moments
    gradient = sums.products - sums.squares @ inner - alpha * inner
    residual = float(sums.relative(gradient))
    left_out = _left_out(problem, trace, sums.plain_features)
    quality = _quality(problem, left_out, residual, alpha)
    dual, doubt = equations.basis @ inner, equations.doubt(problem, trace, residual)
    return RidgeAnswer(equations.points, dual, intercept, alpha, quality, errors, doubt)


def _left_out(problem: FeatureEquations, trace: float, sums: Array) -> float:
    """The share of the (weighted) trace of K that the landmarks do not carry.

    It is found from `sums`, those of the whitened features: an intercept takes their means out of
    the problem.
    """
    kept = problem.carried
    if problem.fit_intercept:
        kept += float(sums @ sums) / problem.moments.weight
    return max(0.0, 1 - kept / trace) if trace > 0 else 0.0


def _trace_noise(sums: Moments, equations: LandmarkEquations) -> float:
    """What rounding of C'WC does to the trace of T'C'WC T, about.

    Entries are off by random shares of the roots of the diagonal entries d of their row and column,
    so the trace by at most one of the sum of d_i T_ij^2, since that is at least the Frobenius norm.
    """
    lengths = np.square(equations.basis).sum(axis=1)
    return equations.eps * float(sums.squares.diagonal() @ lengths)


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """The same from some rows, whitened before they are squared."""

    kernel: Kernel
    features: Features
    width: int

    def __call__(self, part: RowBlock) -> float:
        blocks = blocks_of(part, self.features, self.width)
        explained = np.concatenate([np.einsum("ij,ij->i", phi, phi) for phi, _, _ in blocks])
        trace = Trace(self.kernel)(part)
        return max(0.0, 1 - float(part.mass @ explained) / trace) if trace > 0 else 0.0


def _quality(
    problem: FeatureEquations, left_out: float, residual: float, alpha: float
) -> dict[str, Any]:
    """How good an answer is."""
    return {
        "trace_error_": left_out,
        "residual_": float(residual),
        "effective_dof_": problem.effective_dof(alpha),
    }


@dataclass(frozen=True, eq=False)
class Falkon(RidgeSolver):
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "landmarks", _kept(self.landmarks))

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Refuse parameters that are wrong whatever the data are."""
        selection.check_choice(self.landmarks, self.n_landmarks, owner, also)
        check_limits(owner, self.tol, self.max_iter)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        task.the_alpha("Falkon")
        return in_range(task, self._solved)

    def _path(self, task: RidgeTask) -> PathAnswer:
        return in_range(
            task,
            lambda task: falkon_path(task, _select(self, task).points, self.tol, self.max_iter),
        )

    def _solved(self, task: RidgeTask) -> RidgeAnswer:
        stopped = self._stopped(task) if task.resumes else None
        chosen = _select(self if stopped is None else self.replace(random_state=stopped.seed), task)
        system = FalkonSystem(task, chosen.points, self.tol, self.max_iter, stopped)
        start = None if stopped is None else stopped.state
        answer = iterate(task, system, 0.0, self.tol, self.max_iter, start)
        require_range(task, answer.dual)
        return replace(answer, rows=chosen.indices)

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
