"""Where hyper-parameters are searched: bounds and restarts on the scale of the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.stats.qmc import Halton
from sklearn.utils import check_random_state

from mercer.arrays import Array
from mercer.exceptions import NumericalWarning, warn
from mercer.kernels.base import Kernel, Scope, expression_in, scoped_children
from mercer.kernels.categorical import Categorical
from mercer.kernels.parameters import Bounded, Real
from mercer.kernels.points import Points
from mercer.kernels.special import Constant
from mercer.kernels.stationary import Periodic, SpectralMixture
from mercer.kernels.tree import ParameterEntry, with_children, with_values
from mercer.kernels.vector import VectorKernel
from mercer.kernels.wrappers import Scaled
from mercer.program import reference
from mercer.program.pairs import Pairs
from mercer.solvers.likelihood.maximise import Optimum

# Shortest length-scale in units of the least spacing of a column: below it, the kernel is noise.
_SHORTEST = 0.1
# Shortest length-scale in units of the range of a column.
_SHORTEST_OF_RANGE = 1e-4
# Longest length-scale of all columns in units of their range: beyond it, the kernel is constant.
_LONGEST = 1e3
# Longest length-scale of one of several columns, at which an irrelevant column is switched off
# without a loss of likelihood, however small the noise is.
_LONGEST_OF_SEVERAL = 1e5
# Lower bound of variances, in units of the variance of the targets.
_LEAST_VARIANCE = 1e-8
# Upper bound of variances, in units of the variance of the targets.
_LARGEST_VARIANCE = 1e8
# Where variances of functions usually lie, in units of the variance of the targets.
_USUAL_VARIANCE = (1e-2, 1e1)
# Where the variance of noise usually lies, in units of the variance of the targets.
_USUAL_NOISE = (1e-4, 1e0)
# Bounds of parameters without a scale in the data, in units of their starts.
_OTHER = (1e-4, 1e4)
# Where parameters without a scale in the data usually lie, in units of their starts.
_USUAL_OTHER = (1e-1, 1e1)


class Variance(NamedTuple):
    """The scale of the variances of functions."""

    usual: float = 1.0  # the variance of the targets, or of a latent function
    largest: float = _LARGEST_VARIANCE  # the largest multiple of it that a kernel may have
    open_above: bool = False  # whether a search that ends there needs no warning


_UNIT = Variance()


class _Range(NamedTuple):
    """Low and high ends, one pair for all entries of a parameter or one for each."""

    bounds: ArrayLike
    usual: ArrayLike  # the part of the bounds from which restarts are drawn
    harmless: tuple[bool, bool] = (False, False)  # ends at which the parameter has no effect
    logarithmic: bool = True  # whether theta is the logarithm of the parameter


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Free hyper-parameters: where they start, their bounds, and where they usually are.

    All in the unconstrained coordinates of ``kernel.theta``.
    """

    names: tuple[str, ...]  # the paths of the parameters
    # (p,): starting values; the middle of `usual` where the given one is outside the bounds
    start: Array
    bounds: Array  # (p, 2): low and high bounds; a user's own (`Bounded`) where there are some
    usual: Array  # (p, 2): the part of the bounds from which restarts are drawn
    # (p, 2): bounds at which a parameter only switches something off: an irrelevant column, no
    # noise
    harmless: NDArray[np.bool_]

    @classmethod
    def of(cls, kernel: Kernel, points: Points, variance: Variance = _UNIT) -> SearchSpace:
        """The free parameters of a resolved kernel."""
        nothing = np.empty((0, 2))
        space = cls((), np.empty(0), nothing, nothing, np.empty((0, 2), dtype=bool))
        entries = kernel.parameters()
        for place in _places(_Place(kernel, Scope(), kernel, points)):
            for name in place.kernel._own_names:
                entry = entries[place.scope.path(name)]
                if entry.free.any():
                    natural = _natural_range(entry, place, variance)
                    space = space._with(entry.names, entry.theta, natural, entry.free, entry.bounds)
        return space

    def with_noise(
        self, start: float, variance: float, given: tuple[float, float] = (0.0, np.inf)
    ) -> SearchSpace:
        """Add the logarithm of the variance of noise, for targets of this variance."""
        natural = _Range(
            np.multiply(variance, (_LEAST_VARIANCE, _LARGEST_VARIANCE)),
            np.multiply(variance, _USUAL_NOISE),
            (True, False),
        )
        with np.errstate(divide="ignore"):
            return self._with(["noise"], np.log([start]), natural, True, np.log([given]))

    def _with(
        self, names: list[str], start: Array, natural: _Range, free: ArrayLike, given: Array
    ) -> SearchSpace:
        """Add the free entries of a parameter, within the user's own bounds."""
        shape, entries = (np.size(free), 2), np.flatnonzero(free)
        bounds = np.broadcast_to(natural.bounds, shape)[entries]
        usual = np.broadcast_to(natural.usual, shape)[entries]
        if natural.logarithmic:
            bounds, usual = np.log(bounds), np.log(usual)
        bounded = np.isfinite(given)
        bounds = np.where(bounded, given, bounds)
        # An end taken from the data may lie beyond the user's own other end.
        bounds = np.column_stack([np.minimum(*bounds.T), np.maximum(*bounds.T)])
        usual = np.clip(usual, bounds[:, :1], bounds[:, 1:])
        # At a bound the objective is flat: a start that the data rule out would stay there.
        possible = (bounds[:, 0] <= start) & (start <= bounds[:, 1])
        return SearchSpace(
            (*self.names, *names),
            np.concatenate([self.start, np.where(possible, start, usual.mean(axis=1))]),
            np.vstack([self.bounds, bounds]),
            np.vstack([self.usual, usual]),
            np.vstack([self.harmless, bounded | natural.harmless]),
        )

    def restarts(self, number: int, random_state: Any) -> Array:
        """Starts spread over where the parameters usually are: a Halton sequence.

        More starts begin with the fewer ones, so that they cannot end lower.
        """
        low, high = self.usual.T
        if not number or not len(low):
            return np.empty((0, len(low)))
        seed = check_random_state(random_state).randint(2**31)
        return np.asarray(low + Halton(len(low), rng=seed).random(number) * (high - low))

    def names_at(self, optimum: Optimum, *, harmless: bool) -> list[str]:
        """Parameters that ended at a bound, as ``"name (low)"`` or ``"name (high)"``."""
        at_bounds = optimum.at_bounds if harmless else optimum.at_bounds & ~self.harmless
        names = []
        for i, side in np.argwhere(at_bounds):
            names.append(f"{self.names[i]} ({('low', 'high')[side]})")
        return names


