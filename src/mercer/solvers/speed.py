"""How fast this machine computes, measured in milliseconds, for forecasts in seconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import thread_time
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.parallel import thread_count, threads

# Order of the matrices whose product is timed: 0.2 billion operations.
_ORDER = 464
# Rows whose kernel values are timed first.
_FIRST_ROWS = 100
# Rows whose kernel values are timed if those of the first few do not take long.
_ROWS = 2000
# Seconds for the first few rows beyond which no more are timed.
_LONG = 2e-3
# Share of a core by which a further thread speeds up linear algebra.
_GAIN = 0.85
#: Seconds that a fit of few rows takes, and what each linear system adds.
LEAST_SECONDS, STEP_SECONDS = 8e-4, 3e-4
# Repetitions, of which the fastest counts.
_REPEATS = 3


@cache
def operations_per_second() -> float:
    """Operations of a matrix product per second, on one thread, measured once."""
    matrix = np.ones((_ORDER, _ORDER))
    with threads(1):
        return 2 * _ORDER**3 / _fastest(lambda: matrix @ matrix)


def gain_of_threads() -> float:
    """How much faster large products and factors are on all threads than on one."""
    return 1 + _GAIN * (thread_count() - 1)


def seconds_per_pair(kernel: Kernel, points: Points) -> float:
    """Seconds for one kernel value and its share of a product, with all threads.

    One thread is timed: products take half the time on two threads.
    """
    for rows in (_FIRST_ROWS, _ROWS):
        some = points[: min(rows, len(points))]
        # Rows of a precomputed matrix are not a square matrix by themselves.
        gram, column = kernel.gram(some, points[: len(some)]), np.ones(len(some))
        with threads(1):
            seconds = _fastest(lambda gram=gram, column=column: gram @ column)  # type: ignore[misc]
        if seconds > _LONG or len(some) == len(points):
            break
    return seconds / len(some) ** 2 / thread_count()


def _fastest(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of some calls."""
    times = []
    for _ in range(_REPEATS):
        start = thread_time()  # not the time that other programs take
        call()
        times.append(thread_time() - start)
    return max(min(times), 1e-9)
