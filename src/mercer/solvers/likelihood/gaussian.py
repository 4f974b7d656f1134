r"""Targets as draws of a Gaussian: likelihood, leave-one-out density, and their derivatives.

With G = K + diag(noise) = L L' and targets y of mean zero, a = G^-1 y and P = G^-1,

.. math::
    \log p(y) = -\tfrac12 y^\top a - \tfrac12 \log |G| - \tfrac n2 \log 2\pi , \qquad
    \log p(y_i \mid y_{-i}) = \tfrac12 \log P_{ii} - \frac{a_i^2}{2 P_{ii}} - \tfrac12 \log 2\pi .

Several targets share G, and their logarithms add up. Derivatives are symmetric matrices W with
d value = sum_ij W_ij dG_ij, in the memory of P, so that the gradient of a kernel is one contraction
with W. See Rasmussen and Williams (2006), equations 5.9 and 5.10 to 5.13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

from mercer import _core
from mercer.linalg.cholesky import Advice, Factor, Jitter, factorise, with_jitter
from mercer.linalg.symmetric import LowerTriangle
from mercer.parallel import thread_count

Array = NDArray[np.floating[Any]]

NOISE = Advice(
    "noise",
    "repair the matrix with mercer.validity.repair and pass it to Precomputed(), or use a kernel "
    "whose is_psd is True",
)

_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Targets of mean zero with covariance G."""

    factor: Factor  # the factor of G
    targets: Array  # (n, n_targets): the targets y
    dual: Array  # (n, n_targets): G^-1 y

    @classmethod
    def of(cls, gram: Array, noise: float | Array, targets: Array) -> Gaussian:
        """Factorise ``gram + diag(noise)`` in the memory of `gram`."""
        factor = factorise(gram, noise, NOISE)
        return cls(factor, targets, factor.solve(targets))

    @property
    def n_targets(self) -> int:
        """Number of targets, which share the covariance."""
        return int(self.targets.shape[1])

    def log_likelihood(self) -> float:
        """The logarithm of the density of the targets."""
        return _log_likelihood(self.targets, self.dual, self.factor.log_determinant())

    def leave_one_out(self) -> tuple[Array, Array]:
        """Residuals and variances of each target, given all others."""
        diagonal = self.factor.inverse(overwrite=False).diagonal()
        return self.dual / diagonal[:, None], 1 / diagonal

    def loo_density(self) -> float:
        """The sum of the logarithms of the density of each target given all others."""
        diagonal = self.factor.inverse(overwrite=False).diagonal()
        return _loo_density(self.dual, diagonal[:, None])


@dataclass(frozen=True, eq=False)
class Precision:
    """Targets of mean zero whose covariance G is given by its inverse P, for derivatives in G."""

    # (n, n): P in the lower triangle, in C order; the rest is arbitrary. The first derivative that
    # is computed overwrites it
    inverse: Array
    log_determinant: float  # of G
    targets: Array  # (n, n_targets): the targets y
    dual: Array  # (n, n_targets): P y
    jitter: Jitter  # the jitter on the diagonal of G

    @classmethod
    def of(cls, gram: Array, noise: float | Array, targets: Array) -> Precision:
        """Invert ``gram + diag(noise)`` in the memory of `gram`."""
        gram = np.ascontiguousarray(gram)
        dual = np.array(targets, dtype=gram.dtype, order="C")

        def attempt(diagonal: Array) -> float | None:
            return _core.invert(gram, diagonal, dual, thread_count())

        log_determinant, jitter = with_jitter(attempt, gram, noise, NOISE)
        return cls(gram, log_determinant, targets, dual, jitter)

    def log_likelihood_with_slope(self) -> tuple[float, LowerTriangle]:
        """The log density of the targets and its derivative in G."""
        value = _log_likelihood(self.targets, self.dual, self.log_determinant)
        syrk = get_blas_funcs("syrk", (self.inverse,))
        share = -0.5 * self.targets.shape[1]
        upper = syrk(0.5, self.dual, beta=share, c=self.inverse.T, overwrite_c=True)
        return value, LowerTriangle(upper.T)

    def loo_density_with_slope(self) -> tuple[float, LowerTriangle]:
        """The leave-one-out density and its derivative in G."""
        inverse = LowerTriangle(self.inverse).full()
        diagonal = inverse.diagonal().copy()[:, None]
        value = _loo_density(self.dual, diagonal)
        shifted = inverse @ (self.dual / diagonal)
        weights = np.sum((1 + self.dual**2 / diagonal) / (2 * diagonal), axis=1)
        inverse *= np.sqrt(weights)
        syrk, syr2k = get_blas_funcs(("syrk", "syr2k"), (inverse,))
        slope = syrk(-1.0, inverse)
        slope = syr2k(0.5, shifted, self.dual, beta=1.0, c=slope, overwrite_c=True)
        return value, LowerTriangle(slope.T)


def _log_likelihood(targets: Array, dual: Array, log_determinant: float) -> float:
    constant = log_determinant + len(targets) * _LOG_2PI
    return -0.5 * (float(np.vdot(targets, dual)) + int(targets.shape[1]) * constant)


def _loo_density(dual: Array, diagonal: Array) -> float:
    terms = np.log(diagonal) - dual**2 / diagonal - _LOG_2PI
    return 0.5 * float(np.sum(terms))
