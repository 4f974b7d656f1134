"""What rounding of kernel values takes from a fit, where it can be felt.

Kernel values that are large beside their differences, as those of columns far from zero are under
`Linear` or `Polynomial`, hide these differences behind their rounding. Each function here returns a
clause for a warning, empty if all is well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

# The share of the spread of targets, or of what an intercept leaves of the kernel, that is felt.
_FELT = 1e-2
# The share of their right-hand side that equations may leave.
_LEFT = 1e-2
_REMEDY = "subtract from each column of X its mean, raise alpha"


def of_predictions(
    largest: float, dual: Array, targets: Array, weights: Array | None, *, fit_intercept: bool
) -> str:
    """Whether sums of coefficients times kernel values cancel.

    Such a sum is off by about the rounding unit times the largest value times |a|.
    """
    wide = targets.astype(np.float64)
    middle = np.average(wide, axis=0, weights=weights) if fit_intercept else 0.0
    mass = np.ones(len(wide)) if weights is None else weights
    spread = np.linalg.norm(np.sqrt(mass / mass.sum())[:, None] * (wide - middle), axis=0)
    lengths = np.linalg.norm(dual.astype(np.float64), axis=0)
    shares = np.divide(lengths, spread, out=np.zeros_like(spread), where=spread > 0)
    share = float(np.finfo(dual.dtype).eps) * largest * float(shares.max(initial=0.0))
    if not share > _FELT:
        return ""
    return (
        f"kernel values of up to {largest:.2g} are rounded so that predictions are off by about "
        f"{share:.1g} of the spread of the targets; {_REMEDY}, or take solvers.Primal() if the "
        "kernel has few features"
    )


def of_landmarks(hidden: float, carried: float) -> str:
    """Whether landmarks may be taken for dependent that an intercept would tell apart."""
    if carried == 0 or not hidden > _FELT * carried:
        return ""
    return (
        f"rounding of kernel values hides what may be {min(1.0, hidden / carried):.0%} of their "
        "differences between rows; subtract from each column of X its mean, or shorten the "
        "length-scale of the kernel"
    )


def of_equations(residual: float) -> str:
    """Whether equations are far from solved."""
    if residual <= _LEFT:
        return ""
    return (
        f"the equations are solved up to a relative residual of {residual:.2g} only; {_REMEDY}, or "
        "pass X in float64"
    )
