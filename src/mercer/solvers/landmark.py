r"""Ridge regression on landmarks: functions f(x) = sum_j c_j k(x, z_j) + b over few points z_j.

With C = k(X, Z) and M = k(Z, Z), the coefficients minimise

.. math:: \tfrac12 \sum_i w_i (y_i - (Cc)_i - b)^2 + \tfrac\alpha2 c^\top M c .

`Nystrom` adds up C'WC in one pass over the rows, which costs n m^2 operations once and then serves
every alpha; what rounding loses in squaring C is won back by refinement, each step of which is a
fused pass. `Falkon` never forms C'WC: conjugate gradients on the same equations, preconditioned by
the landmarks alone, for m in the ten thousands. See Williams and Seeger (2001) and Rudi, Carratino
and Rosasco (2017).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from mercer.kernels.points import Points
from mercer.solvers import conjugate, selection
from mercer.solvers.iterative import iterate
from mercer.solvers.landmark_steps import ByIterations, Exactly
from mercer.solvers.moments import FeatureRidge, Moments
from mercer.solvers.one_alpha import OneAlpha
from mercer.solvers.paths import PathAnswer, landmark_path
from mercer.solvers.selection import Landmarks
from mercer.solvers.summands import Columns, CrossProducts, FeatureMoments, WhitenedColumns
from mercer.solvers.task import RidgeAnswer, RidgeTask
from mercer.solvers.whitening import whiten

Array = NDArray[np.floating[Any]]

# Passes that win back digits, and the relative residual that is enough, by the type of the kernel.
_PASSES = 3
_ENOUGH = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-9}
# A relative residual after these passes that shows that they could not.
_LOST = 1e-3
# Directions of M below this share of its diagonal are too short for the preconditioner to lengthen.
_LEAST_JITTER = 1e-11


@dataclass(frozen=True)
class Nystrom:
    """Normal equations on landmarks, in one pass over the rows.

    Parameters
    ----------
    n_landmarks : int
        How many landmarks; all rows give the exact answer.
    landmarks : str, array of int, or points
        How they are chosen, as in `mercer.Nystrom`; by default at random.
    random_state : int, RandomState or None
        Where the choice comes from.

    Notes
    -----
    The model gets ``trace_error_``, the share of the trace of K that the landmarks leave out, and
    ``residual_``, the relative norm of the gradient of the objective. Memory is that of a few
    matrices of order `n_landmarks`, whatever the number of rows. A machine of another smooth loss
    takes such a pass for each step of Newton's method.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> solver = mc.solvers.Nystrom(n_landmarks=20, random_state=0)
    >>> model = mc.KernelRidge(mc.RBF(1.0), alpha=1e-3, solver=solver).fit(X, np.sin(X).ravel())
    >>> model.predict([[np.pi / 2]]).round(3), len(model.points_)
    (array([1.]), 20)
    """

    n_landmarks: int = 1000
    landmarks: Any = "uniform"
    random_state: Any = None

    def ridge(self, task: RidgeTask) -> RidgeAnswer:
        """Solve a ridge task.

        Parameters
        ----------
        task : RidgeTask
            The problem.

        Returns
        -------
        RidgeAnswer
            Coefficients over the landmarks.
        """
        chosen = _select(self, task)
        return replace(self._solved(task, chosen.points), rows=chosen.indices)

    def _solved(self, task: RidgeTask, points: Points) -> RidgeAnswer:
        penalty = task.penalty(points)
        rounding = len(points) * float(np.finfo(np.float64).eps)
        rounding = max(rounding, float(np.finfo(task.type_with(points)).eps))
        basis = whiten(penalty, tol=rounding).columns(len(points))
        columns = Columns(task.kernel, points)
        if task.squares_drown(points, penalty, basis):
            return _whitened_first(task, WhitenedColumns(columns, basis))
        shift = task.shift(points, penalty)
        sums, trace = task.rows.total(
            FeatureMoments(columns, len(points), task.middle, shift, task.kernel)
        ).terms
        problem, alpha, errors = _problem(task, sums, basis, columns)
        coefficients, intercept, residual = _refined(task, problem, points, penalty, alpha)
        if not residual <= _LOST:
            return _whitened_first(task, WhitenedColumns(columns, basis))
        quality = {
            "trace_error_": _trace_error(trace, problem, basis.T @ problem.moments.plain_features),
            "residual_": residual,
            "effective_dof_": problem.effective_dof(alpha),
        }
        return RidgeAnswer(points, coefficients, intercept, alpha, quality, errors)

    def path(self, task: RidgeTask) -> PathAnswer:
        """Solve a ridge task at each of its alphas.

        Parameters
        ----------
        task : RidgeTask
            The problem.

        Returns
        -------
        PathAnswer
            Coefficients over the landmarks.
        """
        return landmark_path(task, _select(self, task).points)

    @property
    def direct(self) -> Exactly:
        """How a machine's steps are computed: from second derivatives, n m^2 operations each."""
        return Exactly()


