"""Forecasts of the memory of feature matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mercer import memory
from mercer.exceptions import MemoryForecastError

# Beside the values: each monomial's multiplicity and weight, with the arrays on the way to them.
_BYTES_PER_COLUMN = 32
REMEDY = "use the kernel itself, which needs no features, or a lower degree"

_most_columns: ContextVar[float | None] = ContextVar("mercer_most_columns", default=None)


@contextmanager
def at_most(columns: float) -> Iterator[None]:
    """Refuse more features than these, and do not ask how much memory there is."""
    token = _most_columns.set(columns)
    try:
        yield
    finally:
        _most_columns.reset(token)


def forecast(owner: str, rows: int, columns: int, itemsize: int) -> None:
    """Refuse a feature matrix that does not fit in memory."""
    what = f"{owner}: a feature matrix of {rows} rows and {count(columns)} columns"
    # Larger numbers overflow a float, and need not be exact.
    size = min(columns * (rows * itemsize + _BYTES_PER_COLUMN), 2**1000)
    require(size, columns, what)


def require(size: int, columns: float, what: str) -> None:
    """Refuse features of some bytes and, in `at_most`, of too many columns."""
    most = _most_columns.get()
    if most is None:
        memory.require(size, what, REMEDY)
    elif columns > most:
        raise MemoryForecastError(f"{what} has more than {most:.0f} columns; {REMEDY}.")


def count(number: int) -> str:
    """Return a number in readable form."""
    return str(number) if number < 10**15 else f"10^{math.log10(number):.0f}"
