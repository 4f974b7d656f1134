"""The survey, a first pass that checks every block, and the reader of later passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self
from zlib import crc32

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels.base import Kernel, unresolved_views, validated
from mercer.kernels.containers import guarded, ingest, len_of, rows_from
from mercer.kernels.heuristics import Summary
from mercer.kernels.points import Points
from mercer.kernels.vector import unequal_columns
from mercer.rows.rows import RowBlock, RowStatistics, Sums
from mercer.streams.blocks import Block, as_frame
from mercer.streams.schema import Schema
from mercer.streams.targets import NoTargets, Targets, checked_weights, given_values

# Bytes of an object in a list, estimated.
_OBJECT_BYTES = 1024
# Bytes of a label with the reference to it, estimated.
_LABEL_BYTES = 72
# Number of texts of a block that enter its fingerprint.
_TEXTS = 100
# Tolerance of fingerprints, relative to the sum of absolute values, for data computed again.
_SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Sums of the first row of each block, targets and weights, which all passes must repeat."""

    sums: Array  # (6,): sums of numbers and of checksums of texts, for each of the three
    sizes: Array  # (6,): sums of absolute values

    @classmethod
    def of(cls, data: Any, block: Block) -> Fingerprint:
        """The fingerprint of a block, whose points are given as returned by `ingest`."""
        values = _first_row(data), block.targets, block.weights
        columns = [column for value in values for column in _numbers_and_texts(value)]
        with np.errstate(over="ignore", invalid="ignore"):
            sums = [column.sum() for column in columns]
            return cls(np.array(sums), np.array([np.abs(column).sum() for column in columns]))

    def __add__(self, other: Self) -> Fingerprint:
        """The fingerprint of both."""
        with np.errstate(over="ignore", invalid="ignore"):
            return Fingerprint(self.sums + other.sums, self.sizes + other.sizes)

    def differs(self, other: Fingerprint) -> bool:
        """Whether sums differ by more than rounding."""
        with np.errstate(over="ignore", invalid="ignore"):
            return bool((np.abs(self.sums - other.sums) > _SAME * self.sizes).any())


@dataclass(frozen=True, eq=False)
class Survey:
    """The results of the first pass over the blocks."""

    rows: int  # the number of rows
    size: int  # bytes of the points, targets and weights, estimated
    schema: Schema
    targets: Targets  # how later passes read targets
    totals: RowStatistics  # sums of weights and targets
    spreads: tuple[Summary, ...]  # one for each view whose rules of thumb are applied first
    head: Points  # the first row
    fingerprint: Fingerprint  # for later passes to compare
    warning: str = ""  # a warning about the columns of the first block

    def __add__(self, other: Self) -> Survey:
        """The survey of both."""
        schema = self.schema + other.schema
        if self.totals.weighted != other.totals.weighted:
            raise DataError(
                f"{schema.owner}: some blocks have weights and others have none; yield weights "
                "with all blocks, or with none."
            )
        return replace(
            self,
            rows=self.rows + other.rows,
            size=self.size + other.size,
            schema=schema,
            targets=self.targets + other.targets,
            totals=self.totals + other.totals,
            spreads=tuple(a + b for a, b in zip(self.spreads, other.spreads, strict=True)),
            fingerprint=self.fingerprint + other.fingerprint,
        )


def survey(kernel: Kernel, owner: str, targets: Targets, block: Block) -> Survey | None:
    """The survey of a block for an estimator, the owner; None if it has no rows."""
    with located(owner, block):
        data = _container(block, owner)
        n = len_of(data)
        if not n:
            return None
        schema = Schema.of(data, owner, block.start)
        points = validated(kernel, guarded(data))
        weights = checked_weights(block.weights, n, owner)
        seen, values = targets.seen(block.targets, n, weights)
    size = _bytes_of(data) + (0 if weights is None else 8 * n)
    if not isinstance(targets, NoTargets):
        given = given_values(block.targets, n, owner)
        size += n * _LABEL_BYTES if given.dtype.kind == "O" else given.nbytes
    return Survey(
        n,
        size,
        schema,
        seen,
        RowStatistics.of(values, weights),
        tuple(points.columns(view).spread(weights) for view in unresolved_views(kernel)),
        # Indexing copies: the source may write its next block into the same array.
        points[[0]].detached(),
        Fingerprint.of(data, block),
        "" if block.start else unequal_columns(kernel, points),
    )


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads a block with the schema and the targets of the survey."""

    kernel: Kernel  # validates the data
    owner: str  # the estimator, for messages
    schema: Schema
    targets: Targets

    def __call__(self, block: Block) -> RowBlock | None:
        """The rows of a block; None if it has none."""
        with located(self.owner, block):
            data = _container(block, self.owner)
            n = len_of(data)
            if not n:
                return None
            # A source that changes between passes is refused here.
            _ = self.schema + Schema.of(data, self.owner, block.start)
            points = validated(self.kernel, guarded(self.schema.conform(data)))
            weights = checked_weights(block.weights, n, self.owner)
            return RowBlock(points, self.targets.read(block.targets, n), weights, block.start)


def summed(reader: Reader, summand: Callable[[RowBlock], Any], block: Block) -> Sums | None:
    """The number of rows, the summand of a solver and the fingerprint of a block."""
    part = reader(block)
    if part is None:
        return None
    fingerprint = Fingerprint.of(_container(block, reader.owner), block)
    return Sums((len(part), summand(part), fingerprint))


def _container(block: Block, owner: str) -> Any:
    frame = None if isinstance(block.data, np.ndarray | list) else as_frame(block.data)
    data = ingest(block.data, owner) if frame is None else frame
    if isinstance(data, nw.DataFrame) or not isinstance(data, np.ndarray):
        return data
    return data.astype(np.float32) if data.dtype == np.float16 else data


@contextmanager
def located(owner: str, block: Block) -> Iterator[None]:
    """Name the block in errors about its data."""
    try:
        with rows_from(block.start):
            yield
    except DataError as error:
        reason = str(error).removeprefix(f"{owner}: ")
        raise type(error)(
            f"{owner}: in the block that begins with row {block.start}: {reason}"
        ) from error


def _first_row(data: Any) -> Any:
    """The values of the first row."""
    if isinstance(data, nw.DataFrame):
        return data.row(0)
    return data[[0]].toarray() if sp.issparse(data) else data[:1]


def _numbers_and_texts(values: Any) -> list[Array]:
    """The numbers among the values, and checksums of the first texts."""
    native = nw.from_native(values, pass_through=True, eager_only=True, allow_series=True)
    values = native.to_numpy() if hasattr(native, "to_numpy") else values
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return [values.astype(np.float64), np.zeros(0)]
    flat = values.ravel() if isinstance(values, np.ndarray) else values or ()
    few = [item for item, _ in zip(flat, range(_TEXTS), strict=False)]
    texts = [crc32(item.encode()) for item in few if isinstance(item, str)]
    numbers = [float(item) for item in few if isinstance(item, Real)]
    return [np.array(numbers), np.array(texts, dtype=np.float64)]


def _bytes_of(data: Any) -> int:
    """Bytes of the points of a block, estimated."""
    if isinstance(data, nw.DataFrame):
        return int(data.estimated_size())
    if isinstance(data, np.ndarray):
        return data.nbytes
    if sp.issparse(data):
        return int(data.data.nbytes + data.indices.nbytes + data.indptr.nbytes)
    return _OBJECT_BYTES * len(data)
