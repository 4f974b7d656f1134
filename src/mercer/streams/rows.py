"""Blocks as the rows of which solvers ask totals.

A first pass, the survey, checks every block, counts the rows and adds up what all models need:
weights, targets, and the spread of the columns whose length-scales are to be found. Later passes
read blocks as the survey says, and refuse a source that yields other rows than before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.kernels import heuristics
from mercer.kernels.base import Kernel
from mercer.kernels.containers import guarded, ingest, len_of, rows_from
from mercer.kernels.heuristics import Scatter, Spread
from mercer.kernels.points import Points
from mercer.sampling import Draw
from mercer.solvers.rows import Part, Sums, Total, Totals
from mercer.streams.blocks import Block, Source, as_frame
from mercer.streams.labels import Targets, checked_weights
from mercer.streams.schema import Schema

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Survey:
    """What a first pass over the blocks finds out.

    Attributes
    ----------
    rows : int
        The number of rows.
    schema : Schema
        What the blocks have in common.
    targets : Targets
        How targets are to be read.
    totals : Totals
        Sums of weights and targets.
    spreads : tuple of Spread
        Of the columns whose length-scales are to be found.
    head : Points
        The first row.
    """

    rows: int
    schema: Schema
    targets: Targets
    totals: Totals
    spreads: tuple[Spread, ...]
    head: Points

    def __add__(self, other: Self) -> Survey:
        """The survey of both."""
        schema = self.schema + other.schema
        if self.totals.weighted != other.totals.weighted:
            raise DataError(
                f"{schema.owner}: some blocks have weights and others have none; yield weights "
                "with all blocks, or with none."
            )
        return Survey(
            self.rows + other.rows,
            schema,
            self.targets + other.targets,
            self.totals + other.totals,
            tuple(a + b for a, b in zip(self.spreads, other.spreads, strict=True)),
            self.head,
        )


@dataclass(frozen=True, eq=False)
class Surveyor:
    """Surveys one block.

    Attributes
    ----------
    kernel : Kernel
        The kernel, which says what the data may be.
    owner : str
        The estimator.
    targets : Targets
        How targets are read.
    """

    kernel: Kernel
    owner: str
    targets: Targets

    def __call__(self, block: Block) -> Survey | None:
        """The survey of a block; None if it has no rows."""
        with _located(self.owner, block):
            data = _container(block, self.owner)
            n = len_of(data)
            if not n:
                return None
            schema = Schema.of(data, self.owner, block.start)
            points = self.kernel.validate(guarded(data))
            weights = checked_weights(block.weights, n, self.owner)
            targets, values = self.targets.seen(block.targets, n, weights)
        views = self.kernel.unresolved_views()
        return Survey(
            n,
            schema,
            targets,
            Totals.of(values, weights),
            tuple(Spread.of(points.matrix(view), weights) for view in views),
            points[:1].detached(),
        )


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads a block as the survey of all says.

    Attributes
    ----------
    kernel : Kernel
        The kernel, which says what the data may be.
    owner : str
        The estimator.
    schema : Schema
        What the blocks have in common.
    targets : Targets
        How targets are read.
    """

    kernel: Kernel
    owner: str
    schema: Schema
    targets: Targets

    def __call__(self, block: Block) -> Part | None:
        """The rows of a block; None if it has none."""
        with _located(self.owner, block):
            data = _container(block, self.owner)
            n = len_of(data)
            if not n:
                return None
            # A source that changes between passes is refused here.
            _ = self.schema + Schema.of(data, self.owner, block.start)
            points = self.kernel.validate(guarded(self.schema.conform(data)))
            weights = checked_weights(block.weights, n, self.owner)
            return Part(points, self.targets.read(block.targets, n), weights, block.start)


@dataclass(frozen=True, eq=False)
class Reading:
    """A sum over parts, as a sum over blocks: with the number of rows that it has seen.

    Attributes
    ----------
    reader : Reader
        Makes parts of blocks.
    summand : callable
        Makes what is added of parts.
    """

    reader: Reader
    summand: Callable[[Part], Any]

    def __call__(self, block: Block) -> Sums | None:
        """The number of rows, and what the summand makes of them."""
        part = self.reader(block)
        return None if part is None else Sums((len(part), self.summand(part)))


@dataclass(frozen=True, eq=False)
class Picked:
    """Rows that were picked, in ascending order; those of parts add up.

    Attributes
    ----------
    parts : tuple of Part
        The rows.
    """

    parts: tuple[Part, ...]

    def __add__(self, other: Self) -> Picked:
        """The rows of both."""
        return Picked(self.parts + other.parts)

    def joined(self) -> Part:
        """All of them as one part."""
        targets = np.concatenate([part.targets for part in self.parts])
        masses = [part.weights for part in self.parts if part.weights is not None]
        points = Points.concatenate([part.points for part in self.parts])
        return Part(points, targets, np.concatenate(masses) if masses else None)


@dataclass(frozen=True, eq=False)
class Pick:
    """Picks rows by number.

    Attributes
    ----------
    rows : ndarray of int
        Ascending, each once.
    """

    rows: NDArray[np.intp]

    def __call__(self, part: Part) -> Picked:
        """The rows that are in a part."""
        first, last = np.searchsorted(self.rows, [part.start, part.start + len(part)])
        if first == last:
            return Picked(())
        return Picked((part.pick(self.rows[first:last] - part.start),))


