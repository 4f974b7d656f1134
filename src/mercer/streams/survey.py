"""Reading blocks: a first pass over all of them, the survey, and how later passes read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self
from zlib import crc32

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.containers import guarded, ingest, len_of, rows_from
from mercer.kernels.heuristics import Spread
from mercer.kernels.points import Points
from mercer.rows.rows import RowBlock, RowStatistics, Sums
from mercer.streams.blocks import Block, as_frame
from mercer.streams.schema import Schema
from mercer.streams.targets import NoTargets, Targets, checked_weights, given_values

Array = NDArray[np.floating[Any]]

# What an object in a list is taken to be, in bytes.
_OBJECT_BYTES = 1024
# And a label, with the reference to it.
_LABEL_BYTES = 72
# How many values that are no numbers count in what tells passes apart.
_TEXTS = 100
# What rounding may change in a sum, relative to that of absolute values, if data are made again.
_SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What tells one pass from another: sums of a row of each block, of targets and of weights."""

    # (6,): the sums, and those of absolute values: of numbers and of checksums of texts, for each
    sums: Array
    # (6,): the sums, and those of absolute values: of numbers and of checksums of texts, for each
    sizes: Array

    @classmethod
    def of(cls, data: Any, block: Block) -> Fingerprint:
        """The fingerprint of a block, whose points are in a container that was looked into."""
        values = _first_row(data), block.targets, block.weights
        columns = [column for value in values for column in _numbers_and_texts(value)]
        with np.errstate(over="ignore", invalid="ignore"):
            sums = [column.sum() for column in columns]
            return cls(np.array(sums), np.array([np.abs(column).sum() for column in columns]))

    def __add__(self, other: Self) -> Fingerprint:
        """That of both."""
        with np.errstate(over="ignore", invalid="ignore"):
            return Fingerprint(self.sums + other.sums, self.sizes + other.sizes)

    def differs(self, other: Fingerprint) -> bool:
        """Whether values are others, by more than computing them once more may change."""
        with np.errstate(over="ignore", invalid="ignore"):
            return bool((np.abs(self.sums - other.sums) > _SAME * self.sizes).any())


@dataclass(frozen=True, eq=False)
class Survey:
    """What a first pass over the blocks finds out."""

    rows: int  # the number of rows
    size: int  # the bytes of their points, targets and weights, about
    schema: Schema  # what the blocks have in common
    targets: Targets  # how targets are to be read
    totals: RowStatistics  # sums of weights and targets
    spreads: tuple[Spread, ...]  # of the columns whose length-scales are to be found
    head: Points  # the first row
    fingerprint: Fingerprint  # by which other values in later passes are noticed

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
            self.size + other.size,
            schema,
            self.targets + other.targets,
            self.totals + other.totals,
            tuple(a + b for a, b in zip(self.spreads, other.spreads, strict=True)),
            self.head,
            self.fingerprint + other.fingerprint,
        )


@dataclass(frozen=True, eq=False)
class Surveyor:
    """Surveys one block."""

    kernel: Kernel  # the kernel, which says what the data may be
    owner: str  # the estimator
    targets: Targets  # how targets are read

    def __call__(self, block: Block) -> Survey | None:
        """The survey of a block; None if it has no rows."""
        with located(self.owner, block):
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
            _bytes_of(data) + self._bytes_beside(block, n) + (0 if weights is None else 8 * n),
            schema,
            targets,
            RowStatistics.of(values, weights),
            tuple(Spread.of(points.matrix(view), weights) for view in views),
            # Picked, and so a copy: the source may write its next block into the same array.
            points[[0]].detached(),
            Fingerprint.of(data, block),
        )

    def _bytes_beside(self, block: Block, n: int) -> int:
        """What targets take as they are given; those that nobody reads are not held."""
        if isinstance(self.targets, NoTargets):
            return 0
        values = given_values(block.targets, n, self.owner)
        return n * _LABEL_BYTES if values.dtype.kind == "O" else values.nbytes


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads a block as the survey of all says."""

    kernel: Kernel  # the kernel, which says what the data may be
    owner: str  # the estimator
    schema: Schema  # what the blocks have in common
    targets: Targets  # how targets are read

    def __call__(self, block: Block) -> RowBlock | None:
        """The rows of a block; None if it has none."""
        with located(self.owner, block):
            data = _container(block, self.owner)
            n = len_of(data)
            if not n:
                return None
            # A source that changes between passes is refused here.
            _ = self.schema + Schema.of(data, self.owner, block.start)
            points = self.kernel.validate(guarded(self.schema.conform(data)))
            weights = checked_weights(block.weights, n, self.owner)
            return RowBlock(points, self.targets.read(block.targets, n), weights, block.start)


@dataclass(frozen=True, eq=False)
class Reading:
    """A sum over parts, as a sum over blocks: with the number of rows and their fingerprint."""

    reader: Reader  # makes parts of blocks
    summand: Callable[[RowBlock], Any]  # makes what is added of parts

    def __call__(self, block: Block) -> Sums | None:
        """The number of rows, what the summand makes of them, and their fingerprint."""
        part = self.reader(block)
        if part is None:
            return None
        seen = Fingerprint.of(_container(block, self.reader.owner), block)
        return Sums((len(part), self.summand(part), seen))


def _container(block: Block, owner: str) -> Any:
    frame = None if isinstance(block.data, np.ndarray | list) else as_frame(block.data)
    data = ingest(block.data, owner) if frame is None else frame
    if isinstance(data, nw.DataFrame) or not isinstance(data, np.ndarray):
        return data
    return data.astype(np.float32) if data.dtype == np.float16 else data


@contextmanager
def located(owner: str, block: Block) -> Iterator[None]:
    """Say in which block something is wrong."""
    try:
        with rows_from(block.start):
            yield
    except DataError as error:
        complaint = str(error).removeprefix(f"{owner}: ")
        raise type(error)(
            f"{owner}: in the block that begins with row {block.start}: {complaint}"
        ) from error


def _first_row(data: Any) -> Any:
    """The values of the first row."""
    if isinstance(data, nw.DataFrame):
        return data.row(0)
    return data[[0]].toarray() if sp.issparse(data) else data[:1]


def _numbers_and_texts(values: Any) -> list[Array]:
    """The numbers among values, and checksums of texts: of the first ones, if there are texts."""
    native = nw.from_native(values, pass_through=True, eager_only=True, allow_series=True)
    if hasattr(native, "to_numpy"):
        values = native.to_numpy()
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return [values.astype(np.float64), np.zeros(0)]
    flat = values.ravel() if isinstance(values, np.ndarray) else values or ()
    few = [item for item, _ in zip(flat, range(_TEXTS), strict=False)]
    texts = [crc32(item.encode()) for item in few if isinstance(item, str)]
    numbers = [float(item) for item in few if isinstance(item, Real)]
    return [np.array(numbers), np.array(texts, dtype=np.float64)]


def _bytes_of(data: Any) -> int:
    """What a block takes in memory, about."""
    if isinstance(data, nw.DataFrame):
        return int(data.estimated_size())
    if isinstance(data, np.ndarray):
        return data.nbytes
    if sp.issparse(data):
        return int(data.data.nbytes + data.indices.nbytes + data.indptr.nbytes)
    return _OBJECT_BYTES * len(data)
