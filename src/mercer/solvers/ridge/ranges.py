"""Kernel values, or their squares, that exceed the range of the type that they are computed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.rows.rows import InMemory
from mercer.solvers.protocol import RidgeTask

Array = NDArray[np.floating[Any]]
Answer = TypeVar("Answer")


class RangeError(DataError):
    """Sums over kernel values are no numbers."""


def require_range(task: RidgeTask, *sums: Array) -> None:
    """Refuse sums that are not finite."""
    if all(np.isfinite(part).all() for part in sums):
        return
    wider = "pass X in float64, or " if task.dtype == np.float32 else ""
    raise RangeError(
        f"{task.owner}: values of {task.kernel!r}, or products of them, exceed the range of "
        f"{task.dtype}; {wider}divide X or the kernel by a constant."
    )


def in_range(task: RidgeTask, solve: Callable[[RidgeTask], Answer]) -> Answer:
    """Solve a task, in double precision if single precision has not the range."""
    with np.errstate(over="ignore", invalid="ignore"):  # that is found, and said, by the solver
        try:
            return solve(task)
        except RangeError:
            wider = _doubled(task)
            if wider is None:
                raise
        return solve(wider)


def _doubled(task: RidgeTask) -> RidgeTask | None:
    """The same of rows in float64; None unless they are an array of float32 in memory."""
    if not isinstance(task.rows, InMemory):
        return None
    part = task.rows.part
    data = part.points.data
    if not (isinstance(data, np.ndarray) and data.dtype == np.float32):
        return None
    if task.kernel.input_tags()["pairwise"]:
        return None  # a given matrix has the range that it has
    points = task.kernel.prepare(data.astype(np.float64))
    wide = replace(part, points=points, targets=part.targets.astype(np.float64))
    return replace(task, rows=InMemory(wide))
