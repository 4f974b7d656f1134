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
        small = _is_small(block)
        if waiting and not (small and _form(waiting[0]) == _form(block)):
            yield _one(waiting)
            waiting, n_waiting = [], 0
        if not small:
            yield block
        elif n_waiting + len(block[0]) >= FEW:
            yield _one([*waiting, block])
            waiting, n_waiting = [], 0
        else:
            # The source may write its next block into the same arrays.
            waiting.append(_one([block]))
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


def _form(block: Triple) -> list[Any]:
    """The columns and types of the arrays of a small block."""
    return [None if column is None else (column.shape[1:], column.dtype) for column in block]


def _one(blocks: list[Triple]) -> Triple:
    """Several blocks as one, in arrays of its own."""
    data, targets, weights = (
        None if column[0] is None else np.concatenate(column)
        for column in zip(*blocks, strict=True)
    )
    return data, targets, weights
