r"""Targets as draws of a Gaussian: likelihood, leave-one-out density, and their derivatives.

With G = K + diag(noise) = L L' and targets y of mean zero, a = G^-1 y and P = G^-1,

.. math::
    \log p(y) = -\tfrac12 y^\top a - \tfrac12 \log |G| - \tfrac n2 \log 2\pi , \qquad
    \log p(y_i \mid y_{-i}) = \tfrac12 \log P_{ii} - \frac{a_i^2}{2 P_{ii}} - \tfrac12 \log 2\pi .

Where y has an unknown constant mean with a flat prior, the constant is integrated out, in closed
form. With u = P 1 and s = 1'u, its posterior has mean u'y / s and variance 1 / s. In all of the
above, P becomes P - u u' / s, a becomes P (y - mean), and log |G| + log s - log 2 pi takes the
place of log |G|. This is the limit of a constant kernel of infinite variance, also known as
restricted likelihood.

Several targets share G, and their logarithms add up. Derivatives are symmetric matrices W with
d value = sum_ij W_ij dG_ij, in the memory of P, so that the gradient of a kernel is one contraction
with W. See Rasmussen and Williams (2006), equations 5.9 and 5.10 to 5.13.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

from mercer import _core
from mercer.arrays import LOG_2PI, Array
from mercer.checks import require_finite_values
from mercer.linalg.cholesky import Advice, Factor, Jitter, factorise, with_jitter
from mercer.linalg.symmetric import LowerTriangle, mirror
from mercer.parallel import thread_count
from mercer.solvers.ridge.gram import TargetMaps

NOISE = Advice(
    "noise",
    "repair the matrix with mercer.validity.repair and pass it to Precomputed(), or use a kernel "
    "whose is_psd is True",
)


@dataclass(frozen=True, eq=False)
class ConstantMean:
    """The posterior of an unknown constant mean with a flat prior, for each target."""

    dual: Array  # (n, 1): u = G^-1 1
    information: float  # s = 1'u, one over the variance of the constant
    value: Array  # (n_targets,): the posterior mean of the constant
    root: Array  # (n, 1): the vector r = u / sqrt(s), with G^-1 - r r' in place of G^-1


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Targets with covariance G, whose mean is zero or an unknown constant."""

    factor: Factor  # the factor of G
    targets: Array  # (n, n_targets): the targets y
    dual: Array  # (n, n_targets): G^-1 (y - mean)
    mean: ConstantMean | None  # None for a mean of zero

    @classmethod
    def of(
        cls,
        gram: Array,
        noise: float | Array,
        targets: Array,
        *,
        constant: bool = False,
        order: NDArray[np.intp] | None = None,
    ) -> Gaussian:
        """Factorise ``gram + diag(noise)`` in the memory of `gram`, whose rows are in this order.

        Noise and targets are in the order of the data.
        """
        sorted_noise = noise if order is None or np.ndim(noise) == 0 else np.asarray(noise)[order]
        factor = replace(factorise(gram, sorted_noise, NOISE), order=order)
        return cls(factor, targets, *_solutions(factor.solve(_columns(targets, constant)), targets))

    @classmethod
    def solved(cls, factor: Factor, targets: Array, *, constant: bool) -> Gaussian:
        """Compute the coefficients of the mean from a factor of G."""
        return cls(factor, targets, *_solutions(factor.solve(_columns(targets, constant)), targets))

    @property
    def constant(self) -> Array:
        """The constant of the mean, for each target."""
        return np.zeros(self.targets.shape[1]) if self.mean is None else self.mean.value

    def log_likelihood(self) -> float:
        """The logarithm of the density of the targets."""
        return _log_likelihood(self.targets, self.dual, self.factor.log_determinant(), self.mean)

    def target_maps(self) -> TargetMaps:
        """The linear maps from targets to the coefficients and the constant of the mean."""
        inverse = self.factor.inverse(overwrite=False)
        mirror(inverse)
        if self.mean is None:
            return TargetMaps(inverse, np.zeros(len(inverse)))
        inverse -= self.mean.root * self.mean.root.T
        return TargetMaps(inverse, self.mean.dual[:, 0] / self.mean.information)

    def leave_one_out(self) -> tuple[Array, Array]:
        """Residuals and variances of each target, given all others."""
        diagonal: Array = self.factor.inverse(overwrite=False).diagonal()
        if self.mean is not None:
            diagonal = np.maximum(diagonal - self.mean.root[:, 0] ** 2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            # A single row says nothing about itself where the mean is unknown.
            return np.nan_to_num(self.dual / diagonal[:, None]), 1 / diagonal


@dataclass(frozen=True, eq=False)
class Precision:
    """Targets whose covariance G is given by its inverse P, for derivatives in G."""

    # (n, n): P in the lower triangle, in C order; the rest is arbitrary. The first derivative that
    # is computed overwrites it
    inverse: Array
    log_determinant: float  # of G
    targets: Array  # (n, n_targets): the targets y
    dual: Array  # (n, n_targets): P (y - mean)
    mean: ConstantMean | None  # None for a mean of zero
    jitter: Jitter  # the jitter on the diagonal of G

    @classmethod
    def of(
        cls,
        gram: Array,
        noise: float | Array,
        targets: Array,
        *,
        constant: bool = False,
        kernel: object = "the kernel",
    ) -> Precision:
        """Invert ``gram + diag(noise)`` in the memory of `gram`, a matrix of this kernel."""
        gram = np.ascontiguousarray(gram)
        columns = np.array(_columns(targets, constant), dtype=gram.dtype, order="C")

        def attempt(diagonal: Array) -> float | None:
            log_determinant = _core.invert(gram, diagonal, columns, thread_count())
            if log_determinant is None:  # no jitter helps where values are not finite
                require_finite_values(gram, kernel)
            return log_determinant

        log_determinant, jitter = with_jitter(attempt, gram, noise, NOISE)
        return cls(gram, log_determinant, targets, *_solutions(columns, targets), jitter)

    def log_likelihood_with_slope(self) -> tuple[float, LowerTriangle]:
        """The log density of the targets and its derivative in G."""
        value = _log_likelihood(self.targets, self.dual, self.log_determinant, self.mean)
        syrk = get_blas_funcs("syrk", (self.inverse,))
        t, columns = self.targets.shape[1], self.dual
        if self.mean is not None:
            columns = np.hstack([columns, np.sqrt(t) * self.mean.root])
        upper = syrk(0.5, columns, beta=-0.5 * t, c=self.inverse.T, overwrite_c=True)
        return value, LowerTriangle(upper.T)

    def loo_density_with_slope(self) -> tuple[float, LowerTriangle]:
        """The leave-one-out density and its derivative in G."""
        inverse = LowerTriangle(self.inverse).full()
        if self.mean is not None:
            inverse -= self.mean.root * self.mean.root.T
        diagonal = inverse.diagonal().copy()[:, None]
        terms = np.log(diagonal) - self.dual**2 / diagonal - LOG_2PI
        shifted = inverse @ (self.dual / diagonal)
        weights = np.sum((1 + self.dual**2 / diagonal) / (2 * diagonal), axis=1)
        inverse *= np.sqrt(weights)
        syrk, syr2k = get_blas_funcs(("syrk", "syr2k"), (inverse,))
        slope = syrk(-1.0, inverse)
        slope = syr2k(0.5, shifted, self.dual, beta=1.0, c=slope, overwrite_c=True)
        return 0.5 * float(np.sum(terms)), LowerTriangle(slope.T)


def _columns(targets: Array, constant: bool) -> Array:
    """The right-hand sides: targets, and ones where the mean is an unknown constant."""
    return np.hstack([targets, np.ones((len(targets), 1))]) if constant else targets


def _solutions(solved: Array, targets: Array) -> tuple[Array, ConstantMean | None]:
    """The coefficients G^-1 (y - mean) and the mean, from G^-1 times the right-hand sides."""
    t = targets.shape[1]
    if solved.shape[1] == t:
        return solved, None
    ones = solved[:, t:].copy()
    information = float(ones.sum())
    value = (ones.T @ targets)[0] / information
    mean = ConstantMean(ones, information, value, ones / np.sqrt(information))
    return solved[:, :t] - ones * value, mean


def _log_likelihood(
    targets: Array, dual: Array, log_determinant: float, mean: ConstantMean | None
) -> float:
    constant = log_determinant + len(targets) * LOG_2PI
    if mean is not None:
        constant += float(np.log(mean.information)) - LOG_2PI
    return -0.5 * (float(np.vdot(targets, dual)) + int(targets.shape[1]) * constant)
