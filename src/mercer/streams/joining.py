"""Small blocks joined with those that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

Triple = tuple[Any, Any, Any]

#: Blocks of fewer rows than this are joined.
FEW = 1024


def joined(blocks: Iterable[Triple]) -> Iterator[Triple]:
    """Blocks, with consecutive small arrays joined so that a block is worth a call."""
    waiting: list[Triple] = []
    n_waiting = 0
    for block in blocks:
        if waiting and not _joinable(waiting[0], block):
            yield _one(waiting)
            waiting, n_waiting = [], 0
        if not _is_small(block):
            yield block
        elif n_waiting + len(block[0]) >= FEW:
            yield _one([*waiting, block])
            waiting, n_waiting = [], 0
        else:
            # The source may write its next block into the same arrays.
            waiting.append(_copied(block))
            n_waiting += len(block[0])
    if waiting:
        yield _one(waiting)


def _is_small(block: Triple) -> bool:
    """Whether a block has few rows and consists of arrays."""
    data = block[0]
    if type(data) is not np.ndarray or data.ndim != 2 or len(data) >= FEW:
        return False
    # Columns of other lengths are refused later, with the number of the row.
    return all(
        column is None or (isinstance(column, np.ndarray) and column.shape[:1] == (len(data),))
        for column in block
    )


def _joinable(one: Triple, other: Triple) -> bool:
    """Whether two small blocks have arrays of the same columns and types."""
    return _is_small(other) and all(map(_alike, one, other))


def _alike(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.shape[1:] == other.shape[1:] and one.dtype == other.dtype)


def _copied(block: Triple) -> Triple:
    data, targets, weights = (None if column is None else column.copy() for column in block)
    return data, targets, weights


def _one(blocks: list[Triple]) -> Triple:
    if len(blocks) == 1:
        return blocks[0]
    data, targets, weights = (
        None if column[0] is None else np.concatenate(column)
        for column in zip(*blocks, strict=True)
    )
    return data, targets, weights
