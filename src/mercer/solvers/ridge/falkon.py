r"""Ridge regression on landmarks by conjugate gradients, preconditioned by a sample of the rows.

With C = k(X, Z), M = k(Z, Z) = R'R, rows of total weight w, and C_s the rows of a sample of them of
total weight w_s,

.. math:: R^{-\top} (C^\top W C + \alpha M)\, R^{-1} \approx
    \frac{w}{w_s} R^{-\top} C_s^\top W_s C_s R^{-1} + \alpha I .

The inverse of the right-hand side is the preconditioner. Rudi, Carratino and Rosasco (2017),
FALKON: an optimal large scale kernel method, use the landmarks as the sample. A sample of a few
rows per landmark needs fewer iterations, and allows landmarks that are not a fair sample of the
rows. With an intercept, both sides are centred: without centring, the preconditioner would give a
small residual to functions that are nearly constant.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, eigh, solve_triangular

from mercer.arrays import Array
from mercer.kernels.points import Points
from mercer.landmarks.features import LandmarkFeatures
from mercer.linalg.blocked import cholesky
from mercer.linalg.conjugate_gradient import Precondition
from mercer.linalg.whitening import Whitening, whiten
from mercer.rows.moments import require_finite
from mercer.rows.sums import CentredProduct, CrossProducts, FeatureMoments, among
from mercer.solvers.protocol import RidgeTask
from mercer.solvers.ridge.iterations import least_tolerance
from mercer.solvers.ridge.landmarks import normal_product

# A landmark is left out if the others explain k(z, z) up to this share of the largest k(z, z).
_DEPENDENT = 1e-11
# Memory for the residuals of all iterations, in bytes, or that of the matrix M if it is larger.
_RESIDUAL_BYTES = 2**27
# Largest effect of rounded means in a product, relative to the tolerance.
_ROUNDING_SHARE = 0.1
# Rounding error of a mean, in rounding units of the values.
_MEAN_ERROR = 4
# Smallest number of sampled rows per landmark.
_LEAST_ROWS = 2
# Largest number of sampled rows per landmark.
_MOST_ROWS = 8
# Number of kernel values of the sample, within those limits.
_SAMPLE_VALUES = 2**24


class FalkonSystem:
    """The equations in coordinates where M is the identity; C is centred if there is an intercept.

    At one alpha the coordinates are c = R^-1 A^-1 v, with A the Cholesky factor of the sample's
    estimate of the matrix. At several, the eigenvectors of that estimate precondition each alpha.
    """

    remedies = "max_iter or alpha"

    def __init__(self, task: RidgeTask, points: Points, tol: float, max_iter: int) -> None:
        self.task, self.points = task, points
        self.features, self.penalty = _whitened(task, points)
        covariance, trace_error = _covariance(task, self.features)
        self.quality = {"trace_error_": trace_error}
        alphas, width = task.alphas, task.n_targets
        self.outer: Array | None = None
        self.precondition: Precondition | None = None
        if len(alphas) == 1:
            self.outer = cholesky(covariance + float(alphas[0]) * np.eye(len(covariance)))
            self.shifts: Array | float = 0.0
        else:
            self.shifts = np.repeat(alphas, width)
            self.precondition = _by_eigenvectors(covariance)
        crossed = task.rows.map_sum(CrossProducts(task.kernel, self.features.points, task.middle))
        require_finite(crossed)
        self.sums, right = crossed[:, 0], crossed[:, 1:]
        self.right = np.tile(self._gradient_to_coordinates(right), len(alphas))
        residuals = 8 * len(covariance) * width * max_iter
        room = max(_RESIDUAL_BYTES, self.penalty.nbytes)
        self.orthogonal = len(alphas) == 1 and residuals <= room
        sums_norm = float(np.linalg.norm(self._gradient_to_coordinates(self.sums[:, None])))
        eps = float(np.finfo(task.type_with(points)).eps)
        # An intercept absorbs the rounding error of a mean.
        mean = _MEAN_ERROR * eps * sums_norm / float(np.sqrt(task.rows.statistics.weight))
        self.floor = mean if task.fit_intercept else 0.0
        # Largest norm of coefficients at which rounding of the mean of their function is harmless.
        self.longest = 0.0
        if len(alphas) == 1:
            share = _ROUNDING_SHARE * least_tolerance(task, tol)
            self.longest = share / (eps * sums_norm) if sums_norm else np.inf

    def multiply(self, vectors: Array) -> Array:
        """The matrix in coordinates times columns."""
        c = self._to_coefficients(vectors)
        safe = (np.linalg.norm(c, axis=0) <= self.longest * np.linalg.norm(vectors, axis=0)).all()
        product = self._normal_product(c, fused=bool(safe))
        if self.outer is not None:
            product = product + float(self.task.alphas[0]) * (self.penalty @ c)
        return self._gradient_to_coordinates(product)

    def _normal_product(self, coefficients: Array, *, fused: bool) -> Array:
        """C'WC c; the fused product evaluates each pair once, and subtracts means afterwards."""
        task, points = self.task, self.features.points
        if fused or not task.fit_intercept:
            return normal_product(task, points, self.sums, coefficients)
        weight = task.rows.statistics.weight
        middle = self.sums @ coefficients / weight
        product = task.rows.map_sum(CentredProduct(task.kernel, points, coefficients, middle))
        return product[:-1] - np.outer(self.sums, product[-1] / weight)

    def coefficients(self, solution: Array) -> tuple[Array, Array]:
        """Coefficients of all landmarks and intercepts, at each alpha."""
        task = self.task
        parts = np.stack(np.split(self._to_coefficients(solution), len(task.alphas), axis=1))
        means = self.sums @ parts / task.rows.statistics.weight
        intercepts = task.middle - (means if task.fit_intercept else np.zeros_like(means))
        return self.features.of_all_landmarks(parts), intercepts

    def _to_coefficients(self, vectors: Array) -> Array:
        """R^-1 [A^-1] v."""
        inner = vectors if self.outer is None else solve_triangular(self.outer, vectors)
        return self.features.to_coefficients(inner)

    def _gradient_to_coordinates(self, gradient: Array) -> Array:
        """[A^-T] R^-T g."""
        inner = self.features.whitening.gradient_to_coordinates(gradient)
        if self.outer is None:
            return inner
        solved: Array = solve_triangular(self.outer, inner, trans="T")
        return solved


