"""Data frames of several libraries."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

FRAMES = {
    "pandas": lambda columns: pd.DataFrame(columns),
    "polars": lambda columns: pl.DataFrame(columns),
    "pyarrow": lambda columns: pa.table(columns),
}


@pytest.fixture(params=FRAMES)
def make(request: pytest.FixtureRequest) -> Any:
    return FRAMES[request.param]
