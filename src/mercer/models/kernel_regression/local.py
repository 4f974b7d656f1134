r"""Local least squares: a constant or a line for each place, weighted by nearness.

At a place x, with weights v_j >= 0 of n points z_j, the constant or line

.. math:: \sum_j v_j \,(y_j - a - b^\top (z_j - x))^2 \to \min_{a,\, b}

is fitted, and its value at x is a. A constant gives the weighted mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

# Directions in which the points near a place spread less than this, relative to the direction in
# which they spread most, have no slope.
_FLAT = 1e-12


@dataclass(frozen=True, eq=False)
class LocalFit:
    """Local constants or lines at b places."""

    values: Array  # (b, n_targets): the values at the places
    # (b, n): the derivative of a value by a weight is influence * (y_j - line at z_j), the weights
    # of a place having the sum 1
    influence: Array
    residuals: Array  # (b, n, n_targets): targets minus the lines: y_j - line at z_j


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
    inverse = _pseudo_inverse(scatter)
    slopes = inverse @ (weighted.transpose(0, 2, 1) @ deviations)
    away = (places - centres)[:, None, :]
    values = means + (away @ slopes)[:, 0]
    influence = 1 + (away @ inverse @ offsets.transpose(0, 2, 1))[:, 0]
    return LocalFit(values, influence, deviations - offsets @ slopes)


def _pseudo_inverse(scatter: Array) -> Array:
    """The inverses of positive semi-definite matrices, 0 along directions without spread."""
    eigenvalues, vectors = np.linalg.eigh(scatter)
    largest = eigenvalues[:, -1:]
    kept = (eigenvalues > _FLAT * largest) & (largest > 0)
    inverse = np.where(kept, 1.0, 0.0) / np.where(kept, eigenvalues, 1.0)
    return np.asarray((vectors * inverse[:, None, :]) @ vectors.transpose(0, 2, 1))
