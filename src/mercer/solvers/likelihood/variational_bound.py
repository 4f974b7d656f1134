r"""The collapsed variational bound: a Gaussian process that sees data through features.

With C = k(X, Z), M = k(Z, Z) = R'R, whitened features F = C R^-1 and Q = F F', and noise of
variances d_i, the log marginal likelihood of targets y is at least

.. math::
    \log N(y;\, 0,\, Q + D) - \tfrac12 \sum_i \frac{k(x_i, x_i) - Q_{ii}}{d_i} ,

with equality where the landmarks carry everything (Titsias 2009). It needs no row again once
A = F' D^-1 F, c = F' D^-1 y and four numbers are known. Features are whitened before they are
summed: in A the small ones would drown in the rounding of the large ones.

The same sums bound the likelihood from above: by a trace, K - Q is at most tau D with
tau = sum_i (k(x_i, x_i) - Q_ii) / d_i, so that

.. math::
    \log p(y) \le -\tfrac12 \log |Q + D| - \tfrac12 y^\top (Q + (1 + \tau) D)^{-1} y
    - \tfrac n2 \log 2\pi

(Titsias 2014). Several targets share K and D, and their logarithms add up.

Any features F with Q = F F' do, such as those of a kernel that has few of them: where these carry
everything, both bounds are the log marginal likelihood.

M is taken with a little more on its diagonal, as if each landmark were observed with noise of the
size of rounding. What landmarks then carry is never more than there is, so that both bounds hold
as they are, and they are smooth in the kernel, as a choice of pivots would not be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, get_blas_funcs, qr, solve_triangular

from mercer.exceptions import ValidityError
from mercer.linalg.symmetric import mirror

Array = NDArray[np.floating[Any]]

_LOG_2PI = float(np.log(2 * np.pi))

# Units of rounding, for each landmark, on the diagonal of M; and what it may come to, as a share.
_ROUNDING = 8
_LARGEST = 1e-4


@dataclass(frozen=True, eq=False)
class LandmarkRoot:
    """The triangle R with R'R = M + jitter I."""

    upper: Array  # (m, m): R, in Fortran order
    fraction: float  # the jitter as a fraction of the mean diagonal of M

    @classmethod
    def of(cls, square: Array, eps: float) -> LandmarkRoot:
        """Factorise."""
        m = len(square)
        mean, fraction = float(square.diagonal().mean()), _ROUNDING * m * eps
        unit = np.eye(m) * (mean if mean > 0 else 1.0)
        while fraction <= max(_LARGEST, _ROUNDING * m * eps):
            try:
                upper = cholesky(square + fraction * unit, overwrite_a=True, check_finite=False)
                return cls(np.asfortranarray(upper), fraction)
            except LinAlgError:
                fraction *= 10
        raise ValidityError(
            "the Gram matrix of the landmarks is not positive semi-definite; use a kernel whose "
            "is_psd is True."
        )

    def whitened(self, cross: Array) -> Array:
        """The features F = C R^-1."""
        trsm = get_blas_funcs("trsm", (self.upper,))
        right = np.ascontiguousarray(cross).T
        return np.asarray(trsm(1.0, self.upper, right, trans_a=1, overwrite_b=True).T)

    def solved(self, right: Array) -> Array:
        """R^-1 b."""
        found: Array = solve_triangular(self.upper, right, check_finite=False)
        return found


@dataclass(frozen=True, eq=False)
class BoundSums:
    """What rows add up to; the sums of parts of the rows are those of the whole."""

    rows: int  # the number n of rows
    squares: Array  # (r, r): A = F' D^-1 F
    products: Array  # (r, t): c = F' D^-1 y
    energy: float  # sum of y^2 / d over rows and targets
    trace: float  # sum of k(x, x) / d
    left_out: float  # sum of (k(x, x) - Q_ii) / d
    log_noise: float  # sum of log d

    @classmethod
    def of(cls, features: Array, diagonal: Array, noise: Array, targets: Array) -> BoundSums:
        """The sums over some rows."""
        root = np.sqrt(noise)[:, None]
        scaled, standard = features / root, targets / root
        squares = np.zeros((features.shape[1],) * 2)
        if squares.size:
            syrk = get_blas_funcs("syrk", (scaled,))
            squares = syrk(1.0, scaled.T)
            mirror(squares)
        # Rounding can take what landmarks explain of a row beyond what there is.
        spare = np.maximum(diagonal - np.einsum("ij,ij->i", features, features), 0.0)
        return cls(
            rows=len(features),
            squares=squares,
            products=scaled.T @ standard,
            energy=float(np.vdot(standard, standard)),
            trace=float(np.sum(diagonal / noise)),
            left_out=float(np.sum(spare / noise)),
            log_noise=float(np.sum(np.log(noise))),
        )

    def __add__(self, other: BoundSums) -> BoundSums:
        """The sums over the rows of both."""
        return BoundSums(
            self.rows + other.rows,
            self.squares + other.squares,
            self.products + other.products,
            self.energy + other.energy,
            self.trace + other.trace,
            self.left_out + other.left_out,
            self.log_noise + other.log_noise,
        )