def _select(solver: Nystrom | Falkon, task: RidgeTask) -> Landmarks:
    return selection.select_rows(
        task.kernel,
        task.rows,
        solver.landmarks,
        solver.n_landmarks,
        random_state=solver.random_state,
        owner=task.owner,
    )


def _problem(
    task: RidgeTask, sums: Moments, basis: Array, columns: Columns
) -> tuple[FeatureRidge | OneAlpha, float, Array | None]:
    """The equations, the alpha, and the criterion for each candidate if there are several."""
    if not task.compares:
        alpha, eps = float(task.alphas[0]), float(np.finfo(task.type_with(columns.points)).eps)
        one = OneAlpha.of(sums, basis, alpha, eps, fit_intercept=task.fit_intercept)
        return one, alpha, None
    every = FeatureRidge.of(sums, basis, fit_intercept=task.fit_intercept)
    return every, *task.choose(every, columns)


def _refined(
    task: RidgeTask, problem: FeatureRidge | OneAlpha, points: Points, penalty: Array, alpha: float
) -> tuple[Array, Array, float]:
    """The solution, improved against the kernel itself: residuals of a fused pass, solved again."""
    enough = _ENOUGH[task.type_with(points)]
    coefficients = np.zeros((len(points), task.n_targets))
    scale = float(np.linalg.norm(problem.moments.products)) or 1.0
    best, least = coefficients, np.inf
    step = problem.apply(problem.moments.products, alpha)
    for _ in range(_PASSES):
        coefficients = coefficients + step
        gradient = problem.moments.products - task.normal(
            points, problem.moments.plain_features, coefficients
        )
        gradient -= alpha * (penalty @ coefficients)
        size = float(np.linalg.norm(gradient)) / scale
        if size < least:
            best, least = coefficients, size
        if size <= enough or size > least:
            break
        step = problem.apply(gradient, alpha)
    return best, problem.intercept(best), least


def _trace_error(trace: float, problem: FeatureRidge | OneAlpha, sums: Array) -> float:
    """The share of the (weighted) trace of K that the landmarks do not carry.

    `sums` are those of the whitened features: an intercept takes their means out of the problem.
    """
    kept = problem.carried
    if problem.fit_intercept:
        kept += float(sums @ sums) / problem.moments.weight
    return max(0.0, 1 - kept / trace) if trace > 0 else 0.0


def _whitened_first(task: RidgeTask, features: WhitenedColumns) -> RidgeAnswer:
    """The same from rows that are whitened before they are squared: twice the work, all digits."""
    width = features.basis.shape[1]
    sums, trace = task.rows.total(
        FeatureMoments(features, width, task.middle, None, task.kernel)
    ).terms
    problem = FeatureRidge.of(sums, None, fit_intercept=task.fit_intercept)
    alpha, errors = task.choose(problem, features)
    inner, intercept = problem.solve(alpha)
    gradient = problem.moments.products - problem.moments.squares @ inner - alpha * inner
    scale = float(np.linalg.norm(problem.moments.products)) or 1.0
    quality = {
        "trace_error_": _trace_error(trace, problem, problem.moments.plain_features),
        "residual_": float(np.linalg.norm(gradient)) / scale,
        "effective_dof_": problem.effective_dof(alpha),
    }
    points, dual = features.columns.points, features.basis @ inner
    return RidgeAnswer(points, dual, intercept, alpha, quality, errors)


