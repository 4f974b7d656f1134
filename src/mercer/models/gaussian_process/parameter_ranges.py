"""What values a hyper-parameter can sensibly have, given the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mercer.kernels.algebra import Scaled
from mercer.kernels.base import Kernel, Scope, expression_in, scoped_children
from mercer.kernels.parameters import Real
from mercer.kernels.points import Points
from mercer.kernels.special import Constant
from mercer.kernels.stationary import Periodic, SpectralMixture
from mercer.kernels.tree import ParameterEntry
from mercer.kernels.vector import VectorKernel
from mercer.program import reference
from mercer.program.pairs import Pairs

Array = NDArray[np.floating[Any]]

# Below the least spacing a length-scale is white noise, far above the range a constant. One of
# several columns is switched off there, which has to cost no likelihood, however small the noise.
_SHORTEST = 0.1
_SHORTEST_OF_RANGE = 1e-4
_LONGEST = 1e3
_LONGEST_OF_SEVERAL = 1e5

# Variances, as multiples of the variance of the targets.
_LEAST_VARIANCE, _LARGEST_VARIANCE = 1e-8, 1e8
_USUAL_VARIANCE = (1e-2, 1e1)
_USUAL_NOISE = (1e-4, 1e0)

# What has no scale in the data, as multiples of where it starts.
_OTHER = (1e-4, 1e4)
_USUAL_OTHER = (1e-1, 1e1)

_REPRESENTABLE = (1e-290, 1e290)


class Variance(NamedTuple):
    """The scale of the variances of functions."""

    usual: float = 1.0  # the variance of the targets, or of a latent function
    largest: float = _LARGEST_VARIANCE  # the largest multiple of it that a kernel may have
    open_above: bool = False  # whether the search may well end there, with nothing wrong


@dataclass(frozen=True, eq=False)
class Range:
    """Bounds of the entries of a parameter, and where they usually lie."""

    bounds: Array  # (p, 2): low and high
    usual: Array  # (p, 2): the part of it from which restarts are drawn
    harmless: NDArray[np.bool_]  # (p, 2): ends at which the parameter only switches something off

    @classmethod
    def made_of(
        cls, bounds: ArrayLike, usual: ArrayLike, harmless: tuple[bool, bool] = (False, False)
    ) -> Range:
        """One (low, high) for all entries, or arrays of them stacked in the last axis."""
        low_high, part = np.atleast_2d(bounds), np.atleast_2d(usual)
        return cls(low_high, part, np.atleast_2d(harmless))

    def logarithms(self, free: NDArray[np.bool_]) -> Range:
        """The range of the logarithms of the free entries."""
        size = np.atleast_1d(free).size
        rows = np.flatnonzero(free)
        bounds, usual = (
            np.log(np.clip(np.broadcast_to(ends, (size, 2))[rows], *_REPRESENTABLE))
            for ends in (self.bounds, self.usual)
        )
        return Range(bounds, usual, np.broadcast_to(self.harmless, (size, 2))[rows])


@dataclass(frozen=True, eq=False)
class Place:
    """A kernel inside a composition, and what it sees of the data."""

    kernel: Kernel
    scope: Scope  # its place in the root
    root: Kernel  # the composition
    points: Points  # the data

    @property
    def paths(self) -> list[str]:
        """The paths of the kernel's own parameters."""
        return [self.scope.path(name) for name in self.kernel._own_names]

    @property
    def matrix(self) -> Any:
        """The numbers that the kernel compares."""
        return self.points.matrix(self.kernel._view(self.scope))

    def mean_diagonal(self) -> float:
        """The mean of k(x, x) without the kernel's own factor; 1 where it is zero."""
        pairs = Pairs(
            self.points, self.points, self.root._tree.values, same=True, aligned=True
        )
        inner = scoped_children(self.kernel, self.scope)[0]
        values = reference.evaluate(expression_in(*inner), pairs)
        mean = float(np.mean(np.asarray(values, dtype=np.float64)))
        return mean if np.isfinite(mean) and mean > 0 else 1.0


def places(kernel: Kernel, points: Points) -> Iterator[Place]:
    """Every kernel of a composition, in the order of ``kernel.parameters()``."""

    def walk(node: Kernel, scope: Scope) -> Iterator[Place]:
        yield Place(node, scope, kernel, points)
        for child, inner in scoped_children(node, scope):
            yield from walk(child, inner)

    return walk(kernel, Scope())


def natural_range(entry: ParameterEntry, place: Place, variance: Variance) -> Range:
    """The range of the free entries of a parameter, under its transform."""
    name = entry.path.split("__")[-1]
    if isinstance(entry.declaration, Real):
        return _unbounded(entry.theta)
    for kinds, parameter, rule in _RULES:
        if name == parameter and isinstance(place.kernel, kinds):
            return rule(place, entry, variance).logarithms(entry.free)
    return _around_start(entry).logarithms(entry.free)


