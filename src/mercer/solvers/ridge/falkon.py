r"""Ridge regression on landmarks by conjugate gradients, preconditioned by a sample of the rows.

With C = k(X, Z), M = k(Z, Z) = R'R, rows of total weight w, and C_s the rows of a sample of them of
total weight w_s,

.. math:: R^{-\top} (C^\top W C + \alpha M)\, R^{-1} \approx
    \frac{w}{w_s} R^{-\top} C_s^\top W_s C_s R^{-1} + \alpha I ,

the inverse of which makes the number of iterations small. Rudi, Carratino and Rosasco (2017),
FALKON: an optimal large scale kernel method, take the landmarks for the sample; a few rows for each
landmark do with fewer iterations, and with landmarks that are no fair sample. With an intercept,
the rows of both sides are taken about their means: a function that is nearly constant then costs
nothing but alpha, and a preconditioner that did not know would hide it behind a small residual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg import conjugate_gradient
from mercer.linalg.whitening import Whitening, whiten
from mercer.rows.sums import CentredProduct, CrossProducts, FeatureMoments
from mercer.solvers.protocol import PathAnswer, RidgeAnswer, RidgeTask
from mercer.solvers.ridge.iterations import Stopped, least_tolerance
from mercer.solvers.ridge.ranges import require_range

Array = NDArray[np.floating[Any]]

# Landmarks that others explain but for this share of the largest diagonal of M are left out: what
# rounding does to sums over rows, seen along them, would exceed what they carry.
_SHORT = 1e-11
# Residuals of all iterations may take this much, or as much as the matrix of the landmarks.
_RESIDUAL_BYTES = 2**27
# The share of the tolerance that rounding of means may take in a product.
_SAFE = 0.1
# Units of rounding by which a mean may be wrong, in those of the values.
_ROUNDING = 4
_LEVERS = "max_iter or alpha"
# Rows of the sample for each landmark: the first where there are many landmarks, the last where
# there are few, and in between as many as make so many kernel values.
_ROWS_FOR_EACH = 2, 8
_SAMPLE_VALUES = 2**24


@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """Kernel values with landmarks, in double precision and coordinates where M is the identity."""

    kernel: Kernel
    points: Points  # the landmarks that are kept
    whitening: Whitening  # their triangle

    def __call__(self, points: Points) -> Array:
        """Rows of values."""
        cross = self.kernel(points, self.points).astype(np.float64, copy=False)
        return self.whitening.apply(cross)


@dataclass(frozen=True, eq=False)
class Sample:
    """The landmarks as coordinates, and as a sample of the rows.

    Landmarks that add nothing, such as duplicates, carry no coefficient: no iteration could tell
    how much each of them does. As rows they count.
    """

    task: RidgeTask  # the problem
    landmarks: Points  # all of them
    kept: NDArray[np.intp]  # (k,): those that carry coefficients
    points: Points  # the same as points
    penalty: Array  # (k, k): the matrix M of these
    root: Array  # (k, k): R, upper triangular, with R'R = M
    # (k, k): about R^-T C'WC R^-1, from a sample of rows; about the means with an intercept
    covariance: Array
    trace_error: float  # the share of the trace of K of that sample that the landmarks leave out

    @classmethod
    def of(cls, task: RidgeTask, points: Points) -> Sample:
        """Look at landmarks."""
        penalty, m = task.penalty(points), len(points)
        require_range(task, penalty)
        rounding = m * float(np.finfo(task.type_with(points)).eps)
        found, used = _whitened(penalty, max(_SHORT, rounding)), points
        if found.rank < m:
            used = points[found.kept].detached()
        if found.rank < m or (found.kept != np.arange(m)).any():
            penalty = penalty[np.ix_(found.kept, found.kept)]
        seen = _covariance(task, WhitenedRows(task.kernel, used, found))
        return cls(task, points, found.kept, used, penalty, found.upper, *seen)

    def crossed(self) -> tuple[Array, Array]:
        """C'w, and C'W times the targets, by a pass over the rows."""
        found = self.task.rows.map_sum(
            CrossProducts(self.task.kernel, self.points, self.task.middle)
        )
        require_range(self.task, found)
        return found[:, 0], found[:, 1:]

    def normal(self, sums: Array, coefficients: Array, *, fused: bool) -> Array:
        """C'WC c, about the means with an intercept."""
        task = self.task
        if fused or not task.fit_intercept:
            return task.normal(self.points, sums, coefficients)
        weight = task.rows.statistics.weight
        middle = sums @ coefficients / weight
        product = CentredProduct(task.kernel, self.points, coefficients, middle)
        found = task.rows.map_sum(product)
        return found[:-1] - np.outer(sums, found[-1] / weight)

    def spread(self, coefficients: Array) -> Array:
        """Coefficients of all landmarks from those of the ones that are kept."""
        dual = np.zeros((*coefficients.shape[:-2], len(self.landmarks), coefficients.shape[-1]))
        dual[..., self.kept, :] = coefficients
        return dual

    def intercept(self, sums: Array, coefficients: Array) -> Array:
        """The constant that goes with coefficients, C'w being `sums`."""
        if not self.task.fit_intercept:
            return self.task.middle
        found: Array = self.task.middle - sums @ coefficients / self.task.rows.statistics.weight
        return found


