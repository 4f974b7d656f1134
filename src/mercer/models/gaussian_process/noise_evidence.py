r"""The evidence for the noise alone, where the kernel is held: one eigendecomposition for all.

With weights w of the rows and :math:`W^{1/2} K W^{1/2} = V \operatorname{diag}(\lambda) V^\top`,
targets of noise s^2 / w_i have

.. math::
    -2 \log p(y) = \sum_i \log(\lambda_i + s^2) - \sum_i \log w_i
    + \sum_i \frac{z_i^2}{\lambda_i + s^2} + n \log 2\pi , \qquad z = V^\top W^{1/2} y .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from mercer.models.gaussian_process.exact import GaussianEvidence
from mercer.models.gaussian_process.noise import Noise

Array = NDArray[np.floating[Any]]

_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class NoiseEvidence:
    """The log marginal likelihood as a function of the variance of the noise."""

    values: Array  # (n,): the eigenvalues
    energies: Array  # (n,): the sums of z^2 over targets
    n_targets: int  # how many there are
    noise: Noise  # the noise, whose weights count

    @classmethod
    def of(cls, data: GaussianEvidence) -> NoiseEvidence:
        """Decompose the matrix of a kernel that has no free parameters."""
        weights = data.noise.weights
        root = np.ones(len(data.points)) if weights is None else np.sqrt(weights)
        matrix = data.kernel(data.points).astype(np.float64)
        matrix *= root[:, None] * root
        values, vectors = eigh(matrix, overwrite_a=True, check_finite=False)
        turned = vectors.T @ (root[:, None] * data.targets)
        energies = np.einsum("ij,ij->i", turned, turned)
        return cls(np.maximum(values, 0.0), energies, int(data.targets.shape[1]), data.noise)

    @staticmethod
    def serves(data: GaussianEvidence) -> bool:
        """Whether the noise is all that there is to learn."""
        return data.noise.learned and len(data.theta) == 1

    def log_likelihood_with_gradient(self, theta: Array) -> tuple[float, Array]:
        """The log marginal likelihood and its slope, in n operations."""
        variance, t = float(np.exp(theta[0])), self.n_targets
        total, weights = self.values + variance, self.noise.weights
        constant = float(np.sum(np.log(total))) + len(total) * _LOG_2PI
        constant -= 0.0 if weights is None else float(np.sum(np.log(weights)))
        copies, copies_slope = self.noise.copies(variance)
        fit = self.energies / total
        value = -0.5 * (t * constant + float(np.sum(fit))) + t * copies
        slope = 0.5 * float(np.sum((fit - t) * variance / total)) + t * copies_slope
        return value, np.array([slope])
