r"""The exact Gaussian process: its likelihood as a function of hyper-parameters, and its posterior.

Targets are standardised. Their mean is zero, or an unknown constant that is integrated out.

Where the noise is all that is learned, one eigendecomposition serves all evaluations of the
likelihood: with weights w of the rows and
:math:`W^{1/2} K W^{1/2} = V \operatorname{diag}(\lambda) V^\top`, targets of mean zero and of noise
s^2 / w_i have

.. math::
    -2 \log p(y) = \sum_i \log(\lambda_i + s^2) - \sum_i \log w_i
    + \sum_i \frac{z_i^2}{\lambda_i + s^2} + n \log 2\pi , \qquad z = V^\top W^{1/2} y .
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from mercer import memory
from mercer.arrays import LOG_2PI, Array
from mercer.checks import require_finite_values
from mercer.exceptions import ValidityError
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.cholesky import LADDER, Factor, factorise
from mercer.linalg.covariance import Covariance
from mercer.models.gaussian_process.row_order import order_of_decay
from mercer.models.gaussian_process.search_space import SearchSpace, Variance, without_bounds
from mercer.models.gaussian_process.targets import Noise, Scaling
from mercer.parallel import cached_property
from mercer.sampling import blocks
from mercer.solvers.likelihood.gaussian import NOISE, Gaussian, Precision
from mercer.solvers.likelihood.maximise import Objective, SubsampledObjective

#: What hyper-parameters can maximise, by the method of `Precision` that computes it.
CRITERIA = {
    "marginal_likelihood": Precision.log_likelihood_with_slope,
    "loo": Precision.loo_density_with_slope,
}

# Rows from which on a search begins with a pilot search on a subsample.
_PILOT_FROM = 1_000
# Rows up to which all of them are worth several starts.
_CHEAP_ROWS = 250
# A subsample has one row in this many.
_PILOT_SHARE = 8
# Rows that a subsample has at least.
_PILOT_ROWS = 250
# Starts of a pilot search, beside that of the whole search.
_PILOT_STARTS = 4
# Rows around which the close rows of a subsample lie.
_CENTRES = 4
# Rows beyond which an order is looked for in which their factor costs less.
_SORTED_FROM = 2_000
# Entries in one block of the matrix between new points and training points.
_BLOCK = 2**22
# Least variance of a function, in units of k(x, x): the rounding error of the difference.
_ROUNDING = float(np.finfo(np.float64).eps)
# Matrices of all pairs of new points that a covariance takes: correlations, and a factor of them.
_COVARIANCE_MATRICES = 4


@dataclass(frozen=True, eq=False)
class ExactObjective:
    """Targets, points, kernel and noise, as a function of the free hyper-parameters.

    The vector theta is ``kernel.theta``, followed by the logarithm of the noise's variance if that
    is learned.
    """

    kernel: Kernel  # the kernel, resolved
    points: Points  # the training points
    targets: Array  # (n, n_targets): targets of mean zero and variance about one
    noise: Noise
    constant: bool = False  # whether the mean is an unknown constant, and not zero

    @cached_property
    def space(self) -> SearchSpace:
        """The free hyper-parameters, their bounds and where they start."""
        squares = (self.targets**2).mean(axis=1)
        variance = float(np.average(squares, weights=self.noise.weights)) or 1.0
        space = SearchSpace.of(self.kernel, self.points, Variance(variance))
        if not self.noise.learned:
            return space
        return space.with_noise(self.noise.variance, variance, self.noise.bounds)

    @property
    def theta(self) -> Array:
        """The hyper-parameters of this kernel and noise."""
        noise = [np.log(self.noise.variance)] if self.noise.learned else []
        return np.concatenate([self.kernel.theta, noise])

    def at(self, theta: Array) -> ExactObjective:
        """Replace kernel and noise by those of theta."""
        if not self.noise.learned:
            return replace(self, kernel=self.kernel.with_theta(theta))
        noise = replace(self.noise, variance=float(np.exp(theta[-1])))
        return replace(self, kernel=self.kernel.with_theta(theta[:-1]), noise=noise)

    @property
    def noise_share(self) -> float:
        """The variance of the noise as a share of that of the function."""
        prior = float(np.mean(self.kernel.diag(self.points), dtype=np.float64))
        return float(np.mean(self.noise.diagonal())) / prior if prior > 0 else np.inf

    def unbounded(self) -> ExactObjective:
        """The objective for any theta, also outside the bounds of `Bounded` parameters."""
        return replace(self, kernel=without_bounds(self.kernel))

    def value(self, theta: Array) -> float:
        """The log marginal likelihood at theta."""
        return ExactPosterior.at(self, theta).log_likelihood()

    def value_and_gradient(
        self, theta: Array, criterion: str = "marginal_likelihood"
    ) -> tuple[float, Array]:
        """The criterion at theta and its gradient: one inverse, one contraction over all pairs."""
        data = self.at(theta)
        noise, n_targets = data.noise.diagonal(), self.targets.shape[1]
        gram = data.kernel.gram(self.points)
        matrix = gram.toarray().astype(np.float64, copy=False)
        precision = Precision.of(
            matrix, noise, self.targets, constant=self.constant, kernel=gram.kernel
        )
        value, slope = CRITERIA[criterion](precision)
        traces = slope.matrix.diagonal().copy()
        # Jitter is a fraction of the mean diagonal, and moves with it.
        np.fill_diagonal(slope.matrix, traces + precision.jitter.fraction * traces.mean())
        gradient = np.zeros(len(theta))
        size = len(theta) - self.noise.learned
        if size:
            gradient[:size] = gram.gradient(slope)
        copies, copies_slope = data.noise.copies()
        if self.noise.learned:
            gradient[-1] = np.sum(traces * noise) + n_targets * copies_slope
        return value + n_targets * copies, gradient

    def gaussian(self, order: NDArray[np.intp] | None = None) -> Gaussian:
        """The targets as draws of a Gaussian, from a factor of the rows in this order."""
        points, noise = self.points if order is None else self.points[order], self.noise.diagonal()
        gram = _finite(self.kernel.gram(points))
        return Gaussian.of(gram, noise, self.targets, constant=self.constant, order=order)

    def subsample(
        self, criterion: str = "marginal_likelihood", most: int | None = None
    ) -> SubsampledObjective | None:
        """The criterion on a subsample, of `most` rows at most; None for too few rows."""
        n = len(self.points)
        if n < _PILOT_FROM:
            return None
        number = max(_PILOT_ROWS, n // _PILOT_SHARE)
        rows = self._typical_rows(number if most is None else min(number, most))
        objective = partial(self.at_rows(rows).value_and_gradient, criterion=criterion)
        starts = self.space.restarts(_PILOT_STARTS, random_state=0)
        return SubsampledObjective(objective, len(rows) / n, starts)

    def starts(self, number: int, random_state: Any) -> Array:
        """`number` starts beside the given one, after some that are cheap for few rows."""
        cheap = self.space.restarts(_PILOT_STARTS if len(self.points) <= _CHEAP_ROWS else 0, 0)
        return np.vstack([cheap, self.space.restarts(number, random_state)])

    def at_rows(self, rows: NDArray[np.intp]) -> ExactObjective:
        """The objective of some rows."""
        points, targets = self.points[rows], self.targets[rows]
        return replace(self, points=points, targets=targets, noise=self.noise.at_rows(rows))

    def by_parts(self, theta: Array, most: int) -> Objective:
        """The sum of the criteria of parts of the rows, of at most `most` rows close to each other.

        Closeness is that of the kernel at theta. Parts count as independent of each other.
        """
        kernel = self.at(theta).kernel
        rows = neighbourhoods(kernel, self.points, most)
        parts = [self.at_rows(np.sort(part)) for part in rows]

        def total(theta: Array) -> tuple[float, Array]:
            values, slopes = zip(*(part.value_and_gradient(theta) for part in parts), strict=True)
            return sum(values), np.sum(slopes, axis=0)

        return total

    def followed_by(self, points: Points, targets: Array, factors: Array | None) -> ExactObjective:
        """The objective of all of these points, of which the last have these targets."""
        noise = self.noise.followed_by(factors, len(targets))
        return replace(self, points=points, targets=np.vstack([self.targets, targets]), noise=noise)

    def _typical_rows(self, number: int) -> NDArray[np.intp]:
        """Some rows, half of them anywhere and half around a few of those.

        Rows far apart show long length-scales, and close ones short length-scales and the noise: a
        thinner sample of all rows may have no close ones.
        """
        order = np.random.default_rng(0).permutation(len(self.points))
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order[: number // 2]] = True
        centres = order[:_CENTRES]
        nearness = self.kernel(self.points[centres], self.points)
        nearness /= np.sqrt(np.maximum(self.kernel.diag(self.points), np.finfo(float).tiny))
        for i, row in enumerate(nearness):
            wanted = (number - int(chosen.sum())) // (_CENTRES - i)
            others = np.flatnonzero(~chosen)
            chosen[others[np.argsort(-row[others], kind="stable")[:wanted]]] = True
        return np.flatnonzero(chosen)


@dataclass(frozen=True, eq=False)
class NoiseObjective:
    """The log marginal likelihood as a function of the noise alone, from eigenvalues."""

    eigenvalues: Array  # (n,)
    rotated: Array  # (n, t): the targets z in the basis of eigenvectors
    ones: Array  # (n, 1): the constant function in this basis; (n, 0) for a mean of zero
    data: ExactObjective

    @classmethod
    def of(cls, data: ExactObjective) -> NoiseObjective:
        """Decompose the matrix of a kernel that has no free parameters."""
        weights = data.noise.weights
        root = np.ones(len(data.points)) if weights is None else np.sqrt(weights)
        matrix = _finite(data.kernel.gram(data.points)) * (root[:, None] * root)
        eigenvalues, vectors = eigh(matrix, overwrite_a=True, check_finite=False)
        rotated = vectors.T @ (root[:, None] * data.targets)
        ones = vectors.T @ (root[:, None] * np.ones((1, int(data.constant))))
        return cls(np.maximum(eigenvalues, 0.0), rotated, ones, data)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """The log marginal likelihood and its derivative, in n operations."""
        noise, t = self.data.at(theta).noise, int(self.data.targets.shape[1])
        total = self.eigenvalues + noise.variance
        constant = float(np.sum(np.log(total))) + len(total) * LOG_2PI
        constant -= 0.0 if noise.weights is None else float(np.sum(np.log(noise.weights)))
        copies, copies_slope = noise.copies()
        columns = self.rotated
        if self.data.constant:
            information = float(np.sum(self.ones[:, 0] ** 2 / total))
            mean = self.ones.T @ (columns / total[:, None]) / information
            columns = np.hstack([columns - self.ones * mean, self.ones * np.sqrt(t / information)])
            constant += float(np.log(information)) - LOG_2PI
        squares = columns**2 / total[:, None]
        value = -0.5 * (t * constant + float(np.sum(squares[:, :t]))) + t * copies
        slope = 0.5 * float(np.sum((squares.sum(axis=1) - t) * noise.variance / total))
        return value, np.array([slope + t * copies_slope])


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """A Gaussian process conditioned on data, by the Cholesky factor of their covariance."""

    data: ExactObjective  # kernel, points, targets and noise, at the learned hyper-parameters
    gaussian: Gaussian  # the factor, and the coefficients of the mean

    @classmethod
    def at(cls, objective: ExactObjective, theta: Array) -> ExactPosterior:
        """Condition at these hyper-parameters."""
        data = objective.at(theta)
        many = len(data.points) > _SORTED_FROM
        gaussian = data.gaussian(order_of_decay(data.kernel, data.points) if many else None)
        if gaussian.factor.jitter and gaussian.factor.order is not None:
            gaussian = data.gaussian()  # the cause of jitter names rows of the data
        return cls(data, gaussian)

    @property
    def warning(self) -> str:
        """Why jitter was needed, as a clause; empty if it was not."""
        return self.gaussian.factor.warning()

    def log_likelihood(self) -> float:
        """The log marginal likelihood of the standardised targets, every copy of a row counted."""
        copies, _ = self.data.noise.copies()
        return self.gaussian.log_likelihood() + int(self.data.targets.shape[1]) * copies

    def attributes(self, scaling: Scaling) -> dict[str, Any]:
        """The attributes of a fitted model, in units of y."""
        dual, constant = self.gaussian.dual, self.gaussian.constant
        common = fitted_attributes(self.data, scaling, dual, self.log_likelihood(), constant)
        return common | {"jitter_": self.gaussian.factor.jitter, "_posterior": self}

    def variance(self, points: Points) -> Array:
        """The variance of the function at every point, in blocks."""
        parts = blocks(len(points), step=max(1, _BLOCK // len(self.data.points)))
        each = [self._variance(points[rows], *self._half_solved(points[rows])) for rows in parts]
        return np.concatenate(each)

    def covariance(self, points: Points) -> Covariance:
        """The covariance of the function at all points."""
        require_covariance(len(points))
        half, deviation = self._half_solved(points)
        matrix: Array = self.data.kernel(points).astype(np.float64, copy=False)
        matrix -= half.T @ half
        matrix += deviation[:, None] * deviation
        return Covariance.rounded(matrix, self._variance(points, half, deviation))

    def _variance(self, points: Points, half: Array, deviation: Array) -> Array:
        prior: Array = self.data.kernel.diag(points).astype(np.float64)
        # Rounding can make a variance negative where data determine the function.
        left = np.maximum(prior - np.einsum("ij,ij->j", half, half), _ROUNDING * prior)
        return np.asarray(left + deviation**2)

    def mean(self, points: Points) -> Array:
        """The mean at every point, one column for each target."""
        gram = self.data.kernel.gram(points, self.data.points)
        return np.asarray(gram @ self.gaussian.dual, dtype=np.float64) + self.gaussian.constant

    def draws(self, points: Points, number: int, rng: Any) -> Array:
        """Functions at all points, of shape (m, n_targets, number)."""
        return self.covariance(points).draws(self.mean(points), number, rng)

    def extended(self, points: Points, targets: Array, factors: Array | None) -> ExactPosterior:
        """The posterior after further rows, from the factor of the rows before."""
        data = self.data.followed_by(points, targets, factors)
        factor = self._extended_factor(points[len(self.data.points) :], factors)
        if factor is None:
            return ExactPosterior.at(data, data.theta)
        return ExactPosterior(data, Gaussian.solved(factor, data.targets, constant=data.constant))

    def leave_one_out(self) -> tuple[Array, Array]:
        """Residuals and variances of each target given all others."""
        return self.gaussian.leave_one_out()

    def _extended_factor(self, points: Points, factors: Array | None) -> Factor | None:
        """The factor with further rows; None if they leave the matrix close to singular.

        The whole matrix then decides how much jitter is needed, as it does in a fit.
        """
        data, factor = self.data, self.gaussian.factor
        if factor.jitter:
            return None
        corner = data.kernel(points).astype(np.float64)
        corner[np.diag_indices_from(corner)] += data.noise.variance * (
            1.0 if factors is None else factors
        )
        try:
            grown = factor.extended(data.kernel(data.points, points), corner)
        except ValidityError:
            return None
        new = grown.upper.diagonal()[len(data.points) :]
        return grown if np.all(new**2 > LADDER[0] * corner.diagonal()) else None

    def _half_solved(self, points: Points) -> tuple[Array, Array]:
        """L^-1 k(training points, points), and the deviation that the unknown constant adds."""
        cross = self.data.kernel(points, self.data.points).astype(np.float64, copy=False)
        deviation, mean = np.zeros(len(cross)), self.gaussian.mean
        if mean is not None:
            deviation = (1 - (cross @ mean.dual)[:, 0]) / np.sqrt(mean.information)
        return self.gaussian.factor.half_solve(cross.T), deviation


def _finite(gram: Gram) -> Array:
    """The values in float64, if all are finite: likelihoods differ by too little for float32."""
    matrix = gram.toarray().astype(np.float64, copy=False)
    return require_finite_values(matrix, gram.kernel)


def neighbourhoods(kernel: Kernel, points: Points, most: int) -> list[NDArray[np.intp]]:
    """Divide the rows into parts of at most `most` rows, by halving between two distant rows."""
    rng, waiting, parts = np.random.default_rng(0), [np.arange(len(points))], []
    norms = np.sqrt(np.maximum(kernel.diag(points), np.finfo(float).tiny))
    while waiting:
        rows = waiting.pop()
        if len(rows) <= most:
            parts.append(rows)
            continue
        among = points[rows]

        def similarity(row: int, rows: Any = rows, among: Any = among) -> Array:
            return np.asarray(kernel(points[[row]], among)[0] / norms[rows])

        first = rows[np.argmin(similarity(rows[rng.integers(len(rows))]))]
        towards = similarity(first)
        order = np.argsort(towards - similarity(rows[np.argmin(towards)]), kind="stable")
        waiting += [rows[half] for half in np.array_split(order, 2)]
    return parts


def fitted_attributes(
    data: ExactObjective,
    scaling: Scaling,
    dual: Array,
    log_likelihood: float,
    constant: Array,
) -> dict[str, Any]:
    """The attributes that a fitted model has for any posterior, in units of y."""
    noise, squares = data.noise, scaling.squares
    volume = scaling.log_volume(noise.n_rows(len(data.targets)) - data.constant)
    names = [*data.kernel.theta_names, "noise"] if noise.learned else data.kernel.theta_names
    return {
        "kernel_": data.kernel,
        "noise_": scaling.number(noise.variance * squares)
        if noise.factors is None
        else noise.factors * squares[0],
        "dual_coef_": scaling.shaped(dual * scaling.scale),
        "intercept_": scaling.number(scaling.mean + scaling.scale * constant),
        "y_scale_": scaling.number(scaling.scale),
        "log_marginal_likelihood_": log_likelihood - volume,
        "theta_": data.theta,
        "theta_names_": tuple(names),
        "points_": data.points,
        "jitter_": 0.0,
        "_objective": data,
        "_scaling": scaling,
        "_log_volume": volume,
    }


def prior_draws(kernel: Kernel, points: Points, number: int, rng: Any) -> Array:
    """Functions at all points, from the prior."""
    require_covariance(len(points))
    factor = factorise(kernel(points).astype(np.float64), 0.0, NOISE)
    return factor.multiply(rng.standard_normal((len(points), number)))


def require_covariance(n: int) -> None:
    """Refuse a covariance of n points that does not fit in memory."""
    what = f"GaussianProcessRegressor: a covariance of {n} points"
    memory.require(_COVARIANCE_MATRICES * 8 * n * n, what, "pass fewer rows")