def _by_eigenvectors(covariance: Array) -> Precondition:
    """A preconditioner: the inverse of the covariance plus a shift."""
    values, vectors = eigh(covariance)
    expected = np.maximum(values, 0.0)[:, None]
    return lambda V, shifts: vectors @ ((vectors.T @ V) / (expected + shifts))


def _whitened(task: RidgeTask, points: Points) -> tuple[LandmarkFeatures, Array]:
    """Features of the landmarks that others do not explain, and the matrix M of these landmarks."""
    square = among(task.kernel, points)
    require_finite(square)
    rounding = len(points) * float(np.finfo(task.type_with(points)).eps)
    whitening = _independent(square, max(_DEPENDENT, rounding))
    features = LandmarkFeatures.of(task.kernel, points, whitening)
    kept = features.whitening.kept
    if not np.array_equal(kept, np.arange(len(points))):
        square = square[np.ix_(kept, kept)]
    return features, square


def _independent(square: Array, tol: float) -> Whitening:
    """The landmarks that others do not explain, and R.

    A Cholesky factor without pivots, which is faster, is tried first.
    """
    try:
        root = cholesky(square.copy())
    except LinAlgError:
        return whiten(square, tol=tol)
    least = tol * float(np.max(square.diagonal(), initial=0.0))
    if np.min(root.diagonal()) ** 2 > least:
        return Whitening(np.arange(len(square)), np.asfortranarray(root))
    return whiten(square, tol=tol)


def sample_size(m: int) -> int:
    """The number of rows of the sample, if there are as many, for m landmarks."""
    return max(_LEAST_ROWS * m, min(_MOST_ROWS * m, _SAMPLE_VALUES // m))


def _covariance(task: RidgeTask, features: LandmarkFeatures) -> tuple[Array, float]:
    """Estimate the sum of w phi phi' over all rows, centred with an intercept, from a sample.

    Also return the share of the trace of K of the sample that the features do not explain.
    """
    m = features.width
    size = sample_size(m)
    summand = FeatureMoments(features, m, task.middle, task.kernel)
    sums, trace = task.of_sample(size, summand).terms
    squares = sums.used(fit_intercept=task.fit_intercept).squares
    covariance: Array = squares * (task.rows.statistics.weight / sums.weight)
    explained = float(np.trace(sums.plain().squares))
    return covariance, max(0.0, 1 - explained / trace) if trace > 0 else 0.0
