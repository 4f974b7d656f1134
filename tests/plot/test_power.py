"""Power curves."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import ParameterError

CURVE = mc.inference.PowerCurve(
    np.array([40, 10]), np.array([0.9, 0.4]), np.array([0.8, 0.3]), np.array([0.95, 0.5])
)


def test_points_are_drawn_by_the_number_of_rows() -> None:
    display = mc.plot.PowerDisplay.from_curve(CURVE)
    assert list(display.line_.get_xdata()) == [10, 40]  # type: ignore[arg-type]
    assert list(display.line_.get_ydata()) == [0.4, 0.9]  # type: ignore[arg-type]
    corners = display.band_.get_paths()[0].vertices
    for corner in ([10, 0.3], [10, 0.5], [40, 0.8], [40, 0.95]):
        assert np.any(np.all(np.asarray(corners) == corner, axis=1))
    assert display.ax_.get_title()
    assert display.ax_.get_xlabel() == "number of rows"


def test_anything_else_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"is not a power curve; pass .*power\(draw, sizes\)"):
        mc.plot.PowerDisplay.from_curve([0.1, 0.2])  # type: ignore[arg-type]
