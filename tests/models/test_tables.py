"""Tables of results as text, in notebooks and as data frames."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from mercer.exceptions import MissingDependencyError
from mercer.models import tables


def test_columns_are_aligned() -> None:
    text = tables.as_text(["name", "value"], [["a", "1.5"], ["longer", "-10"]])
    assert text.splitlines() == ["name    value", "a         1.5", "longer    -10"]


def test_html_is_escaped() -> None:
    html = tables.as_html(["a<b"], [["x & y"]], "a > b")
    assert "a&lt;b" in html
    assert "x &amp; y" in html
    assert "<caption>a &gt; b</caption>" in html


def test_missing_numbers_are_empty() -> None:
    assert [tables.number(v) for v in (None, np.nan, 1.23456, 0.0)] == ["", "", "1.235", "0"]


def test_a_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tables.as_frame("Owner", {"a": [1, 2]}, ["x", "y"]).loc["y", "a"] == 2
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"Owner.to_frame needs pandas"):
        tables.as_frame("Owner", {"a": [1, 2]})
