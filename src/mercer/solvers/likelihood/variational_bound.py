r"""The collapsed variational bound: a Gaussian process that sees data through features.

With C = k(X, Z), M = k(Z, Z) = R'R, whitened features F = C R^-1 and Q = F F', and noise of
variances d_i, the log marginal likelihood of targets y is at least

.. math::
    \log N(y;\, 0,\, Q + D) - \tfrac12 \sum_i \frac{k(x_i, x_i) - Q_{ii}}{d_i} ,

with equality where the features explain the whole kernel (Titsias 2009). Once A = F' D^-1 F,
c = F' D^-1 y and four numbers are known, no row is needed again. Features are whitened before they
are summed: otherwise the rounding of large entries of A would hide small ones.

These sums also give an upper bound: by a trace, K - Q is at most tau D with
tau = sum_i (k(x_i, x_i) - Q_ii) / d_i, so that

.. math::
    \log p(y) \le -\tfrac12 \log |Q + D| - \tfrac12 y^\top (Q + (1 + \tau) D)^{-1} y
    - \tfrac n2 \log 2\pi

(Titsias 2014). Several targets share K and D, and their logarithms add up.

Where y has an unknown constant mean with a flat prior, both bounds are integrated over it. Features
and targets then count less their means, weighted by 1 / d, and the logarithm of the sum of 1 / d is
added to that of the determinant. Sums of blocks are about the means of each block. Two of them are
joined without a difference of large numbers (Chan, Golub and LeVeque 1983), so that little noise
does not cost digits.

Any features F with Q = F F' can be used, such as the explicit features of a kernel: where they
explain the whole kernel, both bounds are the log marginal likelihood.

The diagonal of M gets a little jitter, as if each landmark were observed with noise of the size of
rounding. So Q never exceeds K, both bounds hold, and they are smooth in the parameters of the
kernel, as a choice of pivots would not be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, eigh, qr, solve_triangular

from mercer.arrays import EPS, LOG_2PI, Array
from mercer.linalg.blocked import cholesky, multiply
from mercer.linalg.symmetric import mirror
from mercer.linalg.whitening import Whitening
from mercer.parallel import cached_property


@dataclass(frozen=True, eq=False)
class ElboSums:
    """Sums over rows from which the bound is computed; sums of blocks of rows add up."""

    rows: int  # the number n of rows
    squares: Array  # (r, r): A = F' D^-1 F
    products: Array  # (r, t): c = F' D^-1 y
    energy: float  # sum of y^2 / d over rows and targets
    trace: float  # sum of k(x, x) / d
    residual_trace: float  # sum of (k(x, x) - Q_ii) / d
    log_noise: float  # sum of log d
    # for an unknown constant mean, squares, products and energy are about these means
    centre: Array  # (r,): the mean of the features, weighted by 1 / d; zeros for a mean of zero
    middle: Array  # (t,): the mean of the targets, weighted by 1 / d; zeros for a mean of zero
    weight: float  # sum of 1 / d; 0 for a mean of zero

    def __add__(self, other: ElboSums) -> ElboSums:
        """The sums over the rows of both."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight else 0.0
        apart, between = other.centre - self.centre, other.middle - self.middle
        joint = self.weight * share
        return ElboSums(
            self.rows + other.rows,
            self.squares + other.squares + joint * np.outer(apart, apart),
            self.products + other.products + joint * np.outer(apart, between),
            self.energy + other.energy + joint * float(between @ between),
            self.trace + other.trace,
            self.residual_trace + other.residual_trace,
            self.log_noise + other.log_noise,
            self.centre + share * apart,
            self.middle + share * between,
            weight,
        )


@dataclass(frozen=True, eq=False)
class ElboGradient:
    """Derivatives of the bound in kernel values and in the noise."""

    inner: Array  # (r, r): W: the derivative in row i of C is (F W + y b' + a')_i / d_i
    dual: Array  # (r, t): b, the coefficients of the mean over the landmarks
    offset: Array  # (r,): a, from the unknown constant; zeros for a mean of zero
    square: Array  # (r, r): the derivative in M, symmetric
    noise: float  # the derivative in the logarithm of a factor of all d_i


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """A block of rows: features, diagonal of the kernel, noise and targets."""

    features: Array  # (b, r): F
    diagonal: Array  # (b,): the values k(x, x)
    noise: Array  # (b,): the variances of the noise
    targets: Array  # (b, t)
    constant: bool = False  # whether the mean is an unknown constant, and not zero
    rows: Any = None  # the slice of the rows in all data, if the block is a part of them

    def sums(self) -> ElboSums:
        """The sums over this block."""
        features, targets, noise = self.features, self.targets, self.noise
        root = np.sqrt(noise)[:, None]
        centre, middle, weight = np.zeros(features.shape[1]), np.zeros(targets.shape[1]), 0.0
        if self.constant:
            weight = float(np.sum(1 / noise))
            shares = 1 / (weight * noise)
            centre, middle = shares @ features, shares @ targets
        scaled, standard = features - centre, (targets - middle) / root
        scaled /= root
        squares = multiply(scaled.T, scaled, triangle="upper")
        mirror(squares)
        # Rounding can make the explained part of k(x, x) larger than k(x, x).
        residual = np.maximum(self.diagonal - np.einsum("ij,ij->i", features, features), 0.0)
        return ElboSums(
            rows=len(features),
            squares=squares,
            products=scaled.T @ standard,
            energy=float(np.vdot(standard, standard)),
            trace=float(np.sum(self.diagonal / noise)),
            residual_trace=float(np.sum(residual / noise)),
            log_noise=float(np.sum(np.log(noise))),
            centre=centre,
            middle=middle,
            weight=weight,
        )

    def gradient(self, elbo: ElboGradient) -> Array:
        """The derivative of the bound in the kernel values of this block with the landmarks."""
        gradient = multiply(self.features, elbo.inner)
        gradient += self.targets @ elbo.dual.T + elbo.offset
        gradient /= self.noise[:, None]
        return gradient


