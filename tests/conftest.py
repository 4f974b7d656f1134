"""Settings shared by all tests."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import settings

from mercer import memory
from mercer.kernels import tracing

# A failure found once must be found again, on any machine: no clock, no chance, no memory.
settings.register_profile("mercer", deadline=None, derandomize=True, database=None)
settings.load_profile("mercer")


@pytest.fixture
def nothing_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which classes have been said to run unfused."""
    monkeypatch.setattr(tracing, "_announced", set())


@pytest.fixture(autouse=True)
def every_allocation_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the system also for small allocations, so that tests can pretend that little is free."""
    monkeypatch.setattr(memory, "SMALL", 0)


#: Data frames of several libraries, from columns.
FRAMES: dict[str, Any] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(params=FRAMES)
def make(request: pytest.FixtureRequest) -> Any:
    """Make a data frame of one of the libraries."""
    return FRAMES[request.param]
