r"""Least squares on explicit features, from sums over rows.

For features phi_i in R^m (columns of a kernel at landmarks, or any explicit map), targets y_i and
weights w_i, ridge regression

.. math:: \min_{c, b} \tfrac12 \sum_i w_i (y_i - \phi_i^\top c - b)^2 + \tfrac\alpha2 c^\top M c

needs only the sums of w, w phi, w y, w phi phi', w phi y and w y^2 over the rows. The sums are
accumulated in float64, block by block, and sums of blocks add up to those of all data: rows may
come from memory, a file or another machine, in any number.

Features are summed about an origin near their median. An intercept subtracts their means, and if
features are far from zero, squares summed about zero would cancel: four digits remain at means of a
million standard deviations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from mercer.arrays import Array
from mercer.linalg.blocked import multiply
from mercer.linalg.symmetric import mirror

Block = tuple[Array, Array, Array | None]

# Number of rows whose median is used as the origin of the features; robust to outliers.
_MIDDLE_ROWS = 127

#: The message for features, or sums of their squares, that are not finite.
OUT_OF_RANGE = (
    "features or kernel values, or sums of their squares over rows, are beyond the range of their "
    "type; divide X, or the kernel, by a number"
)


def require_finite(*sums: Array) -> None:
    """Refuse sums that are not finite; solvers name the model in the message."""
    if not all(np.isfinite(part).all() for part in sums):
        raise OverflowError(OUT_OF_RANGE)


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums over rows of features and targets, about origins near their means."""

    rows: int  # rows of positive weight
    weight: float  # sum of w
    features: Array  # (m,): sum of w (phi - shift)
    targets: Array  # (t,): sum of w (y - origin)
    squares: Array  # (m, m): sum of w (phi - shift)(phi - shift)'
    products: Array  # (m, t): sum of w (phi - shift)(y - origin)'
    energy: Array  # (t,): sum of w (y - origin)^2
    origin: Array  # (t,): subtracted from targets
    shift: Array  # (m,): subtracted from features

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # refused by `used`
    def of(cls, blocks: Iterable[Block], n_features: int, origin: Array) -> Moments:
        """Sum blocks of rows, whose features are overwritten."""
        n_targets, shift = len(origin), None
        squares: Array = np.zeros((n_features, n_features), order="F")
        products = np.zeros((n_features, n_targets))
        features, targets = np.zeros(n_features), np.zeros(n_targets)
        energy, weight, rows = np.zeros(n_targets), 0.0, 0
        for phi, y, w in blocks:
            root = None if w is None else np.sqrt(w).astype(phi.dtype)
            shifted = np.asarray(y - origin, phi.dtype)
            shift = _middle(phi, w) if shift is None else shift
            phi -= shift
            if root is not None:
                phi *= root[:, None]
                shifted *= root[:, None]
            ones = np.ones(len(phi), phi.dtype) if root is None else root
            squares = _add_squares(squares, phi)
            sums = np.vstack([shifted.T, ones]) @ phi
            products += sums[:-1].T
            features += sums[-1]
            targets += ones @ shifted
            energy += np.einsum("ij,ij->j", shifted, shifted, dtype=np.float64)
            weight += len(phi) if w is None else float(w.sum(dtype=np.float64))
            rows += len(phi) if w is None else int(np.count_nonzero(w))
        mirror(squares.T)
        about = np.zeros(n_features) if shift is None else shift.astype(np.float64)
        return cls(rows, weight, features, targets, squares, products, energy, origin, about)

    def __add__(self, other: Moments) -> Moments:
        """The sums over the rows of both, which must have the same origin of targets."""
        if other.weight > self.weight:  # keep the origin of the larger weight
            return other + self
        moved = other.about(self.shift)
        added = ("rows", "weight", "features", "targets", "squares", "products", "energy")
        return replace(self, **{name: getattr(self, name) + getattr(moved, name) for name in added})

    def about(self, shift: Array) -> Moments:
        """The sums about another origin of the features."""
        step = self.shift - shift
        border = np.outer(step, self.features)
        return replace(
            self,
            features=self.features + self.weight * step,
            squares=self.squares + (border + border.T) + self.weight * np.outer(step, step),
            products=self.products + np.outer(step, self.targets),
            shift=shift,
        )

    def centred(self) -> Moments:
        """The sums about the means of features and targets, for a fit with an intercept."""
        mean, middle = self.features / self.weight, self.targets / self.weight
        return replace(
            self,
            squares=self.squares - np.outer(mean, self.features),
            products=self.products - np.outer(self.features, middle),
            energy=self.energy - self.targets * middle,
        )

    @property
    def plain_features(self) -> Array:
        """Sum of w phi."""
        sums: Array = self.features + self.weight * self.shift
        return sums

    def used(self, *, fit_intercept: bool) -> Moments:
        """The sums about the means with an intercept, about zero without; refused if not finite."""
        require_finite(self.squares, self.products, self.energy)
        return self.centred() if fit_intercept else self.plain()

    def whitened(self, whitening: Array | None) -> Array:
        """T' squares T, symmetric; T is the identity if it is None."""
        if whitening is None:
            return self.squares
        squares = multiply(multiply(whitening.T, self.squares), whitening)
        return (squares + squares.T) / 2

    def intercept(self, coefficients: Array, *, fit_intercept: bool) -> Array:
        """The intercept that belongs to coefficients: the weighted mean of the residuals."""
        if not fit_intercept:
            return np.zeros_like(self.origin)
        residual_sum = self.targets - self.plain_features @ coefficients
        constant: Array = self.origin + residual_sum / self.weight
        return constant

    def relative(self, residuals: Array) -> Array:
        """Norms of residuals relative to the products, or to their rounding error if larger.

        Targets have the rounding error of their origin. So by Cauchy and Schwarz the error of the
        products is that error times the root of the weight and of the trace of the squares.
        """
        eps, trace = float(np.finfo(np.float64).eps), float(self.squares.diagonal().sum())
        noise = eps * np.abs(self.origin) * (np.sqrt(self.weight) * np.sqrt(max(trace, 0.0)))
        size = max(float(np.linalg.norm(self.products)), float(np.linalg.norm(noise)))
        norms: Array = np.linalg.norm(residuals, axis=(-2, -1))
        return norms / (size or 1.0)

    def plain(self) -> Moments:
        """The sums with zero as the origin of the features."""
        return self.about(np.zeros_like(self.shift))


def _middle(phi: Array, weights: Array | None) -> Array:
    """The median of some rows of positive weight, which is robust to outliers."""
    rows = np.arange(len(phi))
    if weights is not None and weights.any():
        rows = np.flatnonzero(weights)
    median: Array = np.median(phi[rows[:: -(-len(rows) // _MIDDLE_ROWS)]], axis=0)
    return median.astype(phi.dtype, copy=False)


def _add_squares(total: Array, phi: Array) -> Array:
    """Add phi' phi to the lower triangle; products in the type of phi, sums in float64."""
    if phi.dtype == total.dtype:
        return multiply(phi.T, phi, total, beta=1.0, triangle="lower")
    total += multiply(phi.T, phi, triangle="lower")
    return total
