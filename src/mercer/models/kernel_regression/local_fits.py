"""Local fits at points: what kernel regression computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.estimator.base import shown
from mercer.exceptions import ValidityError
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import Fixed
from mercer.kernels.points import Points
from mercer.kernels.views import EVERYTHING, Numbers
from mercer.models.kernel_regression.local import LocalFit, constants, lines

Array = NDArray[np.floating[Any]]

_COORDINATES = EVERYTHING.read_by(Numbers("NadarayaWatson(degree=1)", sparse=False))
_BLOCK = 2**21  # numbers in a block of work
_SAME = 1e-12  # of squared lengths: a squared distance that is rounding


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The columns of points in units of their spread; a constant column is 0 exactly."""

    origin: Array
    unit: Array
    values: Array

    @classmethod
    def of(cls, points: Points) -> Coordinates:
        """Take origin and units from the points."""
        matrix = np.asarray(points.matrix(_COORDINATES), dtype=float)
        # By the ends, not by means: to repeat a row changes nothing.
        low, high = matrix.min(axis=0), matrix.max(axis=0)
        origin, spread = low / 2 + high / 2, high / 2 - low / 2
        unit = np.where(spread > 0, spread, 1.0)
        return cls(origin, unit, (matrix - origin) / unit)

    def of_other(self, points: Points) -> Array:
        """The columns of other points."""
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
    def least(self) -> float:
        """Sums of weights below this have lost their digits."""
        dtype = self.kernel.gram(self.points).dtype
        return 1e8 * float(np.finfo(dtype).tiny) * float(self.weights.max())

    def blocks(self, n: int) -> Iterator[slice]:
        """Rows to do together."""
        width = self.targets.shape[1]
        if self.coordinates is not None:
            width = max(width, self.coordinates.values.shape[1])
        size = max(1, _BLOCK // (len(self.points) * width))
        return (slice(i, min(i + size, n)) for i in range(0, n, size))

    def values(self, places: Points) -> Array:
        """The fits at other places."""
        if self.coordinates is None:
            return self._means(places)
        return np.concatenate([fit.values for _, _, fit in self._fits(places)])

    def weights_of_targets(self, places: Points) -> Iterator[tuple[Array, Array]]:
        """Kernel values, and the weights of the targets in the fits, of which the sum is 1."""
        for kernel_values, shares, fit in self._fits(places):
            yield kernel_values, shares * fit.influence

    def _fits(self, places: Points) -> Iterator[tuple[Array, Array, LocalFit]]:
        """Kernel values, shares and fits at other places, block by block."""
        for rows in self.blocks(len(places)):
            part = places[rows]
            kernel_values = np.asarray(self.kernel(part, self.points), float)
            shares, sums = self._shares(kernel_values, part)
            at = None if self.coordinates is None else self.coordinates.of_other(part)
            yield kernel_values, shares, self._fit(shares, sums, at)

    def _means(self, places: Points) -> Array:
        """Weighted means, with no matrix stored, except for places far from all points."""
        gram = self.kernel.gram(places, self.points)
        weighted = np.column_stack([self.targets, np.ones(len(self.targets))])
        sums = np.asarray(gram @ (self.weights[:, None] * weighted), dtype=float)
        if (sums[:, -1] < 0).any():
            raise negative_values(self.kernel)
        far = np.flatnonzero(~(sums[:, -1] > self.least))
        sums[far, -1] = 1.0
        means = sums[:, :-1] / sums[:, -1:]
        if len(far):
            means[far] = self._far_shares(places[far]) @ self.targets
        return np.asarray(means)

    def _fit(self, shares: Array, sums: Array, places: Array | None) -> LocalFit:
        if self.coordinates is None or places is None:
            return constants(shares, self.targets)
        # Far from all points a line would be drawn on for ever: its value at their centre it is.
        far = np.isinf(sums)[:, None]
        places = np.where(far, shares @ self.coordinates.values, places)
        return lines(shares, self.targets, places, self.coordinates.values)

    def _shares(self, kernel_values: Array, places: Points, own: slice | None = None) -> Any:
        """Weights of sum 1 at each place, and the sums before; `own` rows do not see themselves."""
        if (kernel_values < 0).any():
            raise negative_values(self.kernel)
        raw = kernel_values * self.weights
        if own is not None:
            raw[np.arange(len(raw)), np.arange(own.start, own.stop)] = 0.0
        sums = raw.sum(axis=1)
        far = np.flatnonzero(~(sums > self.least))
        sums[far] = np.inf
        shares = raw / sums[:, None]
        if len(far):
            shares[far] = self._far_shares(places[far], None if own is None else own.start + far)
        return shares, sums

    def _far_shares(self, places: Points, own: NDArray[np.intp] | None = None) -> Array:
        """Where all weights vanish: the nearest point, as longer length-scales show it."""
        paths = _length_scales(self.kernel)
        shares = np.tile(self.weights, (len(places), 1))
        waiting = np.arange(len(places))
        entries = self.kernel.parameters()
        for factor in 10.0 ** np.arange(1, 13) if paths else ():
            longer = {path: Fixed(factor * entries[path].value) for path in paths}
            kernel = self.kernel.replace(**longer)
            near = np.asarray(kernel(places[waiting], self.points), float) * (self.weights > 0)
            if own is not None:
                near[np.arange(len(waiting)), own[waiting]] = 0.0
            best = near.max(axis=1)
            seen = best > self.least
            nearest = near[seen] == best[seen, None]
            shares[waiting[seen]] = nearest * self.weights
            waiting = waiting[~seen]
            if not len(waiting):
                break
        if own is not None:
            shares[waiting, own[waiting]] = 0.0
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    # Leaving one out ------------------------------------------------------------------------------

    def loo_residuals(self) -> Array:
        """What each row misses when it is left out."""
        n = len(self.points)
        residuals = np.empty_like(self.targets)
        for rows in self.blocks(n):
            _, _, fit = self._left_out(rows)
            residuals[rows] = self.targets[rows] - fit.values
        return residuals

    def loo_error(self) -> float:
        """Mean squared leave-one-out error."""
        return self._mean_square(self.loo_residuals())

    def shares_of_copies(self) -> tuple[float, float]:
        """How much of the weight in leave-one-out predictions rows of the same x have."""
        diagonal = np.asarray(self.kernel.diag(self.points), dtype=float)
        twins, copies = np.empty(len(self.points)), np.empty(len(self.points))
        for rows in self.blocks(len(self.points)):
            values = np.array(self._block(rows).toarray(), dtype=float)
            ends = diagonal[rows, None] + diagonal
            same = ends - 2 * values <= _SAME * ends
            shares, _ = self._shares(values, self.points[rows], own=rows)
            twins[rows] = (shares * same).sum(axis=1)
            same &= (self.targets[rows, None] == self.targets).all(axis=2)
            copies[rows] = (shares * same).sum(axis=1)
        twin, copy = (float(np.average(share, weights=self.weights)) for share in (twins, copies))
        return twin, copy

    def loo_gradient(self) -> tuple[float, Array]:
        """Mean squared leave-one-out error and its gradient in the kernel's parameters."""
        n = len(self.points)
        residuals = np.empty_like(self.targets)
        gradient = np.zeros(len(self.kernel.theta))
        for rows in self.blocks(n):
            block, sums, fit = self._left_out(rows)
            residuals[rows] = self.targets[rows] - fit.values
            pull = -2 * self.weights[rows, None] * residuals[rows] / self.weights.sum()
            pull /= self.targets.shape[1]
            sensitivity = fit.influence * np.einsum("bt,bnt->bn", pull, fit.residuals)
            sensitivity *= self.weights / sums[:, None]
            sensitivity[np.arange(len(sums)), np.arange(rows.start, rows.stop)] = 0.0
            gradient += block.gradient(sensitivity)
        return self._mean_square(residuals), gradient

    def _left_out(self, rows: slice) -> tuple[Gram, Array, LocalFit]:
        """The fits at rows without them."""
        block = self._block(rows)
        values = np.array(block.toarray(), dtype=float)
        shares, sums = self._shares(values, self.points[rows], own=rows)
        places = None if self.coordinates is None else self.coordinates.values[rows]
        return block, sums, self._fit(shares, sums, places)

    def _block(self, rows: slice) -> Gram:
        """Rows of the Gram matrix."""
        return Gram(self.kernel, self.kernel.gram(self.points).pairs.block(rows, slice(None)))

    def _mean_square(self, residuals: Array) -> float:
        return float(np.average((residuals * residuals).mean(axis=1), weights=self.weights))


def _length_scales(kernel: Kernel) -> list[str]:
    return [path for path in kernel.parameters() if path.split("__")[-1] == "length_scale"]


def negative_values(kernel: Kernel) -> ValidityError:
    """The error for a kernel whose values cannot be weights."""
    return ValidityError(
        f"NadarayaWatson: {shown(kernel)} has negative values, which cannot be weights; use a "
        "kernel without, such as RBF()."
    )