class FalkonSystem:
    """B' (C'WC + alpha M) B with B near the inverse root of what is in brackets."""

    precondition = None
    levers = _LEVERS

    def __init__(
        self,
        task: RidgeTask,
        points: Points,
        tol: float,
        max_iter: int,
        stopped: Stopped | None = None,
    ) -> None:
        alpha = float(task.alphas[0])
        self.task, self.alpha, self.sample = task, alpha, Sample.of(task, points)
        self.stopped = stopped
        m = len(self.sample.kept)
        residuals = 8 * m * task.n_targets * max_iter
        self.keeps_apart = residuals <= max(_RESIDUAL_BYTES, self.sample.penalty.nbytes)
        inner = self.sample.covariance.copy()
        inner[np.diag_indices(m)] += alpha
        self.outer = cholesky(inner)  # A'A, close to R^-T (C'WC + alpha M) R^-1
        self.sums, right = self.sample.crossed()
        self.right = self._inward(right)
        pull = float(np.linalg.norm(self._inward(self.sums[:, None])))
        eps = float(np.finfo(task.type_with(points)).eps)
        # A mean is known up to rounding of the values; an intercept takes back what is wrong of it.
        mean = _ROUNDING * eps * pull / float(np.sqrt(task.rows.statistics.weight))
        self.floor = mean if task.fit_intercept else 0.0
        # How long coefficients may be for rounding of their function's mean to be no matter.
        self.longest = _SAFE * least_tolerance(task, tol) / (eps * pull) if pull else np.inf

    def multiply(self, vectors: Array) -> Array:
        """The preconditioned matrix times columns."""
        c = self._outward(vectors)
        safe = (np.linalg.norm(c, axis=0) <= self.longest * np.linalg.norm(vectors, axis=0)).all()
        normal = self.sample.normal(self.sums, c, fused=bool(safe))
        return self._inward(normal + self.alpha * (self.sample.penalty @ c))

    def answer(self, progress: conjugate_gradient.Progress) -> RidgeAnswer:
        """Coefficients from where the iterations are."""
        c, sample = self._outward(progress.solution), self.sample
        intercept = sample.intercept(self.sums, c)
        quality = {"trace_error_": sample.trace_error}
        state = None if self.stopped is None else replace(self.stopped, state=progress.state)
        dual = sample.spread(c)
        return RidgeAnswer(sample.landmarks, dual, intercept, self.alpha, quality, state=state)

    def _outward(self, vectors: Array) -> Array:
        """B v = R^-1 A^-1 v."""
        found: Array = solve_triangular(self.sample.root, solve_triangular(self.outer, vectors))
        return found

    def _inward(self, vectors: Array) -> Array:
        """B' v."""
        half = solve_triangular(self.sample.root, vectors, trans="T")
        found: Array = solve_triangular(self.outer, half, trans="T")
        return found


def falkon_path(task: RidgeTask, points: Points, tol: float, max_iter: int) -> PathAnswer:
    """Solve at each alpha; all of them share every pass over the rows.

    In coordinates where M is the identity alpha is a shift of the matrix, and in the eigenvectors
    of what the landmarks make of C'WC the preconditioner is diagonal for every alpha.
    """
    sample, alphas = Sample.of(task, points), task.alphas
    values, vectors = eigh(sample.covariance)
    expected, basis = np.maximum(values, 0.0)[:, None], solve_triangular(sample.root, vectors)
    sums, right = sample.crossed()
    right = basis.T @ right
    progress = conjugate_gradient.solve(
        lambda V: basis.T @ sample.normal(sums, basis @ V, fused=False),
        np.tile(right, len(alphas)),
        np.repeat(alphas, right.shape[1]),
        precondition=lambda V, shifts: V / (expected + shifts),
        tol=least_tolerance(task, tol),
        max_iter=max_iter,
    )
    found = np.stack(np.split(basis @ progress.solution, len(alphas), axis=1))
    unknown = np.full(len(alphas), np.nan)
    return PathAnswer(
        points,
        sample.spread(found),
        np.stack([sample.intercept(sums, c) for c in found]),
        unknown,
        unknown,
        unknown,
        doubt=conjugate_gradient.complaint(progress, _LEVERS),
    )


def _whitened(penalty: Array, short: float) -> Whitening:
    """The landmarks that others do not explain, and R.

    The plain factor, which is the fastest, tells whether there is anything to leave out.
    """
    everything = np.arange(len(penalty))
    least = short * float(np.max(penalty.diagonal(), initial=0.0))
    try:
        root: Array = cholesky(penalty)
    except LinAlgError:
        root = np.zeros((1, 1))
    if np.min(root.diagonal()) ** 2 > least:
        return Whitening(everything, np.asfortranarray(root))
    found = whiten(penalty, tol=short)
    # Of a kernel that is zero any landmark will do.
    return found if found.rank else Whitening(everything[:1], np.ones((1, 1)))


def _covariance(task: RidgeTask, features: WhitenedRows) -> tuple[Array, float]:
    """The sum of w phi phi' over all rows, about means with an intercept, from a sample of them.

    And the share of the trace of K of these rows that the features phi leave out.
    """
    m = len(features.points)
    least, most = _ROWS_FOR_EACH
    size = max(least * m, min(most * m, _SAMPLE_VALUES // m))
    summand = FeatureMoments(features, m, task.middle, task.kernel)
    sums, trace = task.of_sample(size, summand).terms
    require_range(task, sums.squares)
    squares = sums.used(fit_intercept=task.fit_intercept).squares
    found: Array = squares * (task.rows.statistics.weight / sums.weight)
    carried = float(np.trace(sums.plain().squares))
    return found, max(0.0, 1 - carried / trace) if trace > 0 else 0.0
