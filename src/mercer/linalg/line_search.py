"""Line searches along a descent direction of a convex function."""

from __future__ import annotations

from collections.abc import Callable

# Smallest decrease of a step, as a share of the decrease predicted by the slope (Armijo).
_SUFFICIENT = 1e-4
# Slope at the end of a step, relative to that at its start, at which the search stops.
_FLAT = 1e-3
# Relative width of the bracket at which the search stops.
_RESOLUTION = 1e-3
# Largest number of slopes in a bracket.
_TRIALS = 60


def decreases_enough(change: float, slope: float, rounding: float = 0.0) -> bool:
    """Whether a change of the objective satisfies Armijo's condition, up to rounding.

    The slope is that at the start of the step, times the length of the step.
    """
    return change <= _SUFFICIENT * slope + rounding


def length_to_minimum(slope: Callable[[float], float]) -> float:
    """Length in [0, 1] of the step to the minimum, from slopes at lengths of the step.

    The function decreases up to the returned length, which is 0 if rounding hides every decrease.
    The slope, which increases, is zero where a line through two of its values is; an end that
    stays counts half (the Illinois method).
    """
    start, above = slope(0.0), slope(1.0)
    flat = _FLAT * abs(start)
    if above <= flat:
        return 1.0
    low, high, below, rises = 0.0, 1.0, min(start, 0.0), None
    for _ in range(_TRIALS):
        middle = low - below * (high - low) / (above - below)
        here = slope(middle)
        if here > 0:
            below /= 1 if rises in (None, False) else 2
            high, above, rises = middle, here, True
        else:
            above /= 1 if rises in (None, True) else 2
            low, below, rises = middle, here, False
        if high - low <= _RESOLUTION * high or -flat <= here <= 0:
            break
    return low
