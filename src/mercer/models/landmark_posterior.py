"""A Gaussian process after it has seen data through landmarks, in standardised targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.landmark_evidence import LandmarkEvidence, blocks
from mercer.models.likelihood import GaussianEvidence
from mercer.models.noise import Noise
from mercer.models.posterior import fitted_attributes
from mercer.models.targets import Scaling
from mercer.solvers.bound import Bound
from mercer.solvers.factor import factorise
from mercer.solvers.gaussian import NOISE
from mercer.solvers.rows import InMemory, Part
from mercer.solvers.task import RidgeAnswer, RidgeTask

Array = NDArray[np.floating[Any]]

_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class LandmarkPosterior:
    """A kernel and noise, landmarks, and what the data say about the function there.

    It stands where `Posterior` stands. With whitened features phi of a point x, mean and variance
    of the function are phi' B^-1 c and k(x, x) - phi' phi + phi' B^-1 phi.

    Attributes
    ----------
    evidence : LandmarkEvidence
        Kernel, points, targets, noise and landmarks, at learned hyper-parameters.
    bound : Bound
        The sums over rows, and their factor.
    """

    evidence: LandmarkEvidence
    bound: Bound

    @classmethod
    def at(cls, evidence: LandmarkEvidence, theta: Array) -> LandmarkPosterior:
        """Condition at these hyper-parameters."""
        settled = evidence.settled(theta)
        return cls(settled, settled.bound(settled.kernel, settled.data.noise.variance))

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.evidence.kernel

    @property
    def noise(self) -> Noise:
        """The noise."""
        return self.evidence.data.noise

    @property
    def training_points(self) -> Points:
        """All rows."""
        return self.evidence.data.points

    @property
    def targets(self) -> Array:
        """The standardised targets."""
        return self.evidence.data.targets

    @property
    def points(self) -> Points:
        """The points that carry the mean."""
        return self.evidence.landmarks

    @property
    def rows(self) -> NDArray[np.intp] | None:
        """The rows that these are, if they are rows."""
        return self.evidence.rows

    @property
    def dual(self) -> Array:
        """Their coefficients."""
        return self.bound.dual

    @property
    def complaint(self) -> str:
        """What is doubtful, as a clause."""
        return ""

    def log_likelihood(self) -> float:
        """The bound of the standardised targets' log marginal likelihood."""
        return self.bound.value() + self._copies()

    def _copies(self) -> float:
        return self.bound.n_targets * self.noise.copies(self.noise.variance)[0]

    def quality(self, scaling: Scaling) -> dict[str, Any]:
        """How good the landmarks are, in units of y."""
        rows = self.noise.n_rows(len(self.targets))
        copies = self._copies() - scaling.log_volume(rows)
        return {
            "lower_bound_": self.bound.value() + copies,
            "upper_bound_": self.bound.upper_value() + copies,
            "trace_error_": self.bound.trace_error,
        }

    def attributes(self, scaling: Scaling) -> dict[str, Any]:
        """What a fitted model stores, in units of y."""
        found = fitted_attributes(self, scaling, self.evidence.theta, self.evidence.names)
        return found | self.quality(scaling) | {"jitter_": 0.0}

    # New points ---------------------------------------------------------------------------------

    def mean(self, points: Points) -> Array:
        """The mean at every point, one column for each target."""
        gram = self.kernel.gram(points, self.points)
        return np.asarray(gram @ self.dual, dtype=np.float64)

    def variance(self, points: Points) -> Array:
        """The variance of the function at every point, in chunks."""
        variance: Array = self.kernel.diag(points).astype(np.float64)
        for rows in blocks(len(points), len(self.evidence.landmarks)):
            features = self._features(points[rows])
            spread = self.bound.carried(features)
            variance[rows] -= np.einsum("ij,ij->i", features, features)
            # Rounding can take what landmarks explain of a point beyond what there is.
            np.maximum(variance[rows], 0.0, out=variance[rows])
            variance[rows] += np.einsum("ij,ij->j", spread, spread)
        return variance

    def covariance(self, points: Points) -> Array:
        """The covariance of the function at all points."""
        features = self._features(points)
        spread = self.bound.carried(features)
        covariance: Array = self.kernel(points).astype(np.float64, copy=False)
        covariance -= features @ features.T
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), 0.0))
        covariance += spread.T @ spread
        return covariance

    def draws(self, points: Points, number: int, rng: Any) -> Array:
        """Functions at all points: the mean, and draws with the covariance.

        Parameters
        ----------
        points : Points
            Where.
        number : int
            How many for each target.
        rng : RandomState
            The source of randomness.

        Returns
        -------
        ndarray of shape (m, n_targets, number)
            The values.
        """
        m, t = len(points), self.bound.n_targets
        factor = factorise(self.covariance(points), 0.0, NOISE)
        spread = factor.multiply(rng.standard_normal((m, t * number))).reshape(m, t, number)
        drawn: Array = self.mean(points)[:, :, None] + spread
        return drawn

    def _features(self, points: Points) -> Array:
        cross = self.kernel(points, self.evidence.landmarks).astype(np.float64, copy=False)
        return self.bound.landmarks.whitened(cross)

    # Other rows ---------------------------------------------------------------------------------

    def extended(self, points: Points, targets: Array, factors: Array | None) -> LandmarkPosterior:
        """The posterior after further rows, at the same landmarks.

        Parameters
        ----------
        points : Points
            All rows, the new ones last.
        targets : ndarray of shape (m, n_targets)
            The standardised targets of the new rows.
        factors : ndarray of shape (m,) or None
            Their known variances of noise, where those of the others are known.

        Returns
        -------
        LandmarkPosterior
            Of all rows.
        """
        known = self.evidence.data
        data = replace(
            known,
            points=points,
            targets=np.vstack([known.targets, targets]),
            noise=known.noise.followed_by(factors, len(targets)),
        )
        new = data.of_rows(np.arange(len(known.points), len(points)))
        root, variance = self.bound.landmarks, known.noise.variance
        passes = self.evidence.features(self.kernel, root, variance, new)
        sums = reduce(add, (block.sums() for block in passes), self.bound.sums)
        return replace(self, evidence=replace(self.evidence, data=data), bound=Bound(root, sums))

    def leave_one_out(self) -> tuple[Array, Array]:
        """What each target is, given all others and the same landmarks.

        With the leverage h = phi' B^-1 phi / d, the residual is (y - mean) / (1 - h) and the
        variance k(x, x) - phi' phi + d / (1 - h).

        Returns
        -------
        residuals : ndarray of shape (n, n_targets)
            y_i minus its mean given the others.
        variances : ndarray of shape (n,)
            Its variance given the others, with its noise.
        """
        variance = self.noise.variance
        residuals, variances = [], []
        for block in self.evidence.features(self.kernel, self.bound.landmarks, variance):
            spread = self.bound.carried(block.features)
            kept = 1 - np.einsum("ij,ij->j", spread, spread) / block.noise
            kept = np.maximum(kept, np.finfo(np.float64).eps)
            missed = block.targets - block.features @ self.bound.weights
            spare = block.diagonal - np.einsum("ij,ij->i", block.features, block.features)
            residuals.append(missed / kept[:, None])
            variances.append(np.maximum(spare, 0.0) + block.noise / kept)
        return np.concatenate(residuals), np.concatenate(variances)

    def loo_density(self) -> float:
        """The sum of the logarithms of the density of each target given all others.

        Returns
        -------
        float
            The sum over rows and targets.
        """
        residuals, variances = self.leave_one_out()
        spread = variances[:, None]
        return -0.5 * float(np.sum(residuals**2 / spread + np.log(spread) + _LOG_2PI))