def warn_of(owner: str, space: SearchSpace, optimum: Optimum, *clauses: str) -> None:
    """Warn once for a whole fit: the given clauses, no convergence, and parameters at bounds."""
    warnings = list(filter(None, clauses))
    if not (optimum.converged or optimum.stopped):
        warnings.append(
            f"the search for hyper-parameters stopped after {optimum.n_iter} iterations with a "
            f"gradient of {optimum.gradient_norm:.2g} (raise max_iter, or scale the data)"
        )
    at_bounds = space.names_at(optimum, harmless=False)
    if at_bounds:
        warnings.append(
            f"{', '.join(at_bounds)} ended at a bound set by the scale of the data (scale the "
            "data, choose another kernel, or give bounds with Bounded(value, low, high))"
        )
    if warnings:
        warn(f"{owner}: {'; '.join(warnings)}.", NumericalWarning)


def without_bounds(kernel: Any) -> Any:
    """The kernel with plain values in place of `Bounded` ones, which theta may leave."""
    stored = {name: kernel._values[name] for name in kernel._own_names}
    plain = {name: value.value for name, value in stored.items() if isinstance(value, Bounded)}
    children: list[Any] = [without_bounds(child) for _, child in kernel._tree.levels]
    if any(new is not old for new, (_, old) in zip(children, kernel._tree.levels, strict=True)):
        kernel = with_children(kernel, children)
    return with_values(kernel, **plain) if plain else kernel


# Natural ranges -----------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A kernel inside a composition."""

    kernel: Kernel
    scope: Scope  # its place in the root
    root: Kernel  # the composition
    points: Points  # the data


def _places(place: _Place) -> Iterator[_Place]:
    """Every kernel of a composition, in the order of ``kernel.parameters()``."""
    yield place
    for child, inner in scoped_children(place.kernel, place.scope):
        yield from _places(place._replace(kernel=child, scope=inner))


