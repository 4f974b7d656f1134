"""What tests of streams share."""

from __future__ import annotations

import pytest

import mercer as mc


@pytest.fixture
def nothing_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream is so small that it is held as a whole."""
    monkeypatch.setattr(mc.Blocks, "chunk_bytes", 0)
