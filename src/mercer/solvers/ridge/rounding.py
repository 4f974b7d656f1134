"""Warnings about rounding of kernel values that affects a fit.

Kernel values that are large beside their differences, as those of columns far from zero are under
`Linear` or `Polynomial`, hide these differences behind their rounding. Each function here returns a
clause for a warning, empty if all is well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

# Rounding error that is warned of, as a share of the standard deviation of the targets, or of the
# trace of the centred kernel.
LARGE_ERROR = 1e-2
# Relative residual of equations that is warned of.
_LARGE_RESIDUAL = 1e-2
REMEDY = "subtract from each column of X its mean, raise alpha"


def of_landmarks(rounding: float, explained_trace: float) -> str:
    """A warning if rounding may hide that landmarks differ, after an intercept centres them."""
    if explained_trace == 0 or not rounding > LARGE_ERROR * explained_trace:
        return ""
    share = min(1.0, rounding / explained_trace)
    return (
        f"rounding of kernel values hides what may be {share:.0%} of their "
        "differences between rows; subtract from each column of X its mean, or shorten the "
        "length-scale of the kernel"
    )


def of_equations(residual: float) -> str:
    """A warning if the relative residual of the equations is large."""
    if residual <= _LARGE_RESIDUAL:
        return ""
    return (
        f"the equations are solved up to a relative residual of {residual:.2g} only; {REMEDY}, or "
        "pass X in float64"
    )
