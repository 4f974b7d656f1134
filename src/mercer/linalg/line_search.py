"""Line searches along a descent direction of a convex function."""

from __future__ import annotations

from collections.abc import Callable

# Smallest decrease of a step, as a share of the decrease predicted by the slope (Armijo).
_SUFFICIENT = 1e-4
# Relative slope at the end of a full step up to which the step is not shortened.
_FLAT = 1e-3
# Relative width of the bracket at which bisection stops.
_RESOLUTION = 1e-3
# Largest number of bisections.
_BISECTIONS = 60


def decreases_enough(change: float, slope: float, rounding: float = 0.0) -> bool:
    """Whether a change of the objective satisfies Armijo's condition, up to rounding.

    The slope is that at the start of the step, times the length of the step.
    """
    return change <= _SUFFICIENT * slope + rounding


def length_to_minimum(slope: Callable[[float], float]) -> float:
    """Length in [0, 1] of the step to the minimum, from slopes at lengths of the step.

    The function decreases up to the returned length, which is 0 if rounding hides every decrease.
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
