"""Settings shared by all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from mercer.kernels import tracing

# A failure found once must be found again, on any machine: no clock, no chance, no memory.
settings.register_profile("mercer", deadline=None, derandomize=True, database=None)
settings.load_profile("mercer")


@pytest.fixture
def nothing_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which classes have been said to run unfused."""
    monkeypatch.setattr(tracing, "_announced", set())
