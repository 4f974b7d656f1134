"""A Gaussian process after it has seen data, in standardised targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer import memory
from mercer.exceptions import ValidityError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.cholesky import LADDER, Factor, factorise
from mercer.models.gaussian_process.exact import GaussianEvidence
from mercer.models.gaussian_process.noise import Noise
from mercer.models.gaussian_process.target_scaling import Scaling
from mercer.solvers.likelihood.gaussian import NOISE, Gaussian

Array = NDArray[np.floating[Any]]

# Numbers in one block of the matrix between new points and training points.
_CHUNK = 2**22


@dataclass(frozen=True, eq=False)
class Posterior:
    """A kernel and noise, the data, and the factor of their covariance."""

    # kernel, points, standardised targets and noise, at learned hyper-parameters
    evidence: GaussianEvidence
    # the factor of the covariance of the targets, and the coefficients of the mean
    gaussian: Gaussian

    @classmethod
    def at(cls, evidence: GaussianEvidence, theta: Array) -> Posterior:
        """Condition at these hyper-parameters."""
        kernel, variance = evidence.at(theta)
        noise = replace(evidence.noise, variance=variance)
        settled = replace(evidence, kernel=kernel, noise=noise)
        return cls(settled, settled.gaussian(kernel, variance))

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.evidence.kernel

    @property
    def points(self) -> Points:
        """The training points."""
        return self.evidence.points

    @property
    def noise(self) -> Noise:
        """The noise."""
        return self.evidence.noise

    @property
    def dual(self) -> Array:
        """The coefficients of the mean."""
        return self.gaussian.dual

    @property
    def training_points(self) -> Points:
        """All rows."""
        return self.evidence.points

    @property
    def targets(self) -> Array:
        """The standardised targets."""
        return self.gaussian.targets

    @property
    def complaint(self) -> str:
        """What is doubtful, as a clause."""
        return self.gaussian.factor.complaint()

    def log_likelihood(self) -> float:
        """The log marginal likelihood of the standardised targets."""
        return self.evidence.log_likelihood(self.gaussian, self.evidence.noise.variance)

    def attributes(self, scaling: Scaling) -> dict[str, Any]:
        """What a fitted model stores, in units of y."""
        return fitted_attributes(self, scaling, self.evidence.theta, self.evidence.names) | {
            "jitter_": self.gaussian.factor.jitter
        }

    def variance(self, points: Points) -> Array:
        """The variance of the function at every point, in chunks."""
        variance: Array = self.kernel.diag(points).astype(np.float64)
        for rows in _chunks(len(points), len(self.points)):
            half = self._half_solved(points[rows])
            variance[rows] -= np.einsum("ij,ij->j", half, half)
        # Rounding can take what data pin down below zero.
        return np.maximum(variance, 0.0)

    def covariance(self, points: Points) -> Array:
        """The covariance of the function at all points."""
        half = self._half_solved(points)
        covariance: Array = self.kernel(points).astype(np.float64, copy=False)
        covariance -= half.T @ half
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), 0.0))
        return covariance

    def drawn_together(self, m: int) -> int:
        """Of how many values `draws` needs the covariance, at m points."""
        return m + len(self.points)

    def draws(self, points: Points, number: int, rng: Any) -> Array:
        """Functions at all points, f + k(x, X) G^-1 (y - f(X) - e), f and e from the prior."""
        m, n = len(points), len(self.points)
        joint = np.empty((m + n, m + n))
        joint[:m, :m], joint[m:, m:] = self.kernel(points), self.kernel(self.points)
        joint[:m, m:] = self.kernel(points, self.points)
        joint[m:, :m] = joint[:m, m:].T
        cross = joint[:m, m:].copy()
        outputs = self.gaussian.n_targets * number
        paths = factorise(joint, 0.0, NOISE).multiply(rng.standard_normal((m + n, outputs)))
        noise = self.evidence.noise
        deviation = np.sqrt(np.broadcast_to(noise.diagonal(noise.variance), (n,)))
        errors = deviation[:, None] * rng.standard_normal((n, outputs))
        surprise = np.repeat(self.gaussian.targets, number, axis=1) - paths[m:] - errors
        drawn: Array = paths[:m] + cross @ self.gaussian.factor.solve(surprise)
        return drawn.reshape(m, -1, number)

    def extended(self, points: Points, targets: Array, factors: Array | None) -> Posterior:
        """The posterior after further rows, from the factor that there is."""
        known = self.evidence
        evidence = replace(
            known,
            points=points,
            targets=np.vstack([known.targets, targets]),
            noise=known.noise.followed_by(factors, len(targets)),
        )
        factor = self._extended_factor(points[len(known.points) :], factors)
        if factor is None:
            return Posterior(evidence, evidence.gaussian(self.kernel, known.noise.variance))
        dual = factor.solve(evidence.targets)
        return Posterior(evidence, Gaussian(factor, evidence.targets, dual))

    def leave_one_out(self) -> tuple[Array, Array]:
        """Residuals and variances of each target given all others."""
        return self.gaussian.leave_one_out()

    def loo_density(self) -> float:
        """The log density of all targets, each given the others."""
        return self.gaussian.loo_density()

    def _extended_factor(self, points: Points, factors: Array | None) -> Factor | None:
        """The factor with further rows; None if they leave the matrix close to singular.

        What jitter is needed is then a question to the whole matrix, as it is in a fit.
        """
        factor = self.gaussian.factor
        if factor.jitter:
            return None
        corner = self.kernel(points).astype(np.float64)
        corner[np.diag_indices_from(corner)] += self.evidence.noise.variance * (
            1.0 if factors is None else factors
        )
        try:
            grown = factor.extended(self.kernel(self.points, points), corner)
        except ValidityError:
            return None
        new = grown.upper.diagonal()[len(self.points) :]
        return grown if np.all(new**2 > LADDER[0] * corner.diagonal()) else None

    def _half_solved(self, points: Points) -> Array:
        """L^-1 k(training points, points)."""
        cross = self.kernel(points, self.points).astype(np.float64, copy=False)
        half: Array = self.gaussian.factor.half_solve(cross.T)
        return half


class Conditioned(Protocol):
    """What every posterior says of itself."""

    @property
    def kernel(self) -> Kernel:
        """The kernel."""

    @property
    def noise(self) -> Noise:
        """The noise."""

    @property
    def targets(self) -> Array:
        """The standardised targets."""

    @property
    def points(self) -> Points:
        """The points that carry the mean."""

    @property
    def dual(self) -> Array:
        """Their coefficients."""

    def log_likelihood(self) -> float:
        """The log marginal likelihood of the standardised targets."""
        ...


def fitted_attributes(
    posterior: Conditioned, scaling: Scaling, theta: Array, names: tuple[str, ...]
) -> dict[str, Any]:
    """What a fitted model stores of any posterior, in units of y."""
    noise, squares = posterior.noise, scaling.squares
    volume = scaling.log_volume(noise.n_rows(len(posterior.targets)))
    return {
        "kernel_": posterior.kernel,
        "noise_": scaling.number(noise.variance * squares)
        if noise.factors is None
        else noise.factors * squares[0],
        "points_": posterior.points,
        "dual_coef_": scaling.shaped(posterior.dual * scaling.scale),
        "intercept_": scaling.number(scaling.mean),
        "y_scale_": scaling.number(scaling.scale),
        "log_marginal_likelihood_": posterior.log_likelihood() - volume,
        "theta_": theta,
        "theta_names_": names,
        "_posterior": posterior,
        "_scaling": scaling,
        "_log_volume": volume,
    }


def prior_draws(kernel: Kernel, points: Points, number: int, rng: Any) -> Array:
    """Functions at all points, from the prior."""
    factor = factorise(kernel(points).astype(np.float64), 0.0, NOISE)
    return factor.multiply(rng.standard_normal((len(points), number)))


def require_covariance(owner: object, n: int) -> None:
    """Refuse a covariance of n points that does not fit in memory."""
    memory.require(
        2 * n * n * 8, f"{type(owner).__name__}: a covariance of {n} points", "pass fewer rows"
    )


def _chunks(m: int, n: int) -> Iterator[slice]:
    size = max(1, _CHUNK // max(1, n))
    return (slice(start, min(start + size, m)) for start in range(0, m, size))