@dataclass(frozen=True)
class Falkon:
    """Preconditioned conjugate gradients on landmarks.

    Parameters
    ----------
    n_landmarks : int
        How many landmarks.
    landmarks : str, array of int, or points
        How they are chosen, as in `mercer.Nystrom`; by default at random.
    tol : float
        Relative residual of the preconditioned equations at which to stop.
    max_iter : int
        Passes over the data at most.
    random_state : int, RandomState or None
        Where the choice comes from.

    Notes
    -----
    Each iteration is one pass of C'(C v), in which each pair is evaluated once. The model gets
    ``n_iter_``, ``converged_``, ``residual_`` and ``residual_history_``. For a machine of another
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
    tol: float = 1e-7
    max_iter: int = 100
    random_state: Any = None

    def ridge(self, task: RidgeTask) -> RidgeAnswer:
        """Solve a ridge task.

        Parameters
        ----------
        task : RidgeTask
            The problem.

        Returns
        -------
        RidgeAnswer
            Coefficients over the landmarks.
        """
        alpha = task.the_alpha("Falkon")
        system = _FalkonSystem(task, _select(self, task), alpha)
        return iterate(task, system, 0.0, self.tol, self.max_iter)

    @property
    def direct(self) -> ByIterations:
        """How a machine's steps are computed: by iterations of n m operations each."""
        return ByIterations(self.tol, self.max_iter)


class _FalkonSystem:
    """B' (C'WC + alpha M) B with B near the inverse root of what is in brackets."""

    precondition = None

    def __init__(self, task: RidgeTask, chosen: Landmarks, alpha: float) -> None:
        points, self.rows = chosen.points, chosen.indices
        self.task, self.points, self.alpha = task, points, alpha
        self.penalty = task.penalty(points)
        m = len(points)
        eps = max(_LEAST_JITTER, m * float(np.finfo(task.kernel.gram(points).dtype).eps))
        jitter = eps * self.penalty.diagonal().mean()
        self.root = cholesky(self.penalty + jitter * np.eye(m))  # M = R'R
        share = task.rows.totals.weight / m
        inner = share * self.root @ self.root.T
        inner[np.diag_indices(m)] += alpha
        self.outer = cholesky(inner)  # A'A, close to R^-T (C'WC + alpha M) R^-1
        crossed = task.rows.total(CrossProducts(task.kernel, points, task.middle))
        self.sums, self.right = crossed[:, 0], self._inward(crossed[:, 1:])

    def multiply(self, vectors: Array) -> Array:
        """The preconditioned matrix times columns."""
        c = self._outward(vectors)
        normal = self.task.normal(self.points, self.sums, c)
        return self._inward(normal + self.alpha * (self.penalty @ c))

    def answer(self, progress: conjugate.Progress) -> RidgeAnswer:
        """Coefficients from where the iterations are."""
        c, task = self._outward(progress.solution), self.task
        intercept = task.middle
        if task.fit_intercept:
            intercept = intercept - self.sums @ c / task.rows.totals.weight
        return RidgeAnswer(self.points, c, intercept, self.alpha, rows=self.rows)

    def _outward(self, vectors: Array) -> Array:
        """B v = R^-1 A^-1 v."""
        found: Array = solve_triangular(self.root, solve_triangular(self.outer, vectors))
        return found

    def _inward(self, vectors: Array) -> Array:
        """B' v."""
        half = solve_triangular(self.root, vectors, trans="T")
        found: Array = solve_triangular(self.outer, half, trans="T")
        return found
