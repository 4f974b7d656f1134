"""Columns that drifted, as bars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import ParameterError

X, NEW = np.random.default_rng(0).normal(size=(2, 60, 4))
NEW[:, 1] += 1.5
Display = mc.plot.DriftDisplay


def test_bars_are_shares_that_add_up_to_the_discrepancy() -> None:
    shares = mc.inference.attribution(X, NEW)
    display = Display.from_attribution(shares, top=2)
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths[:2], np.sort(shares.values)[:1:-1])
    assert sum(widths) == pytest.approx(shares.statistic)
    assert display.labels[0] == "x1"
    assert display.labels[-1] == "2 others"
    assert display.ax_.get_title() == f"Squared discrepancy {shares.statistic:.3g}"
    assert Display.from_attribution(shares, top=3).labels[-1] == "1 other"
    assert len(Display.from_attribution(shares).labels) == 4


def test_the_title_says_whether_there_is_drift() -> None:
    detector = mc.inference.DriftDetector(X, mc.RBF("columns"), random_state=0)
    assert "Drift: p = 0.001" in Display.from_drift(detector.predict(NEW)).ax_.get_title()
    assert "No drift: p = 1" in Display.from_drift(detector.predict(X)).ax_.get_title()


def test_bad_input_is_refused() -> None:
    linear = mc.inference.DriftDetector(X, mc.Linear(), random_state=0).predict(NEW)
    with pytest.raises(ParameterError, match="is not a product over columns"):
        Display.from_drift(linear)
    bad: Any = X
    with pytest.raises(ParameterError, match=r"is not the result of DriftDetector\.predict"):
        Display.from_drift(bad)
    with pytest.raises(ParameterError, match="is not an attribution; pass"):
        Display.from_attribution(bad)
    with pytest.raises(ParameterError, match="top = 0"):
        Display.from_attribution(mc.inference.attribution(X, NEW), top=0)
