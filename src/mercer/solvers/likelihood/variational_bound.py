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

Where y has an unknown constant mean with a flat prior, both bounds are integrated over it: with
s = 1' (Q + D)^-1 1, the constant has mean 1' (Q + D)^-1 y / s and variance 1 / s.

Any features F with Q = F F' can be used, such as the explicit features of a kernel: where they
explain the whole kernel, both bounds are the log marginal likelihood.

The diagonal of M gets a little jitter, as if each landmark were observed with noise of the size of
rounding. So Q never exceeds K, both bounds hold, and they are smooth in the parameters of the
kernel, as a choice of pivots would not be.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr, solve_triangular

from mercer.linalg.blocked import cholesky, multiply
from mercer.linalg.symmetric import mirror
from mercer.linalg.whitening import Whitening
from mercer.parallel import cached_property

Array = NDArray[np.floating[Any]]

_LOG_2PI = float(np.log(2 * np.pi))
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class ElboSums:
    """Sums over rows from which the bound is computed; sums of blocks of rows add up."""

    rows: int  # the number n of rows
    squares: Array  # (r, r): A = F' D^-1 F
    products: Array  # (r, t): c = F' D^-1 y; a constant mean adds the column F' D^-1 1
    energy: float  # sum of y^2 / d over rows and targets
    trace: float  # sum of k(x, x) / d
    residual_trace: float  # sum of (k(x, x) - Q_ii) / d
    log_noise: float  # sum of log d
    # (t + 1,): sums of y / d and of 1 / d; empty for a mean of zero
    totals: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(
        cls,
        features: Array,
        diagonal: Array,
        noise: Array,
        targets: Array,
        *,
        constant: bool = False,
    ) -> ElboSums:
        """The sums over a block of rows, for a constant mean or for a mean of zero."""
        root = np.sqrt(noise)[:, None]
        scaled, standard = features / root, targets / root
        squares = multiply(scaled.T, scaled, triangle="upper")
        mirror(squares)
        # Rounding can make the explained part of k(x, x) larger than k(x, x).
        residual = np.maximum(diagonal - np.einsum("ij,ij->i", features, features), 0.0)
        return cls(
            rows=len(features),
            squares=squares,
            products=scaled.T @ (np.hstack([standard, 1 / root]) if constant else standard),
            energy=float(np.vdot(standard, standard)),
            trace=float(np.sum(diagonal / noise)),
            residual_trace=float(np.sum(residual / noise)),
            log_noise=float(np.sum(np.log(noise))),
            totals=np.append(np.sum(targets / root**2, axis=0), np.sum(1 / noise))
            if constant
            else np.empty(0),
        )

    def __add__(self, other: ElboSums) -> ElboSums:
        """The sums over the rows of both."""
        return ElboSums(
            self.rows + other.rows,
            self.squares + other.squares,
            self.products + other.products,
            self.energy + other.energy,
            self.trace + other.trace,
            self.residual_trace + other.residual_trace,
            self.log_noise + other.log_noise,
            self.totals + other.totals,
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
class Elbo:
    """The collapsed bound, its gradient, and the posterior of the coefficients of the features."""

    sums: ElboSums  # the sums over rows

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return int(self.sums.products.shape[1]) - self.has_constant

    @property
    def has_constant(self) -> bool:
        """Whether the mean is an unknown constant, and not zero."""
        return bool(self.sums.totals.size)

    @property
    def trace_error(self) -> float:
        """The share of the trace of D^-1 K that the features do not explain."""
        sums = self.sums
        return sums.residual_trace / sums.trace if sums.trace > 0 else 0.0

    @cached_property
    def root(self) -> Array:
        """The upper triangle U with U'U = B = I + A."""
        return self._shifted_root(self.sums.squares, 1.0)

    @staticmethod
    def _shifted_root(squares: Array, shift: float) -> Array:
        matrix = squares + shift * np.eye(len(squares))
        try:
            upper = cholesky(matrix)
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
        return _EPS * max(largest / smallest, sums.energy / (sums.rows * self.n_targets))

    @cached_property
    def _solved(self) -> Array:
        return self.solve(self.sums.products)

    @cached_property
    def _information(self) -> float:
        """The number s = 1' (Q + D)^-1 1, one over the variance of the constant."""
        sums = self.sums
        information = sums.totals[-1] - sums.products[:, -1] @ self._solved[:, -1]
        return float(max(information, _EPS * sums.totals[-1]))

    @cached_property
    def constant(self) -> Array:
        """The posterior mean of the constant, for each target; zeros for a mean of zero."""
        if not self.has_constant:
            return np.zeros(self.n_targets)
        sums = self.sums
        missed = sums.totals[:-1] - sums.products[:, -1] @ self.weights
        return np.asarray(missed / sums.totals[-1])

    @cached_property
    def weights(self) -> Array:
        """B^-1 F' D^-1 (y - constant), the coefficients of the mean over the features.

        With features and targets less their means, weighted by 1 / d, nothing cancels.
        """
        return (
            self._centred.solve(self._centred.sums.products) if self.has_constant else self._solved
        )

    @cached_property
    def _centred(self) -> Elbo:
        """The bound of features and targets less their means, with which nothing cancels."""
        sums, ones, total = self.sums, self.sums.products[:, -1:], self.sums.totals[-1]
        means = sums.totals[:-1] / total
        centred = replace(
            sums,
            squares=sums.squares - ones @ ones.T / total,
            products=sums.products[:, :-1] - ones * means,
            energy=sums.energy - float(means @ sums.totals[:-1]),
            totals=np.empty(0),
        )
        return Elbo(centred)

    def constant_deviation(self, features: Array) -> Array:
        """The deviation of the function at rows that the unknown constant adds, with its sign."""
        if not self.has_constant:
            return np.zeros(len(features))
        deviation: Array = (1 - features @ self._solved[:, -1]) / np.sqrt(self._information)
        return deviation

    def solve(self, right: Array) -> Array:
        """B^-1 b."""
        return _solved(self.root, right)

    def value(self) -> float:
        """The lower bound, summed over targets."""
        if self.has_constant:
            # |Q + D| s is the determinant of centred features, times the sum of 1 / d.
            unit = float(np.log(self.sums.totals[-1])) - _LOG_2PI
            return self._centred.value() - 0.5 * self.n_targets * unit
        constant = self._log_constant() + self.sums.residual_trace
        return -0.5 * (self.n_targets * constant + self._misfit(self.root, 1.0))

    def upper_value(self) -> float:
        """The upper bound, summed over targets."""
        shift = 1 + self.sums.residual_trace
        misfit = self._misfit(self._shifted_root(self.sums.squares, shift), shift)
        return -0.5 * (self.n_targets * self._log_constant() + misfit)

    def _log_constant(self) -> float:
        """The log determinant of Q + D, and n log 2 pi."""
        determinant = self.sums.log_noise + 2 * float(np.sum(np.log(self.root.diagonal())))
        return determinant + self.sums.rows * _LOG_2PI

    def _misfit(self, root: Array, shift: float) -> float:
        """The quadratic form y' M^-1 y with M = Q + shift D, from the factor of shift I + A.

        With a constant mean, it is that of y - constant, and log s - log 2 pi is added for each
        target.
        """
        sums, t = self.sums, self.n_targets
        half = solve_triangular(root, sums.products, trans="T", check_finite=False)
        misfit = (sums.energy - float(np.vdot(half[:, :t], half[:, :t]))) / shift
        if not self.has_constant:
            return max(misfit, 0.0)
        crossed = (sums.totals - half.T @ half[:, -1]) / shift
        information = float(max(crossed[-1], _EPS * sums.totals[-1] / shift))
        misfit -= float(np.sum(crossed[:-1] ** 2)) / information
        return max(misfit, 0.0) + t * (float(np.log(self._information)) - _LOG_2PI)

    def gradient(self, whitening: Whitening) -> ElboGradient:
        """The derivatives of the bound in kernel values, in forms that do not cancel."""
        sums, t = self.sums, self.n_targets
        v, mean, scale = self.weights, self.constant, 0.0
        if self.has_constant:
            # The determinant term of the constant acts as one more target, 1 times `scale`.
            scale = float(np.sqrt(t / self._information))
            v = np.hstack([v, scale * self._solved[:, t:]])
        half = solve_triangular(self.root, sums.squares, trans="T", check_finite=False)
        shrunk = solve_triangular(self.root, half, check_finite=False)  # B^-1 A
        inner = whitening.to_coefficients((t * shrunk - v @ v.T).T).T
        left = whitening.to_coefficients(-0.5 * (t * (half.T @ half) + v @ v.T))
        square = whitening.to_coefficients(left.T)
        square = (square + square.T) / 2
        # Jitter is a fraction of the mean diagonal, and moves with it.
        square[np.diag_indices_from(square)] += whitening.jitter * square.diagonal().mean()
        noise = self._centred._noise_gradient(1) if self.has_constant else self._noise_gradient(0)
        dual = whitening.to_coefficients(v)
        return ElboGradient(
            inner=inner,
            dual=dual[:, :t],
            offset=scale * dual[:, t:].sum(axis=1) - dual[:, :t] @ mean,
            square=square,
            noise=noise,
        )

    def _noise_gradient(self, constants: int) -> float:
        """The derivative in the logarithm of a factor of all noise, for so many constants."""
        sums, t, v = self.sums, self.n_targets, self.weights
        misfit = sums.energy - 2 * float(np.vdot(v, sums.products))
        misfit += float(np.vdot(v, sums.squares @ v))
        explained = float(np.trace(self.solve(sums.squares)))
        return -0.5 * (t * (sums.rows - constants - sums.residual_trace - explained) - misfit)

    def half_solve(self, features: Array) -> Array:
        """U^-T phi: its squared norm is the posterior variance of the part in the features."""
        half: Array = solve_triangular(self.root, features.T, trans="T", check_finite=False)
        return half


def _solved(root: Array, right: Array) -> Array:
    """The solution of U' U x = b."""
    half = solve_triangular(root, right, trans="T", check_finite=False)
    solved: Array = solve_triangular(root, half, check_finite=False)
    return solved
