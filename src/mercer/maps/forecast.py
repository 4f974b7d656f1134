"""Forecasts of the memory of feature matrices."""

from __future__ import annotations

import math

from mercer import memory

# Beside the values: each monomial's multiplicity and weight, with the arrays on the way to them.
_BYTES_PER_COLUMN = 32
REMEDY = "use the kernel itself, which needs no features, or a lower degree"


def forecast(owner: str, rows: int, columns: int, itemsize: int) -> None:
    """Refuse a feature matrix that does not fit in memory."""
    size = columns * (rows * itemsize + _BYTES_PER_COLUMN)
    memory.require(
        # Larger numbers overflow a float, and need not be exact.
        min(size, 2**1000),
        f"{owner}: a feature matrix of {rows} rows and {count(columns)} columns",
        REMEDY,
    )


def count(number: int) -> str:
    """Return a number in readable form."""
    return str(number) if number < 10**15 else f"10^{math.log10(number):.0f}"