@dataclass(frozen=True, eq=False)
class BoundSlopes:
    """How the bound changes with what it is made of."""

    inner: Array  # (r, r): W: the derivative in row i of C is (F W + y b')_i / d_i
    dual: Array  # (r, t): b, the coefficients of the mean over the landmarks
    square: Array  # (r, r): the derivative in M, symmetric
    noise: float  # the derivative in the logarithm of a factor of all d_i


@dataclass(frozen=True, eq=False)
class Bound:
    """Targets seen through features: the bound, its slopes, and the posterior."""

    sums: BoundSums  # the sums over rows

    @property
    def n_targets(self) -> int:
        """How many targets there are."""
        return int(self.sums.products.shape[1])

    @property
    def trace_error(self) -> float:
        """The share of the trace of D^-1 K that the features leave out."""
        sums = self.sums
        return sums.left_out / sums.trace if sums.trace > 0 else 0.0

    @cached_property
    def root(self) -> Array:
        """The upper triangle U with U'U = B = I + A."""
        return self._shifted_root(1.0)

    def _shifted_root(self, shift: float) -> Array:
        squares = self.sums.squares
        matrix = squares + shift * np.eye(len(squares))
        try:
            found: Array = cholesky(matrix, overwrite_a=True, check_finite=False)
        except LinAlgError:
            # The shift has drowned in the rounding of A; beside its eigenvalues it has not.
            values, vectors = eigh(squares, check_finite=False)
            roots = np.sqrt(shift + np.maximum(values, 0.0))
            found = qr(roots[:, None] * vectors.T, mode="r", check_finite=False)[0]
            found *= np.where(found.diagonal() < 0, -1.0, 1.0)[:, None]
        return found

    @property
    def rounding(self) -> float:
        """How far rounding may be seen: of A beside the pivots of B, of y^2 / d beside 1 a row."""
        sums, eps = self.sums, float(np.finfo(np.float64).eps)
        largest = float(sums.squares.diagonal().max(initial=0.0))
        smallest = float(self.root.diagonal().min(initial=np.inf)) ** 2
        return eps * max(largest / smallest, sums.energy / (sums.rows * self.n_targets))

    @cached_property
    def weights(self) -> Array:
        """B^-1 c, the coefficients of the mean over the features."""
        return self.solved(self.sums.products)

    def solved(self, right: Array) -> Array:
        """B^-1 b."""
        half = solve_triangular(self.root, right, trans="T", check_finite=False)
        found: Array = solve_triangular(self.root, half, check_finite=False)
        return found

    def value(self) -> float:
        """The bound from below, summed over targets."""
        sums = self.sums
        explained = float(np.vdot(sums.products, self.weights))
        constant = self._log_determinant() + sums.rows * _LOG_2PI + sums.left_out
        return -0.5 * (self.n_targets * constant + sums.energy - explained)

    def upper_value(self) -> float:
        """The bound from above."""
        sums, shift = self.sums, 1 + self.sums.left_out
        half = solve_triangular(
            self._shifted_root(shift), sums.products, trans="T", check_finite=False
        )
        misfit = max(sums.energy - float(np.vdot(half, half)), 0.0) / shift
        constant = self._log_determinant() + sums.rows * _LOG_2PI
        return -0.5 * (self.n_targets * constant + misfit)

    def _log_determinant(self) -> float:
        """Of Q + D."""
        return self.sums.log_noise + 2 * float(np.sum(np.log(self.root.diagonal())))

    def slopes(self, root: LandmarkRoot) -> BoundSlopes:
        """The derivatives of the bound in kernel values, in forms that do not cancel."""
        sums, t, v = self.sums, self.n_targets, self.weights
        half = solve_triangular(self.root, sums.squares, trans="T", check_finite=False)
        shrunk = solve_triangular(self.root, half, check_finite=False)  # B^-1 A
        inner = root.solved((t * shrunk - v @ v.T).T).T
        left = root.solved(-0.5 * (t * (half.T @ half) + v @ v.T))
        square = root.solved(left.T)
        square = (square + square.T) / 2
        # Jitter is a fraction of the mean diagonal, and moves with it.
        square[np.diag_indices_from(square)] += root.fraction * square.diagonal().mean()
        misfit = sums.energy - 2 * float(np.vdot(v, sums.products))
        misfit += float(np.vdot(v, sums.squares @ v))
        noise = sums.rows - sums.left_out - float(np.trace(shrunk))
        return BoundSlopes(
            inner=inner,
            dual=root.solved(v),
            square=square,
            noise=-0.5 * (t * noise - misfit),
        )

    def carried(self, features: Array) -> Array:
        """U^-T phi, the sum of whose squares is the variance that data leave in the features."""
        found: Array = solve_triangular(self.root, features.T, trans="T", check_finite=False)
        return found