@dataclass(frozen=True, eq=False)
class Elbo:
    """The collapsed bound, its gradient, and the posterior of the coefficients of the features."""

    sums: ElboSums  # the sums over rows

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return int(self.sums.products.shape[1])

    @property
    def trace_error(self) -> float:
        """The share of the trace of D^-1 K that the features do not explain."""
        sums = self.sums
        return sums.residual_trace / sums.trace if sums.trace > 0 else 0.0

    @cached_property
    def root(self) -> Array:
        """The upper triangle U with U'U = B = I + A."""
        return self._shifted_root(1.0)

    def _shifted_root(self, shift: float) -> Array:
        squares = self.sums.squares
        try:
            upper = cholesky(squares + shift * np.eye(len(squares)))
        except np.linalg.LinAlgError:
            # The rounding of A hides the shift; the shift of its eigenvalues is exact.
            values, vectors = eigh(squares, check_finite=False)
            roots = np.sqrt(shift + np.maximum(values, 0.0))
            upper = qr(roots[:, None] * vectors.T, mode="r", check_finite=False)[0]
            upper *= np.where(upper.diagonal() < 0, -1.0, 1.0)[:, None]
        return upper

    @property
    def rounding(self) -> float:
        """Rounding errors of A beside the pivots of B, and of y^2 / d beside 1 per row."""
        sums = self.sums
        largest = float(sums.squares.diagonal().max(initial=0.0))
        smallest = float(self.root.diagonal().min(initial=np.inf)) ** 2
        return EPS * max(largest / smallest, sums.energy / (sums.rows * self.n_targets))

    @cached_property
    def weights(self) -> Array:
        """B^-1 F' D^-1 (y - constant), the coefficients of the mean over the features."""
        return self.solve(self.sums.products)

    def constant(self, weights: Array) -> Array:
        """The posterior mean of the constant, for each target, given those of the coefficients."""
        return np.asarray(self.sums.middle - self.sums.centre @ weights)

    @property
    def constant_variance(self) -> float:
        """The variance of the function at the mean of the features."""
        return 1 / self.sums.weight if self.sums.weight else 0.0

    def solve(self, right: Array) -> Array:
        """B^-1 b."""
        return np.asarray(cho_solve((self.root, False), right, check_finite=False))

    def value(self) -> float:
        """The lower bound, summed over targets."""
        return self._density(1.0) - 0.5 * self.n_targets * self.sums.residual_trace

    def upper_value(self) -> float:
        """The upper bound, summed over targets."""
        return self._density(1 + self.sums.residual_trace)

    def _density(self, shift: float) -> float:
        """The density of the targets, whose quadratic form is y' (Q + shift D)^-1 y."""
        sums = self.sums
        constant = sums.log_noise + 2 * float(np.sum(np.log(self.root.diagonal())))
        constant += (sums.rows - bool(sums.weight)) * LOG_2PI
        if sums.weight:
            constant += float(np.log(sums.weight))
        root = self.root if shift == 1 else self._shifted_root(shift)
        half = solve_triangular(root, sums.products, trans="T", check_finite=False)
        misfit = (sums.energy - float(np.vdot(half, half))) / shift
        return -0.5 * (self.n_targets * constant + max(misfit, 0.0))

    def gradient(self, whitening: Whitening) -> ElboGradient:
        """The derivatives of the bound in kernel values, in forms that do not cancel."""
        sums, t, v = self.sums, self.n_targets, self.weights
        half = solve_triangular(self.root, sums.squares, trans="T", check_finite=False)
        shrunk = solve_triangular(self.root, half, check_finite=False)  # B^-1 A
        inner = (t * shrunk - v @ v.T).T
        offset = t * sums.centre - sums.centre @ inner - v @ sums.middle
        moment = half.T @ half + sums.weight * np.outer(sums.centre, sums.centre)
        left = whitening.to_coefficients(-0.5 * (t * moment + v @ v.T))
        square = whitening.to_coefficients(left.T)
        square = (square + square.T) / 2
        # Jitter is a fraction of the mean diagonal, and moves with it.
        square[np.diag_indices_from(square)] += whitening.jitter * square.diagonal().mean()
        misfit = sums.energy - 2 * float(np.vdot(v, sums.products))
        misfit += float(np.vdot(v, sums.squares @ v))
        freedom = sums.rows - bool(sums.weight) - sums.residual_trace - float(np.trace(shrunk))
        return ElboGradient(
            inner=whitening.to_coefficients(inner).T,
            dual=whitening.to_coefficients(v),
            offset=whitening.to_coefficients(offset[:, None])[:, 0],
            square=square,
            noise=-0.5 * (t * freedom - misfit),
        )

    def half_solve(self, features: Array) -> Array:
        """U^-T phi: its squared norm is the posterior variance of the part in the features."""
        centred = (features - self.sums.centre).T
        return np.asarray(solve_triangular(self.root, centred, trans="T", check_finite=False))