@dataclass(frozen=True, eq=False)
class IteratedPosterior(LandmarkPosterior):
    """The mean of all rows, by iterations; variances as the landmarks say.

    Attributes
    ----------
    answer : RidgeAnswer
        The coefficients over all rows.
    """

    answer: RidgeAnswer

    @classmethod
    def solved(cls, posterior: LandmarkPosterior, solver: Any, owner: str) -> IteratedPosterior:
        """Find the mean by a solver of ridge tasks: noise s^2 f_i is alpha = s^2, weight 1/f_i.

        Parameters
        ----------
        posterior : LandmarkPosterior
            Landmarks, kernel and noise.
        solver : ConjugateGradient
            The solver.
        owner : str
            The name of the model, for messages.

        Returns
        -------
        IteratedPosterior
            With that mean.
        """
        data = posterior.evidence.data
        task = RidgeTask(
            owner,
            data.kernel,
            InMemory(Part(data.points, data.targets, _precisions(data))),
            False,
            np.array([data.noise.variance]),
            ridge="noise",
        )
        return cls(posterior.evidence, posterior.bound, solver.ridge(task))

    @property
    def points(self) -> Points:
        """The training points."""
        return self.answer.points

    @property
    def rows(self) -> NDArray[np.intp]:
        """All rows."""
        return np.arange(len(self.points))

    @property
    def dual(self) -> Array:
        """Their coefficients."""
        return self.answer.dual

    @property
    def complaint(self) -> str:
        """What is doubtful, as a clause."""
        return self.answer.doubt

    def quality(self, scaling: Scaling) -> dict[str, Any]:
        """How good landmarks and iterations are, in units of y."""
        found = self.answer.quality
        names = ("residual_", "residual_history_", "preconditioner_error_")
        return super().quality(scaling) | {name: found[name] for name in names if name in found}

    def extended(self, points: Points, targets: Array, factors: Array | None) -> LandmarkPosterior:
        """Refused: all rows would have to be solved anew."""
        raise DataError(_WHOLE.format("update"))

    def leave_one_out(self) -> tuple[Array, Array]:
        """Refused: it needs the diagonal of the inverse."""
        raise DataError(_WHOLE.format("leaving rows out"))


_WHOLE = (
    "GaussianProcessRegressor: {} is not possible where the mean was found by iterations over all "
    "rows, without their matrix; fit with solver=mercer.solvers.Nystrom(n_landmarks=1000), or "
    "Cholesky() if the matrix fits in memory."
)


def _precisions(data: GaussianEvidence) -> Array | None:
    """The inverse variances of the rows' noise, relative to s^2; None if all are 1."""
    noise = data.noise
    if noise.factors is None and noise.weights is None:
        return None
    shape = (len(data.points),)
    return np.asarray(noise.variance / np.broadcast_to(noise.diagonal(noise.variance), shape))
