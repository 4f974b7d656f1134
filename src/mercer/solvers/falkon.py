r"""Ridge regression on landmarks by conjugate gradients, preconditioned by the landmarks alone.

With C = k(X, Z), M = k(Z, Z) and m landmarks that are a fair sample of rows of total weight w,
C'WC is about (w / m) M^2. So, with M = R'R,

.. math:: R^{-\top} (C^\top W C + \alpha M)\, R^{-1} \approx \frac{w}{m} R R^\top + \alpha I ,

the inverse of which makes the number of iterations small. See Rudi, Carratino and Rosasco (2017),
FALKON: an optimal large scale kernel method.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from mercer.kernels.points import Points
from mercer.solvers import conjugate
from mercer.solvers.iterative import check_limits, least_tolerance
from mercer.solvers.landmark_equations import independent
from mercer.solvers.paths import PathAnswer
from mercer.solvers.summands import CrossProducts
from mercer.solvers.task import RidgeAnswer, RidgeTask

Array = NDArray[np.floating[Any]]

# Directions of M below this share of its diagonal are too short for the preconditioner to lengthen.
_LEAST_JITTER = 1e-11
# Residuals of all iterations may take this much, or as much as the matrix of the landmarks.
_RESIDUAL_BYTES = 2**27
# A pivot of M with jitter that is no more than so many times the jitter may be one of a duplicate.
_SHORT = 4.0
_LEVERS = "max_iter or alpha"


class FalkonSystem:
    """B' (C'WC + alpha M) B with B near the inverse root of what is in brackets.

    Landmarks that add nothing, such as duplicates, are left out: no iteration could tell how much
    each of them carries. Their coefficients are zero.

    Parameters
    ----------
    task : RidgeTask
        The problem.
    points : Points
        The landmarks.
    alpha : float
        The weight of the squared norm.
    max_iter : int
        How many iterations there may be.
    """

    precondition = None
    levers = _LEVERS

    def __init__(self, task: RidgeTask, points: Points, alpha: float, max_iter: int) -> None:
        self.task, self.landmarks, self.alpha = task, points, alpha
        self.penalty = task.penalty(points)
        self.kept = np.arange(len(points))
        jitter = _jitter(task, points, self.penalty)
        self.root = self._rooted(jitter)
        if np.min(self.root.diagonal()) ** 2 <= _SHORT * jitter:
            kept = np.sort(independent(task, points, self.penalty).kept)
            self.kept = kept if len(kept) else self.kept[:1]
            self.penalty = self.penalty[np.ix_(self.kept, self.kept)]
            self.root = self._rooted(jitter)
        m = len(self.kept)
        residuals = 8 * m * task.n_targets * max_iter
        self.keeps_apart = residuals <= max(_RESIDUAL_BYTES, self.penalty.nbytes)
        self.points = points if m == len(points) else points[self.kept].detached()
        inner = task.rows.totals.weight / m * self.root @ self.root.T
        inner[np.diag_indices(m)] += alpha
        self.outer = cholesky(inner)  # A'A, close to R^-T (C'WC + alpha M) R^-1
        crossed = task.rows.total(CrossProducts(task.kernel, self.points, task.middle))
        self.sums, self.right = crossed[:, 0], self._inward(crossed[:, 1:])

    def _rooted(self, jitter: float) -> Array:
        """R with R'R = M."""
        root: Array = cholesky(self.penalty + jitter * np.eye(len(self.penalty)))
        return root

    def multiply(self, vectors: Array) -> Array:
        """The preconditioned matrix times columns."""
        c = self._outward(vectors)
        normal = self.task.normal(self.points, self.sums, c)
        return self._inward(normal + self.alpha * (self.penalty @ c))

    def answer(self, progress: conjugate.Progress) -> RidgeAnswer:
        """Coefficients from where the iterations are."""
        c = self._outward(progress.solution)
        dual = np.zeros((len(self.landmarks), c.shape[1]))
        dual[self.kept] = c
        intercept = _intercept(self.task, self.sums, c)
        return RidgeAnswer(self.landmarks, dual, intercept, self.alpha)

    def _outward(self, vectors: Array) -> Array:
        """B v = R^-1 A^-1 v."""
        found: Array = solve_triangular(self.root, solve_triangular(self.outer, vectors))
        return found

    def _inward(self, vectors: Array) -> Array:
        """B' v."""
        half = solve_triangular(self.root, vectors, trans="T")
        found: Array = solve_triangular(self.outer, half, trans="T")
        return found


def falkon_path(task: RidgeTask, points: Points, tol: float, max_iter: int) -> PathAnswer:
    """Solve at each alpha; all of them share every pass over the rows.

    In the eigenvectors of M, scaled to make it the identity, alpha is a shift of the matrix, and
    the preconditioner is diagonal for every alpha.

    Parameters
    ----------
    task : RidgeTask
        The problem, with the alphas.
    points : Points
        The landmarks.
    tol : float
        Relative residual at which to stop.
    max_iter : int
        Passes over the data at most.

    Returns
    -------
    PathAnswer
        Coefficients over the landmarks, without errors and degrees of freedom.
    """
    check_limits(task.owner, tol, max_iter)
    penalty, alphas = task.penalty(points), task.alphas
    values, vectors = eigh(penalty)
    long = values > _jitter(task, points, penalty)
    values, basis = values[long], vectors[:, long] / np.sqrt(values[long])
    crossed = task.rows.total(CrossProducts(task.kernel, points, task.middle))
    sums, right = crossed[:, 0], basis.T @ crossed[:, 1:]
    expected = (task.rows.totals.weight / len(points) * values)[:, None]
    progress = conjugate.solve(
        lambda V: basis.T @ task.normal(points, sums, basis @ V),
        np.tile(right, len(alphas)),
        np.repeat(alphas, right.shape[1]),
        precondition=lambda V, shifts: V / (expected + shifts),
        tol=least_tolerance(task, tol),
        max_iter=max_iter,
    )
    found = np.split(basis @ progress.solution, len(alphas), axis=1)
    unknown = np.full(len(alphas), np.nan)
    return PathAnswer(
        points,
        np.stack(found),
        np.stack([_intercept(task, sums, c) for c in found]),
        unknown,
        unknown,
        unknown,
        doubt=conjugate.complaint(progress, _LEVERS),
    )


def _jitter(task: RidgeTask, points: Points, penalty: Array) -> float:
    """How short directions of M may be: a share of its diagonal."""
    rounding = len(points) * float(np.finfo(task.type_with(points)).eps)
    return max(_LEAST_JITTER, rounding) * (float(penalty.diagonal().mean()) or 1.0)


def _intercept(task: RidgeTask, sums: Array, coefficients: Array) -> Array:
    """The constant that goes with coefficients, C'w being `sums`."""
    if not task.fit_intercept:
        return task.middle
    found: Array = task.middle - sums @ coefficients / task.rows.totals.weight
    return found
