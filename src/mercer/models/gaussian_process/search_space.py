"""Where hyper-parameters are searched: bounds and restarts on the scale of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from mercer.exceptions import NumericalWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.gaussian_process.parameter_ranges import (
    Range,
    Variance,
    natural_range,
    noise_range,
    places,
)
from mercer.solvers.likelihood import maximise
from mercer.solvers.likelihood.maximise import Optimum

Array = NDArray[np.floating[Any]]

_UNIT = Variance()


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
        space = cls.empty()
        entries = kernel.parameters()
        for place in places(kernel, points):
            for path in place.paths:
                entry = entries[path]
                if entry.free.any():
                    found = natural_range(entry, place, variance)
                    space = space._extended(entry.names, entry.theta, found, entry.bounds)
        return space

    @classmethod
    def empty(cls) -> SearchSpace:
        """No parameters."""
        nothing = np.empty((0, 2))
        return cls((), np.empty(0), nothing, nothing, np.empty((0, 2), dtype=bool))

    def with_variance(
        self,
        name: str,
        start: float,
        variance: float,
        given: tuple[float, float] = (0.0, np.inf),
    ) -> SearchSpace:
        """The same with a variance, such as that of noise, learned as its logarithm."""
        found = noise_range(variance).logarithms(np.ones(1, dtype=bool))
        with np.errstate(divide="ignore"):
            return self._extended([name], np.log([start]), found, np.log([given]))

    def _extended(self, names: list[str], start: Array, found: Range, given: Array) -> SearchSpace:
        """The same with further parameters, within the bounds that were given for them."""
        bounded = np.isfinite(given)
        bounds = np.where(bounded, given, found.bounds)
        # An end taken from the data may lie beyond the user's own other end.
        bounds = np.column_stack([np.minimum(*bounds.T), np.maximum(*bounds.T)])
        usual = np.clip(found.usual, bounds[:, :1], bounds[:, 1:])
        # At a bound the objective is flat: a start that the data rule out would stay there.
        possible = (bounds[:, 0] <= start) & (start <= bounds[:, 1])
        return SearchSpace(
            (*self.names, *names),
            np.concatenate([self.start, np.where(possible, start, usual.mean(axis=1))]),
            np.vstack([self.bounds, bounds]),
            np.vstack([self.usual, usual]),
            np.vstack([self.harmless, found.harmless | bounded]),
        )

    def restarts(self, number: int, random_state: Any) -> Array:
        """Starts spread over where the parameters usually are: a Latin hypercube.

        Cut into as many parts as there are starts, the range of each parameter has one start in
        each part.
        """
        rng = check_random_state(random_state)
        share = rng.uniform(size=(number, len(self.names)))
        for column in share.T:
            column += rng.permutation(number)
        share /= max(number, 1)
        low, high = self.usual.T
        drawn: Array = low + share * (high - low)
        return drawn

    def maximise(
        self,
        objective: maximise.Objective,
        *,
        n_restarts: int,
        random_state: Any,
        max_iter: int,
        sketch: maximise.Sketch | None = None,
        enough: maximise.Enough | None = None,
        report: maximise.Report | None = None,
    ) -> Optimum:
        """Search from the start and from restarts; see `maximise.maximise`."""
        return maximise.maximise(
            objective,
            self.start,
            self.bounds,
            starts=self.restarts(n_restarts, random_state),
            sketch=sketch,
            enough=enough,
            max_iter=max_iter,
            report=report,
        )

    def names_at(self, optimum: Optimum, *, harmless: bool) -> list[str]:
        """Parameters that ended at a bound, as ``"name (low)"`` or ``"name (high)"``."""
        return [
            f"{name} ({end})"
            for i, name in enumerate(self.names)
            for side, end in enumerate(("low", "high"))
            if (optimum.at_low, optimum.at_high)[side][i]
            and (harmless or not self.harmless[i, side])
        ]


def warn_of(owner: str, space: SearchSpace, optimum: Optimum, *further: str) -> None:
    """Say, once for a whole fit, what is doubtful in what was learned."""
    doubts = [doubt for doubt in further if doubt]
    if not optimum.converged:
        doubts.append(
            f"the search for hyper-parameters stopped after {optimum.n_iter} iterations with a "
            f"gradient of {optimum.gradient_norm:.2g} (raise max_iter, or scale the data)"
        )
    at_bounds = space.names_at(optimum, harmless=False)
    if at_bounds:
        doubts.append(
            f"{', '.join(at_bounds)} ended at a bound set by the scale of the data (scale the "
            "data, choose another kernel, or give bounds with Bounded(value, low, high))"
        )
    if doubts:
        warn(f"{owner}: {'; '.join(doubts)}.", NumericalWarning)
