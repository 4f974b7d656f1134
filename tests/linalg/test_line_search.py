"""Line searches along a convex function."""

import numpy as np
import pytest

from mercer.linalg.line_search import decreases_enough, length_to_minimum


@pytest.mark.parametrize("minimum", [0.9, 0.3, 1e-6])
def test_the_length_leads_to_the_minimum_and_not_beyond(minimum: float) -> None:
    length = length_to_minimum(lambda t: np.tanh(t - minimum))
    assert minimum * (1 - 2e-3) <= length <= minimum


def test_a_full_step_is_not_shortened() -> None:
    assert length_to_minimum(lambda t: t - 1.0) == 1.0
    assert length_to_minimum(lambda t: -1.0) == 1.0


def test_no_step_is_taken_uphill() -> None:
    assert length_to_minimum(lambda t: 1.0 + t) <= 2.0**-59


def test_a_decrease_is_enough_if_it_is_a_share_of_what_the_slope_promises() -> None:
    assert decreases_enough(-0.4, -1.0)
    assert not decreases_enough(-1e-6, -1.0)
    assert decreases_enough(1e-16, -1e-20, rounding=1e-15)
