r"""Local least squares: a constant or a line at each place, weighted by a kernel.

At a place x, with weights v_j >= 0 of n points z_j, the constant or line

.. math:: \sum_j v_j \,(y_j - a - b^\top (z_j - x))^2 \to \min_{a,\, b}

is fitted, and its value at x is a. A constant gives the weighted mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.estimator.base import shown
from mercer.exceptions import ValidityError
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import Fixed
from mercer.kernels.points import Points
from mercer.kernels.views import EVERYTHING, Numbers
from mercer.sampling import blocks

_COORDINATES = EVERYTHING.read_by(Numbers("NadarayaWatson(degree=1)", sparse=False))
# Factors of the length-scales, longest first, at which kernel values that underflow are visible.
_LONGER = (1e12, 1e10, 1e8, 1e6, 1e4, 1e2)
# Variance below which a direction has no slope, relative to the direction of largest variance.
_FLAT = 1e-12


@dataclass(frozen=True, eq=False)
class LocalFit:
    """Local constants or lines at b places, whose weights of the n points have the sum 1."""

    values: Array  # (b, n_targets): the values at the places
    influence: Array  # (b, n): the derivative of a value in a weight, divided by the residual
    residuals: Array  # (b, n, n_targets): targets minus the local constant or line


def constants(shares: Array, targets: Array) -> LocalFit:
    """Fit a constant at every place."""
    values = shares @ targets
    return LocalFit(values, np.ones_like(shares), targets - values[:, None])


def lines(shares: Array, targets: Array, places: Array, coordinates: Array) -> LocalFit:
    """Fit a line (a plane) at every place."""
    centres, means = shares @ coordinates, shares @ targets
    # Differences from the local centre, one (n, d) matrix for each place: moments about a common
    # origin would cancel where a place sees a small part of the data.
    offsets = coordinates - centres[:, None]
    deviations = targets - means[:, None]
    weighted = offsets * shares[:, :, None]
    scatter = weighted.transpose(0, 2, 1) @ offsets
    inverse = np.linalg.pinv(scatter, rcond=_FLAT, hermitian=True)
    slopes = inverse @ (weighted.transpose(0, 2, 1) @ deviations)
    away = (places - centres)[:, None, :]
    values = means + (away @ slopes)[:, 0]
    influence = 1 + (away @ inverse @ offsets.transpose(0, 2, 1))[:, 0]
    return LocalFit(values, influence, deviations - offsets @ slopes)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The columns of points, centred and scaled by their range; a constant column is 0 exactly."""

    origin: Array  # (d,)
    unit: Array  # (d,)
    values: Array  # (n, d): the scaled columns

    @classmethod
    def from_points(cls, points: Points) -> Coordinates:
        """Take origin and units from the range of the points: copies of rows do not change it."""
        matrix = np.asarray(points.matrix(_COORDINATES), dtype=float)
        low, high = matrix.min(axis=0), matrix.max(axis=0)
        origin, half_range = low / 2 + high / 2, high / 2 - low / 2
        unit = np.where(half_range > 0, half_range, 1.0)
        return cls(origin, unit, (matrix - origin) / unit)

    def at(self, points: Points) -> Array:
        """The scaled columns of other points."""
        return np.asarray((points.matrix(_COORDINATES) - self.origin) / self.unit, dtype=float)