def noise_range(variance: float) -> Range:
    """The range of the variance of noise: at its lower end there is none."""
    bounds = np.multiply(variance, (_LEAST_VARIANCE, _LARGEST_VARIANCE))
    return Range.made_of(bounds, np.multiply(variance, _USUAL_NOISE), (True, False))


def _length(place: Place, entry: ParameterEntry, variance: Variance) -> Range:
    """From a fraction of the least spacing to a multiple of the range, in each column."""
    spacing, spread = extent(place.matrix)
    longest = _LONGEST_OF_SEVERAL if np.size(entry.value) > 1 else _LONGEST
    if np.ndim(entry.value) == 0 or np.shape(entry.value)[-1] != len(spread):
        # One length for all columns: any of them may need the short one, and distances add up.
        spacing, spread = np.asarray(np.min(spacing)), np.asarray(np.hypot.reduce(spread))
    shortest = np.maximum(_SHORTEST * spacing, _SHORTEST_OF_RANGE * spread)
    bounds = np.stack([shortest, longest * spread], axis=-1)
    usual = np.stack([np.maximum(spacing, 0.02 * spread), 2 * spread], axis=-1)
    if np.ndim(entry.value) == 2 and bounds.ndim == 2:
        bounds, usual = (np.tile(ends, (len(entry.value), 1)) for ends in (bounds, usual))
    return Range.made_of(bounds, usual, (False, True))


def _period(place: Place, entry: ParameterEntry, variance: Variance) -> Range:
    spacing, spread = extent(place.matrix)
    longest = 2 * float(np.max(spread))
    shortest = max(float(np.min(spacing)), _SHORTEST_OF_RANGE * longest)
    return Range.made_of((shortest, longest), (2 * shortest, longest / 4))


def _smoothness_within_period(place: Place, entry: ParameterEntry, variance: Variance) -> Range:
    return Range.made_of((1e-2, 1e2), (0.3, 3.0), (False, True))


def _factor(place: Place, entry: ParameterEntry, variance: Variance) -> Range:
    return _multiple(variance, 1 / place.mean_diagonal())


def _constant(place: Place, entry: ParameterEntry, variance: Variance) -> Range:
    return _multiple(variance, 1.0)


def _multiple(variance: Variance, factor: float) -> Range:
    unit = variance.usual * factor
    bounds = np.multiply(unit, (_LEAST_VARIANCE, variance.largest))
    return Range.made_of(bounds, np.multiply(unit, _USUAL_VARIANCE), (True, variance.open_above))


def _around_start(entry: ParameterEntry) -> Range:
    values = np.atleast_1d(np.asarray(entry.value, dtype=np.float64)).reshape(-1, 1)
    return Range.made_of(values * _OTHER, values * _USUAL_OTHER)


def _unbounded(theta: Array) -> Range:
    spread = 1 + np.abs(theta)
    usual = np.column_stack([theta - spread, theta + spread])
    bounds = np.tile([-np.inf, np.inf], (len(theta), 1))
    return Range(bounds, usual, np.zeros((len(theta), 2), dtype=bool))


_Rule = Callable[[Place, ParameterEntry, Variance], Range]
_RULES: tuple[tuple[type[Kernel], str, _Rule], ...] = (
    (Periodic, "length_scale", _smoothness_within_period),
    (VectorKernel, "length_scale", _length),
    (Periodic, "period", _period),
    (Scaled, "scale", _factor),
    (Constant, "value", _constant),
    (SpectralMixture, "weights", _constant),
)


def extent(matrix: Any) -> tuple[Array, Array]:
    """The least spacing and the range of each column; 1 and 1 where it is constant."""
    if sp.issparse(matrix):
        return _sparse_extent(matrix)
    ordered = np.sort(np.asarray(matrix, dtype=np.float64), axis=0)
    spread = ordered[-1] - ordered[0]
    gaps = np.diff(ordered, axis=0)
    # Differences within rounding are no spacing.
    gaps[gaps <= 1e-12 * np.abs(ordered).max(axis=0, initial=0.0)] = np.inf
    spacing = np.min(gaps, axis=0, initial=np.inf)
    constant = ~np.isfinite(spacing) | (spread <= 0)
    return np.where(constant, 1.0, spacing), np.where(constant, 1.0, spread)


def _sparse_extent(matrix: Any) -> tuple[Array, Array]:
    """The same for sparse data, whose least spacing is taken from the entries that are stored."""
    largest = matrix.max(axis=0).toarray().ravel().astype(np.float64)
    least = matrix.min(axis=0).toarray().ravel().astype(np.float64)
    spread = largest - least
    sizes = np.abs(matrix.data[matrix.data != 0]) if matrix.nnz else np.ones(1)
    spacing = np.minimum(spread, sizes.min(initial=np.inf))
    constant = spread <= 0
    return np.where(constant, 1.0, spacing), np.where(constant, 1.0, spread)
