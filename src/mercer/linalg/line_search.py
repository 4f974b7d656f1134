"""Line searches along a descent direction of a convex function."""

from __future__ import annotations

from collections.abc import Callable

# Share of the decrease promised by the slope that a step has to reach (Armijo's condition).
_SUFFICIENT = 1e-4
# Relative slope at the end of a full step up to which the step is not shortened.
_FLAT = 1e-3
# Relative width of the bracket at which bisection stops.
_RESOLUTION = 1e-3
# Largest number of bisections.
_BISECTIONS = 60


def decreases_enough(change: float, slope: float, rounding: float = 0.0) -> bool:
    """Whether a step changes an objective as Armijo's condition asks, up to rounding.

    The slope is that at the start of the step, times the length of the step.
    """
    return change <= _SUFFICIENT * slope + rounding


def length_to_minimum(slope: Callable[[float], float]) -> float:
    """Length in [0, 1] of the step to the minimum, from slopes at lengths of the step.

    The function falls on the whole way to the length that is returned. That is 0 if rounding hides
    every decrease.
    """
    if slope(1.0) <= _FLAT * abs(slope(0.0)):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if slope(middle) <= 0:
            low = middle
        else:
            high = middle
        if high - low <= _RESOLUTION * high:
            break
    return low