@dataclass(frozen=True, eq=False)
class Smoother:
    """Local fits to weighted targets at points."""

    kernel: Kernel
    points: Points
    targets: Array
    weights: Array
    coordinates: Coordinates | None = None

    @property
    def smallest_sum(self) -> float:
        """The smallest sum of weights that is accurate; below it kernel values underflow."""
        dtype = self.kernel.gram(self.points).dtype
        return 1e8 * float(np.finfo(dtype).tiny) * float(self.weights.max())

    def blocks(self, n: int) -> Iterator[slice]:
        """Slices of n places to compute together."""
        width = self.targets.shape[1]
        if self.coordinates is not None:
            width = max(width, self.coordinates.values.shape[1])
        return blocks(n, len(self.points) * width, least=1)

    def values(self, places: Points) -> Array:
        """The values of the fits at other places."""
        if self.coordinates is None:
            return self._means(places)
        return np.concatenate([fit.values for _, _, fit in self._fits(places)])

    def weights_of_targets(self, places: Points) -> Iterator[tuple[Array, Array]]:
        """Kernel values, and the weights of the targets in the fits, whose sum is 1."""
        for kernel_values, shares, fit in self._fits(places):
            yield kernel_values, shares * fit.influence

    def _fits(self, places: Points) -> Iterator[tuple[Array, Array, LocalFit]]:
        """Kernel values, shares and fits at other places, block by block."""
        for rows in self.blocks(len(places)):
            part = places[rows]
            kernel_values = np.asarray(self.kernel(part, self.points), float)
            shares, sums = self._shares(kernel_values, part)
            at = None if self.coordinates is None else self.coordinates.at(part)
            yield kernel_values, shares, self._fit(shares, sums, at)

    def _means(self, places: Points) -> Array:
        """Weighted means; a matrix is stored only for places far from all points."""
        gram = self.kernel.gram(places, self.points)
        weighted = np.column_stack([self.targets, np.ones(len(self.targets))])
        sums = np.asarray(gram @ (self.weights[:, None] * weighted), dtype=float)
        if (sums[:, -1] < 0).any():
            raise negative_values(self.kernel)
        far = np.flatnonzero(~(sums[:, -1] > self.smallest_sum))
        sums[far, -1] = 1.0
        means = sums[:, :-1] / sums[:, -1:]
        if len(far):
            means[far] = self._far_shares(places[far]) @ self.targets
        return np.asarray(means)

    def _fit(self, shares: Array, sums: Array, places: Array | None) -> LocalFit:
        if self.coordinates is None or places is None:
            return constants(shares, self.targets)
        # Do not extrapolate a line far outside the data: use its value at the weighted mean.
        far = np.isinf(sums)[:, None]
        places = np.where(far, shares @ self.coordinates.values, places)
        return lines(shares, self.targets, places, self.coordinates.values)

    def _shares(self, kernel_values: Array, places: Points, own: slice | None = None) -> Any:
        """Normalised weights at each place, and their sums; `own` rows leave themselves out."""
        if (kernel_values < 0).any():
            raise negative_values(self.kernel)
        raw = kernel_values * self.weights
        if own is not None:
            raw[np.arange(len(raw)), np.arange(own.start, own.stop)] = 0.0
        sums = raw.sum(axis=1)
        far = np.flatnonzero(~(sums > self.smallest_sum))
        sums[far] = np.inf
        shares = raw / sums[:, None]
        if len(far):
            shares[far] = self._far_shares(places[far], None if own is None else own.start + far)
        return shares, sums

    def _far_shares(self, places: Points, own: NDArray[np.intp] | None = None) -> Array:
        """Weights where all kernel values underflow: those of the nearest points.

        The nearest points have the largest kernel value at the shortest of longer length-scales
        that shows one. If none does, all points count.
        """
        weights = np.tile(self.weights, (len(places), 1))
        if own is not None:
            weights[np.arange(len(places)), own] = 0.0
        shares, scales = weights, _length_scales(self.kernel)
        for factor in _LONGER if scales else ():
            longer = {path: Fixed(factor * scale) for path, scale in scales.items()}
            near = np.asarray(self.kernel.replace(**longer)(places, self.points), float)
            near *= weights > 0
            largest = near.max(axis=1, keepdims=True)
            nearest = weights * (near == largest)
            shares = np.where(largest > self.smallest_sum, nearest, shares)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def loo_residuals(self) -> Array:
        """Targets minus the predictions from the other rows."""
        fits = (self._left_out(rows)[-1] for rows in self.blocks(len(self.points)))
        return np.asarray(self.targets - np.concatenate([fit.values for fit in fits]))

    def loo_error(self) -> float:
        """Mean squared leave-one-out error."""
        return self._mean_square(self.loo_residuals())

    def loo_gradient(self) -> tuple[float, Array]:
        """Mean squared leave-one-out error and its gradient in the kernel's parameters."""
        residuals = np.empty_like(self.targets)
        gradient = np.zeros(len(self.kernel.theta))
        for rows in self.blocks(len(self.points)):
            block, sums, fit = self._left_out(rows)
            residuals[rows] = self.targets[rows] - fit.values
            dvalues = -2 * self.weights[rows, None] * residuals[rows] / self.weights.sum()
            dvalues /= self.targets.shape[1]
            sensitivity = fit.influence * np.einsum("bt,bnt->bn", dvalues, fit.residuals)
            sensitivity *= self.weights / sums[:, None]
            sensitivity[np.arange(len(sums)), np.arange(rows.start, rows.stop)] = 0.0
            gradient += block.gradient(sensitivity)
        return self._mean_square(residuals), gradient

    def _left_out(self, rows: slice) -> tuple[Gram, Array, LocalFit]:
        """The Gram matrix, sums of weights, and fits at rows that leave themselves out."""
        block = Gram(self.kernel, self.kernel.gram(self.points).pairs.block(rows, slice(None)))
        values = np.array(block.toarray(), dtype=float)
        shares, sums = self._shares(values, self.points[rows], own=rows)
        places = None if self.coordinates is None else self.coordinates.values[rows]
        return block, sums, self._fit(shares, sums, places)

    def _mean_square(self, residuals: Array) -> float:
        return float(np.average((residuals * residuals).mean(axis=1), weights=self.weights))


def _length_scales(kernel: Kernel) -> dict[str, Any]:
    """The length-scales of a kernel by the path of the parameter."""
    return {
        path: entry.value
        for path, entry in kernel.parameters().items()
        if path.split("__")[-1] == "length_scale"
    }


def negative_values(kernel: Kernel) -> ValidityError:
    """The error for a kernel whose values cannot be weights."""
    return ValidityError(
        f"NadarayaWatson: {shown(kernel)} has negative values, which cannot be weights; use a "
        "kernel without, such as RBF()."
    )