@dataclass(frozen=True, eq=False)
class SpreadOf:
    """The spread of the columns whose length-scales a kernel has to find.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    """

    kernel: Kernel

    def __call__(self, part: Part) -> Sums:
        """One spread for each view."""
        views = self.kernel.unresolved_views()
        return Sums(tuple(Spread.of(part.points.matrix(view), part.weights) for view in views))


@dataclass(frozen=True)
class LengthSample:
    """The rows from which a median distance is found, drawn by weight."""

    def __call__(self, part: Part) -> Draw:
        """The draw among the rows of a part."""
        return heuristics.weighted_sample(part.mass, part.start)


class StreamRows:
    """Rows in blocks, for solvers.

    Parameters
    ----------
    source : Source
        The blocks.
    kernel : Kernel
        The kernel, which says what the data may be.
    owner : str
        The estimator.
    targets : Targets
        How targets are read.

    Attributes
    ----------
    survey : Survey
        What the first pass found.
    """

    def __init__(self, source: Source, kernel: Kernel, owner: str, targets: Targets) -> None:
        self.source, self.kernel, self.owner = source, kernel, owner
        found = source.total(Surveyor(kernel, owner, targets), "survey")
        if found is None:
            raise DataError(
                f"{owner}: found 0 sample(s): the stream of blocks is empty; an iterator can be "
                "gone through once, so pass a fresh one, or a function that returns one."
            )
        self.survey: Survey = found
        if not self.survey.totals.rows:
            raise DataError(
                f"{owner}: all sample weights are 0; pass some rows of positive weight."
            )
        self._reader = Reader(kernel, owner, found.schema, found.targets)

    def __len__(self) -> int:
        return self.survey.rows

    @property
    def totals(self) -> Totals:
        """Sums of weights and targets."""
        return self.survey.totals

    @property
    def head(self) -> Points:
        """The first row."""
        return self.survey.head

    def total(self, summand: Callable[[Part], Total]) -> Total:
        """The sum over all blocks of what `summand` makes of each, in their order.

        Parameters
        ----------
        summand : callable
            From a part to something that can be added; where rows are on other machines it is sent
            there.

        Returns
        -------
        Total
            The sum.
        """
        rows, found = self._pass(summand)
        if rows != len(self):
            raise self._changed(rows)
        total: Total = found
        return total

    def pick(self, indices: NDArray[np.intp]) -> Part:
        """Some rows, from the blocks that hold them.

        Parameters
        ----------
        indices : ndarray of int
            Row numbers.

        Returns
        -------
        Part
            In the given order.
        """
        rows, places = np.unique(indices, return_inverse=True)
        _, picked = self._pass(Pick(rows), within=rows)
        found: tuple[Part, ...] = () if picked is None else picked.parts
        if sum(map(len, found)) != len(rows):
            raise self._changed(sum(map(len, found)))
        return Picked(found).joined().pick(places)

    def take(self, indices: NDArray[np.intp]) -> Points:
        """The points of some rows.

        Parameters
        ----------
        indices : ndarray of int
            Row numbers.

        Returns
        -------
        Points
            In the given order.
        """
        return self.pick(indices).points

    def resolve(self, kernel: Kernel) -> Kernel:
        """The kernel with the length-scales that the data suggest.

        Parameters
        ----------
        kernel : Kernel
            The kernel.

        Returns
        -------
        Kernel
            The same if nothing was unresolved.
        """
        views = kernel.unresolved_views()
        if not views:
            return kernel
        spreads = dict(zip(self.kernel.unresolved_views(), self.survey.spreads, strict=True))
        if not set(views) <= set(spreads):
            spreads |= dict(zip(views, self.total(SpreadOf(kernel)).terms, strict=True))
        samples: list[Points] = []  # read when the first median is asked for

        def sample(view: Any) -> Array:
            if not samples:
                samples.append(self._length_sample())
            matrix = samples[0].matrix(view)
            dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
            found: Array = dense.astype(np.float64)
            return found

        return kernel.resolved_by(lambda view: Scatter(lambda: spreads[view], lambda: sample(view)))

    def _length_sample(self) -> Points:
        if self.totals.weighted:
            return self.take(np.sort(self.total(LengthSample()).rows))
        return self.take(heuristics.sample_rows(len(self), None))

    def _pass(
        self, summand: Callable[[Part], Any], within: NDArray[np.intp] | None = None
    ) -> tuple[int, Any]:
        """Rows that were seen, and the sum."""
        found = self.source.total(Reading(self._reader, summand), _name_of(summand), within)
        return (0, None) if found is None else found.terms

    def _changed(self, rows: int) -> DataError:
        return DataError(
            f"{self.owner}: a pass over the blocks found {rows} rows where the first found "
            f"{len(self)}; yield the same rows at every pass, or pass an iterator, which is read "
            "once and kept in a file."
        )


def _container(block: Block, owner: str) -> Any:
    frame = None if isinstance(block.data, np.ndarray | list) else as_frame(block.data)
    data = ingest(block.data, owner) if frame is None else frame
    if isinstance(data, nw.DataFrame) or not isinstance(data, np.ndarray):
        return data
    return data.astype(np.float32) if data.dtype == np.float16 else data


@contextmanager
def _located(owner: str, block: Block) -> Iterator[None]:
    """Say in which block something is wrong."""
    try:
        with rows_from(block.start):
            yield
    except DataError as error:
        complaint = str(error).removeprefix(f"{owner}: ")
        raise type(error)(
            f"{owner}: in the block that begins with row {block.start}: {complaint}"
        ) from error


def _name_of(summand: object) -> str:
    """What a pass is called by those who watch: feature-moments for FeatureMoments."""
    name = getattr(summand, "__name__", type(summand).__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).strip("<>_").lower()
