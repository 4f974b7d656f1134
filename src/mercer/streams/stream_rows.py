"""Blocks as the `RowSource` of solvers.

A first pass, the survey, checks every block, counts the rows and computes sums that all models
need: of weights, of targets, and of columns whose length-scales are estimated. Later passes read
blocks with the schema of the survey, and refuse a source that yields other rows than before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels import heuristics
from mercer.kernels.base import Kernel, resolved_by, unresolved_views
from mercer.kernels.heuristics import Scatter, Summary
from mercer.kernels.points import Points
from mercer.kernels.views import View
from mercer.rows.rows import Made, RowBlock, RowSource, RowStatistics, Sums, Total
from mercer.sampling import Draw
from mercer.streams.blocks import Source
from mercer.streams.survey import Reader, Survey, summed, survey
from mercer.streams.targets import AsGiven, NoTargets, Targets

# Copies of gathered rows: as parts, as one array, and as packed by the engine.
_COPIES = 3


@dataclass(frozen=True, eq=False)
class Picked:
    """Selected rows in ascending order, in parts."""

    parts: tuple[RowBlock, ...]

    def __add__(self, other: Self) -> Picked:
        """The rows of both."""
        return Picked(self.parts + other.parts)

    def joined(self) -> RowBlock:
        """All rows as one block."""
        targets = np.concatenate([part.targets for part in self.parts])
        masses = [part.weights for part in self.parts if part.weights is not None]
        points = Points.concatenate([part.points for part in self.parts])
        return RowBlock(points, targets, np.concatenate(masses) if masses else None)


def pick(rows: NDArray[np.intp], part: RowBlock) -> Picked:
    """The rows of a block among selected ones: ascending row numbers, each once."""
    first, last = np.searchsorted(rows, [part.start, part.start + len(part)])
    return Picked((part.rows_at(rows[first:last] - part.start),) if first < last else ())


def spread_of(views: Sequence[View], part: RowBlock) -> Sums:
    """The spread of the columns of each view."""
    return Sums(tuple(part.points.columns(view).spread(part.weights) for view in views))


def length_sample(part: RowBlock) -> Draw:
    """The rows from which a median distance is computed, drawn by weight."""
    return heuristics.weighted_sample(part.mass, part.start)


def median_distances(kernel: Kernel, spreads: dict[View, Summary], part: RowBlock) -> list[float]:
    """The distances among some rows, in the order in which the kernel uses them."""
    distances: list[float] = []

    def median(view: View, metric: str) -> float:
        distances.append(heuristics.median_distance(part.points.matrix(view), metric))
        return distances[-1]

    resolved_by(
        kernel, lambda view: Scatter(lambda: spreads[view], lambda metric: median(view, metric))
    )
    return distances


def _applied(
    count: int, order: NDArray[np.intp] | None, function: Callable[[RowBlock], Any], sums: Sums
) -> tuple[Any] | None:
    """A function of picked rows, as one block in an order, in a tuple; None if rows are missing."""
    picked: Picked = sums.terms[1]
    if sum(map(len, picked.parts)) != count:
        return None
    part = picked.joined()
    return (function(part if order is None else part.rows_at(order)),)


def _same(part: RowBlock) -> RowBlock:
    return part


class StreamRows(RowSource):
    """Rows in blocks, for solvers."""

    def __init__(self, source: Source, kernel: Kernel, owner: str, targets: Targets) -> None:
        self.source, self.kernel, self.owner = source, kernel, owner
        self.survey: Survey = source.map_sum(partial(survey, kernel, owner, targets), "survey")
        if self.survey is None:
            raise DataError(f"{owner}: {source.emptiness}")
        if not self.survey.totals.rows:
            raise DataError(
                f"{owner}: all sample weights are 0; pass some rows of positive weight."
            )
        self._reader = Reader(kernel, owner, self.survey.schema, self.survey.targets)

    def __len__(self) -> int:
        return self.survey.rows

    @property
    def statistics(self) -> RowStatistics:
        """Sums of weights and targets."""
        return self.survey.totals

    @property
    def first_row(self) -> Points:
        """The first row."""
        return self.survey.head

    def map_sum(self, summand: Callable[[RowBlock], Total]) -> Total:
        """The sum of a summand over all blocks, in their order."""
        sums = self.source.map_sum(partial(summed, self._reader, summand), _name_of(summand))
        rows: int = 0 if sums is None else sums.terms[0]
        if rows != len(self):
            raise self._changed(f"found {rows} rows where the first found {len(self)}")
        if self.survey.fingerprint.differs(sums.terms[2]):
            raise self._changed("found other values than the first")
        total: Total = sums.terms[1]
        return total

    def rows_at(self, indices: NDArray[np.intp]) -> RowBlock:
        """Some rows, from the blocks that hold them."""
        return self._picked(self._reader, indices, _same)

    def apply_to(self, indices: NDArray[np.intp], function: Callable[[RowBlock], Made]) -> Made:
        """A function of some rows, computed on a worker if the rows are there."""
        return self._picked(self._reader, indices, function)

    def rows_within(self, budget: int, beside: int) -> int:
        """The number of rows, with their copies, that fit in a memory budget."""
        each = _COPIES * self.survey.size / len(self) + beside
        return min(len(self), int(budget / each))

    def fits(self, most: float) -> bool:
        """Whether there are at most `most` rows, of at most the bytes of one chunk in all."""
        return len(self) <= most and self.survey.size <= self.source.chunk_bytes

    def gathered(self) -> tuple[Points, Any, Array | None]:
        """All rows in memory: points, targets as given, and weights."""
        bare = isinstance(self.survey.targets, NoTargets)
        reader = self._reader if bare else replace(self._reader, targets=AsGiven(self.owner))
        part = self._picked(reader, np.arange(len(self)), _same)
        return part.points, None if bare else part.targets, part.weights

    def resolve(self, kernel: Kernel) -> Kernel:
        """The kernel with numbers in place of rules of thumb, from sums over the data."""
        known = dict(zip(unresolved_views(self.kernel), self.survey.spreads, strict=True))
        while views := unresolved_views(kernel):
            if not set(views) <= set(known):
                sums = self.map_sum(partial(spread_of, views))
                known |= dict(zip(views, sums.terms, strict=True))
            kernel = self._resolved_once(kernel, {view: known[view] for view in views})
        return kernel

    def _resolved_once(self, kernel: Kernel, spreads: dict[View, Summary]) -> Kernel:
        medians = self._medians(kernel, spreads)
        return resolved_by(
            kernel, lambda view: Scatter(lambda: spreads[view], lambda metric: next(medians))
        )

    def _medians(self, kernel: Kernel, spreads: dict[View, Summary]) -> Iterator[float]:
        """The median distances that a kernel needs; rows are read when it uses the first."""
        if self.statistics.weighted:
            rows = np.sort(self.map_sum(length_sample).rows)
        else:
            rows = heuristics.sample_rows(len(self), None)
        yield from self.apply_to(rows, partial(median_distances, kernel, spreads))

    def _picked(
        self, reader: Reader, indices: NDArray[np.intp], function: Callable[[RowBlock], Made]
    ) -> Made:
        rows, places = np.unique(indices, return_inverse=True)
        order = None if np.array_equal(places, np.arange(len(rows))) else places
        reading = partial(summed, reader, partial(pick, rows))
        end = partial(_applied, len(rows), order, function)
        result = self.source.map_sum(reading, "pick", rows, end)
        if result is None:
            self.map_sum(len)  # refuses another number of rows with a message of its own
            raise self._changed("did not find rows that the first found")
        made: Made = result[0]
        return made

    def _changed(self, what: str) -> DataError:
        return DataError(
            f"{self.owner}: a pass over the blocks {what}; yield the same rows at every pass, or "
            "pass an iterator, which is read once and kept in a file."
        )


def _name_of(summand: object) -> str:
    """The name of a pass on dashboards: feature-moments for FeatureMoments, length-sample."""
    function = getattr(summand, "func", summand)
    name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", "-", name.strip("<>_")).lower()
