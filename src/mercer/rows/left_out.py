"""What is left out together: a row with its copies, or a whole group of rows.

A row that is left out is predicted by its copies, if they stay. So equal rows are merged into one,
with the sum of their weights and the mean of their targets: a fit is the same, and leaving the row
out leaves its copies out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.kernels.special import White
from mercer.kernels.views import EVERYTHING
from mercer.kernels.wrappers import ScaledBy
from mercer.program.specialise import reads
from mercer.rows.rows import InMemory, RowBlock, RowSource

Codes = NDArray[np.intp]

# Number of folds.
_FOLDS = 5
# Standard deviation, relative to the mean, up to which a target is constant but for rounding.
_CONSTANT = 1e-12


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows that are left out one by one, or group by group, in place of the given rows."""

    part: RowBlock  # the given rows without copies
    row_of: Codes | None = None  # (n,): the row that each given row equals; None without copies
    groups: Codes | None = None  # the group of each row of `part`; None if each is left out alone
    scatter: Array | float = 0.0  # (t,): weighted mean square of targets about the mean of copies

    def residuals(self, merged: Array, targets: Array) -> Array:
        """Residuals of the given rows, from those of the rows without copies."""
        if self.row_of is None:
            return merged
        return merged[self.row_of] + (targets - self.part.targets[self.row_of])


def left_out(
    kernel: Kernel, rows: RowSource, groups: Codes | None = None, folds: bool = False
) -> LeftOut | None:
    """What is left out together: folds of rows, groups, or a row with its copies.

    None if every row is left out alone, as those of a stream are.
    """
    if not isinstance(rows, InMemory):
        return None
    if folds:
        return _in_folds(kernel, rows.part, groups)
    if groups is not None:
        return LeftOut(rows.part, groups=groups)
    codes = copies(kernel, rows.part.points)
    return None if codes is None else merged(rows.part, codes)


def _in_folds(kernel: Kernel, part: RowBlock, groups: Codes | None) -> LeftOut:
    """Folds of rows that are left out together; rows of weight zero are in none of them."""
    rows = np.flatnonzero(part.mass > 0)
    codes = copies(kernel, part.points[rows]) if groups is None else groups[rows]
    folds = np.full(len(part.targets), -1)
    folds[rows] = folds_of(len(rows), codes)
    return LeftOut(part, groups=folds)


def folds_of(n: int, codes: Codes | None, strata: NDArray[Any] | None = None) -> Codes:
    """The fold of each row: the same at every call, equal within groups, balanced over strata.

    A row that is the only one of its stratum is in no fold: its number is -1.
    """
    codes = np.arange(n) if codes is None else codes
    first = np.unique(codes, return_index=True)[1]
    groups, count = np.unique(codes, return_inverse=True)[1], len(first)
    order = np.random.default_rng(0).permutation(count)
    of_groups = np.arange(count) % _FOLDS
    folds = np.empty(count, dtype=np.intp)
    if strata is None:
        folds[order] = of_groups
    else:
        own = strata[first]
        folds[order[np.argsort(own[order], kind="stable")]] = of_groups
        labels, sizes = np.unique(own, return_counts=True)
        folds[np.isin(own, labels[sizes == 1])] = -1
    return folds[groups]


def merged(part: RowBlock, codes: Codes) -> LeftOut:
    """Rows with equal codes as one row, with the sum of weights and the mean of targets."""
    first = np.unique(codes, return_index=True)[1]
    mass, targets = part.mass, part.targets.astype(np.float64)
    weights: Array = np.bincount(codes, mass).astype(mass.dtype)
    # Copies of weight zero have a plain mean.
    shares = np.where(weights[codes] > 0, mass, 1.0)
    shares /= np.bincount(codes, shares)[codes]
    means = np.stack([np.bincount(codes, shares * column) for column in targets.T], axis=1)
    scatter = mass @ (targets - means[codes]) ** 2 / mass.sum()
    block = RowBlock(part.points[first], means.astype(part.targets.dtype), weights)
    return LeftOut(block, codes, scatter=scatter)


def copies(kernel: Kernel, points: Points) -> Codes | None:
    """Numbers of rows, equal for rows that the kernel does not distinguish.

    None if no row has a copy, or if all rows are copies of one. `White` distinguishes all rows.
    """
    for leaf, _ in kernel._reader.leaves:
        if isinstance(leaf, White):
            return None
    slots, sources, *_ = reads(kernel.expression)
    codes: Codes | None = None
    if sources or _has_function(kernel):
        codes = _codes(points.frame_of(EVERYTHING))
    else:
        for slot in slots:
            more = _codes(points.matrix(slot.view))
            codes = more if codes is None else _by_bytes(np.column_stack([codes, more]))
    if codes is None:  # a constant kernel
        return None
    return codes if 1 < codes.max() + 1 < len(codes) else None


def _has_function(kernel: Any) -> bool:
    """Whether a factor of the kernel is a Python function of the data."""
    for _, child in kernel._tree.levels:
        if _has_function(child):
            return True
    return isinstance(kernel, ScaledBy)


def _codes(data: Any) -> Codes:
    """Numbers of rows, equal for equal rows, in the order of their first occurrence."""
    if isinstance(data, np.ndarray) and data.dtype.kind in "fiub":
        return _by_bytes(data.reshape(len(data), -1))
    if hasattr(data, "tocsr"):
        rows = data.tocsr()
        ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        return _by_hash((rows.indices[a:b].tobytes(), rows.data[a:b].tobytes()) for a, b in ends)
    if hasattr(data, "iter_rows"):
        return _by_hash(data.iter_rows())
    return _by_hash(row.tobytes() if isinstance(row, np.ndarray) else row for row in data)


def _by_bytes(matrix: NDArray[Any]) -> Codes:
    numbers = np.ascontiguousarray(matrix) + 0  # a zero has no sign
    rows = numbers.view(np.dtype((np.void, numbers.dtype.itemsize * numbers.shape[1]))).ravel()
    _, first, codes = np.unique(rows, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    ordered: Codes = rank[codes]
    return ordered


def _by_hash(rows: Iterable[Any]) -> Codes:
    """Numbers of hashable objects; others are equal to no other."""
    known: dict[Hashable, int] = {}
    codes = []
    for i, row in enumerate(rows):
        try:
            codes.append(known.setdefault(row, len(known)))
        except TypeError:
            codes.append(known.setdefault((_by_hash, i), len(known)))
    return np.array(codes, dtype=np.intp)


def group_codes(owner: str, groups: Any, n: int) -> Codes:
    """Numbers of groups from their labels, one for each row."""
    labels = list(groups) if np.ndim(groups) == 1 else []
    if len(labels) != n:
        raise DataError(
            f"{owner}: groups has shape {np.shape(groups)} and X has {n} rows; pass one label for "
            "each row."
        )
    codes = _by_hash(labels)
    if codes.max(initial=0) < 1:
        raise DataError(
            f"{owner}: groups holds a single group, and no row remains when it is left out; pass "
            "at least two, or no groups."
        )
    return codes


def target_shares(variances: Array, means: Array) -> Array:
    """Shares of targets in an average of squared errors: each counts in its own unit.

    They are proportional to 1 / variance; a constant target has none beside others.
    """
    varies = np.sqrt(variances) > _CONSTANT * np.abs(means)
    inverse = np.where(varies, 1 / np.where(varies, variances, 1.0), 0.0)
    total = inverse.sum()
    return inverse / total if total else np.full(len(inverse), 1 / len(inverse))