def _natural_range(entry: ParameterEntry, place: _Place, variance: Variance) -> _Range:
    """The range of a parameter, on the scale of the data where the data have one for it."""
    values, name = np.reshape(entry.value, (-1, 1)).astype(np.float64), entry.path.split("__")[-1]
    if isinstance(entry.declaration, Real):
        around = (1 + np.abs(values)) * (-1.0, 1.0)
        return _Range((-np.inf, np.inf), values + around, logarithmic=False)
    match place.kernel, name:
        case Periodic(), "length_scale":  # within a period, without a unit
            return _Range((1e-2, 1e2), (0.3, 3.0), (False, True))
        case VectorKernel(), "length_scale":
            return _length_range(place, entry)
        case Periodic(), "period":
            return _period_range(place)
        case Scaled(), "scale":
            return _variance_range(variance, _mean_without_factor(place))
        case (Constant(), "value") | (SpectralMixture(), "weights"):
            return _variance_range(variance)
        case Categorical(), "weight":  # categories that do not matter have no weight
            return _Range(values * _OTHER, values * _USUAL_OTHER, (True, False))
    return _Range(values * _OTHER, values * _USUAL_OTHER)


def _length_range(place: _Place, entry: ParameterEntry) -> _Range:
    """From a fraction of the least spacing to a multiple of the range, in each column."""
    spacing, spread = extent(place.points.matrix(place.kernel._view(place.scope)))
    longest = _LONGEST_OF_SEVERAL if np.size(entry.value) > 1 else _LONGEST
    if np.ndim(entry.value) == 0 or np.shape(entry.value)[-1] != len(spread):
        # One length for all columns: any of them may need the short one, and distances add up.
        spacing, spread = np.asarray(np.min(spacing)), np.asarray(np.hypot.reduce(spread))
    shortest = np.maximum(_SHORTEST * spacing, _SHORTEST_OF_RANGE * spread)
    bounds = np.stack([shortest, longest * spread], axis=-1)
    usual = np.stack([np.maximum(spacing, 0.02 * spread), 2 * spread], axis=-1)
    if np.ndim(entry.value) == 2 and bounds.ndim == 2:
        bounds, usual = (np.tile(ends, (len(entry.value), 1)) for ends in (bounds, usual))
    return _Range(bounds, usual, (False, True))


def _period_range(place: _Place) -> _Range:
    spacing, spread = extent(place.points.matrix(place.kernel._view(place.scope)))
    longest = 2 * float(np.max(spread))
    shortest = max(float(np.min(spacing)), _SHORTEST_OF_RANGE * longest)
    return _Range((shortest, longest), (2 * shortest, longest / 4))


def _mean_without_factor(place: _Place) -> float:
    """The mean of k(x, x) without the factor of the kernel; 1 where it says nothing."""
    pairs = Pairs(place.points, place.points, place.root._tree.values, same=True, aligned=True)
    expression = expression_in(*scoped_children(place.kernel, place.scope)[0])
    mean = float(np.mean(np.asarray(reference.evaluate(expression, pairs), np.float64)))
    return mean if np.isfinite(mean) and mean > 0 else 1.0


def _variance_range(variance: Variance, unit: float = 1.0) -> _Range:
    """The range of a factor of a function whose variance is `unit` without it."""
    usual = variance.usual / unit
    return _Range(
        np.multiply(usual, (_LEAST_VARIANCE, variance.largest)),
        np.multiply(usual, _USUAL_VARIANCE),
        (True, variance.open_above),
    )


def extent(matrix: Any) -> tuple[Array, Array]:
    """The least spacing and the range of each column; 1 and 1 for a constant column."""
    if sp.issparse(matrix):
        ends = (matrix.max(axis=0), matrix.min(axis=0))
        largest, least = (end.toarray().ravel().astype(np.float64) for end in ends)
        spread = largest - least
        # Of sparse data, sorting would store the zeros: the spacing is that of stored entries.
        sizes = np.abs(matrix.data[matrix.data != 0])
        spacing = np.minimum(spread, sizes.min(initial=np.inf))
    else:
        ordered = np.sort(np.asarray(matrix, dtype=np.float64), axis=0)
        spread = ordered[-1] - ordered[0]
        gaps = np.diff(ordered, axis=0)
        # Differences within rounding are no spacing.
        gaps[gaps <= 1e-12 * np.abs(ordered).max(axis=0, initial=0.0)] = np.inf
        spacing = np.min(gaps, axis=0, initial=np.inf)
    constant = ~np.isfinite(spacing) | (spread <= 0)
    return np.where(constant, 1.0, spacing), np.where(constant, 1.0, spread)
