"""Small blocks joined with those that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

Triple = tuple[Any, Any, Any]

#: Blocks of fewer rows than this are joined.
FEW = 1024


def joined(blocks: Iterable[Triple]) -> Iterator[Triple]:
    """Blocks with the smallest joined: a call for each row would take longer than its work."""
    waiting: list[Triple] = []
    held = 0
    for block in blocks:
        if waiting and not _joinable(waiting[0], block):
            yield _one(waiting)
            waiting, held = [], 0
        if not _is_small(block):
            yield block
        elif held + len(block[0]) >= FEW:
            yield _one([*waiting, block])
            waiting, held = [], 0
        else:
            # The source may write its next block into the same arrays.
            waiting.append(_copied(block))
            held += len(block[0])
    if waiting:
        yield _one(waiting)


def _is_small(block: Triple) -> bool:
    """Whether a block is one of few rows, all of it arrays, that may wait for others."""
    data = block[0]
    if type(data) is not np.ndarray or data.ndim != 2 or len(data) >= FEW:
        return False
    # What does not match is refused by whoever reads it, in its place.
    return all(
        column is None or (isinstance(column, np.ndarray) and column.shape[:1] == (len(data),))
        for column in block
    )


def _joinable(one: Triple, other: Triple) -> bool:
    """Whether a block is arrays of the shape and type of a small one, but for the rows."""
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
