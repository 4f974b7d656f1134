"""Targets in units in which their squares are numbers.

A solver squares targets and residuals, and what it finds is linear in them. So targets are divided
by a power of two, which rounds nothing, and coefficients are multiplied by it: targets of the order
of 1e-170 or 1e200 are fitted as those of the order of 1 are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.rows.rows import InMemory, Made, RowBlock, RowSource, RowStatistics, Total
from mercer.solvers.ridge.paths import PathAnswer
from mercer.solvers.task import FeatureFunction, RidgeAnswer, RidgeTask

Array = NDArray[np.floating[Any]]
Exponents = NDArray[np.intc]


@dataclass(frozen=True, eq=False)
class Units:
    """A power of two for each target."""

    exponents: Exponents  # (t,): those of the powers

    @classmethod
    def of(cls, largest: Array, *, shared: bool = False) -> Units:
        """The powers of two next above the largest targets."""
        known = np.where(np.isfinite(largest), largest, 0.0)
        return cls(np.frexp(np.full_like(known, known.max(initial=0.0)) if shared else known)[1])

    def divided(self, targets: Array) -> Array:
        """Targets in these units, column by column."""
        return np.ldexp(targets, -self.exponents)

    def multiplied(self, values: Array) -> Array:
        """Values in these units as they are, infinite if that is beyond the range of numbers."""
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(values, self.exponents)

    def squared(self, errors: Array) -> Array:
        """Mean squared errors in a shared unit as they are."""
        with np.errstate(over="ignore", under="ignore"):
            found: Array = np.ldexp(errors, 2 * int(self.exponents[0]))
        return found

    def task(self, task: RidgeTask) -> RidgeTask:
        """The task with its targets in these units; whoever watches sees them as they are."""
        report = task.report
        restored = None if report is None else lambda found: report(lambda: self.answer(found()))
        return replace(task, rows=self._rows(task.rows), report=restored)

    def answer(self, found: RidgeAnswer) -> RidgeAnswer:
        """An answer for targets as they are."""
        return replace(
            found,
            dual=self.multiplied(found.dual),
            intercept=self.multiplied(found.intercept),
            errors=None if found.errors is None else self.squared(found.errors),
            function=self._function(found.function),
        )

    def path(self, found: PathAnswer) -> PathAnswer:
        """A path for targets as they are."""
        return replace(
            found,
            dual=self.multiplied(found.dual),
            intercept=self.multiplied(found.intercept),
            loo=self.squared(found.loo),
            gcv=self.squared(found.gcv),
            function=self._function(found.function),
        )

    def _function(self, found: FeatureFunction | None) -> FeatureFunction | None:
        if found is None:
            return None
        by_target = found.coef.reshape(len(found.coef), -1, len(self.exponents))
        return replace(found, coef=self.multiplied(by_target).reshape(found.coef.shape))

    def _rows(self, rows: RowSource) -> RowSource:
        if isinstance(rows, InMemory):
            return InMemory(self._part(rows.part))
        return _RowsInUnits(rows, self)

    def _part(self, part: RowBlock) -> RowBlock:
        return replace(part, targets=self.divided(part.targets))


@dataclass(frozen=True, eq=False)
class _InUnits:
    """A summand of rows whose targets are in units."""

    summand: Callable[[RowBlock], Any]
    units: Units

    @property
    def __name__(self) -> str:
        """What those who watch a pass over the rows call it."""
        return getattr(self.summand, "__name__", type(self.summand).__name__)

    def __call__(self, part: RowBlock) -> Any:
        return self.summand(self.units._part(part))


@dataclass(frozen=True, eq=False)
class _RowsInUnits(RowSource):
    """Rows that are elsewhere, whose targets are divided where they are read."""

    rows: RowSource
    units: Units

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def statistics(self) -> RowStatistics:
        totals, units = self.rows.statistics, self.units
        return replace(
            totals, targets=units.divided(totals.targets), largest=units.divided(totals.largest)
        )

    @property
    def first_row(self) -> Points:
        return self.rows.first_row

    def map_sum(self, summand: Callable[[RowBlock], Total]) -> Total:
        found: Total = self.rows.map_sum(_InUnits(summand, self.units))
        return found

    def rows_at(self, indices: NDArray[np.intp]) -> RowBlock:
        return self.units._part(self.rows.rows_at(indices))

    def apply_to(self, indices: NDArray[np.intp], function: Callable[[RowBlock], Made]) -> Made:
        made: Made = self.rows.apply_to(indices, _InUnits(function, self.units))
        return made

    def rows_within(self, budget: int, beside: int) -> int:
        return self.rows.rows_within(budget, beside)

    def points_at(self, indices: NDArray[np.intp]) -> Points:
        return self.rows.points_at(indices)

    def resolve(self, kernel: Kernel) -> Kernel:
        return self.rows.resolve(kernel)
